//! A part of an object together with its path, so that a check reads one thing and can complain about it.

use atoll_meta::field::BadValue;
use atoll_meta::{FieldError, FieldPath};
use serde_json::Value;

static NULL: Value = Value::Null;

pub(crate) type Errors = Vec<FieldError>;

/// What a text breaks, in upstream's words.
pub(crate) type Rule = fn(&str) -> Vec<String>;

/// A value, null if it is absent, and where it is.
#[derive(Clone)]
pub(crate) struct At<'a> {
    pub value: &'a Value,
    pub path: FieldPath,
}

impl<'a> At<'a> {
    pub fn root(object: &'a Value) -> At<'a> {
        At { value: object, path: FieldPath::nil() }
    }

    /// A field of the object itself.
    pub fn field(object: &'a Value, name: &'static str) -> At<'a> {
        At { value: object.get(name).unwrap_or(&NULL), path: FieldPath::new(name) }
    }

    /// The same value under another path, where upstream names another one.
    pub fn under(value: Option<&'a Value>, path: FieldPath) -> At<'a> {
        At { value: value.unwrap_or(&NULL), path }
    }

    pub fn get(&self, name: &'static str) -> At<'a> {
        At { value: self.value.get(name).unwrap_or(&NULL), path: self.path.child(name) }
    }

    /// The elements of this list.
    pub fn items(&self) -> impl Iterator<Item = At<'a>> + use<'a, '_> {
        self.list().iter().enumerate().map(|(index, value)| At { value, path: self.path.index(index) })
    }

    /// The entries of this map, whose paths end in the key.
    pub fn entries(&self) -> impl Iterator<Item = (&'a str, At<'a>)> + use<'a, '_> {
        let map = self.value.as_object().into_iter().flatten();
        map.map(|(key, value)| (key.as_str(), At { value, path: self.path.key(key) }))
    }

    pub fn list(&self) -> &'a [Value] {
        self.value.as_array().map_or(&[], Vec::as_slice)
    }

    pub fn texts(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.list().iter().map(|value| value.as_str().unwrap_or_default())
    }

    pub fn is_set(&self) -> bool {
        !self.value.is_null()
    }

    /// Whether this is absent, or a text, list or map without contents.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn len(&self) -> usize {
        match self.value {
            Value::String(text) => text.len(),
            Value::Array(list) => list.len(),
            Value::Object(map) => map.len(),
            _ => 0,
        }
    }

    pub fn text(&self) -> &'a str {
        self.value.as_str().unwrap_or_default()
    }

    pub fn flag(&self) -> bool {
        self.value.as_bool().unwrap_or_default()
    }

    pub fn number(&self) -> Option<i64> {
        self.value.as_i64()
    }

    pub fn has(&self, name: &str) -> bool {
        self.value.get(name).is_some_and(|value| !value.is_null())
    }

    pub fn text_of(&self, name: &str) -> &'a str {
        self.value.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    /// The value as a text of a named type of upstream's, which is shown as JSON.
    pub fn named(&self) -> BadValue {
        BadValue::named_text(self.text())
    }

    pub fn required(&self, detail: impl Into<String>) -> FieldError {
        FieldError::required(&self.path, detail)
    }

    pub fn forbidden(&self, detail: impl Into<String>) -> FieldError {
        FieldError::forbidden(&self.path, detail)
    }

    /// The value, as it is, is wrong.
    pub fn invalid(&self, detail: impl Into<String>) -> FieldError {
        self.invalid_as(self.value.clone(), detail)
    }

    pub fn invalid_as(&self, value: impl Into<BadValue>, detail: impl Into<String>) -> FieldError {
        FieldError::invalid(&self.path, value, detail)
    }

    pub fn duplicate(&self) -> FieldError {
        FieldError::duplicate(&self.path, self.value.clone())
    }

    /// A text of a named type is none of these.
    pub fn unsupported(&self, supported: &[&str]) -> FieldError {
        FieldError::not_supported(&self.path, self.named(), supported)
    }

    /// A plain text is none of these.
    pub fn unsupported_text(&self, supported: &[&str]) -> FieldError {
        FieldError::not_supported(&self.path, self.text(), supported)
    }

    /// Complains in the words of each rule that the text breaks.
    pub fn rules(&self, errors: &mut Errors, broken: Vec<String>) {
        errors.extend(broken.into_iter().map(|rule| self.invalid_as(self.text(), rule)));
    }

    /// The same for a number.
    pub fn number_rules(&self, errors: &mut Errors, broken: Vec<String>) {
        errors
            .extend(broken.into_iter().map(|rule| self.invalid_as(self.number().unwrap_or_default(), rule)));
    }

    /// A text of a named type that must be there and one of these.
    pub fn one_of(&self, errors: &mut Errors, supported: &[&str]) {
        if self.is_empty() {
            errors.push(self.required(""));
        } else if !supported.contains(&self.text()) {
            errors.push(self.unsupported(supported));
        }
    }
}

/// The value of a field that is not the same as before.
pub(crate) fn immutable(errors: &mut Errors, new: &At<'_>, old: &At<'_>) {
    if !equal(new.value, old.value) {
        errors.push(new.invalid("field is immutable"));
    }
}

/// The same for a text: absent is empty.
pub(crate) fn immutable_text(errors: &mut Errors, new: &At<'_>, old: &At<'_>) {
    if new.text() != old.text() {
        errors.push(new.invalid_as(new.text(), "field is immutable"));
    }
}

/// The same for a text of a named type.
pub(crate) fn immutable_name(errors: &mut Errors, new: &At<'_>, old: &At<'_>) {
    if new.value != old.value {
        let shown = if new.is_set() { new.named() } else { BadValue::Value(Value::Null) };
        errors.push(new.invalid_as(shown, "field is immutable"));
    }
}

/// Whether two values mean the same: what is empty is as good as absent.
pub(crate) fn equal(one: &Value, other: &Value) -> bool {
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    };
    one == other || (is_empty(one) && is_empty(other))
}
