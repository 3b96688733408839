//! Decides where an object is placed by its intents.

use atoll_fleet::Placement;
use atoll_fleet::placed_by;
use atoll_fleet::placement::{Needed, Share};
use atoll_meta::object;
use atoll_registry::dialect::Intent;
use serde_json::Value;

/// The shares that an object should have.
#[derive(Debug, PartialEq, Eq)]
pub struct Wanted<'a> {
    /// Those that it has already.
    pub kept: Vec<Share>,
    /// New ones, each with its intent.
    pub added: Vec<(Intent<'a>, Share)>,
}

impl Wanted<'_> {
    pub fn all(&self) -> Vec<Share> {
        self.kept.iter().chain(self.added.iter().map(|(_, share)| share)).cloned().collect()
    }
}

/// The placement by intent, if intents apply to the object. An object that is already on a cluster stays
/// there, whether or not the cluster accepts new objects or `exists`.
pub fn decide<'a>(
    object: &Value,
    current: &Placement,
    by: &str,
    intents: &[Intent<'a>],
    exists: &dyn Fn(&str) -> bool,
) -> Option<Wanted<'a>> {
    let is_others = !current.clusters.is_empty() && current.by != by;
    // An object without an intent stays where the scheduler has placed it.
    let is_others = is_others && (intents.is_empty() || !placed_by::yields_to_labels(&current.by));
    if is_others || object::is_being_deleted(object) {
        return None;
    }
    let mut ordered: Vec<&Intent<'a>> = intents.iter().collect();
    ordered.sort_unstable_by_key(|intent| intent.cluster);
    ordered.dedup_by_key(|intent| intent.cluster);
    let mut wanted = Wanted { kept: Vec::new(), added: Vec::new() };
    for intent in ordered {
        match current.share(intent.cluster) {
            Some(share) => {
                let needed = share.needed.map(|_| Needed::Also);
                wanted.kept.push(Share { needed, ..Share::on(&share.name, &share.uid) });
            }
            None if exists(intent.cluster) => {
                let share = Share { name: intent.cluster.to_string(), ..Share::default() };
                wanted.added.push((intent.clone(), share));
            }
            None => {}
        }
    }
    let names_cluster = !wanted.all().is_empty();
    let is_wanted = |share: &Share| intents.iter().any(|intent| intent.cluster == share.name);
    let needed = current.clusters.iter().filter(|share| share.needed.is_some() && !is_wanted(share));
    let only = Some(Needed::Only);
    wanted.kept.extend(needed.map(|share| Share { needed: only, ..Share::on(&share.name, &share.uid) }));
    // A placement by the scheduler stays until a cluster of the intent exists.
    let is_scheduled = !current.clusters.is_empty() && current.by != by;
    (!is_scheduled || names_cluster).then_some(wanted)
}

/// Whether a placement has other clusters than these, or was not made `by` this dialect.
pub fn is_changed(current: &Placement, by: &str, wanted: &[Share]) -> bool {
    let is_others = !current.clusters.is_empty() && current.by != by;
    is_others
        || current.clusters.len() != wanted.len()
        || wanted
            .iter()
            .any(|share| current.share(&share.name).is_none_or(|known| known.needed != share.needed))
}

#[cfg(test)]
mod tests {
    use atoll_registry::dialect::IntentSource;
    use serde_json::json;

    use super::*;

    fn on(names: &[&str], by: &str) -> Placement {
        let share = |name: &&str| Share { name: name.to_string(), ..Share::default() };
        Placement { clusters: names.iter().map(share).collect(), by: by.into(), ..Placement::default() }
    }

    #[test]
    fn an_intent_applies_only_without_another_placement() {
        let exists = |name: &str| name != "absent";
        let (nowhere, east) = (on(&[], ""), on(&["east"], "label"));
        for (named, current, expected) in [
            (vec![], &nowhere, Some(vec![])),
            (vec!["east"], &nowhere, Some(vec!["east"])),
            (vec!["east"], &east, Some(vec!["east"])),
            (vec!["west"], &east, Some(vec!["west"])),
            (vec!["west", "east", "west"], &east, Some(vec!["east", "west"])),
            (vec![], &east, Some(vec![])),
            (vec!["absent"], &nowhere, Some(vec![])),
            (vec!["absent"], &east, Some(vec![])),
            // An object stays on a cluster that is gone.
            (vec!["absent"], &on(&["absent"], "label"), Some(vec!["absent"])),
            // Placements of other origin are kept.
            (vec!["west"], &on(&["east"], "hand"), None),
            (vec!["west"], &on(&["east"], "policy"), None),
            (vec!["west"], &on(&["east"], "reference"), None),
            (vec![], &on(&["east"], "hand"), None),
            // Labels have precedence over the scheduler, unless they ask for nothing.
            (vec!["west"], &on(&["east"], "default"), Some(vec!["west"])),
            (vec!["west"], &on(&["east"], "placementpolicy/spread"), Some(vec!["west"])),
            (vec!["west"], &on(&["east"], "annotation"), None),
            (vec!["absent"], &on(&["east"], "default"), None),
            (vec![], &on(&["east"], "default"), None),
        ] {
            let intents: Vec<Intent<'_>> =
                named.iter().map(|cluster| Intent { source: IntentSource::Label("a"), cluster }).collect();
            let wanted = decide(&json!({ "metadata": {} }), current, "label", &intents, &exists);
            let names =
                wanted.map(|wanted| wanted.all().into_iter().map(|share| share.name).collect::<Vec<_>>());
            assert_eq!(
                names,
                expected.map(|names| names.iter().map(ToString::to_string).collect()),
                "{named:?}"
            );
        }
        let going = json!({ "metadata": { "deletionTimestamp": "now" } });
        assert_eq!(decide(&going, &east, "label", &[], &exists), None);
    }

    #[test]
    fn placements_are_compared_by_cluster() {
        let share = |name: &str| Share { replicas: Some(2), ..Share::on(name, "1") };
        assert!(!is_changed(&on(&["east"], "label"), "label", &[share("east")]));
        assert!(is_changed(&on(&["east"], "label"), "label", &[share("west")]));
        assert!(is_changed(&on(&["east"], "label"), "label", &[]));
        assert!(is_changed(&on(&[], ""), "label", &[share("east")]));
        assert!(is_changed(&on(&["east"], "default"), "label", &[share("east")]));
    }
}
