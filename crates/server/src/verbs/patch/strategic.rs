//! Strategic merge patches of objects with known types.

// upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/patch.go

use atoll_merge::{print_map, strategic_merge};
use atoll_meta::{Status, object};
use atoll_schema::{TypeId, Types, normalise, restore};
use serde_json::{Map, Value};

use super::{Patch, PatchTarget, undecodable};
use crate::decode;
use crate::options::FieldValidation;

const SCALE: (&str, &str, &str) = ("autoscaling", "v1", "Scale");

pub(super) fn apply(
    patch: &Patch,
    target: PatchTarget<'_>,
    existing: &Value,
    validation: FieldValidation,
) -> Result<(Value, Vec<String>), Status> {
    let types = Types::get();
    let id = match target {
        PatchTarget::Object(row) => row.type_id,
        PatchTarget::Scale => types.by_kind(SCALE.0, SCALE.1, SCALE.2),
    };
    let id = id.ok_or_else(|| Status::bad_request("strategic merge patch format is not supported"))?;
    let (mut patched, mut left) = merged(types, id, existing, &patch.value)?;
    let mut remarks = patch.remarks.clone();
    if !matches!(normalise(types, id, &mut patched), Ok(unknown) if unknown.is_empty()) {
        // Upstream converts the result to its struct without JSON: that accepts more, and its messages
        // differ.
        (patched, left) = merged(types, id, existing, &patch.value)?;
        let unknown = restore(types, id, &mut patched).map_err(|error| refuse(&left, &error))?;
        remarks.extend(unknown);
    }
    let warnings =
        decode::apply_field_validation(remarks, validation).map_err(|error| refuse(&left, &error))?;
    if !patched["metadata"].is_object() {
        patched["metadata"] = Value::Object(Map::new());
    }
    // The kind is that of the type, whatever the patch says.
    match target {
        PatchTarget::Object(row) => object::set_type(&mut patched, &row.api_version(), &row.kind),
        PatchTarget::Scale => object::set_type(&mut patched, "autoscaling/v1", SCALE.2),
    }
    Ok((patched, warnings))
}

/// Returns the merged object and the rest of the patch.
fn merged(types: &Types, id: TypeId, existing: &Value, patch: &Value) -> Result<(Value, Value), Status> {
    let (mut object, mut left) = (existing.clone(), patch.clone());
    strategic_merge(types, id, &mut object, &mut left).map_err(|error| error.status())?;
    Ok((object, left))
}

fn refuse(left: &Value, error: &str) -> Status {
    undecodable(&left.as_object().map_or_else(|| "map[]".to_owned(), print_map), error)
}
