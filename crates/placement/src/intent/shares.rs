//! Intents that lead to given placements.

use atoll_fleet::placement::Share;

use super::{Amount, Intent, Part};

impl Intent {
    /// Returns the intent that leads to these shares of an object with this many replicas. Numbers become
    /// pins. `is_copied` is whether several clusters run all of it although a policy, or the kind of the
    /// object, would not let them.
    #[must_use]
    pub fn of_shares(shares: &[Share], replicas: Option<i64>, is_copied: bool) -> Intent {
        let has_numbers = shares.iter().any(|share| share.replicas.is_some());
        let amount = |share: &Share| match share.replicas.or(replicas) {
            Some(number) if has_numbers => Amount::Pin(number),
            _ if is_copied => Amount::All,
            _ => Amount::Unset,
        };
        let part = |share: &Share| Part { cluster: share.name.clone(), amount: amount(share) };
        Intent { parts: shares.iter().map(part).collect() }
    }

    /// Returns the intent for the rest of an object that is released in some clusters, and keeps running as it
    /// does in the others, `shares`. `own` is the intent of the object.
    #[must_use]
    pub fn of_rest(own: Option<&Intent>, shares: &[Share], replicas: Option<i64>) -> Intent {
        let is_whole = |share: &Share| share.replicas.is_none() || share.replicas == replicas;
        // Weights of the others would give them the replicas of the released clusters.
        let has_weights =
            |intent: &Intent| intent.parts.iter().any(|part| matches!(part.amount, Amount::Weight(_)));
        let known = own.filter(|own| !has_weights(own)).map(|own| {
            let stays = |part: &&Part| shares.iter().any(|share| share.name == part.cluster);
            own.parts.iter().filter(stays).cloned().collect::<Vec<Part>>()
        });
        match known {
            Some(parts) if parts.len() == shares.len() => Intent { parts },
            _ if shares.iter().all(is_whole) => {
                let whole: Vec<Share> =
                    shares.iter().map(|share| Share::on(&share.name, &share.uid)).collect();
                Intent::of_shares(&whole, replicas, shares.len() > 1)
            }
            _ => Intent::of_shares(shares, replicas, false),
        }
    }

    /// Returns the intent with one more cluster, which runs all replicas.
    #[must_use]
    pub fn with_copy(&self, cluster: &str, replicas: Option<i64>) -> Intent {
        let is_exact = self.pins().next().is_some();
        let amount = match (self.is_none(), is_exact) {
            (true, _) => Amount::Unset,
            (false, true) => Amount::Pin(replicas.unwrap_or(1)),
            (false, false) => Amount::All,
        };
        let mut parts = self.parts.clone();
        if amount == Amount::All {
            parts.iter_mut().for_each(|part| part.amount = Amount::All);
        }
        parts.push(Part { cluster: cluster.to_string(), amount });
        Intent { parts }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_of_a_released_object_stays_as_it_is() {
        let share = |name: &str, replicas| Share { name: name.into(), replicas, ..Share::default() };
        for (own, shares, expected) in [
            (Some("east=2,west=1"), vec![share("west", Some(1))], "west==1"),
            (Some("east==2,west==1"), vec![share("west", Some(1))], "west==1"),
            (Some("east,west"), vec![share("west", Some(3))], "west"),
            (Some("east=all,west=all"), vec![share("west", None)], "west=all"),
            (None, vec![share("west", Some(3))], "west"),
            (None, vec![share("west", Some(1))], "west==1"),
            (None, vec![share("west", Some(1)), share("north", Some(1))], "west==1,north==1"),
            (None, vec![share("west", Some(3)), share("north", Some(3))], "west=all,north=all"),
            (Some("east"), vec![], "none"),
            (None, vec![], "none"),
        ] {
            let own = own.map(|text| Intent::parse(text).expect(text));
            assert_eq!(Intent::of_rest(own.as_ref(), &shares, Some(3)).to_string(), expected, "{own:?}");
        }
    }

    #[test]
    fn a_copy_is_added() {
        for (intent, expected) in [
            ("none", "east"),
            ("west", "west=all,east=all"),
            ("west=all", "west=all,east=all"),
            ("west==1", "west==1,east==3"),
        ] {
            let added = Intent::parse(intent).expect(intent).with_copy("east", Some(3));
            assert_eq!(added.to_string(), expected);
            assert!(Intent::parse(expected).is_ok());
        }
    }
}
