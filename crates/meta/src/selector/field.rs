//! Field selectors: `metadata.name=web,status.phase!=Failed`.

// upstream: staging/src/k8s.io/apimachinery/pkg/fields/selector.go

mod index;

use std::fmt;
use std::hash::{Hash, Hasher};
use std::mem::size_of;

use self::index::FieldIndex;
use super::allocated;

/// A conjunction of comparisons.
#[derive(Clone, Debug, Default)]
pub struct FieldSelector {
    terms: Vec<FieldTerm>,
    /// The comparisons of a long selector, combined.
    index: Option<Box<FieldIndex>>,
}

/// A comparison operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FieldOperator {
    /// Equal.
    Eq,
    /// Not equal.
    NotEq,
}

/// One comparison.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FieldTerm {
    /// Path of the field, such as `status.phase`.
    pub field: String,
    /// Operator.
    pub operator: FieldOperator,
    /// Value to compare with.
    pub value: String,
}

impl FieldSelector {
    /// Returns the selector that matches everything.
    pub fn everything() -> FieldSelector {
        FieldSelector::default()
    }

    /// Creates a conjunction of comparisons.
    pub fn new(mut terms: Vec<FieldTerm>) -> FieldSelector {
        terms.shrink_to_fit();
        let index = FieldIndex::new(&terms);
        FieldSelector { terms, index }
    }

    /// Creates the selector for one value of one field.
    pub fn equals(field: &str, value: &str) -> FieldSelector {
        let term =
            FieldTerm { field: field.to_owned(), operator: FieldOperator::Eq, value: value.to_owned() };
        FieldSelector::new(vec![term])
    }

    /// Parses a selector of a URL. Backslashes, commas and equal signs in values are escaped by a backslash.
    ///
    /// # Errors
    ///
    /// Returns upstream's message about the first mistake.
    pub fn parse(text: &str) -> Result<FieldSelector, String> {
        let mut parts = split_terms(text);
        parts.sort_unstable();
        let mut terms = Vec::new();
        for part in parts {
            if part.is_empty() {
                continue;
            }
            let Some((field, operator, value)) = split_term(part) else {
                return Err(format!("invalid selector: '{text}'; can't understand '{part}'"));
            };
            let term = FieldTerm { field: field.to_owned(), operator, value: unescape(value)? };
            // Upstream drops an empty comparison.
            if !term.field.is_empty() || !term.value.is_empty() {
                terms.push(term);
            }
        }
        Ok(FieldSelector::new(terms))
    }

    /// Whether an object with these fields matches. An absent field counts as empty. Each field is looked up
    /// once if there are many comparisons.
    pub fn matches<T: AsRef<str>>(&self, lookup: impl Fn(&str) -> Option<T>) -> bool {
        if let Some(index) = &self.index {
            return index.matches(&self.terms, lookup);
        }
        self.terms.iter().all(|term| {
            let actual = lookup(&term.field);
            let is_equal = actual.as_ref().map_or("", AsRef::as_ref) == term.value;
            is_equal == (term.operator == FieldOperator::Eq)
        })
    }

    /// Whether this matches everything.
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// Whether there are more comparisons than in almost all selectors.
    pub fn is_long(&self) -> bool {
        self.index.is_some()
    }

    /// Returns the number of lookups of a match.
    pub fn lookups(&self) -> usize {
        self.index.as_ref().map_or(self.terms.len(), |index| index.fields())
    }

    /// Returns the approximate number of bytes in memory.
    pub fn memory(&self) -> usize {
        let texts =
            self.terms.iter().map(|term| allocated(term.field.capacity()) + allocated(term.value.capacity()));
        let terms = self.terms.capacity() * size_of::<FieldTerm>() + texts.sum::<usize>();
        terms + self.index.as_ref().map_or(0, |index| index.memory())
    }

    /// Returns the comparisons in upstream's order.
    pub fn terms(&self) -> &[FieldTerm] {
        &self.terms
    }

    /// Returns the value that this field must have, if there is one.
    pub fn required_exact(&self, field: &str) -> Option<&str> {
        let is_exact = |term: &&FieldTerm| term.operator == FieldOperator::Eq && term.field == field;
        self.terms.iter().find(is_exact).map(|term| term.value.as_str())
    }

    /// Applies a function to each field and value, for example because field names differ between versions.
    /// An empty comparison is dropped.
    ///
    /// # Errors
    ///
    /// Returns the first error of the function.
    pub fn transform<E>(
        &self,
        mut function: impl FnMut(&str, &str) -> Result<(String, String), E>,
    ) -> Result<FieldSelector, E> {
        let mut terms = Vec::with_capacity(self.terms.len());
        for term in &self.terms {
            let (field, value) = function(&term.field, &term.value)?;
            if !field.is_empty() || !value.is_empty() {
                terms.push(FieldTerm { field, operator: term.operator, value });
            }
        }
        Ok(FieldSelector::new(terms))
    }
}

// The index depends on the comparisons only.
impl PartialEq for FieldSelector {
    fn eq(&self, other: &FieldSelector) -> bool {
        self.terms == other.terms
    }
}

impl Eq for FieldSelector {}

impl Hash for FieldSelector {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.terms.hash(state);
    }
}

/// Splits at commas that are not escaped.
fn split_terms(text: &str) -> Vec<&str> {
    if text.is_empty() {
        return Vec::new();
    }
    let mut terms = Vec::new();
    let mut start = 0;
    let mut escaped = false;
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b',' => {
                terms.push(&text[start..index]);
                start = index + 1;
            }
            _ => {}
        }
    }
    terms.push(&text[start..]);
    terms
}

/// Splits at the first operator; field names have no escapes.
fn split_term(term: &str) -> Option<(&str, FieldOperator, &str)> {
    for (index, _) in term.char_indices() {
        let rest = &term[index..];
        for (sign, operator) in
            [("!=", FieldOperator::NotEq), ("==", FieldOperator::Eq), ("=", FieldOperator::Eq)]
        {
            if let Some(value) = rest.strip_prefix(sign) {
                return Some((&term[..index], operator, value));
            }
        }
    }
    None
}

fn unescape(text: &str) -> Result<String, String> {
    if !text.contains(['\\', ',', '=']) {
        return Ok(text.to_owned());
    }
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some(escaped @ ('\\' | ',' | '=')) => out.push(escaped),
                Some(other) => {
                    return Err(format!("invalid field selector: invalid escape sequence: \\{other}"));
                }
                None => return Err("invalid field selector: invalid escape sequence: \\".to_owned()),
            },
            // Upstream prints the code point of the character.
            ',' | '=' => {
                let number = u32::from(character);
                return Err(format!("invalid field selector: unescaped character in value: {number}"));
            }
            other => out.push(other),
        }
    }
    Ok(out)
}

impl fmt::Display for FieldTerm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.field)?;
        f.write_str(match self.operator {
            FieldOperator::Eq => "=",
            FieldOperator::NotEq => "!=",
        })?;
        for character in self.value.chars() {
            if matches!(character, '\\' | ',' | '=') {
                f.write_str("\\")?;
            }
            write!(f, "{character}")?;
        }
        Ok(())
    }
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, term) in self.terms.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            write!(f, "{term}")?;
        }
        Ok(())
    }
}

impl std::str::FromStr for FieldSelector {
    type Err = String;

    fn from_str(text: &str) -> Result<FieldSelector, String> {
        FieldSelector::parse(text)
    }
}

#[cfg(test)]
mod tests;
