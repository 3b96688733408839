//! JSON merge patch (RFC 7386).

// upstream: gopkg.in/evanphx/json-patch.v4/merge.go

use serde_json::Value;

use crate::PatchError;
use crate::json_patch::go_type;

/// Checks that a document can be a merge patch of an object.
///
/// # Errors
///
/// Returns the API server's error about other documents.
pub fn check_merge_patch(patch: &Value) -> Result<(), PatchError> {
    match patch {
        Value::Object(_) => Ok(()),
        Value::Null => Err(PatchError::NotMergeable),
        other => Err(PatchError::Malformed {
            message: format!(
                "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
                go_type(other)
            ),
        }),
    }
}

/// Merges the patch into the target: null removes a field, objects are merged, everything else is replaced.
///
/// Like upstream, and unlike the RFC, this also removes nulls from objects inside of lists, except where a
/// list replaces an object.
pub fn merge_patch(target: &mut Value, patch: &Value) {
    match (&mut *target, patch) {
        (Value::Object(fields), Value::Object(changes)) => {
            for (key, change) in changes {
                match (fields.get_mut(key), change) {
                    (_, Value::Null) => {
                        fields.remove(key);
                    }
                    (Some(field), change) => merge_patch(field, change),
                    (None, change) => {
                        fields.insert(key.clone(), without_nulls(change));
                    }
                }
            }
        }
        (Value::Object(_), change) => *target = change.clone(),
        (_, change) => *target = without_nulls(change),
    }
}

/// Returns the value without null fields. Null elements of lists stay.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(_, field)| !field.is_null());
            Value::Object(kept.map(|(key, field)| (key.clone(), without_nulls(field))).collect())
        }
        Value::Array(elements) => Value::Array(elements.iter().map(without_nulls).collect()),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests;
