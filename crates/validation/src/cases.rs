//! What tables of tests share: editing an object, and errors as lines.

use atoll_meta::FieldError;
use serde_json::Value;

/// Sets the field at this path, of which dots separate the parts; null removes it. Missing parts are made.
pub(crate) fn set(object: &mut Value, path: &str, value: Value) {
    let (parent, last) = path.rsplit_once('.').map_or(("", path), |(parent, last)| (parent, last));
    let mut place = object;
    for part in parent.split('.').filter(|part| !part.is_empty()) {
        place = match part.parse::<usize>() {
            Ok(index) => &mut place[index],
            Err(_) => &mut place[part],
        };
    }
    match (last.parse::<usize>(), value) {
        (Ok(index), Value::Null) => {
            place.as_array_mut().expect("the part before a number is a list").remove(index);
        }
        (Ok(index), value) => {
            let list = place.as_array_mut().expect("the part before a number is a list");
            if index == list.len() { list.push(value) } else { list[index] = value }
        }
        (Err(_), Value::Null) => {
            place.as_object_mut().expect("the part before a name is an object").remove(last);
        }
        (Err(_), value) => place[last] = value,
    }
}

/// An object with these edits.
pub(crate) fn edited(object: &Value, edits: &[(&str, Value)]) -> Value {
    let mut object = object.clone();
    for (path, value) in edits {
        set(&mut object, path, value.clone());
    }
    object
}

/// The errors as people see them.
pub(crate) fn lines(errors: &[FieldError]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}
