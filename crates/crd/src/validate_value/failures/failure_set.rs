//! A limited set of validation errors.

use std::borrow::Cow;
use std::collections::HashSet;

use atoll_meta::json;
use serde_json::Value;

use super::{Cause, Failure};

#[derive(Default)]
pub(super) struct FailureSet {
    pub failures: Vec<Failure>,
    /// The messages, once there are too many for a linear search.
    pub seen: HashSet<String>,
    pub matches: usize,
    /// Approximate total length of the failures.
    pub size: usize,
    /// Whether there were more failures than the limit.
    pub is_full: bool,
}

/// Maximum number of messages for linear search.
const MANY: usize = 16;
/// Maximum number and total size of the failures of an object. An object may have as many as it has fields,
/// each with all values of an `enum`.
pub(crate) const MOST: usize = 1000;
pub(crate) const SIZE: usize = 256 << 10;

impl FailureSet {
    pub fn push(&mut self, failure: Failure) {
        let size = self.size + failure.message.len() + failure.name.len();
        if self.failures.len() >= MOST || size > SIZE && !self.failures.is_empty() {
            self.is_full = true;
            return;
        }
        if self.failures.len() < MANY {
            if self.failures.iter().any(|known| known.message == failure.message) {
                return;
            }
        } else {
            if self.seen.is_empty() {
                self.seen.extend(self.failures.iter().map(|known| known.message.clone()));
            }
            if !self.seen.insert(failure.message.clone()) {
                return;
            }
        }
        self.size = size;
        self.failures.push(failure);
    }

    pub fn add(&mut self, name: &str, mut message: String, cause: Cause) {
        cut(&mut message, LONGEST);
        let mut name = name.to_owned();
        cut(&mut name, LONGEST);
        self.push(Failure { name, message, cause });
    }

    pub fn merge(&mut self, other: FailureSet) {
        self.matches += other.matches;
        self.is_full |= other.is_full;
        other.failures.into_iter().for_each(|failure| self.push(failure));
    }

    pub fn is_valid(&self) -> bool {
        self.failures.is_empty()
    }
}

/// Maximum length of a quoted value, pattern or `enum`.
pub(super) const LONGEST: usize = 16 << 10;

/// Truncates a text that is too long.
pub(super) fn cut(text: &mut String, most: usize) {
    if text.len() > most {
        text.truncate(beginning(text, most).len());
        text.push_str("...");
    }
}

fn beginning(text: &str, most: usize) -> &str {
    let end = (0..=most.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    &text[..end]
}

/// A text, truncated to the maximum length.
pub(crate) fn quotable(text: &str) -> Cow<'_, str> {
    match text.len() > LONGEST {
        true => Cow::Owned(format!("{}...", beginning(text, LONGEST))),
        false => Cow::Borrowed(text),
    }
}

/// A value, truncated to the maximum length.
pub(crate) fn shown(value: &Value) -> Value {
    match value {
        Value::String(text) => quoted(text),
        Value::Array(_) | Value::Object(_) => match json::to_string(value) {
            text if text.len() > LONGEST => quoted(&text),
            _ => value.clone(),
        },
        _ => value.clone(),
    }
}

pub(super) fn quoted(text: &str) -> Value {
    Value::String(quotable(text).into_owned())
}
