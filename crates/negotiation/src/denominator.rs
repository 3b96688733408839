//! Narrows the offered schema to the lowest common denominator, unless objects use the difference.

use atoll_crd::Definition;
use atoll_meta::Deadline;
use serde_json::{Value, json};

use crate::check::{FieldProblem, check_version};
use crate::compare::compare;
use crate::difference::{Difference, Differences};
use crate::schema_path::without_indices;

/// Says which losses matter to existing objects.
pub trait Usage {
    /// Whether there are any objects of the version.
    fn has_objects(&self, version: &str) -> bool;

    /// The losses that objects of the version make use of. The objects are valid in the offered schema, and
    /// would have to be valid in `merged`. The result is invalid once the deadline has passed.
    fn used(
        &self,
        version: &str,
        merged: &Value,
        losses: &Differences,
        deadline: &Deadline<'_>,
    ) -> Differences;
}

/// No object exists, so that everything may be narrowed.
pub struct Unused;

/// Everything counts as used, so that nothing is narrowed. Of a workspace's own definition.
pub struct AllUsed;

/// The existing objects, as they are stored.
pub struct Objects<'o>(pub &'o [Value]);

impl Usage for Unused {
    fn has_objects(&self, _: &str) -> bool {
        false
    }

    fn used(&self, _: &str, _: &Value, _: &Differences, _: &Deadline<'_>) -> Differences {
        Differences::default()
    }
}

impl Usage for AllUsed {
    fn has_objects(&self, _: &str) -> bool {
        true
    }

    fn used(&self, _: &str, _: &Value, losses: &Differences, _: &Deadline<'_>) -> Differences {
        losses.clone()
    }
}

impl Usage for Objects<'_> {
    fn has_objects(&self, _: &str) -> bool {
        !self.0.is_empty()
    }

    fn used(
        &self,
        version: &str,
        merged: &Value,
        losses: &Differences,
        deadline: &Deadline<'_>,
    ) -> Differences {
        let schema = json!({ "openAPIV3Schema": merged });
        let version = json!({ "name": version, "served": true, "storage": true, "schema": schema });
        let definition = Definition::compile(&json!({ "spec": { "versions": [version] } }));
        let mut used = Vec::new();
        let Some(version) = definition.storage_version() else { return losses.clone() };
        for object in self.0 {
            if deadline.step() {
                break;
            }
            for problem in check_version(version, object, deadline) {
                let found = of_loss(&problem, losses).cloned();
                let found = found.unwrap_or_else(|| {
                    Difference::new(problem.field.clone(), "used by an object", problem.words())
                });
                if !used.contains(&found) {
                    used.push(found);
                }
            }
        }
        used.sort();
        used.into_iter().collect()
    }
}

/// The loss that explains a problem: the one at its field, or the nearest one above or below.
fn of_loss<'l>(problem: &FieldProblem, losses: &'l Differences) -> Option<&'l Difference> {
    let field = without_indices(&problem.field);
    let above = |loss: &&Difference| loss.field == "." || is_below(&field, &loss.field);
    let losses = losses.listed();
    losses
        .iter()
        .filter(above)
        .max_by_key(|loss| loss.field.len())
        .or_else(|| losses.iter().find(|loss| is_below(&loss.field, &field)))
}

/// Whether a field is the other one or a part of it.
fn is_below(field: &str, other: &str) -> bool {
    field.strip_prefix(other).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

/// The offered schema after a cluster was considered.
#[derive(Clone, Debug, PartialEq)]
pub struct Denominator {
    pub schema: Value,
    /// The values that the offered schema no longer accepts; empty if it did not change.
    pub lost: Differences,
    /// Differences that make no value invalid.
    pub remarks: Differences,
}

/// Computes the lowest common denominator of the offered schema and that of a cluster, both in the form of
/// `openAPIV3Schema`.
///
/// # Errors
///
/// The fields for which the cluster is incompatible. The offered schema then stays as it is. The result is invalid
/// once the deadline has passed.
pub fn lowest_common_denominator(
    version: &str,
    offered: &Value,
    cluster: &Value,
    usage: &dyn Usage,
    deadline: &Deadline<'_>,
) -> Result<Denominator, Differences> {
    if offered == cluster {
        let schema = offered.clone();
        return Ok(Denominator { schema, lost: Differences::default(), remarks: Differences::default() });
    }
    let comparison = compare(offered, cluster, deadline);
    let mut refused = comparison.contradictions;
    if !comparison.losses.is_empty() && (refused.is_empty() || usage.has_objects(version)) {
        // After a contradiction the merged schema is not complete, but the losses are.
        refused.extend(usage.used(version, &comparison.merged, &comparison.losses, deadline));
    }
    if !refused.is_empty() {
        return Err(refused);
    }
    Ok(Denominator { schema: comparison.merged, lost: comparison.losses, remarks: comparison.remarks })
}
