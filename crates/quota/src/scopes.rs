//! Scopes of a quota, which restrict the objects that it counts.

// upstream: pkg/quota/v1/evaluator/core/pods.go
// upstream: pkg/apis/core/v1/helper/helpers.go

use std::fmt;

use atoll_meta::field::{FieldPath, aggregate};
use atoll_meta::selector::{LabelOperator, LabelSelector, Requirement};
use serde_json::Value;

/// A scope of a quota.
#[derive(Clone, Debug)]
pub struct Scope {
    pub name: String,
    operator: String,
    values: Vec<String>,
}

impl Scope {
    pub fn exists(name: &str) -> Scope {
        Scope { name: name.into(), operator: "Exists".into(), values: Vec::new() }
    }

    pub fn read(expression: &Value) -> Scope {
        let text = |field: &str| expression[field].as_str().unwrap_or_default().to_string();
        let values = expression["values"].as_array().into_iter().flatten();
        Scope {
            name: text("scopeName"),
            operator: text("operator"),
            values: values.filter_map(Value::as_str).map(str::to_string).collect(),
        }
    }

    pub fn is_exists(&self) -> bool {
        self.operator == "Exists"
    }

    /// Whether one of these values, or their absence, matches the scope.
    pub fn selects(&self, values: &[&str]) -> Result<bool, String> {
        let operator = match self.operator.as_str() {
            "In" => LabelOperator::In,
            "NotIn" => LabelOperator::NotIn,
            "Exists" => LabelOperator::Exists,
            "DoesNotExist" => LabelOperator::DoesNotExist,
            other => {
                return Err(selector_error(&format!("{other:?} is not a valid scope selector operator")));
            }
        };
        let requirement = Requirement::new(&self.name, operator, self.values.clone(), &FieldPath::nil())
            .map_err(|errors| selector_error(&aggregate(&errors)))?;
        let selector = LabelSelector::new(vec![requirement]);
        if values.is_empty() {
            return Ok(selector.matches(|_| None));
        }
        Ok(values.iter().any(|value| selector.matches(|_| Some(*value))))
    }
}

fn selector_error(cause: &str) -> String {
    format!("failed to parse and convert selector: {cause}")
}

/// Formats the scope as Go does.
impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{} {} [{}]}}", self.name, self.operator, self.values.join(" "))
    }
}
