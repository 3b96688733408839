//! Server-side apply.

// upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/patch.go

use atoll_merge::apply::Author;
use atoll_meta::{Status, json, object};
use atoll_registry::scale;
use serde_json::{Map, Value};

use super::{Patch, PatchKind, PatchTarget};
use crate::decode::{self, yaml};
use crate::options::{FieldValidation, WriteOptions};

/// Parses a configuration, which is YAML or JSON.
pub(super) fn parse(body: &[u8]) -> Result<Patch, Status> {
    let decoding = |error: String| Status::bad_request(format!("error decoding YAML: {error}"));
    let json = body.trim_ascii_start().starts_with(b"{").then(|| json::parse(body));
    let (value, strict_error) = match json {
        Some(Ok(parsed)) if parsed.duplicates.is_empty() => (parsed.value, None),
        _ => yaml::parse(body)
            .map_err(|error| decoding(format!("error converting YAML to JSON: yaml: {error}")))?,
    };
    let found = match value {
        Value::Object(_) | Value::Null => None,
        Value::Array(_) => Some("array"),
        Value::String(_) => Some("string"),
        Value::Bool(_) => Some("bool"),
        Value::Number(_) => Some("number"),
    };
    if let Some(found) = found {
        return Err(decoding(format!(
            "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {found} into Go value of type \
             map[string]interface {{}}"
        )));
    }
    let value = if value.is_null() { Value::Object(Map::new()) } else { value };
    Ok(Patch { kind: PatchKind::Apply, value, remarks: strict_error.into_iter().collect() })
}

/// Returns the applied object and warnings.
pub(super) fn apply(
    patch: &Patch,
    target: PatchTarget<'_>,
    existing: Option<&Value>,
    author: &Author<'_>,
    options: &WriteOptions,
) -> Result<(Value, Vec<String>), Status> {
    let managed = match target {
        PatchTarget::Object(row) => &row.managed,
        PatchTarget::Scale => &scale::MANAGED,
    };
    let live = existing.unwrap_or(managed.empty());
    let applied = managed.apply(live, &patch.value, author, options.force)?;
    let warnings = match options.field_validation {
        FieldValidation::Ignore => Vec::new(),
        FieldValidation::Warn => patch.remarks.iter().cloned().flat_map(yaml::warnings).collect(),
        FieldValidation::Strict => match patch.remarks.first() {
            None => Vec::new(),
            Some(strict_error) => {
                return Err(Status::bad_request(format!(
                    "error strict decoding YAML: error converting YAML to JSON: {strict_error}"
                )));
            }
        },
    };
    if let (PatchTarget::Object(row), None, uid) = (target, existing, object::uid(&applied))
        && !uid.is_empty()
    {
        let message = format!(
            "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
        );
        return Err(Status::conflict(&row.group, &row.resource, object::name(&applied), message));
    }
    let (namespace, name) = (object::namespace(&applied).to_owned(), object::name(&applied).to_owned());
    let (kind, read) = match target {
        PatchTarget::Object(row) => {
            (format!("{}/{}, Kind={}", row.group, row.version, row.kind), decode::patched(row, applied))
        }
        PatchTarget::Scale => ("autoscaling/v1, Kind=Scale".to_owned(), decode::patched_scale(applied)),
    };
    let (object, _) = read.map_err(|error| {
        Status::plain_internal(format!(
            "failed to convert new object ({namespace}/{name}; {kind}) to proper version: {error}"
        ))
    })?;
    Ok((object, warnings))
}
