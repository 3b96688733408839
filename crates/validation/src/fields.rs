//! Accessors for fields of an object, and constructors of common errors.

// upstream: staging/src/k8s.io/apimachinery/pkg/util/validation/field/errors.go

use atoll_meta::field::BadValue;
use atoll_meta::quantity::Quantity;
use atoll_meta::{FieldError, FieldPath};
use serde_json::Value;

/// Accessors for fields. An absent field reads as Go's zero value.
pub(crate) trait Fields {
    /// Returns a field that is set, even if it is empty: a non-nil pointer upstream.
    fn field(&self, name: &str) -> Option<&Value>;
    /// Returns a field, or `Null` if it is absent.
    fn part(&self, name: &str) -> &Value;
    fn text(&self, name: &str) -> &str;
    fn optional_text(&self, name: &str) -> Option<&str>;
    fn integer(&self, name: &str) -> i64;
    fn optional_integer(&self, name: &str) -> Option<i64>;
    fn flag(&self, name: &str) -> bool;
    fn optional_flag(&self, name: &str) -> Option<bool>;
    fn list(&self, name: &str) -> &[Value];
    /// Returns the elements of a list of strings.
    fn texts(&self, name: &str) -> impl Iterator<Item = &str>;
    fn entries(&self, name: &str) -> impl Iterator<Item = (&str, &Value)>;
    /// Returns the entries of a map of strings.
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

/// Returns a quantity of a decoded object.
pub(crate) fn quantity(value: &Value) -> Option<Quantity> {
    Quantity::parse(value.as_str()?).ok()
}

/// Returns a Go string of a named type, which messages show as JSON.
pub(crate) fn named(text: &str) -> BadValue {
    BadValue::named_text(text)
}

/// Adds one error for each message about a string. The path is only built if there is one.
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

/// The errors that checks add to.
pub(crate) type Errors = Vec<FieldError>;

pub(crate) const NOT_NEGATIVE: &str = "must be greater than or equal to 0";
pub(crate) const POSITIVE: &str = "must be greater than zero";

/// Checks that a number is not negative.
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

/// Checks that a number is greater than zero.
pub(crate) fn positive(errors: &mut Vec<FieldError>, object: &Value, name: &'static str, path: &FieldPath) {
    let value = object.integer(name);
    if value <= 0 {
        errors.push(FieldError::invalid(&path.child(name), value, POSITIVE));
    }
}
