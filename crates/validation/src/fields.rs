//! Reading an object, and saying what is wrong with it, in few words.

use atoll_meta::field::BadValue;
use atoll_meta::quantity::Quantity;
use atoll_meta::{FieldError, FieldPath};
use serde_json::Value;

/// What checks ask of an object. Whatever is absent reads as upstream's zero value.
pub(crate) trait Fields {
    /// A field that is there, even if it is empty: upstream's pointer that is not nil.
    fn field(&self, name: &str) -> Option<&Value>;
    /// A field that may be absent, which `Null` then stands for.
    fn part(&self, name: &str) -> &Value;
    fn text(&self, name: &str) -> &str;
    fn optional_text(&self, name: &str) -> Option<&str>;
    fn integer(&self, name: &str) -> i64;
    fn optional_integer(&self, name: &str) -> Option<i64>;
    fn flag(&self, name: &str) -> bool;
    fn optional_flag(&self, name: &str) -> Option<bool>;
    fn list(&self, name: &str) -> &[Value];
    /// The elements of a list of texts.
    fn texts(&self, name: &str) -> impl Iterator<Item = &str>;
    fn entries(&self, name: &str) -> impl Iterator<Item = (&str, &Value)>;
    /// The entries of a map of texts.
    fn text_entries(&self, name: &str) -> impl Iterator<Item = (&str, &str)>;
    fn quantity(&self, name: &str) -> Option<Quantity>;
}

impl Fields for Value {
    fn field(&self, name: &str) -> Option<&Value> {
        self.get(name).filter(|value| !value.is_null())
    }

    fn part(&self, name: &str) -> &Value {
        self.get(name).unwrap_or(&Value::Null)
    }

    fn text(&self, name: &str) -> &str {
        self.optional_text(name).unwrap_or_default()
    }

    fn optional_text(&self, name: &str) -> Option<&str> {
        self.get(name).and_then(Value::as_str)
    }

    fn integer(&self, name: &str) -> i64 {
        self.optional_integer(name).unwrap_or_default()
    }

    fn optional_integer(&self, name: &str) -> Option<i64> {
        self.get(name).and_then(Value::as_i64)
    }

    fn flag(&self, name: &str) -> bool {
        self.optional_flag(name).unwrap_or_default()
    }

    fn optional_flag(&self, name: &str) -> Option<bool> {
        self.get(name).and_then(Value::as_bool)
    }

    fn list(&self, name: &str) -> &[Value] {
        self.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    fn texts(&self, name: &str) -> impl Iterator<Item = &str> {
        self.list(name).iter().map(|value| value.as_str().unwrap_or_default())
    }

    fn entries(&self, name: &str) -> impl Iterator<Item = (&str, &Value)> {
        let map = self.get(name).and_then(Value::as_object);
        map.into_iter().flatten().map(|(key, value)| (key.as_str(), value))
    }

    fn text_entries(&self, name: &str) -> impl Iterator<Item = (&str, &str)> {
        self.entries(name).map(|(key, value)| (key, value.as_str().unwrap_or_default()))
    }

    fn quantity(&self, name: &str) -> Option<Quantity> {
        self.get(name).and_then(quantity)
    }
}

/// A quantity as decoded objects hold it.
pub(crate) fn quantity(value: &Value) -> Option<Quantity> {
    Quantity::parse(value.as_str()?).ok()
}

/// A text of a named type in upstream's code, which messages show as JSON.
pub(crate) fn named(text: &str) -> BadValue {
    BadValue::named_text(text)
}

/// One error for each rule that a text breaks. The path is made only if there is one.
pub(crate) fn broken_rules(
    errors: &mut Vec<FieldError>,
    path: impl FnOnce() -> FieldPath,
    value: &str,
    rules: Vec<String>,
) {
    if !rules.is_empty() {
        let path = path();
        errors.extend(rules.into_iter().map(|rule| FieldError::invalid(&path, value, rule)));
    }
}

/// What a check adds to.
pub(crate) type Errors = Vec<FieldError>;

pub(crate) const NOT_NEGATIVE: &str = "must be greater than or equal to 0";
pub(crate) const POSITIVE: &str = "must be greater than zero";

/// Complains about a number below zero.
pub(crate) fn not_negative(
    errors: &mut Vec<FieldError>,
    object: &Value,
    name: &'static str,
    path: &FieldPath,
) {
    let value = object.integer(name);
    if value < 0 {
        errors.push(FieldError::invalid(&path.child(name), value, NOT_NEGATIVE));
    }
}

/// Complains about a number that is not above zero.
pub(crate) fn positive(errors: &mut Vec<FieldError>, object: &Value, name: &'static str, path: &FieldPath) {
    let value = object.integer(name);
    if value <= 0 {
        errors.push(FieldError::invalid(&path.child(name), value, POSITIVE));
    }
}
