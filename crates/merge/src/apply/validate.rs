//! Validation of an applied configuration against its type, with upstream's messages.

// upstream: sigs.k8s.io/structured-merge-diff/v6/typed/validate.go

use std::collections::BTreeSet;
use std::fmt::Write;

use serde_json::{Map, Value};

use super::element::Element;
use super::shape::{ItemType, ListIdentity, NoKey, Scalar, Shape};

/// Returns the errors of a configuration.
pub fn errors(shape: Shape<'_>, value: &Value) -> Vec<String> {
    let mut found = Validator::default();
    found.walk(shape, value);
    found.texts
}

/// Joins all errors.
pub fn join(errors: &[String]) -> String {
    match errors {
        [problem] => problem.clone(),
        several => format!("errors:\n  {}", several.join("\n  ")),
    }
}

#[derive(Default)]
struct Validator {
    /// Path of the current value.
    path: String,
    texts: Vec<String>,
}

impl Validator {
    fn add(&mut self, message: &str) {
        self.texts.push(match self.path.as_str() {
            "" => message.to_owned(),
            path => format!("{path}: {message}"),
        });
    }

    fn below(&mut self, step: &dyn std::fmt::Display, look: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        // Writing to a String cannot fail.
        let _ = write!(self.path, "{step}");
        look(self);
        self.path.truncate(length);
    }

    fn walk(&mut self, shape: Shape<'_>, value: &Value) {
        match (shape, value) {
            (_, Value::Null) => {}
            (Shape::Scalar(scalar), value) => self.scalar(scalar, value),
            (Shape::List { element, items }, Value::Array(list)) => self.items(element, items, list),
            (Shape::List { .. }, other) => self.add(&format!("expected list, got &{{{}}}", go_value(other))),
            (Shape::Map { .. } | Shape::Struct { .. } | Shape::Custom(_), Value::Object(map)) => {
                self.members(shape, map)
            }
            (Shape::Map { .. } | Shape::Struct { .. } | Shape::Custom(_), other) => {
                self.add(&format!("expected map, got &{{{}}}", go_value(other)));
            }
            (Shape::Opaque | Shape::Deduced, _) => {}
        }
    }

    fn scalar(&mut self, scalar: Scalar, value: &Value) {
        let fits = match scalar {
            Scalar::Text => value.is_string(),
            Scalar::Number => value.is_number(),
            Scalar::Boolean => value.is_boolean(),
            Scalar::Untyped => !value.is_array() && !value.is_object(),
        };
        if fits {
            return;
        }
        let message = match scalar {
            Scalar::Number => format!("expected numeric (int or float), got {}", go_type(value)),
            Scalar::Text => {
                format!("expected string, got &value.valueUnstructured{{Value:{}}}", go_syntax(value))
            }
            Scalar::Boolean => format!("expected boolean, got &{{{}}}", go_value(value)),
            Scalar::Untyped => format!("expected any scalar, got &{{{}}}", go_value(value)),
        };
        self.add(&message);
    }

    fn items(&mut self, element: ItemType<'_>, items: ListIdentity<'_>, list: &[Value]) {
        let shape = element.shape();
        let mut seen: BTreeSet<Element<'_>> = BTreeSet::new();
        for (index, item) in list.iter().enumerate() {
            if let ListIdentity::Atomic = items {
                self.below(&Element::Index(index as i64), |inner| inner.walk(shape, item));
                continue;
            }
            let step = match items.step(element, item) {
                Ok(step) => step,
                Err(NoKey(message)) => {
                    self.add(&format!("element {index}: {message}"));
                    return;
                }
            };
            if seen.contains(&step) {
                self.add(&format!("duplicate entries for key {step}"));
            }
            self.below(&step, |inner| inner.walk(shape, item));
            seen.insert(step);
        }
    }

    fn members(&mut self, shape: Shape<'_>, map: &Map<String, Value>) {
        for (name, value) in map {
            let mut stop = false;
            self.below(&Element::Field(name), |inner| match shape.member(name) {
                Some((shape, _)) => inner.walk(shape, value),
                None => {
                    inner.add("field not declared in schema");
                    stop = true;
                }
            });
            if stop {
                return;
            }
        }
    }
}

fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// Formats as Go's `%v`.
fn go_value(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(list) => {
            let items: Vec<_> = list.iter().map(go_value).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(map) => {
            let members: Vec<_> =
                map.iter().map(|(name, value)| format!("{name}:{}", go_value(value))).collect();
            format!("map[{}]", members.join(" "))
        }
        Value::Number(number) if number.is_f64() => {
            atoll_meta::quote::print_float(number.as_f64().unwrap_or_default())
        }
        other => other.to_string(),
    }
}

/// Formats as Go's `%#v`.
fn go_syntax(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::String(text) => atoll_meta::quote::quote(text),
        Value::Array(list) => {
            let items: Vec<_> = list.iter().map(go_syntax).collect();
            format!("[]interface {{}}{{{}}}", items.join(", "))
        }
        Value::Object(map) => {
            let members: Vec<_> = map
                .iter()
                .map(|(name, value)| format!("{}:{}", atoll_meta::quote::quote(name), go_syntax(value)))
                .collect();
            format!("map[string]interface {{}}{{{}}}", members.join(", "))
        }
        other => go_value(other),
    }
}
