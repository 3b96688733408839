//! Label selectors: `app=web,tier in (a,b),!old`.

// upstream: staging/src/k8s.io/apimachinery/pkg/labels/selector.go
// upstream: staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/helpers.go

mod index;
mod parse;
mod set;

use std::fmt;
use std::hash::{Hash, Hasher};
use std::mem::size_of;

use serde_json::Value;

use crate::field::{FieldError, FieldPath, aggregate};
use crate::names;
use crate::quote::quote;
use crate::selector::allocated;

use self::index::LabelIndex;
pub use self::set::LabelSet;

/// A conjunction of requirements.
#[derive(Clone, Debug, Default)]
pub struct LabelSelector {
    /// Sorted by key.
    requirements: Vec<Requirement>,
    /// The requirements of a long selector, combined.
    index: Option<Box<LabelIndex>>,
    /// Whether the selector matches nothing, which requirements cannot express.
    nothing: bool,
}

/// The operator of a requirement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LabelOperator {
    /// The value is one of these.
    In,
    /// The value is none of these, or the label is absent.
    NotIn,
    /// The value equals, written `=`.
    Equals,
    /// The value equals, written `==`.
    DoubleEquals,
    /// The value differs, or the label is absent.
    NotEquals,
    /// The label is present.
    Exists,
    /// The label is absent.
    DoesNotExist,
    /// The value is a greater integer.
    GreaterThan,
    /// The value is a smaller integer.
    LessThan,
}

impl LabelOperator {
    /// Whether an object without the label does not match.
    fn is_required(self) -> bool {
        !matches!(self, LabelOperator::NotIn | LabelOperator::NotEquals | LabelOperator::DoesNotExist)
    }
}

/// A requirement on one label.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Requirement {
    key: String,
    operator: LabelOperator,
    values: Vec<String>,
}

impl Requirement {
    /// Creates a requirement.
    ///
    /// # Errors
    ///
    /// Returns all mistakes in upstream's order; paths are relative to the given one.
    pub fn new(
        key: &str,
        operator: LabelOperator,
        values: Vec<String>,
        path: &FieldPath,
    ) -> Result<Requirement, Vec<FieldError>> {
        let mut errors = Vec::new();
        let broken = names::qualified_name(key);
        if !broken.is_empty() {
            errors.push(FieldError::invalid(&path.child("key"), key, broken.join("; ")));
        }
        let values_path = path.child("values");
        let mut wrong_count = |detail: &str| {
            // Upstream's empty lists are nil.
            let rendered = if values.is_empty() { Value::Null } else { Value::from(values.clone()) };
            errors.push(FieldError::invalid(&values_path, rendered, detail));
        };
        match operator {
            LabelOperator::In | LabelOperator::NotIn if values.is_empty() => {
                wrong_count("for 'in', 'notin' operators, values set can't be empty");
            }
            LabelOperator::Equals | LabelOperator::DoubleEquals | LabelOperator::NotEquals
                if values.len() != 1 =>
            {
                wrong_count("exact-match compatibility requires one single value");
            }
            LabelOperator::Exists | LabelOperator::DoesNotExist if !values.is_empty() => {
                wrong_count("values set must be empty for exists and does not exist");
            }
            LabelOperator::GreaterThan | LabelOperator::LessThan => {
                if values.len() != 1 {
                    wrong_count("for 'Gt', 'Lt' operators, exactly one value is required");
                }
                for (index, value) in values.iter().enumerate() {
                    if value.parse::<i64>().is_err() {
                        let detail = "for 'Gt', 'Lt' operators, the value must be an integer";
                        errors.push(FieldError::invalid(&values_path.index(index), value.as_str(), detail));
                    }
                }
            }
            _ => {}
        }
        for (index, value) in values.iter().enumerate() {
            let broken = names::label_value(value);
            if !broken.is_empty() {
                let path = values_path.index(index).key(key);
                errors.push(FieldError::invalid(&path, value.as_str(), broken.join("; ")));
            }
        }
        if errors.is_empty() {
            Ok(Requirement { key: key.to_owned(), operator, values })
        } else {
            Err(errors)
        }
    }

    /// Returns the key of the label.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns the operator.
    pub fn operator(&self) -> LabelOperator {
        self.operator
    }

    /// Returns the values to compare with.
    pub fn values(&self) -> &[String] {
        &self.values
    }

    /// Returns the number of comparisons that a match needs.
    fn comparisons(&self) -> usize {
        self.values.len().max(1)
    }

    fn matches(&self, actual: Option<&str>) -> bool {
        let is_listed = |actual: &str| self.values.iter().any(|value| value == actual);
        match self.operator {
            LabelOperator::In | LabelOperator::Equals | LabelOperator::DoubleEquals => {
                actual.is_some_and(is_listed)
            }
            LabelOperator::NotIn | LabelOperator::NotEquals => !actual.is_some_and(is_listed),
            LabelOperator::Exists => actual.is_some(),
            LabelOperator::DoesNotExist => actual.is_none(),
            LabelOperator::GreaterThan | LabelOperator::LessThan => {
                let integer = |text: &str| text.parse::<i64>().ok();
                match (actual.and_then(integer), self.values.first().and_then(|value| integer(value))) {
                    (Some(actual), Some(bound)) if self.operator == LabelOperator::GreaterThan => {
                        actual > bound
                    }
                    (Some(actual), Some(bound)) => actual < bound,
                    _ => false,
                }
            }
        }
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (before, after) = match self.operator {
            LabelOperator::Exists => return f.write_str(&self.key),
            LabelOperator::DoesNotExist => return write!(f, "!{}", self.key),
            LabelOperator::Equals => ("=", ""),
            LabelOperator::DoubleEquals => ("==", ""),
            LabelOperator::NotEquals => ("!=", ""),
            LabelOperator::GreaterThan => (">", ""),
            LabelOperator::LessThan => ("<", ""),
            LabelOperator::In => (" in (", ")"),
            LabelOperator::NotIn => (" notin (", ")"),
        };
        let mut values: Vec<&str> = self.values.iter().map(String::as_str).collect();
        values.sort_unstable();
        write!(f, "{}{before}{}{after}", self.key, values.join(","))
    }
}

impl LabelSelector {
    /// Returns the selector that matches everything.
    pub fn everything() -> LabelSelector {
        LabelSelector::default()
    }

    /// Returns the selector that matches nothing, which is the meaning of a null `LabelSelector` in an
    /// object.
    pub fn nothing() -> LabelSelector {
        LabelSelector { nothing: true, ..LabelSelector::default() }
    }

    /// Creates a conjunction of requirements.
    pub fn new(mut requirements: Vec<Requirement>) -> LabelSelector {
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        requirements.shrink_to_fit();
        let index = LabelIndex::new(&requirements);
        LabelSelector { requirements, index, nothing: false }
    }

    /// Parses a selector of a URL.
    ///
    /// # Errors
    ///
    /// Returns upstream's message about the first mistake.
    pub fn parse(text: &str) -> Result<LabelSelector, String> {
        parse::parse(text).map(LabelSelector::new)
    }

    /// Converts a `LabelSelector` of an object, with its `matchLabels` and `matchExpressions`.
    ///
    /// # Errors
    ///
    /// Returns upstream's message about the first invalid requirement.
    pub fn from_object(selector: &Value) -> Result<LabelSelector, String> {
        if selector.is_null() {
            return Ok(LabelSelector::nothing());
        }
        let nil = FieldPath::nil();
        let mut requirements = Vec::new();
        for (key, value) in selector.get("matchLabels").and_then(Value::as_object).into_iter().flatten() {
            let values = vec![value.as_str().unwrap_or_default().to_owned()];
            let requirement = Requirement::new(key, LabelOperator::Equals, values, &nil);
            requirements.push(requirement.map_err(|errors| aggregate(&errors))?);
        }
        for expression in selector.get("matchExpressions").and_then(Value::as_array).into_iter().flatten() {
            let text = |key: &str| expression.get(key).and_then(Value::as_str).unwrap_or_default();
            let operator = match text("operator") {
                "In" => LabelOperator::In,
                "NotIn" => LabelOperator::NotIn,
                "Exists" => LabelOperator::Exists,
                "DoesNotExist" => LabelOperator::DoesNotExist,
                other => return Err(format!("{} is not a valid label selector operator", quote(other))),
            };
            let values = expression.get("values").and_then(Value::as_array).map_or_else(Vec::new, |values| {
                values.iter().map(|value| value.as_str().unwrap_or_default().to_owned()).collect()
            });
            let requirement = Requirement::new(text("key"), operator, values, &nil);
            requirements.push(requirement.map_err(|errors| aggregate(&errors))?);
        }
        Ok(LabelSelector::new(requirements))
    }

    /// Whether an object with these labels matches. Each key is looked up once if there are many requirements.
    pub fn matches<'a>(&self, lookup: impl Fn(&str) -> Option<&'a str>) -> bool {
        if self.nothing {
            return false;
        }
        match &self.index {
            Some(index) => index.matches(&self.requirements, lookup),
            None => self.requirements.iter().all(|requirement| requirement.matches(lookup(&requirement.key))),
        }
    }

    /// Whether an object with these labels matches. The cost does not exceed that of looking up each label in
    /// the selector, however long the selector is.
    pub fn matches_labels(&self, labels: &impl LabelSet) -> bool {
        match &self.index {
            Some(index) => !self.nothing && index.matches_labels(&self.requirements, labels),
            None => self.matches(|key| labels.label(key)),
        }
    }

    /// Whether there are more requirements than in almost all selectors.
    pub fn is_long(&self) -> bool {
        self.index.is_some()
    }

    /// Returns the maximum number of lookups of a match with an object that has any number of labels.
    pub fn lookups(&self) -> usize {
        self.index.as_ref().map_or(self.requirements.len(), |index| index.keys())
    }

    /// Returns the approximate number of bytes in memory.
    pub fn memory(&self) -> usize {
        let texts = self.requirements.iter().map(|requirement| {
            let values = requirement.values.iter().map(|value| allocated(value.capacity()));
            let list = allocated(requirement.values.capacity() * size_of::<String>());
            allocated(requirement.key.capacity()) + list + values.sum::<usize>()
        });
        let requirements = self.requirements.capacity() * size_of::<Requirement>();
        requirements + texts.sum::<usize>() + self.index.as_ref().map_or(0, |index| index.memory())
    }

    /// Whether this matches everything.
    pub fn is_empty(&self) -> bool {
        !self.nothing && self.requirements.is_empty()
    }

    /// Whether this matches nothing, whatever the labels.
    pub fn is_nothing(&self) -> bool {
        self.nothing
    }

    /// Returns the requirements, sorted by key.
    pub fn requirements(&self) -> &[Requirement] {
        &self.requirements
    }

    /// Returns the only value that this label may have, if the first requirement on it allows exactly one.
    pub fn required_exact(&self, key: &str) -> Option<&str> {
        let requirement = self.requirements.iter().find(|requirement| requirement.key == key)?;
        match (requirement.operator, requirement.values.as_slice()) {
            (LabelOperator::In | LabelOperator::Equals | LabelOperator::DoubleEquals, [value]) => Some(value),
            _ => None,
        }
    }
}

// The index depends on the requirements only.
impl PartialEq for LabelSelector {
    fn eq(&self, other: &LabelSelector) -> bool {
        (&self.requirements, self.nothing) == (&other.requirements, other.nothing)
    }
}

impl Eq for LabelSelector {}

impl Hash for LabelSelector {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.requirements, self.nothing).hash(state);
    }
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.requirements.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            write!(f, "{requirement}")?;
        }
        Ok(())
    }
}

impl std::str::FromStr for LabelSelector {
    type Err = String;

    fn from_str(text: &str) -> Result<LabelSelector, String> {
        LabelSelector::parse(text)
    }
}

#[cfg(test)]
mod tests;
