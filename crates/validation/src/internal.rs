//! Values as upstream's internal types render in messages.
//!
//! The internal types differ from those of the API: their fields have Go's names and order, no field is
//! omitted, and a few are in another place. `data/internal.txt` describes them: the name of a type, then one
//! line per field with its name, its place in the API object (`/` descends, `^` refers to the parent object)
//! and its type. `*` and `[]` mean the same as in Go, `?` means that an empty field is omitted.

// upstream: staging/src/k8s.io/apimachinery/pkg/util/validation/field/errors.go
// upstream: pkg/apis/core/types.go

pub(crate) mod unified;

use std::collections::HashMap;
use std::sync::OnceLock;

use atoll_meta::field::BadValue;
use atoll_meta::json;
use serde_json::Value;

const TABLE: &str = include_str!("../data/internal.txt");

struct Field {
    name: &'static str,
    path: &'static str,
    kind: &'static str,
}

type Structures = HashMap<&'static str, Vec<Field>>;

fn structures() -> &'static Structures {
    static STRUCTURES: OnceLock<Structures> = OnceLock::new();
    STRUCTURES.get_or_init(|| {
        let mut structures = Structures::new();
        let mut current = "";
        for line in TABLE.lines() {
            let mut words = line.trim_start().split(' ');
            let name = words.next().unwrap_or_default();
            match (words.next(), words.next()) {
                (Some(path), Some(kind)) => {
                    structures.entry(current).or_default().push(Field { name, path, kind });
                }
                _ => current = name,
            }
        }
        structures
    })
}

/// Renders a value of the API as the internal type of this name.
pub(crate) fn render(structure: &str, value: &Value) -> BadValue {
    BadValue::Rendered(Writer::compact(structure, value))
}

/// Renders a list of such values.
pub(crate) fn render_list(structure: &str, list: &Value) -> BadValue {
    BadValue::Rendered(Writer::compact(&format!("[]{structure}"), list))
}

/// Returns a unified diff of the rendered old and new values.
pub(crate) fn difference(structure: &str, old: &Value, new: &Value) -> String {
    unified::difference(&Writer::indented(structure, old), &Writer::indented(structure, new))
}

/// Writes JSON as Go does, either compact or indented by one space per level.
struct Writer {
    out: Vec<u8>,
    level: Option<usize>,
}

impl Writer {
    fn compact(kind: &str, value: &Value) -> String {
        let mut writer = Writer { out: Vec::new(), level: None };
        writer.value(kind, value, &Value::Null);
        String::from_utf8(writer.out).unwrap_or_default()
    }

    fn indented(kind: &str, value: &Value) -> String {
        let mut writer = Writer { out: Vec::new(), level: Some(0) };
        writer.value(kind, value, &Value::Null);
        String::from_utf8(writer.out).unwrap_or_default()
    }

    fn value(&mut self, kind: &str, value: &Value, parent: &Value) {
        if let Some(kind) = kind.strip_prefix('*') {
            if value.is_null() {
                self.out.extend_from_slice(b"null");
            } else {
                self.value(kind, value, parent);
            }
        } else if let Some(kind) = kind.strip_prefix("[]") {
            match value {
                Value::Array(list) => {
                    self.block(b'[', b']', list, |writer, element| writer.value(kind, element, &Value::Null));
                }
                _ => self.out.extend_from_slice(b"null"),
            }
        } else if let Some(fields) = structures().get(kind) {
            let present: Vec<(&Field, &Value)> = fields
                .iter()
                .map(|field| (field, find(field.path, value, parent)))
                .filter(|(field, value)| !field.kind.ends_with('?') || !is_empty(value))
                .collect();
            self.block(b'{', b'}', &present, |writer, (field, field_value)| {
                writer.key(field.name);
                writer.value(field.kind.trim_end_matches('?'), field_value, value);
            });
        } else {
            self.scalar(kind, value);
        }
    }

    fn scalar(&mut self, kind: &str, value: &Value) {
        match (kind, value) {
            ("map", Value::Object(map)) => {
                let entries: Vec<(&String, &Value)> = map.iter().collect();
                self.block(b'{', b'}', &entries, |writer, (key, value)| {
                    writer.key(key);
                    json::write(value, &mut writer.out);
                });
            }
            (_, Value::Null) => self.out.extend_from_slice(match kind {
                "text" => b"\"\"",
                "quantity" => b"\"0\"",
                "flag" => b"false",
                "number" | "number-or-text" => b"0",
                _ => b"null",
            }),
            _ => json::write(value, &mut self.out),
        }
    }

    fn key(&mut self, key: &str) {
        json::write_string(key, &mut self.out);
        self.out.extend_from_slice(if self.level.is_some() { b": " } else { b":" });
    }

    fn block<T>(&mut self, open: u8, close: u8, elements: &[T], mut write: impl FnMut(&mut Writer, &T)) {
        self.out.push(open);
        if !elements.is_empty() {
            self.level = self.level.map(|level| level + 1);
            for (index, element) in elements.iter().enumerate() {
                if index > 0 {
                    self.out.push(b',');
                }
                self.line();
                write(self, element);
            }
            self.level = self.level.map(|level| level - 1);
            self.line();
        }
        self.out.push(close);
    }

    fn line(&mut self) {
        if let Some(level) = self.level {
            self.out.push(b'\n');
            self.out.extend(std::iter::repeat_n(b' ', level));
        }
    }
}

fn find<'a>(path: &str, value: &'a Value, parent: &'a Value) -> &'a Value {
    let (start, path) = match path.strip_prefix('^') {
        Some(path) => (parent, path),
        None => (value, path),
    };
    path.split('/').fold(start, |value, field| value.get(field).unwrap_or(&Value::Null))
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Number(number) => number.as_i64() == Some(0),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Bool(true) => false,
    }
}

#[cfg(test)]
mod tests;
