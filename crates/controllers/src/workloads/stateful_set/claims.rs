//! Ownership of volume claims by the retention policy: deleted with the set, or when the set is scaled down.

// upstream: pkg/controller/statefulset/stateful_set_utils.go

use atoll_informer::{Resource, resources};
use atoll_meta::object::{self, OwnerReference};
use serde_json::Value;

use super::identity::{is_wanted, ordinal};
use crate::shared::pods::controller_reference;
use crate::shared::views::StatefulSetView;

/// Retention policy of volume claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    delete_with_set: bool,
    delete_when_scaled: bool,
}

impl Retention {
    pub fn of(set: &Value) -> Retention {
        let view = StatefulSetView::of(set);
        Retention {
            delete_with_set: view.deletes_claims_with_set(),
            delete_when_scaled: view.deletes_claims_when_scaled(),
        }
    }

    fn keeps_all(self) -> bool {
        !self.delete_with_set && !self.delete_when_scaled
    }

    /// Whether the set should own a claim, and whether its pod should.
    fn owners(self, is_wanted: bool) -> (bool, bool) {
        let by_pod = self.delete_when_scaled && !is_wanted;
        (self.delete_with_set && !by_pod, by_pod)
    }
}

/// A volume claim with its possible owners.
pub struct ClaimOwnership<'a> {
    pub claim: &'a Value,
    pub set: &'a Value,
    pub pod: &'a Value,
}

impl ClaimOwnership<'_> {
    fn references(&self) -> impl Iterator<Item = OwnerReference<'_>> {
        object::owner_references(self.claim)
    }

    fn has(&self, owner: &Value) -> bool {
        let uid = object::uid(owner);
        !uid.is_empty() && self.references().any(|reference| reference.uid == uid)
    }

    /// Whether the claim's owner reference names an earlier object with the same name.
    pub fn is_stale(&self, kind: &Resource, owner: &Value) -> bool {
        let named = self.references().find(|reference| names(reference, kind, owner));
        named.is_some_and(|reference| reference.uid != object::uid(owner))
    }

    /// Whether another object is the controller of the claim, or an owner has our name and another uid.
    pub fn has_other_controller(&self) -> bool {
        if Retention::of(self.set).keeps_all() {
            return false;
        }
        let possible = [(&resources::STATEFUL_SETS, self.set), (&resources::PODS, self.pod)];
        self.references().any(|reference| {
            match possible.iter().find(|(kind, owner)| names(&reference, kind, owner)) {
                Some((_, owner)) => reference.uid != object::uid(owner),
                None => reference.controller == Some(true),
            }
        })
    }

    fn has_non_controller_owner(&self) -> bool {
        let uids = [object::uid(self.set), object::uid(self.pod)];
        self.references().any(|reference| uids.contains(&reference.uid) && reference.controller != Some(true))
    }

    /// Whether the owners are as the set wants them, or must not be changed.
    pub fn is_up_to_date(&self) -> bool {
        if self.is_stale(&resources::STATEFUL_SETS, self.set) || self.is_stale(&resources::PODS, self.pod) {
            return true;
        }
        let (by_set, by_pod) = (self.has(self.set), self.has(self.pod));
        if self.has_other_controller() {
            return !by_set && !by_pod;
        }
        !self.has_non_controller_owner() && (by_set, by_pod) == self.wanted()
    }

    fn wanted(&self) -> (bool, bool) {
        let is_wanted = ordinal(self.pod).is_some_and(|ordinal| is_wanted(self.set, ordinal));
        Retention::of(self.set).owners(is_wanted)
    }

    /// Returns the claim with the owners that the set wants.
    pub fn updated(&self) -> Value {
        let is_managed = |reference: &OwnerReference<'_>| {
            names(reference, &resources::STATEFUL_SETS, self.set)
                || names(reference, &resources::PODS, self.pod)
        };
        let all = self.claim["metadata"]["ownerReferences"].as_array().into_iter().flatten();
        let mut references: Vec<Value> = all
            .zip(self.references())
            .filter(|(_, reference)| !is_managed(reference))
            .map(|(value, _)| value.clone())
            .collect();
        let (by_set, by_pod) = if self.has_other_controller() { (false, false) } else { self.wanted() };
        for (is_wanted, kind, owner) in
            [(by_pod, &resources::PODS, self.pod), (by_set, &resources::STATEFUL_SETS, self.set)]
        {
            let is_there = references.iter().any(|reference| reference["uid"] == *object::uid(owner));
            if is_wanted && !is_there {
                references.push(controller_reference(kind, owner));
            }
        }
        let mut claim = self.claim.clone();
        match references.is_empty() {
            true => drop(object::remove_metadata(&mut claim, "ownerReferences")),
            false => claim["metadata"]["ownerReferences"] = references.into(),
        }
        claim
    }
}

/// Whether a new pod has to wait for the deletion of a claim of its predecessor.
pub fn blocks(set: &Value, pod: &Value, claim: &Value) -> bool {
    Retention::of(set).delete_when_scaled
        && ClaimOwnership { claim, set, pod }.is_stale(&resources::PODS, pod)
}

fn names(reference: &OwnerReference<'_>, kind: &Resource, owner: &Value) -> bool {
    reference.api_version == kind.api_version()
        && reference.kind == kind.kind
        && reference.name == object::name(owner)
}

#[cfg(test)]
mod tests;
