//! Checks one request against the quotas of its namespace.

// upstream: staging/src/k8s.io/apiserver/pkg/admission/plugin/resourcequota/controller.go

use serde_json::Value;

use crate::QuotaLookup;
use crate::amounts::Amounts;
use crate::evaluator::{Evaluator, QuotaOperation};
use crate::quota::Quota;

/// The requested change.
#[derive(Clone, Copy)]
pub struct QuotaChange<'a> {
    pub operation: QuotaOperation,
    /// Empty for the object itself.
    pub subresource: &'a str,
    pub new: &'a Value,
    /// `None` if the object is new.
    pub old: Option<&'a Value>,
}

/// Reason for the refusal of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QuotaRefusal {
    Forbidden(String),
    /// The quota itself is invalid.
    Internal(String),
}

/// Returns the usage that the change adds to each quota, in their order: none if the quota does not count the
/// object, or if the usage does not increase.
pub fn check(
    evaluator: &Evaluator,
    quotas: &[Quota],
    change: &QuotaChange<'_>,
    lookup: &dyn QuotaLookup,
) -> Result<Vec<Amounts>, QuotaRefusal> {
    let affected = affected(evaluator, quotas, change.new, lookup)?;
    let mut added_usage = vec![Amounts::default(); quotas.len()];
    if affected.is_empty() {
        return Ok(added_usage);
    }
    let usage = evaluator.usage(change.new, lookup);
    let negative: Vec<&str> =
        usage.iter().filter(|(_, amount)| amount.is_negative()).map(|(name, _)| name).collect();
    if !negative.is_empty() {
        let names = negative.join(",");
        return Err(QuotaRefusal::Forbidden(format!("quota usage is negative for resource(s): {names}")));
    }
    let old = change.old.filter(|_| change.operation == QuotaOperation::Update);
    let increase = old.map(|old| usage.increase_from(&evaluator.usage(old, lookup)));
    let usage = usage.without_zeros();
    for index in affected {
        let quota = &quotas[index];
        let counted_before = match old {
            Some(old) => matches(evaluator, quota, old).map_err(QuotaRefusal::Internal)?,
            None => false,
        };
        let added = increase.as_ref().filter(|_| counted_before).unwrap_or(&usage);
        let requested = added.only(|name| quota.hard.contains(name));
        // A status reports usage that already exists, so it is never refused.
        if change.subresource != "status" {
            fits(quota, &requested)?;
        }
        added_usage[index] = requested;
    }
    Ok(added_usage)
}

/// Returns the quotas that count the object and have a used amount.
fn affected(
    evaluator: &Evaluator,
    quotas: &[Quota],
    object: &Value,
    lookup: &dyn QuotaLookup,
) -> Result<Vec<usize>, QuotaRefusal> {
    let mut affected = Vec::new();
    for (index, quota) in quotas.iter().enumerate() {
        let within = matches(evaluator, quota, object).map_err(QuotaRefusal::Internal)?;
        let counted = evaluator.matching(quota.hard.names(), lookup);
        if !within || counted.is_empty() {
            continue;
        }
        let name = &quota.name;
        evaluator
            .constrain(&counted, object)
            .map_err(|missing| QuotaRefusal::Forbidden(format!("failed quota: {name}: {missing}")))?;
        if counted.iter().any(|counted| !quota.used.contains(counted)) {
            let mut counted = counted;
            counted.sort_unstable();
            let resources = counted.join(",");
            return Err(QuotaRefusal::Forbidden(format!(
                "status unknown for quota: {name}, resources: {resources}"
            )));
        }
        affected.push(index);
    }
    Ok(affected)
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

fn fits(quota: &Quota, requested: &Amounts) -> Result<(), QuotaRefusal> {
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
    Err(QuotaRefusal::Forbidden(format!(
        "exceeded quota: {}, requested: {}, used: {}, limited: {}",
        quota.name,
        exceeding.print(),
        quota.used.only(exceeds).print(),
        quota.hard.only(exceeds).print(),
    )))
}
