//! Sealed fields: a credential is removed from an object before it is stored, because other users may read the
//! object, and so are its copies in annotations, where tools keep the applied configuration.

use atoll_meta::{FieldError, FieldPath, object};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

/// Label of Secrets with sealed values: the dialect.
pub const LABEL: &str = "atoll.dev/dialect";

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// A field that is moved to a Secret in Atoll's namespace of the workspace.
#[derive(Clone, Copy, Debug)]
pub struct SealedField {
    pub group: &'static str,
    pub resource: &'static str,
    /// The path of the field: the names of a string, from the top of the object. It reads as empty, so the
    /// schema must accept an empty string.
    pub path: &'static [&'static str],
    /// Annotation of the object: the name of the Secret. Only the server writes it. Each field of a kind has
    /// its own.
    pub annotation: &'static str,
    /// The type of the Secret.
    pub secret_type: &'static str,
    /// The key of the value in the Secret.
    pub secret_key: &'static str,
    /// The prefix of the Secret's name; the name of the object follows.
    pub secret_prefix: &'static str,
    /// The field manager of the Secret.
    pub manager: &'static str,
    /// A description of the value, for messages: `a kubeconfig as YAML`.
    pub description: &'static str,
    /// Checks a value before it is stored; the message must not quote it.
    pub check: fn(&str) -> Result<(), String>,
    /// Whether a text elsewhere in the applied configuration may be such a value, in a misspelled field.
    pub looks_like: fn(&str) -> bool,
    /// Whether a Secret stays in use when its object is written with a value: it holds the same value, or
    /// has held it. The arguments are the Secret, the value and the object before the write.
    pub is_kept: fn(&Value, &str, Option<&Value>) -> bool,
}

impl SealedField {
    fn field_path(&self) -> FieldPath {
        let (first, rest) = self.path.split_first().unwrap_or((&"", &[]));
        rest.iter().fold(FieldPath::new(*first), |path, name| path.child(*name))
    }

    fn name(&self) -> &'static str {
        self.path.last().copied().unwrap_or_default()
    }

    /// Removes the value from an object, with all copies in annotations, and returns it. A value that is not
    /// a string is removed too, and is an error.
    ///
    /// # Errors
    ///
    /// The value has the wrong type, or its check fails.
    pub fn take(&self, object: &mut Value) -> Result<Option<String>, FieldError> {
        let taken = self.take_value(object);
        let secret = taken.as_ref().ok().and_then(Option::as_deref).map(str::trim);
        let secret = secret.filter(|text| !text.is_empty()).map(str::to_string);
        let annotations = object.get_mut("metadata").and_then(|fields| fields.get_mut("annotations"));
        if let Some(annotations) = annotations.and_then(Value::as_object_mut) {
            annotations.retain(|name, value| match (name.as_str(), value.as_str()) {
                (LAST_APPLIED, Some(text)) => match self.without_values(text) {
                    Some(scrubbed) => {
                        *value = scrubbed.into();
                        true
                    }
                    None => false,
                },
                (_, Some(text)) => !secret.as_deref().is_some_and(|secret| contains(text, secret)),
                _ => true,
            });
        }
        let value = taken?.filter(|text| !text.trim().is_empty());
        if let Some(value) = &value {
            (self.check)(value).map_err(|message| FieldError::forbidden(&self.field_path(), message))?;
        }
        Ok(value)
    }

    /// Takes the value; the field becomes empty, because definitions may require it.
    fn take_value(&self, object: &mut Value) -> Result<Option<String>, FieldError> {
        let field = self.path.iter().try_fold(object, |value, name| value.get_mut(name));
        let Some(field) = field else { return Ok(None) };
        match std::mem::replace(field, Value::String(String::new())) {
            Value::String(text) => Ok(Some(text)),
            Value::Null => {
                *field = Value::Null;
                Ok(None)
            }
            other => {
                let message = format!("must be a string: {}", self.description);
                Err(FieldError::type_invalid(&self.field_path(), type_name(&other), message))
            }
        }
    }

    /// The last applied configuration of kubectl without values; `None` if it cannot be parsed.
    fn without_values(&self, text: &str) -> Option<String> {
        let mut object = atoll_meta::json::parse(text.as_bytes()).ok()?.value;
        if !object.is_object() {
            return None;
        }
        if let Some(part) = self.path.first().and_then(|first| object.get_mut(first)) {
            self.blank(part);
        }
        // Annotations in the applied configuration were written by the user.
        let annotations = object.get_mut("metadata").and_then(|fields| fields.get_mut("annotations"));
        annotations.into_iter().for_each(|annotations| self.blank(annotations));
        let end = if text.ends_with('\n') { "\n" } else { "" };
        Some(format!("{}{end}", atoll_meta::json::to_string(&object)))
    }

    /// Clears all strings that may be values, even in misspelled fields.
    fn blank(&self, value: &mut Value) {
        match value {
            Value::String(text) if (self.looks_like)(text) => text.clear(),
            Value::Array(items) => items.iter_mut().for_each(|item| self.blank(item)),
            Value::Object(fields) => {
                for (name, value) in fields {
                    match name.as_str() {
                        own if own == self.name() && !value.is_null() => {
                            *value = Value::String(String::new())
                        }
                        _ => self.blank(value),
                    }
                }
            }
            _ => {}
        }
    }

    /// The name of the Secret that contains an object's value.
    pub fn secret_name<'a>(&self, object: &'a Value) -> Option<&'a str> {
        object["metadata"]["annotations"][self.annotation].as_str().filter(|name| !name.is_empty())
    }

    /// Sets or removes that name, regardless of the request.
    pub fn set_secret_name(&self, object: &mut Value, secret: Option<&str>) {
        match secret {
            Some(secret) => object::set_annotation(object, self.annotation, secret),
            None => object::remove_annotation(object, self.annotation),
        }
    }

    /// Whether a Secret contains a value, for [`SealedField::is_kept`].
    pub fn holds(secret: &Value, key: &str, value: &str) -> bool {
        let data = secret["data"][key].as_str().and_then(|text| STANDARD.decode(text).ok());
        data.is_some_and(|data| data == value.as_bytes())
    }
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Object(_) => "object",
        Value::Array(_) => "array",
        Value::Bool(_) => "boolean",
        _ => "number",
    }
}

/// Whether a text contains the secret, plain or JSON-encoded.
fn contains(text: &str, secret: &str) -> bool {
    let mut written = Vec::new();
    atoll_meta::json::write_string(secret, &mut written);
    let written = String::from_utf8_lossy(&written);
    let inner = written.trim_matches('"');
    text.contains(secret) || text.contains(inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const SECRET_TEXT: &str = "apiVersion: v1\nkind: Config\nusers: [{ name: a, user: { token: s3cr3t } }]\n";

    const FIELD: SealedField = SealedField {
        group: "example.com",
        resource: "clusters",
        path: &["spec", "kubeconfig"],
        annotation: "example.com/secret",
        secret_type: "Opaque",
        secret_key: "kubeconfig",
        secret_prefix: "example-",
        manager: "example",
        description: "a kubeconfig",
        check: |text| if text.contains("forbidden") { Err("is not allowed".into()) } else { Ok(()) },
        looks_like: |text| ["clusters", "users", "\n"].iter().any(|sign| text.contains(sign)),
        is_kept: |secret, value, _| SealedField::holds(secret, "kubeconfig", value),
    };

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
            let taken = FIELD.take(&mut object).expect("the kubeconfig is a string");
            assert_eq!(taken.as_deref(), found.then_some(SECRET_TEXT), "{object}");
            assert!(!object.to_string().contains("s3cr3t"), "{object}");
            // Taking is idempotent.
            let again = object.clone();
            assert_eq!(FIELD.take(&mut object), Ok(None));
            assert_eq!(object, again);
        }
    }

    #[test]
    fn the_rest_of_the_applied_configuration_is_kept() {
        let last = "{\"kind\":\"Cluster\",\"spec\":{\"kubeconfig\":\"users: x\",\"unschedulable\":true}}\n";
        assert_eq!(
            FIELD.without_values(last).as_deref(),
            Some("{\"kind\":\"Cluster\",\"spec\":{\"kubeconfig\":\"\",\"unschedulable\":true}}\n")
        );
    }

    #[test]
    fn a_value_that_is_refused_is_not_quoted() {
        let refused = [json!({ "token": "s3cr3t" }), json!(["s3cr3t"]), json!(7), json!("forbidden s3cr3t")];
        for given in refused {
            let mut object = json!({ "spec": { "kubeconfig": given } });
            let error = FIELD.take(&mut object).expect_err("the object is refused").to_string();
            assert!(!error.contains("s3cr3t") && !object.to_string().contains("s3cr3t"), "{error} {object}");
        }
    }
}
