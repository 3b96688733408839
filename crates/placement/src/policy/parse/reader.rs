//! Reads fields of JSON, with an error for each one that is not valid.

use atoll_meta::object::validate_label_selector;
use atoll_meta::{FieldError, FieldPath, LabelSelector, names};
use serde_json::Value;

/// Maximum length of a list of names of clusters.
pub const MAX_NAMES: usize = 1000;
/// Maximum weight, and maximum number of clusters, domains and replicas.
pub const MAX_NUMBER: i64 = 1_000_000;

/// A field and its path. Null fields are unset.
pub struct Field<'a> {
    pub value: &'a Value,
    pub path: FieldPath,
}

impl<'a> Field<'a> {
    pub fn child(&self, name: &'static str) -> Field<'a> {
        Field { value: &self.value[name], path: self.path.child(name) }
    }

    pub fn is_set(&self) -> bool {
        !self.value.is_null()
    }
}

/// Reads fields and collects the errors about them.
#[derive(Default)]
pub struct PolicyReader {
    pub errors: Vec<FieldError>,
}

impl PolicyReader {
    pub fn invalid(&mut self, field: &Field<'_>, detail: impl Into<String>) {
        self.errors.push(FieldError::invalid(&field.path, field.value.clone(), detail));
    }

    pub fn text<'a>(&mut self, field: &Field<'a>) -> Option<&'a str> {
        match field.value {
            Value::Null => None,
            Value::String(text) if text.is_empty() => None,
            Value::String(text) => Some(text),
            _ => {
                self.invalid(field, "must be a string");
                None
            }
        }
    }

    /// Reads a text and reports why it is not valid.
    pub fn checked_text(&mut self, field: &Field<'_>, check: fn(&str) -> Vec<String>) -> Option<String> {
        let text = self.text(field)?;
        for why in check(text) {
            self.invalid(field, why);
        }
        Some(text.to_string())
    }

    pub fn word<T>(&mut self, field: &Field<'_>, names: &[&str], parse: fn(&str) -> Option<T>) -> Option<T> {
        let text = self.text(field)?;
        let found = parse(text);
        if found.is_none() {
            self.errors.push(FieldError::not_supported(&field.path, text, names));
        }
        found
    }

    /// Reads a number of at least `least`.
    pub fn number(&mut self, field: &Field<'_>, least: i64) -> Option<i64> {
        match field.value {
            Value::Null => None,
            value => {
                let number = value.as_i64().filter(|number| (least..=MAX_NUMBER).contains(number));
                if number.is_none() {
                    self.invalid(field, format!("must be an integer between {least} and {MAX_NUMBER}"));
                }
                number
            }
        }
    }

    pub fn list<'a>(&mut self, field: &Field<'a>, most: usize) -> Vec<Field<'a>> {
        let items = match field.value {
            Value::Null => return Vec::new(),
            Value::Array(items) => items,
            _ => {
                self.invalid(field, "must be a list");
                return Vec::new();
            }
        };
        if items.len() > most {
            self.errors.push(FieldError::too_many(&field.path, items.len(), most));
        }
        let items = items.iter().take(most).enumerate();
        items.map(|(index, value)| Field { value, path: field.path.index(index) }).collect()
    }

    pub fn selector(&mut self, field: &Field<'_>) -> Option<LabelSelector> {
        if !field.is_set() {
            return None;
        }
        let errors = validate_label_selector(field.value, &field.path);
        let is_valid = errors.is_empty();
        self.errors.extend(errors);
        if !is_valid {
            return None;
        }
        match LabelSelector::from_object(field.value) {
            Ok(selector) => Some(selector),
            Err(why) => {
                self.invalid(field, why);
                None
            }
        }
    }

    /// Reads names of clusters.
    pub fn names(&mut self, field: &Field<'_>) -> Vec<String> {
        let mut found: Vec<String> = Vec::new();
        for item in self.list(field, MAX_NAMES) {
            let Some(name) = self.checked_text(&item, names::dns1123_label) else {
                if item.value.as_str().is_none_or(str::is_empty) {
                    self.errors.push(FieldError::required(&item.path, "must be the name of a cluster"));
                }
                continue;
            };
            if found.contains(&name) {
                self.errors.push(FieldError::duplicate(&item.path, name.as_str()));
            }
            found.push(name);
        }
        found
    }
}
