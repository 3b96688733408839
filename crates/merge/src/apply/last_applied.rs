//! From client-side apply to ours: kubectl kept what it applied in an annotation.
//!
//! What the annotation has and the live object still has unchanged was kubectl's all along, whoever the entries name.

use atoll_meta::{json, object};
use serde_json::Value;

use super::compare;
use super::conflict::Conflict;
use super::owned;
use super::shape::Shape;
use super::validate;

/// The manager that kubectl applies as. Others who take over from client-side apply do not ask for this.
pub(super) const MANAGER: &str = "kubectl";

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// How many bytes the annotations of an object may have.
const MAX_ANNOTATIONS: usize = 256 * 1024;

/// The conflicts that are not about what kubectl itself applied.
pub(super) fn remaining<'a>(
    shape: Shape<'_>,
    api_version: &str,
    live: &Value,
    conflicts: Vec<Conflict<'a>>,
) -> Vec<Conflict<'a>> {
    let annotation = object::annotation(live, ANNOTATION).unwrap_or_default();
    let Ok(applied) = json::parse(annotation.as_bytes()) else { return conflicts };
    let applied = applied.value;
    let fits = |value| validate::problems(shape, value).is_empty();
    if object::api_version(&applied) != api_version || !fits(&applied) || !fits(live) {
        return conflicts;
    }
    let (Ok(fields), Ok(comparison)) =
        (owned::fields(shape, &applied), compare::compare(shape, &applied, live))
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

/// Brings the annotation of an object that has one up to date, so that client-side apply can go on.
pub(super) fn renew(applied: &mut Value, config: &Value) {
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
