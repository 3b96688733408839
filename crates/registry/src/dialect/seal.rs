//! Sealed fields: the kubeconfig is removed from an object before it is stored, because other users may read
//! the object, and so are its copies in annotations, where tools keep the applied configuration.

use atoll_meta::{FieldError, FieldPath, object};
use serde_json::Value;

use super::kcp;
use crate::row::Row;

/// Annotation of a kcp Cluster: the Secret that contains its kubeconfig. Only the server writes it.
pub const SECRET: &str = "atoll.dev/kubeconfig-secret";
/// Label of such a Secret: its dialect.
pub const LABEL: &str = "atoll.dev/dialect";

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
const FIELD: &str = "kubeconfig";

/// Whether objects of a row may contain credentials.
pub fn is_sealed(row: &Row) -> bool {
    row.group == kcp::GROUP && kcp::SPELLINGS.iter().any(|(plural, _)| row.resource == *plural)
}

/// Removes the credentials from an object and returns the kubeconfig. A value that is not a string is removed
/// too, and is an error.
pub fn scrub(object: &mut Value) -> Result<Option<String>, FieldError> {
    let taken = take(object);
    let secret =
        taken.as_ref().ok().and_then(Option::as_deref).map(str::trim).filter(|text| !text.is_empty());
    let secret = secret.map(str::to_string);
    let annotations = object.get_mut("metadata").and_then(|fields| fields.get_mut("annotations"));
    if let Some(annotations) = annotations.and_then(Value::as_object_mut) {
        annotations.retain(|name, value| match (name.as_str(), value.as_str()) {
            (LAST_APPLIED, Some(text)) => match applied(text) {
                Some(scrubbed) => {
                    *value = scrubbed.into();
                    true
                }
                None => false,
            },
            (_, Some(text)) => !secret.as_deref().is_some_and(|secret| holds(text, secret)),
            _ => true,
        });
    }
    taken.map(|text| text.filter(|text| !text.trim().is_empty()))
}

/// Takes the kubeconfig; the field becomes empty, because kcp's definition requires it.
fn take(object: &mut Value) -> Result<Option<String>, FieldError> {
    let Some(field) = object.get_mut("spec").and_then(|spec| spec.get_mut(FIELD)) else { return Ok(None) };
    match std::mem::replace(field, Value::String(String::new())) {
        Value::String(text) => Ok(Some(text)),
        Value::Null => {
            *field = Value::Null;
            Ok(None)
        }
        other => {
            let path = FieldPath::new("spec").child(FIELD);
            let message = "must be a string: a kubeconfig as YAML, with all credentials inline";
            Err(FieldError::type_invalid(&path, kind(&other), message))
        }
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Object(_) => "object",
        Value::Array(_) => "array",
        Value::Bool(_) => "boolean",
        _ => "number",
    }
}

/// Whether a text contains the secret, plain or JSON-encoded.
fn holds(text: &str, secret: &str) -> bool {
    let mut written = Vec::new();
    atoll_meta::json::write_string(secret, &mut written);
    let written = String::from_utf8_lossy(&written);
    let inner = written.trim_matches('"');
    text.contains(secret) || text.contains(inner)
}

/// The last applied configuration of kubectl without credentials; `None` if it cannot be parsed.
fn applied(text: &str) -> Option<String> {
    let mut object = atoll_meta::json::parse(text.as_bytes()).ok()?.value;
    if !object.is_object() {
        return None;
    }
    if let Some(spec) = object.get_mut("spec") {
        blank(spec);
    }
    // Annotations in the applied configuration were written by the user.
    let annotations = object.get_mut("metadata").and_then(|fields| fields.get_mut("annotations"));
    annotations.into_iter().for_each(blank);
    let end = if text.ends_with('\n') { "\n" } else { "" };
    Some(format!("{}{end}", atoll_meta::json::to_string(&object)))
}

/// Clears all strings that may be kubeconfigs, even in misspelled fields.
fn blank(value: &mut Value) {
    match value {
        Value::String(text) if ["clusters", "users", "\n"].iter().any(|sign| text.contains(sign)) => {
            text.clear()
        }
        Value::Array(items) => items.iter_mut().for_each(blank),
        Value::Object(fields) => {
            for (name, value) in fields {
                match name.as_str() {
                    FIELD if !value.is_null() => *value = Value::String(String::new()),
                    _ => blank(value),
                }
            }
        }
        _ => {}
    }
}

/// The name of the Secret that contains a Cluster's kubeconfig.
pub fn secret_name(object: &Value) -> Option<&str> {
    object["metadata"]["annotations"][SECRET].as_str().filter(|name| !name.is_empty())
}

/// Sets or removes that name, regardless of the request.
pub fn set_secret_name(object: &mut Value, secret: Option<&str>) {
    match secret {
        Some(secret) => object::set_annotation(object, SECRET, secret),
        None => object::remove_annotation(object, SECRET),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const SECRET_TEXT: &str = "apiVersion: v1\nkind: Config\nusers: [{ name: a, user: { token: s3cr3t } }]\n";

    #[test]
    fn credentials_are_removed_everywhere() {
        let last = |spec: Value| {
            format!("{}\n", json!({ "kind": "Cluster", "metadata": { "name": "a" }, "spec": spec }))
        };
        let annotated = |name: &str, value: String| json!({ "annotations": { name: value } });
        for (metadata, spec, found) in [
            (json!({}), json!({}), false),
            (json!({}), json!({ "kubeconfig": "" }), false),
            (json!({}), json!({ "kubeconfig": "\n" }), false),
            (json!({}), json!({ "kubeconfig": SECRET_TEXT }), true),
            (
                annotated(LAST_APPLIED, last(json!({ "kubeconfig": SECRET_TEXT, "unschedulable": true }))),
                json!({ "kubeconfig": SECRET_TEXT }),
                true,
            ),
            (annotated(LAST_APPLIED, last(json!({ "kubeConfig": SECRET_TEXT }))), json!({}), false),
            (annotated(LAST_APPLIED, last(json!({ "kubeconfig": { "token": "s3cr3t" } }))), json!({}), false),
            (annotated(LAST_APPLIED, "s3cr3t, and no JSON".into()), json!({}), false),
            (
                annotated("other.example/applied", SECRET_TEXT.into()),
                json!({ "kubeconfig": SECRET_TEXT }),
                true,
            ),
            (
                annotated("other.example/applied", last(json!({ "kubeconfig": SECRET_TEXT }))),
                json!({ "kubeconfig": SECRET_TEXT }),
                true,
            ),
        ] {
            let mut object = json!({ "metadata": metadata, "spec": spec });
            let taken = scrub(&mut object).expect("the kubeconfig is a string");
            assert_eq!(taken.as_deref(), found.then_some(SECRET_TEXT), "{object}");
            assert!(!object.to_string().contains("s3cr3t"), "{object}");
            // Scrubbing is idempotent.
            let again = object.clone();
            assert_eq!(scrub(&mut object), Ok(None));
            assert_eq!(object, again);
        }
    }

    #[test]
    fn the_rest_of_the_applied_configuration_is_kept() {
        let last = "{\"kind\":\"Cluster\",\"spec\":{\"kubeconfig\":\"users: x\",\"unschedulable\":true}}\n";
        assert_eq!(
            applied(last).as_deref(),
            Some("{\"kind\":\"Cluster\",\"spec\":{\"kubeconfig\":\"\",\"unschedulable\":true}}\n")
        );
    }

    #[test]
    fn a_kubeconfig_that_is_not_a_string_is_refused_without_quoting_it() {
        for given in [json!({ "token": "s3cr3t" }), json!(["s3cr3t"]), json!(7), json!(true)] {
            let mut object = json!({ "spec": { "kubeconfig": given } });
            let error = scrub(&mut object).expect_err("the object is refused").to_string();
            assert!(!error.contains("s3cr3t") && !object.to_string().contains("s3cr3t"), "{error} {object}");
        }
    }
}
