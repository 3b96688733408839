//! Recounts the usage of a quota from all objects of a namespace.

// upstream: staging/src/k8s.io/apiserver/pkg/quota/v1/resources.go

use serde_json::Value;

use crate::QuotaLookup;
use crate::amounts::{Amounts, zero};
use crate::check::matches;
use crate::evaluator::Evaluator;
use crate::quota::Quota;

/// Returns evaluators of the resources (group and plural) that the quota counts.
pub fn counted<'r>(
    quota: &Quota,
    resources: impl Iterator<Item = (&'r str, &'r str)>,
    lookup: &dyn QuotaLookup,
) -> Vec<Evaluator> {
    resources
        .filter_map(|(group, resource)| Evaluator::of(group, resource))
        .filter(|evaluator| !evaluator.matching(quota.wanted.names(), lookup).is_empty())
        .collect()
}

/// Sum of the usage that a quota limits.
pub struct Recount<'a> {
    quota: &'a Quota,
    lookup: &'a dyn QuotaLookup,
    counted: Amounts,
}

impl<'a> Recount<'a> {
    pub fn new(quota: &'a Quota, lookup: &'a dyn QuotaLookup) -> Self {
        Recount { quota, lookup, counted: Amounts::default() }
    }

    /// Adds objects of one resource.
    pub fn add<'o>(&mut self, evaluator: &Evaluator, objects: impl Iterator<Item = &'o Value>) {
        for name in evaluator.matching(self.quota.wanted.names(), self.lookup) {
            if !self.counted.contains(name) {
                self.counted.set(name, zero());
            }
        }
        // An invalid scope matches no object.
        for object in objects.filter(|object| matches(evaluator, self.quota, object) == Ok(true)) {
            self.counted.add(&evaluator.usage(object, self.lookup));
        }
    }

    /// Returns the usage. Amounts that no evaluator counts stay unchanged.
    pub fn finish(self) -> Amounts {
        let wanted = &self.quota.wanted;
        let mut used = self.quota.used.only(|name| wanted.contains(name));
        for (name, amount) in self.counted.iter().filter(|(name, _)| wanted.contains(name)) {
            used.set(name, amount.clone());
        }
        used
    }
}
