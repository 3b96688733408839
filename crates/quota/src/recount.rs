//! What a namespace uses of a quota, from all that is in it.

use serde_json::Value;

use crate::Surroundings;
use crate::amounts::{Amounts, zero};
use crate::check::matches;
use crate::evaluator::Evaluator;
use crate::quota::Quota;

/// Which of the resources (group and plural) have to be looked at to know what is used.
pub fn counted<'r>(
    quota: &Quota,
    resources: impl Iterator<Item = (&'r str, &'r str)>,
    surroundings: &dyn Surroundings,
) -> Vec<Evaluator> {
    resources
        .filter_map(|(group, resource)| Evaluator::of(group, resource))
        .filter(|evaluator| !evaluator.matching(quota.wanted.names(), surroundings).is_empty())
        .collect()
}

/// A sum of what is used of what a quota's specification limits.
pub struct Recount<'a> {
    quota: &'a Quota,
    surroundings: &'a dyn Surroundings,
    counted: Amounts,
}

impl<'a> Recount<'a> {
    pub fn new(quota: &'a Quota, surroundings: &'a dyn Surroundings) -> Self {
        Recount { quota, surroundings, counted: Amounts::default() }
    }

    /// Counts objects of one kind, some or none.
    pub fn add<'o>(&mut self, evaluator: &Evaluator, objects: impl Iterator<Item = &'o Value>) {
        for name in evaluator.matching(self.quota.wanted.names(), self.surroundings) {
            if !self.counted.contains(name) {
                self.counted.set(name, zero());
            }
        }
        // A scope that cannot be understood holds nothing.
        for object in objects.filter(|object| matches(evaluator, self.quota, object) == Ok(true)) {
            self.counted.add(&evaluator.usage(object, self.surroundings));
        }
    }

    /// What is used. What nobody counts stays as it was.
    pub fn finish(self) -> Amounts {
        let wanted = &self.quota.wanted;
        let mut used = self.quota.used.only(|name| wanted.contains(name));
        for (name, amount) in self.counted.iter().filter(|(name, _)| wanted.contains(name)) {
            used.set(name, amount.clone());
        }
        used
    }
}
