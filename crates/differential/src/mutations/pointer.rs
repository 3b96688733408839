//! A change at one location of a JSON value.

use std::fmt;

use serde_json::Value;

/// A location in an object, as a JSON pointer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pointer(String);

impl Pointer {
    pub fn child(&self, name: &str) -> Pointer {
        Pointer(format!("{}/{}", self.0, name.replace('~', "~0").replace('/', "~1")))
    }

    pub fn index(&self, index: usize) -> Pointer {
        Pointer(format!("{}/{index}", self.0))
    }

    /// Splits the pointer into its parent and its last component.
    fn split(&self) -> Option<(&str, String)> {
        let (parent, name) = self.0.rsplit_once('/')?;
        Some((parent, name.replace("~1", "/").replace("~0", "~")))
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum Mutation {
    /// No change.
    Nothing,
    Remove(Pointer),
    /// Sets a value, whether or not the field exists.
    Set(Pointer, Value),
    /// Appends a copy of an element to its list.
    Repeat(Pointer),
    /// Swaps an element with the next one.
    Swap(Pointer, usize),
}

impl Mutation {
    /// Applies the change to `object`. Returns false if the location does not exist.
    pub fn apply(&self, object: &mut Value) -> bool {
        match self {
            Mutation::Nothing => true,
            Mutation::Remove(place) => {
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
            Mutation::Set(place, value) => {
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
            Mutation::Repeat(place) => {
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
            Mutation::Swap(list, first) => match object.pointer_mut(&list.0) {
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

impl fmt::Display for Mutation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mutation::Nothing => out.write_str("nothing changed"),
            Mutation::Remove(place) => write!(out, "remove {place}"),
            Mutation::Set(place, value) => {
                let text = value.to_string();
                match text.char_indices().nth(60) {
                    Some((cut, _)) => write!(out, "set {place} {}… ({} bytes)", &text[..cut], text.len()),
                    None => write!(out, "set {place} {text}"),
                }
            }
            Mutation::Repeat(place) => write!(out, "repeat {place}"),
            Mutation::Swap(list, first) => write!(out, "swap {list}/{first} and {}", first + 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn changes_apply_at_their_location() {
        let root = Pointer::default();
        let list = root.child("a/b");
        let cases = [
            (Mutation::Nothing, Some(json!({"a/b": [1, 2], "c": 3}))),
            (Mutation::Remove(root.child("c")), Some(json!({"a/b": [1, 2]}))),
            (Mutation::Remove(list.index(0)), Some(json!({"a/b": [2], "c": 3}))),
            (Mutation::Remove(root.child("d")), None),
            (Mutation::Remove(list.index(2)), None),
            (Mutation::Set(root.child("d"), json!(4)), Some(json!({"a/b": [1, 2], "c": 3, "d": 4}))),
            (Mutation::Set(list.index(1), json!(4)), Some(json!({"a/b": [1, 4], "c": 3}))),
            (Mutation::Set(root.child("d").child("e"), json!(4)), None),
            (Mutation::Repeat(list.index(0)), Some(json!({"a/b": [1, 2, 1], "c": 3}))),
            (Mutation::Swap(list.clone(), 0), Some(json!({"a/b": [2, 1], "c": 3}))),
            (Mutation::Swap(list.clone(), 1), None),
        ];
        for (change, expected) in cases {
            let mut object = json!({"a/b": [1, 2], "c": 3});
            let applied = change.apply(&mut object);
            assert_eq!(applied.then_some(object), expected, "{change}");
        }
    }
}
