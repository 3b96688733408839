//! Checks one request against the quotas of its namespace.

use serde_json::Value;

use crate::Surroundings;
use crate::amounts::Amounts;
use crate::evaluator::{Evaluator, Operation};
use crate::quota::Quota;

/// The requested change.
#[derive(Clone, Copy)]
pub struct Change<'a> {
    pub operation: Operation,
    /// Empty for the object itself.
    pub subresource: &'a str,
    pub new: &'a Value,
    /// `None` if the object is new.
    pub old: Option<&'a Value>,
}

/// Reason for the refusal of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    Forbidden(String),
    /// The quota itself is invalid.
    Internal(String),
}

/// Returns the usage that the change adds to each quota, in their order: none if the quota does not count the
/// object, or if the usage does not increase.
pub fn check(
    evaluator: &Evaluator,
    quotas: &[Quota],
    change: &Change<'_>,
    surroundings: &dyn Surroundings,
) -> Result<Vec<Amounts>, Refusal> {
    let concerned = concerned(evaluator, quotas, change.new, surroundings)?;
    let mut taken = vec![Amounts::default(); quotas.len()];
    if concerned.is_empty() {
        return Ok(taken);
    }
    let usage = evaluator.usage(change.new, surroundings);
    let negative: Vec<&str> =
        usage.iter().filter(|(_, amount)| amount.is_negative()).map(|(name, _)| name).collect();
    if !negative.is_empty() {
        let names = negative.join(",");
        return Err(Refusal::Forbidden(format!("quota usage is negative for resource(s): {names}")));
    }
    let old = change.old.filter(|_| change.operation == Operation::Update);
    let increase = old.map(|old| usage.increase_from(&evaluator.usage(old, surroundings)));
    let usage = usage.without_zeros();
    for index in concerned {
        let quota = &quotas[index];
        let counted_before = match old {
            Some(old) => matches(evaluator, quota, old).map_err(Refusal::Internal)?,
            None => false,
        };
        let added = increase.as_ref().filter(|_| counted_before).unwrap_or(&usage);
        let requested = added.only(|name| quota.hard.contains(name));
        // A status reports usage that already exists, so it is never refused.
        if change.subresource != "status" {
            fits(quota, &requested)?;
        }
        taken[index] = requested;
    }
    Ok(taken)
}

/// Returns the quotas that count the object and have a used amount.
fn concerned(
    evaluator: &Evaluator,
    quotas: &[Quota],
    object: &Value,
    surroundings: &dyn Surroundings,
) -> Result<Vec<usize>, Refusal> {
    let mut concerned = Vec::new();
    for (index, quota) in quotas.iter().enumerate() {
        let within = matches(evaluator, quota, object).map_err(Refusal::Internal)?;
        let counted = evaluator.matching(quota.hard.names(), surroundings);
        if !within || counted.is_empty() {
            continue;
        }
        let name = &quota.name;
        evaluator
            .constrain(&counted, object)
            .map_err(|missing| Refusal::Forbidden(format!("failed quota: {name}: {missing}")))?;
        if counted.iter().any(|counted| !quota.used.contains(counted)) {
            let mut counted = counted;
            counted.sort_unstable();
            let resources = counted.join(",");
            return Err(Refusal::Forbidden(format!(
                "status unknown for quota: {name}, resources: {resources}"
            )));
        }
        concerned.push(index);
    }
    Ok(concerned)
}

/// Whether the object is within all scopes of the quota.
pub fn matches(evaluator: &Evaluator, quota: &Quota, object: &Value) -> Result<bool, String> {
    let mut within = true;
    for scope in &quota.scopes {
        within &= evaluator.is_within(scope, object).map_err(|cause| {
            format!(
                "error matching scopes of quota {}, err: error on matching scope {scope}: {cause}",
                quota.name
            )
        })?;
    }
    Ok(within)
}

fn fits(quota: &Quota, requested: &Amounts) -> Result<(), Refusal> {
    let mut after = quota.used.clone();
    after.add(requested);
    let exceeds = |name: &str| match (after.get(name), quota.hard.get(name)) {
        (Some(after), Some(hard)) => requested.contains(name) && after > hard,
        _ => false,
    };
    let exceeding = requested.only(exceeds);
    if exceeding.is_empty() {
        return Ok(());
    }
    Err(Refusal::Forbidden(format!(
        "exceeded quota: {}, requested: {}, used: {}, limited: {}",
        quota.name,
        exceeding.print(),
        quota.used.only(exceeds).print(),
        quota.hard.only(exceeds).print(),
    )))
}
