//! Helpers for table tests: editing an object and rendering errors.

use atoll_meta::FieldError;
use serde_json::Value;

/// Sets the field at this path, whose parts are separated by dots. Null removes it; missing parents are
/// created.
pub(crate) fn set(object: &mut Value, path: &str, value: Value) {
    let (parent, last) = path.rsplit_once('.').map_or(("", path), |(parent, last)| (parent, last));
    let mut target = object;
    for part in parent.split('.').filter(|part| !part.is_empty()) {
        target = match part.parse::<usize>() {
            Ok(index) => &mut target[index],
            Err(_) => &mut target[part],
        };
    }
    match (last.parse::<usize>(), value) {
        (Ok(index), Value::Null) => {
            target.as_array_mut().expect("the part before a number is a list").remove(index);
        }
        (Ok(index), value) => {
            let list = target.as_array_mut().expect("the part before a number is a list");
            if index == list.len() { list.push(value) } else { list[index] = value }
        }
        (Err(_), Value::Null) => {
            target.as_object_mut().expect("the part before a name is an object").remove(last);
        }
        (Err(_), value) => target[last] = value,
    }
}

/// Returns the object with these edits.
pub(crate) fn edited(object: &Value, edits: &[(&str, Value)]) -> Value {
    let mut object = object.clone();
    for (path, value) in edits {
        set(&mut object, path, value.clone());
    }
    object
}

/// Renders the errors.
pub(crate) fn lines(errors: &[FieldError]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}
