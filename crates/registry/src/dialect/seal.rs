//! A kubeconfig does not stay in an object that others may read: it is taken out on the way in, and so are its copies in
//! annotations, where tools keep what they applied.

use atoll_meta::{FieldError, FieldPath, object};
use serde_json::Value;

use super::kcp;
use crate::row::Row;

/// On a Cluster of kcp: the Secret that its kubeconfig was put into. Only the server writes it.
pub const SECRET: &str = "atoll.dev/kubeconfig-secret";
/// Label of such a Secret: the dialect that it is for.
pub const LABEL: &str = "atoll.dev/dialect";

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
const FIELD: &str = "kubeconfig";

/// Whether objects of a row may come with credentials.
pub fn is_sealed(row: &Row) -> bool {
    row.group == kcp::GROUP && kcp::SPELLINGS.iter().any(|(plural, _)| row.resource == *plural)
}

/// Takes out of an object what is secret, wherever it stands, and returns the kubeconfig that was in it. What is no text
/// is refused, and is not there any more either.
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

/// The kubeconfig; the field is empty then, for kcp's own definition insists on it.
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
            let message = "must be a text: a kubeconfig as YAML, with everything inline";
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

/// Whether a text has a secret in it, as it is or as JSON writes it.
fn holds(text: &str, secret: &str) -> bool {
    let mut written = Vec::new();
    atoll_meta::json::write_string(secret, &mut written);
    let written = String::from_utf8_lossy(&written);
    let inner = written.trim_matches('"');
    text.contains(secret) || text.contains(inner)
}

/// What kubectl says that it applied last, without what is secret; nothing of what cannot be read.
fn applied(text: &str) -> Option<String> {
    let mut object = atoll_meta::json::parse(text.as_bytes()).ok()?.value;
    if !object.is_object() {
        return None;
    }
    if let Some(spec) = object.get_mut("spec") {
        blank(spec);
    }
    // Annotations in there are those that somebody wrote by hand.
    let annotations = object.get_mut("metadata").and_then(|fields| fields.get_mut("annotations"));
    annotations.into_iter().for_each(blank);
    let end = if text.ends_with('\n') { "\n" } else { "" };
    Some(format!("{}{end}", atoll_meta::json::to_string(&object)))
}

/// Empties all texts that may be kubeconfigs, also where somebody misspelt the field.
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

/// Which Secret a Cluster's kubeconfig is in.
pub fn secret(object: &Value) -> Option<&str> {
    object["metadata"]["annotations"][SECRET].as_str().filter(|name| !name.is_empty())
}

/// Sets that, whatever the object says itself.
pub fn point(object: &mut Value, secret: Option<&str>) {
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
    fn nothing_of_it_stays() {
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
            let taken = scrub(&mut object).expect("it is a text");
            assert_eq!(taken.as_deref(), found.then_some(SECRET_TEXT), "{object}");
            assert!(!object.to_string().contains("s3cr3t"), "{object}");
            // Once more changes nothing.
            let again = object.clone();
            assert_eq!(scrub(&mut object), Ok(None));
            assert_eq!(object, again);
        }
    }

    #[test]
    fn what_else_was_applied_is_still_known() {
        let last = "{\"kind\":\"Cluster\",\"spec\":{\"kubeconfig\":\"users: x\",\"unschedulable\":true}}\n";
        assert_eq!(
            applied(last).as_deref(),
            Some("{\"kind\":\"Cluster\",\"spec\":{\"kubeconfig\":\"\",\"unschedulable\":true}}\n")
        );
    }

    #[test]
    fn what_is_no_text_is_refused_and_not_told() {
        for given in [json!({ "token": "s3cr3t" }), json!(["s3cr3t"]), json!(7), json!(true)] {
            let mut object = json!({ "spec": { "kubeconfig": given } });
            let error = scrub(&mut object).expect_err("it is refused").to_string();
            assert!(!error.contains("s3cr3t") && !object.to_string().contains("s3cr3t"), "{error} {object}");
        }
    }
}
