//! Objects that are where they were put and where other objects need them. Two writers share such a placement:
//! one decides where the object goes, the other adds the clusters that need it. Each changes only its own part.

use super::{Needed, Placement, Share};
use crate::placed_by::{HAND, LABEL, REFERENCE, is_scheduled};

/// Returns the shares after a new decision. Clusters that need the object keep it.
pub fn with_decided(current: &[Share], decided: Vec<Share>) -> Vec<Share> {
    let known = |share: &Share| current.iter().find(|other| other.is_of(&share.name, &share.uid));
    let is_decided = |share: &Share| decided.iter().any(|other| other.is_of(&share.name, &share.uid));
    let needed = current.iter().filter(|share| share.needed.is_some() && !is_decided(share));
    let needed: Vec<Share> = needed
        .map(|share| Share { needed: Some(Needed::Only), ..Share::on(&share.name, &share.uid) })
        .collect();
    let mark = |share: Share| {
        let needed = known(&share).and_then(|known| known.needed).map(|_| Needed::Also);
        Share { needed, ..share }
    };
    let mut all: Vec<Share> = decided.iter().cloned().map(mark).collect();
    // A placement names each cluster once.
    all.extend(needed.into_iter().filter(|share| !decided.iter().any(|other| other.name == share.name)));
    all
}

/// Returns the shares after other clusters need the object. What was decided stays.
pub fn with_needed(current: &[Share], needed: &[Share]) -> Vec<Share> {
    let is_needed = |share: &Share| needed.iter().any(|other| other.is_of(&share.name, &share.uid));
    let stays = |share: &&Share| share.needed != Some(Needed::Only) || is_needed(share);
    let mark = |share: &Share| {
        let mark = match share.needed {
            Some(Needed::Only) => Needed::Only,
            _ => Needed::Also,
        };
        Share { needed: is_needed(share).then_some(mark), ..share.clone() }
    };
    let mut all: Vec<Share> = current.iter().filter(stays).map(mark).collect();
    for share in needed {
        if !all.iter().any(|other| other.name == share.name) {
            all.push(Share { needed: Some(Needed::Only), ..Share::on(&share.name, &share.uid) });
        }
    }
    all
}

/// Returns the shares and the `by` of a placement after these clusters need the object. `None` if its writer
/// leaves no place to others.
pub fn next_needed(current: &Placement, needed: Vec<Share>) -> Option<(Vec<Share>, &str)> {
    match current.by.as_str() {
        _ if current.clusters.is_empty() => Some((needed, REFERENCE)),
        REFERENCE => Some((needed, REFERENCE)),
        by if by == HAND || by == LABEL || is_scheduled(by) => {
            Some((with_needed(&current.clusters, &needed), by))
        }
        _ => None,
    }
}

/// Whether two lists contain the same shares, in any order.
pub fn are_same(shares: &[Share], others: &[Share]) -> bool {
    let has = |share: &Share| {
        let is_it = |other: &Share| {
            other.is_of(&share.name, &share.uid)
                && (other.replicas, other.needed) == (share.replicas, share.needed)
        };
        others.iter().any(is_it)
    };
    shares.len() == others.len() && shares.iter().all(has)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(text: &str) -> Vec<Share> {
        let share = |word: &str| {
            let (name, needed) = match word.split_once(':') {
                Some((name, "also")) => (name, Some(Needed::Also)),
                Some((name, _)) => (name, Some(Needed::Only)),
                None => (word, None),
            };
            Share { needed, ..Share::on(name, name) }
        };
        text.split_whitespace().map(share).collect()
    }

    #[test]
    fn only_some_placements_are_shared() {
        for (by, current, expected) in [
            ("", "", Some(("east", "reference"))),
            ("reference", "west", Some(("east", "reference"))),
            ("annotation", "west", Some(("west east:only", "annotation"))),
            ("placementpolicy/a", "east", Some(("east:also", "placementpolicy/a"))),
            ("hand", "west", Some(("west east:only", "hand"))),
            ("label", "west", Some(("west east:only", "label"))),
            ("release", "west", None),
        ] {
            let placement = Placement { clusters: shares(current), by: by.into(), ..Placement::default() };
            let found = next_needed(&placement, shares("east"));
            assert_eq!(found, expected.map(|(text, by)| (shares(text), by)), "{by} {current}");
        }
        assert!(are_same(&shares("a b:only"), &shares("b:only a")));
        assert!(!are_same(&shares("a b:only"), &shares("a b")) && !are_same(&shares("a"), &shares("")));
    }

    #[test]
    fn each_writer_changes_its_own_part() {
        for (current, decided, expected) in [
            ("", "west", "west"),
            ("east:only", "west", "west east:only"),
            ("west east:only", "east", "east:also"),
            ("east:also", "west", "west east:only"),
            ("east:also west", "", "east:only"),
            ("west", "", ""),
        ] {
            assert_eq!(
                with_decided(&shares(current), shares(decided)),
                shares(expected),
                "{current}, {decided}"
            );
        }
        for (current, needed, expected) in [
            ("west", "east", "west east:only"),
            ("west", "west", "west:also"),
            ("west east:only", "", "west"),
            ("west:also", "", "west"),
            ("west:also east:only", "east west", "west:also east:only"),
            ("", "east", "east:only"),
        ] {
            assert_eq!(
                with_needed(&shares(current), &shares(needed)),
                shares(expected),
                "{current}, {needed}"
            );
        }
    }
}
