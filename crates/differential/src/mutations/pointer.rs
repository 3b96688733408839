//! One change of a JSON value at a place in it.

use std::fmt;

use serde_json::Value;

/// A place in an object, as a JSON pointer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pointer(String);

impl Pointer {
    pub fn child(&self, name: &str) -> Pointer {
        Pointer(format!("{}/{}", self.0, name.replace('~', "~0").replace('/', "~1")))
    }

    pub fn index(&self, index: usize) -> Pointer {
        Pointer(format!("{}/{index}", self.0))
    }

    /// The place that holds this one, and this one's name in it.
    fn split(&self) -> Option<(&str, String)> {
        let (parent, name) = self.0.rsplit_once('/')?;
        Some((parent, name.replace("~1", "/").replace("~0", "~")))
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// The object as it is.
    Nothing,
    Remove(Pointer),
    /// Also for what was not there.
    Set(Pointer, Value),
    /// Puts a copy of an element at the end of its list.
    Repeat(Pointer),
    /// Swaps an element with the next.
    Swap(Pointer, usize),
}

impl Change {
    /// Changes `object`, or says that there is nothing in that place to change.
    pub fn apply(&self, object: &mut Value) -> bool {
        match self {
            Change::Nothing => true,
            Change::Remove(place) => {
                let Some((parent, name)) = place.split() else { return false };
                match object.pointer_mut(parent) {
                    Some(Value::Object(map)) => map.remove(&name).is_some(),
                    Some(Value::Array(list)) => match name.parse::<usize>() {
                        Ok(index) if index < list.len() => {
                            list.remove(index);
                            true
                        }
                        _ => false,
                    },
                    _ => false,
                }
            }
            Change::Set(place, value) => {
                let Some((parent, name)) = place.split() else { return false };
                match object.pointer_mut(parent) {
                    Some(Value::Object(map)) => {
                        map.insert(name, value.clone());
                        true
                    }
                    Some(Value::Array(list)) => {
                        let element = name.parse::<usize>().ok().and_then(|index| list.get_mut(index));
                        element.map(|element| *element = value.clone()).is_some()
                    }
                    _ => false,
                }
            }
            Change::Repeat(place) => {
                let Some(copy) = object.pointer(&place.0).cloned() else { return false };
                let parent = place.split().and_then(|(parent, _)| object.pointer_mut(parent));
                match parent {
                    Some(Value::Array(list)) => {
                        list.push(copy);
                        true
                    }
                    _ => false,
                }
            }
            Change::Swap(list, first) => match object.pointer_mut(&list.0) {
                Some(Value::Array(list)) if first + 1 < list.len() => {
                    list.swap(*first, first + 1);
                    true
                }
                _ => false,
            },
        }
    }
}

impl fmt::Display for Pointer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl fmt::Display for Change {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Change::Nothing => out.write_str("nothing changed"),
            Change::Remove(place) => write!(out, "remove {place}"),
            Change::Set(place, value) => {
                let text = value.to_string();
                match text.char_indices().nth(60) {
                    Some((cut, _)) => write!(out, "set {place} {}… ({} bytes)", &text[..cut], text.len()),
                    None => write!(out, "set {place} {text}"),
                }
            }
            Change::Repeat(place) => write!(out, "repeat {place}"),
            Change::Swap(list, first) => write!(out, "swap {list}/{first} and {}", first + 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn changes_are_made_where_they_belong() {
        let root = Pointer::default();
        let list = root.child("a/b");
        let cases = [
            (Change::Nothing, Some(json!({"a/b": [1, 2], "c": 3}))),
            (Change::Remove(root.child("c")), Some(json!({"a/b": [1, 2]}))),
            (Change::Remove(list.index(0)), Some(json!({"a/b": [2], "c": 3}))),
            (Change::Remove(root.child("d")), None),
            (Change::Remove(list.index(2)), None),
            (Change::Set(root.child("d"), json!(4)), Some(json!({"a/b": [1, 2], "c": 3, "d": 4}))),
            (Change::Set(list.index(1), json!(4)), Some(json!({"a/b": [1, 4], "c": 3}))),
            (Change::Set(root.child("d").child("e"), json!(4)), None),
            (Change::Repeat(list.index(0)), Some(json!({"a/b": [1, 2, 1], "c": 3}))),
            (Change::Swap(list.clone(), 0), Some(json!({"a/b": [2, 1], "c": 3}))),
            (Change::Swap(list.clone(), 1), None),
        ];
        for (change, expected) in cases {
            let mut object = json!({"a/b": [1, 2], "c": 3});
            let applied = change.apply(&mut object);
            assert_eq!(applied.then_some(object), expected, "{change}");
        }
    }
}
