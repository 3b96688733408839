//! Migration from client-side apply: kubectl stored the applied configuration in an annotation.
//!
//! Fields in the annotation that are unchanged in the live object belong to kubectl, whatever the entries
//! say.

// upstream: staging/src/k8s.io/apimachinery/pkg/util/managedfields/internal/lastappliedmanager.go
// upstream: staging/src/k8s.io/apimachinery/pkg/util/managedfields/internal/lastapplied.go

use atoll_meta::{json, object};
use serde_json::Value;

use super::compare;
use super::conflict::Conflict;
use super::object_fields;
use super::shape::Shape;
use super::validate;

/// kubectl's manager name. The migration applies only to kubectl.
pub(super) const MANAGER: &str = "kubectl";

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Maximum size of all annotations of an object.
const MAX_ANNOTATIONS: usize = 256 * 1024;

/// Returns the conflicts without the fields that kubectl itself applied.
pub(super) fn without_own_fields<'a>(
    shape: Shape<'_>,
    api_version: &str,
    live: &Value,
    conflicts: Vec<Conflict<'a>>,
) -> Vec<Conflict<'a>> {
    let annotation = object::annotation(live, ANNOTATION).unwrap_or_default();
    let Ok(applied) = json::parse(annotation.as_bytes()) else { return conflicts };
    let applied = applied.value;
    let is_valid = |value| validate::errors(shape, value).is_empty();
    if object::api_version(&applied) != api_version || !is_valid(&applied) || !is_valid(live) {
        return conflicts;
    }
    let (Ok(fields), Ok(comparison)) =
        (object_fields::of(shape, &applied), compare::compare(shape, &applied, live))
    else {
        return conflicts;
    };
    let own = fields.difference(&comparison.changed).difference(&comparison.removed);
    let conflicts = conflicts.into_iter().filter_map(|conflict| {
        let fields = conflict.fields.difference(&own);
        (!fields.is_empty()).then_some(Conflict { fields, ..conflict })
    });
    conflicts.collect()
}

/// Updates the annotation if the object has one, so that client-side apply still works.
pub(super) fn update_annotation(applied: &mut Value, config: &Value) {
    if object::annotation(applied, ANNOTATION).unwrap_or_default().is_empty() {
        return;
    }
    let mut config = config.clone();
    if let Some(annotations) = config.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.remove(ANNOTATION);
    }
    object::set_annotation(applied, ANNOTATION, &(json::to_string(&config) + "\n"));
    let size: usize = object::annotations(applied).map(|(name, value)| name.len() + value.len()).sum();
    if size > MAX_ANNOTATIONS {
        object::remove_annotation(applied, ANNOTATION);
    }
}
