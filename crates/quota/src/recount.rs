//! What a namespace uses of a quota, from all that is in it.

use serde_json::Value;

use crate::amounts::{Amounts, zero};
use crate::check::matches;
use crate::evaluator::Evaluator;
use crate::quota::Quota;
use crate::Surroundings;

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

/// What is used of what the quota's specification limits. What nobody counts stays as it was.
pub fn recount(
    quota: &Quota,
    objects: &[(Evaluator, Vec<Value>)],
    surroundings: &dyn Surroundings,
) -> Amounts {
    let mut counted = Amounts::default();
    for (evaluator, objects) in objects {
        for name in evaluator.matching(quota.wanted.names(), surroundings) {
            if !counted.contains(name) {
                counted.set(name, zero());
            }
        }
        for object in objects {
            // A scope that cannot be understood holds nothing.
            match matches(evaluator, quota, object) {
                Ok(true) => counted.add(&evaluator.usage(object, surroundings)),
                Ok(false) => {}
                Err(_) => break,
            }
        }
    }
    let mut used = quota.used.only(|name| quota.wanted.contains(name));
    for (name, amount) in counted.iter().filter(|(name, _)| quota.wanted.contains(name)) {
        used.set(name, amount.clone());
    }
    used
}
