//! Clusters that accept no new shares: cordoned, fenced, observed and unready ones.

use atoll_fleet::placement::{Needed, Share, names_of};
use atoll_fleet::placement_refusal::placement_refusal;
use atoll_fleet::{placed_by, placed_condition};
use atoll_meta::{FieldError, FieldPath, object};
use atoll_registry::placement::RegisteredCluster;
use atoll_registry::{ObjectRef, Row};
use serde_json::Value;

/// Returns the errors of shares of clusters that the object was not on before, `new`.
pub fn check(
    row: &Row,
    object_ref: &ObjectRef<'_>,
    wanted: &Value,
    shares: &[Share],
    new: &[RegisteredCluster],
) -> Vec<FieldError> {
    let is_exempt = wanted["spec"]["force"] == true || wanted["spec"]["by"] == placed_by::REFERENCE;
    let path = FieldPath::new("spec").child("clusters");
    let refused = new.iter().filter_map(|new| {
        let index = shares.iter().position(|share| share.name == object::name(&new.cluster))?;
        let is_exempt = is_exempt || shares[index].needed == Some(Needed::Only);
        let closed = placement_refusal(&new.cluster).filter(|closed| !(closed.can_be_forced && is_exempt))?;
        let mut why = closed.why();
        if closed.can_be_forced {
            let command = placed_condition::command(
                &row.kind,
                object_ref.namespace,
                object_ref.name,
                &names_of(shares),
            );
            why = format!("{why}, or force the placement (spec.force) with: {command} --force");
        }
        Some(FieldError::forbidden(&path.index(index), why))
    });
    refused.collect()
}
