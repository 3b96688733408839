//! Label selectors: `app=web,tier in (a,b),!old`.

mod parse;

use std::fmt;

use serde_json::Value;

use crate::field::{FieldError, FieldPath, aggregate};
use crate::names;
use crate::quote::quote;

/// A conjunction of requirements.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct LabelSelector {
    /// Sorted by key.
    requirements: Vec<Requirement>,
    /// Set on the selector that matches nothing, which no requirements could express.
    nothing: bool,
}

/// How a requirement compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LabelOperator {
    /// The value is one of these.
    In,
    /// The value is none of these, or there is no such label.
    NotIn,
    /// The value is this one, written `=`.
    Equals,
    /// The value is this one, written `==`.
    DoubleEquals,
    /// The value is not this one, or there is no such label.
    NotEquals,
    /// There is such a label.
    Exists,
    /// There is no such label.
    DoesNotExist,
    /// The value is a greater integer.
    GreaterThan,
    /// The value is a smaller integer.
    LessThan,
}

/// What is asked of one label.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Requirement {
    key: String,
    operator: LabelOperator,
    values: Vec<String>,
}

impl Requirement {
    /// A requirement, if key, operator and values go together.
    ///
    /// # Errors
    ///
    /// All that is wrong, as upstream lists it; paths are relative to the given one.
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
            // Upstream's lists are nil when they are empty.
            let shown = if values.is_empty() { Value::Null } else { Value::from(values.clone()) };
            errors.push(FieldError::invalid(&values_path, shown, detail));
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

    /// The label's key.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// How the label's value is compared.
    pub fn operator(&self) -> LabelOperator {
        self.operator
    }

    /// What the label's value is compared with.
    pub fn values(&self) -> &[String] {
        &self.values
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
    /// The selector that matches everything.
    pub fn everything() -> LabelSelector {
        LabelSelector::default()
    }

    /// The selector that matches nothing, which is what a null `LabelSelector` in an object means.
    pub fn nothing() -> LabelSelector {
        LabelSelector { requirements: Vec::new(), nothing: true }
    }

    /// A conjunction of requirements.
    pub fn new(mut requirements: Vec<Requirement>) -> LabelSelector {
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        LabelSelector { requirements, nothing: false }
    }

    /// Reads a selector as it stands in a URL.
    ///
    /// # Errors
    ///
    /// Upstream's message about the first thing that is wrong.
    pub fn parse(text: &str) -> Result<LabelSelector, String> {
        parse::parse(text).map(LabelSelector::new)
    }

    /// Reads a `LabelSelector` of an object, with its `matchLabels` and `matchExpressions`.
    ///
    /// # Errors
    ///
    /// Upstream's message about the first requirement that is wrong.
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

    /// Whether an object with these labels is meant.
    pub fn matches<'a>(&self, lookup: impl Fn(&str) -> Option<&'a str>) -> bool {
        !self.nothing
            && self.requirements.iter().all(|requirement| requirement.matches(lookup(&requirement.key)))
    }

    /// Whether this matches everything.
    pub fn is_empty(&self) -> bool {
        !self.nothing && self.requirements.is_empty()
    }

    /// Whether this matches nothing, whatever the labels.
    pub fn is_nothing(&self) -> bool {
        self.nothing
    }

    /// The requirements, sorted by key.
    pub fn requirements(&self) -> &[Requirement] {
        &self.requirements
    }

    /// The one value that this label must have, if the first requirement on it asks for exactly one.
    pub fn required_exact(&self, key: &str) -> Option<&str> {
        let requirement = self.requirements.iter().find(|requirement| requirement.key == key)?;
        match (requirement.operator, requirement.values.as_slice()) {
            (LabelOperator::In | LabelOperator::Equals | LabelOperator::DoubleEquals, [value]) => Some(value),
            _ => None,
        }
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
