//! What was found, and no more of it than is told.

use std::borrow::Cow;
use std::collections::HashSet;

use atoll_meta::json;
use serde_json::Value;

use super::{Cause, Failure};

#[derive(Default)]
pub(super) struct Outcome {
    pub failures: Vec<Failure>,
    /// The messages, once there are too many to look through.
    pub seen: HashSet<String>,
    pub matches: usize,
    /// About how long the failures are.
    pub size: usize,
    /// Whether there were more failures than are kept.
    pub is_full: bool,
}

/// Messages are looked through one by one up to here.
const MANY: usize = 16;
/// No more failures than this are told of an object, and only so many bytes of them. An object may have as many as it has
/// fields, each with all values that a schema knows.
pub(crate) const MOST: usize = 1000;
pub(crate) const SIZE: usize = 256 << 10;

impl Outcome {
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

    pub fn merge(&mut self, other: Outcome) {
        self.matches += other.matches;
        self.is_full |= other.is_full;
        other.failures.into_iter().for_each(|failure| self.push(failure));
    }

    pub fn is_valid(&self) -> bool {
        self.failures.is_empty()
    }
}

/// The longest text that is quoted: a value, a pattern, or all values of an `enum`.
pub(super) const LONGEST: usize = 16 << 10;

/// Leaves out the end of a text that is too long.
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

/// As much of a text as is shown.
pub(crate) fn quotable(text: &str) -> Cow<'_, str> {
    match text.len() > LONGEST {
        true => Cow::Owned(format!("{}...", beginning(text, LONGEST))),
        false => Cow::Borrowed(text),
    }
}

/// A value as it is shown.
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
