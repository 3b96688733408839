//! Limits the size of objects and the memory that they need.

use atoll_meta::Status;
use serde_json::Value;

use crate::blocking::{add_size, size_up_to};

/// Maximum number of bytes of an object with its defaults, as JSON without managed fields. Upstream is limited by
/// etcd to 1.5 MiB of protobuf, which is about a third of the size of JSON.
const MAX_OBJECT: usize = 4 << 20;

/// Maximum number of bytes of managed fields. Every manager that applies an object adds a list of its fields.
const MAX_MANAGED: usize = 8 << 20;

/// Maximum number of JSON objects, except empty ones, in an object with its managed fields. Each needs about 640 bytes
/// of memory, however short it is, and a request has several copies of the object.
const MAX_NESTED: usize = 250_000;

/// Refuses an object with its defaults that is too large. An object that was too large before can still be changed:
/// otherwise its finalizers could not be removed.
pub(crate) fn check_size(object: &Value, old: Option<&Value>) -> Result<(), Status> {
    if !is_too_large(object) || old.is_some_and(is_too_large) {
        return Ok(());
    }
    let message = format!("the object is too large after applying its defaults: limit is {MAX_OBJECT}");
    Err(Status::request_entity_too_large(message))
}

/// Whether an object is larger than allowed, without its managed fields.
fn is_too_large(object: &Value) -> bool {
    let mut size = 0;
    for (name, field) in object.as_object().into_iter().flatten() {
        match field.as_object().filter(|_| name == "metadata") {
            Some(metadata) => {
                let own = metadata.iter().filter(|(name, _)| *name != "managedFields");
                own.for_each(|(_, field)| add_size(field, &mut size, MAX_OBJECT));
            }
            None => add_size(field, &mut size, MAX_OBJECT),
        }
    }
    size >= MAX_OBJECT
}

/// Refuses an object that would need too much memory with its managed fields. An object that needed as much before
/// can still be changed.
pub(crate) fn check_memory(object: &Value, old: Option<&Value>) -> Result<(), Status> {
    let managed = |object: &Value| size_up_to(&object["metadata"]["managedFields"], MAX_MANAGED);
    let nested = |object: &Value| {
        let mut count = 0;
        count_nested(object, &mut count);
        count
    };
    let is_more = |measure: &dyn Fn(&Value) -> usize, limit: usize| {
        measure(object) >= limit && old.is_none_or(|old| measure(old) < limit)
    };
    if is_more(&managed, MAX_MANAGED) {
        let message = format!(
            "the managed fields of the object are too large: limit is {MAX_MANAGED}; use fewer field managers, or fewer fields"
        );
        return Err(Status::request_entity_too_large(message));
    }
    if is_more(&nested, MAX_NESTED) {
        let message = format!(
            "the object contains too many JSON objects, with its managed fields: limit is {MAX_NESTED}"
        );
        return Err(Status::request_entity_too_large(message));
    }
    Ok(())
}

/// Counts JSON objects that are not empty, up to the limit.
fn count_nested(value: &Value, count: &mut usize) {
    let values: &mut dyn Iterator<Item = &Value> = match value {
        Value::Array(items) => &mut items.iter(),
        Value::Object(fields) if !fields.is_empty() => {
            *count += 1;
            &mut fields.values()
        }
        _ => return,
    };
    for value in values {
        if *count >= MAX_NESTED {
            return;
        }
        count_nested(value, count);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_are_limited_without_their_managed_fields() {
        let text = "x".repeat(MAX_OBJECT);
        let large = serde_json::json!({ "metadata": { "name": "a" }, "data": { "a": text } });
        let labelled = serde_json::json!({ "metadata": { "labels": { "a": text } } });
        let managed = serde_json::json!({ "metadata": { "managedFields": [text] }, "data": {} });
        assert_eq!(check_size(&large, None).unwrap_err().code(), 413);
        assert!(check_size(&labelled, None).is_err() && check_size(&managed, None).is_ok());
        assert!(check_size(&large, Some(&managed)).is_err());
        assert!(check_size(&large, Some(&large)).is_ok(), "it was too large before");
    }

    #[test]
    fn objects_that_need_much_memory_are_refused() {
        let dense = json!({ "metadata": {}, "spec": vec![json!({ "a": 1 }); MAX_NESTED] });
        let few = json!({ "metadata": {}, "spec": vec![json!({ "a": 1 }); MAX_NESTED / 2] });
        let empty = json!({ "metadata": {}, "spec": vec![json!({}); MAX_NESTED] });
        assert_eq!(check_memory(&dense, None).unwrap_err().code(), 413);
        assert!(check_memory(&dense, Some(&few)).is_err() && check_memory(&dense, Some(&dense)).is_ok());
        assert!(check_memory(&few, None).is_ok() && check_memory(&empty, None).is_ok());
        let managed = |size: usize| json!({ "metadata": { "managedFields": ["x".repeat(size)] } });
        let message = check_memory(&managed(MAX_MANAGED), None).unwrap_err().to_string();
        assert!(message.contains("the managed fields of the object are too large"), "{message}");
        assert!(check_memory(&managed(MAX_MANAGED / 2), None).is_ok());
    }
}
