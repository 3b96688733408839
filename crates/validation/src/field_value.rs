//! A value of an object together with its field path, for use by checks.

// upstream: staging/src/k8s.io/apimachinery/pkg/util/validation/field/errors.go
// upstream: staging/src/k8s.io/apimachinery/pkg/api/validation/objectmeta.go

use atoll_meta::field::BadValue;
use atoll_meta::quantity::Quantity;
use atoll_meta::{FieldError, FieldPath};
use serde_json::Value;

static NULL: Value = Value::Null;

pub(crate) type Errors = Vec<FieldError>;

pub(crate) const NOT_NEGATIVE: &str = "must be greater than or equal to 0";
pub(crate) const POSITIVE: &str = "must be greater than zero";

/// A rule for a string. Returns upstream's messages for the violations.
pub(crate) type StringRule = fn(&str) -> Vec<String>;

/// A value and its field path. The value is null if the field is absent.
#[derive(Clone)]
pub(crate) struct FieldValue<'a> {
    pub value: &'a Value,
    pub path: FieldPath,
}

impl<'a> FieldValue<'a> {
    pub fn root(object: &'a Value) -> FieldValue<'a> {
        FieldValue { value: object, path: FieldPath::nil() }
    }

    /// Returns a field at the root of the object.
    pub fn field(object: &'a Value, name: &'static str) -> FieldValue<'a> {
        FieldValue { value: lookup(object, name).unwrap_or(&NULL), path: FieldPath::new(name) }
    }

    /// Returns a value under a different path, for messages in which upstream uses another path.
    pub fn under(value: Option<&'a Value>, path: FieldPath) -> FieldValue<'a> {
        FieldValue { value: value.unwrap_or(&NULL), path }
    }

    #[inline]
    pub fn get(&self, name: &'static str) -> FieldValue<'a> {
        FieldValue { value: lookup(self.value, name).unwrap_or(&NULL), path: self.path.child(name) }
    }

    /// Returns a field that is set, even if it is empty: a non-nil pointer upstream.
    #[inline]
    pub fn given(&self, name: &'static str) -> Option<FieldValue<'a>> {
        let value = lookup(self.value, name).filter(|value| !value.is_null())?;
        Some(FieldValue { value, path: self.path.child(name) })
    }

    /// Returns this value under a different path.
    pub fn with_path(&self, path: FieldPath) -> FieldValue<'a> {
        FieldValue { value: self.value, path }
    }

    /// Returns the elements of this list.
    pub fn items(&self) -> impl DoubleEndedIterator<Item = FieldValue<'a>> + use<'a, '_> {
        self.list()
            .iter()
            .enumerate()
            .map(|(index, value)| FieldValue { value, path: self.path.index(index) })
    }

    /// Returns the elements of this list that have a field. Paths of other elements are not created.
    pub fn items_with<'b>(&'b self, name: &'b str) -> impl Iterator<Item = FieldValue<'a>> + use<'a, 'b> {
        let is_set = move |value: &Value| lookup(value, name).is_some_and(|field| !field.is_null());
        let values = self.list().iter().enumerate().filter(move |(_, value)| is_set(value));
        values.map(|(index, value)| FieldValue { value, path: self.path.index(index) })
    }

    /// Returns the entries of this map. Their paths end in the key.
    pub fn entries(&self) -> impl Iterator<Item = (&'a str, FieldValue<'a>)> + use<'a, '_> {
        let map = self.value.as_object().into_iter().flatten();
        map.map(|(key, value)| (key.as_str(), FieldValue { value, path: self.path.key(key) }))
    }

    /// Returns an entry of this map.
    pub fn entry_of(&self, key: &str) -> Option<FieldValue<'a>> {
        Some(FieldValue { value: lookup(self.value, key)?, path: self.path.key(key) })
    }

    /// Returns the entries of this map of strings.
    pub fn text_entries(&self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        let map = self.value.as_object().into_iter().flatten();
        map.map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()))
    }

    /// Returns the values of this map as if each were an object of its own, without their paths.
    pub fn values(&self) -> impl Iterator<Item = FieldValue<'a>> + use<'a> {
        self.value.as_object().into_iter().flatten().map(|(_, value)| FieldValue::root(value))
    }

    /// Returns the names of the fields that are set.
    pub fn given_names(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let map = self.value.as_object().into_iter().flatten();
        map.filter(|(_, value)| !value.is_null()).map(|(name, _)| name.as_str())
    }

    pub fn keys(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.value.as_object().into_iter().flatten().map(|(key, _)| key.as_str())
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

    /// Whether this is absent, or an empty string, list or map.
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

    /// Returns the string if it is set, even if it is empty.
    pub fn optional_text(&self) -> Option<&'a str> {
        self.value.as_str()
    }

    pub fn flag(&self) -> bool {
        self.value.as_bool().unwrap_or_default()
    }

    pub fn number(&self) -> Option<i64> {
        self.value.as_i64()
    }

    /// Returns the number, or zero if it is absent.
    pub fn integer(&self) -> i64 {
        self.number().unwrap_or_default()
    }

    /// Returns the quantity, or `None` if it is absent. Decoding has rejected malformed quantities.
    pub fn quantity(&self) -> Option<Quantity> {
        quantity(self.value)
    }

    /// Returns the quantity of a resource in this map.
    pub fn quantity_of(&self, resource: &str) -> Option<Quantity> {
        lookup(self.value, resource).and_then(quantity)
    }

    #[inline]
    pub fn has(&self, name: &str) -> bool {
        lookup(self.value, name).is_some_and(|value| !value.is_null())
    }

    /// Returns the value of a field for checks without an error about this field. Its path is not created.
    #[inline]
    pub fn value_of(&self, name: &str) -> &'a Value {
        lookup(self.value, name).unwrap_or(&NULL)
    }

    #[inline]
    pub fn flag_of(&self, name: &str) -> bool {
        self.value_of(name).as_bool().unwrap_or_default()
    }

    #[inline]
    pub fn integer_of(&self, name: &str) -> i64 {
        self.value_of(name).as_i64().unwrap_or_default()
    }

    #[inline]
    pub fn text_of(&self, name: &str) -> &'a str {
        lookup(self.value, name).and_then(Value::as_str).unwrap_or_default()
    }

    /// Returns the value as a Go string of a named type, which messages show as JSON.
    pub fn named(&self) -> BadValue {
        BadValue::named_text(self.text())
    }

    pub fn required(&self, detail: impl Into<String>) -> FieldError {
        FieldError::required(&self.path, detail)
    }

    pub fn forbidden(&self, detail: impl Into<String>) -> FieldError {
        FieldError::forbidden(&self.path, detail)
    }

    /// Returns an `Invalid` error that shows the value.
    pub fn invalid(&self, detail: impl Into<String>) -> FieldError {
        self.invalid_as(self.value.clone(), detail)
    }

    pub fn invalid_as(&self, value: impl Into<BadValue>, detail: impl Into<String>) -> FieldError {
        FieldError::invalid(&self.path, value, detail)
    }

    /// Returns an `Invalid` error that shows the value as a string, which is empty if it is absent.
    pub fn invalid_text(&self, detail: impl Into<String>) -> FieldError {
        self.invalid_as(self.text(), detail)
    }

    /// Returns an `Invalid` error that shows the value as a string of a named type.
    pub fn invalid_named(&self, detail: impl Into<String>) -> FieldError {
        self.invalid_as(self.named(), detail)
    }

    /// Returns an `Invalid` error that shows the value as a number, which is zero if it is absent.
    pub fn invalid_integer(&self, detail: impl Into<String>) -> FieldError {
        self.invalid_as(self.integer(), detail)
    }

    pub fn duplicate(&self) -> FieldError {
        self.duplicate_as(self.value.clone())
    }

    pub fn duplicate_as(&self, value: impl Into<BadValue>) -> FieldError {
        FieldError::duplicate(&self.path, value)
    }

    pub fn not_found(&self) -> FieldError {
        FieldError::not_found(&self.path, self.text())
    }

    pub fn too_long(&self, longest: usize) -> FieldError {
        FieldError::too_long(&self.path, longest)
    }

    pub fn too_many(&self, most: usize) -> FieldError {
        FieldError::too_many(&self.path, self.len(), most)
    }

    /// Returns a `NotSupported` error for a string of a named type.
    pub fn unsupported(&self, supported: &[&str]) -> FieldError {
        FieldError::not_supported(&self.path, self.named(), supported)
    }

    pub fn unsupported_as(&self, value: impl Into<BadValue>, supported: &[&str]) -> FieldError {
        FieldError::not_supported(&self.path, value, supported)
    }

    /// Returns a `NotSupported` error for a plain string.
    pub fn unsupported_text(&self, supported: &[&str]) -> FieldError {
        FieldError::not_supported(&self.path, self.text(), supported)
    }

    /// Adds an `Invalid` error for each of these messages about a string.
    #[inline]
    pub fn rules(&self, errors: &mut Errors, broken: Vec<String>) {
        if !broken.is_empty() {
            self.part_rules(errors, self.text(), broken);
        }
    }

    /// Adds an `Invalid` error for each of these messages about a part of a string, or a variant of it.
    pub fn part_rules(&self, errors: &mut Errors, part: &str, broken: Vec<String>) {
        errors.extend(broken.into_iter().map(|rule| self.invalid_as(part, rule)));
    }

    /// Adds an `Invalid` error for each of these messages about a number.
    #[inline]
    pub fn number_rules(&self, errors: &mut Errors, broken: Vec<String>) {
        if !broken.is_empty() {
            errors.extend(broken.into_iter().map(|rule| self.invalid_integer(rule)));
        }
    }

    /// Checks that a number is not negative.
    pub fn not_negative(&self, errors: &mut Errors) {
        if self.integer() < 0 {
            errors.push(self.invalid_integer(NOT_NEGATIVE));
        }
    }

    /// Checks that the numbers in these fields are not negative.
    pub fn none_negative(&self, errors: &mut Errors, names: &[&'static str]) {
        for name in names {
            if self.integer_of(name) < 0 {
                self.get(name).not_negative(errors);
            }
        }
    }

    /// Checks that a string of a named type is set to one of these values.
    pub fn one_of(&self, errors: &mut Errors, supported: &[&str]) {
        if self.is_empty() {
            errors.push(self.required(""));
        } else if !supported.contains(&self.text()) {
            errors.push(self.unsupported(supported));
        }
    }
}

/// Returns a field of an object. In a small object it is faster to compare all names, which mostly differ in
/// length, than to search the map, which compares the bytes of names.
fn lookup<'a>(object: &'a Value, name: &str) -> Option<&'a Value> {
    const SMALL: usize = 4;
    let Value::Object(fields) = object else { return None };
    if fields.len() > SMALL {
        return fields.get(name);
    }
    fields.iter().find(|(field, _)| *field == name).map(|(_, value)| value)
}

/// Returns the quantity in a decoded object.
pub(crate) fn quantity(value: &Value) -> Option<Quantity> {
    Quantity::parse(value.as_str()?).ok()
}

/// Checks that a field is unchanged.
pub(crate) fn immutable(errors: &mut Errors, new: &FieldValue<'_>, old: &FieldValue<'_>) {
    if !equal(new.value, old.value) {
        errors.push(new.invalid("field is immutable"));
    }
}

/// Checks that a string is unchanged. An absent string equals an empty one.
pub(crate) fn immutable_text(errors: &mut Errors, new: &FieldValue<'_>, old: &FieldValue<'_>) {
    if new.text() != old.text() {
        errors.push(new.invalid_as(new.text(), "field is immutable"));
    }
}

/// Checks that a string of a named type is unchanged.
pub(crate) fn immutable_name(errors: &mut Errors, new: &FieldValue<'_>, old: &FieldValue<'_>) {
    if new.value != old.value {
        let rendered = if new.is_set() { new.named() } else { BadValue::Value(Value::Null) };
        errors.push(new.invalid_as(rendered, "field is immutable"));
    }
}

/// Whether two values are semantically equal: empty lists and maps equal absent ones.
pub(crate) fn equal(one: &Value, other: &Value) -> bool {
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    };
    one == other || (is_empty(one) && is_empty(other))
}
