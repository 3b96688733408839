//! Costs of expressions: ranges of sizes and costs for estimates, and the charge for traversing values.

// upstream: github.com/google/cel-go/checker/cost.go
// upstream: staging/src/k8s.io/apiserver/pkg/cel/library/cost.go

mod calls;
pub mod estimate;
mod path;
pub mod standard;

use crate::shape::Shape;
use crate::types::Type;
use crate::value::Value;

/// Cost of traversing one character or byte.
pub const STRING_TRAVERSAL: f64 = 0.1;
/// Cost factor of one character of a pattern, per unit of string.
pub const REGEX_LENGTH: f64 = 0.25;

/// Range of possible sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeEstimate {
    /// Minimum.
    pub min: u64,
    /// Maximum.
    pub max: u64,
}

/// Range of possible costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct CostEstimate {
    /// Minimum.
    pub min: u64,
    /// Maximum.
    pub max: u64,
}

/// Cost estimate of a call without its arguments, and the size of its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallEstimate {
    /// Cost of the call.
    pub cost: CostEstimate,
    /// Size of the result, if known.
    pub result: Option<SizeEstimate>,
}

impl CallEstimate {
    /// Creates an estimate without a result size.
    pub fn new(cost: CostEstimate) -> CallEstimate {
        CallEstimate { cost, result: None }
    }

    /// Creates an estimate with a result size.
    pub fn sized(cost: CostEstimate, result: SizeEstimate) -> CallEstimate {
        CallEstimate { cost, result: Some(result) }
    }
}

impl SizeEstimate {
    /// Unknown size.
    pub const UNKNOWN: SizeEstimate = SizeEstimate { min: 0, max: u64::MAX };

    /// Creates an exact size.
    pub fn fixed(size: u64) -> SizeEstimate {
        SizeEstimate { min: size, max: size }
    }

    /// Adds two sizes.
    pub fn plus(self, other: SizeEstimate) -> SizeEstimate {
        SizeEstimate { min: self.min.saturating_add(other.min), max: self.max.saturating_add(other.max) }
    }

    /// Multiplies two sizes.
    pub fn times(self, other: SizeEstimate) -> SizeEstimate {
        SizeEstimate { min: self.min.saturating_mul(other.min), max: self.max.saturating_mul(other.max) }
    }

    /// Returns the range that covers both sizes.
    pub fn union(self, other: SizeEstimate) -> SizeEstimate {
        SizeEstimate { min: self.min.min(other.min), max: self.max.max(other.max) }
    }

    /// Multiplies by a cost factor per unit.
    pub fn at(self, unit: f64) -> CostEstimate {
        CostEstimate { min: scale(self.min, unit), max: scale(self.max, unit) }
    }

    /// Multiplies by a cost per unit.
    pub fn times_cost(self, cost: CostEstimate) -> CostEstimate {
        CostEstimate { min: self.min.saturating_mul(cost.min), max: self.max.saturating_mul(cost.max) }
    }
}

impl CostEstimate {
    /// Creates an exact cost.
    pub fn fixed(cost: u64) -> CostEstimate {
        CostEstimate { min: cost, max: cost }
    }

    /// Adds two costs.
    pub fn plus(self, other: CostEstimate) -> CostEstimate {
        CostEstimate { min: self.min.saturating_add(other.min), max: self.max.saturating_add(other.max) }
    }

    /// Multiplies two costs.
    pub fn times(self, other: CostEstimate) -> CostEstimate {
        CostEstimate { min: self.min.saturating_mul(other.min), max: self.max.saturating_mul(other.max) }
    }

    /// Returns the range that covers both costs.
    pub fn union(self, other: CostEstimate) -> CostEstimate {
        CostEstimate { min: self.min.min(other.min), max: self.max.max(other.max) }
    }

    /// Multiplies by a factor, rounding up.
    pub fn at(self, factor: f64) -> CostEstimate {
        CostEstimate { min: scale(self.min, factor), max: scale(self.max, factor) }
    }
}

/// Multiplies, rounding up and saturating.
fn scale(number: u64, factor: f64) -> u64 {
    // A cast to an integer saturates.
    (number as f64 * factor).ceil() as u64
}

/// Returns the cost of a size at a factor per unit, rounded up.
pub fn charge(size: u64, unit: f64) -> u64 {
    scale(size, unit)
}

/// Returns the size of a value for costs: 1 for values without a size.
pub fn actual_size(value: &Value<'_>) -> u64 {
    match value {
        Value::Optional(Some(value)) => actual_size(value),
        value => value.size().unwrap_or(1),
    }
}

/// Returns the cost of traversing a whole value.
pub fn traversal_cost(value: &Value<'_>) -> u64 {
    match value {
        Value::String(text) => (text.len() as f64 * STRING_TRAVERSAL) as u64,
        Value::Bytes(bytes) => (bytes.len() as f64 * STRING_TRAVERSAL) as u64,
        Value::List(list) => list.iter().map(|item| item.map_or(1, |item| traversal_cost(&item))).sum(),
        Value::Map(map) => {
            let entries = map.keys().into_iter().map(|key| {
                let value = map.find(&key).ok().flatten().map_or(1, |value| traversal_cost(&value));
                traversal_cost(&key) + value
            });
            entries.sum()
        }
        _ => 1,
    }
}

/// A node as cost estimators see it.
#[derive(Clone, Debug)]
pub struct Node<'a> {
    /// Path from a variable: names of fields, `@items`, `@keys` and `@values`. Empty if the node is not
    /// reached from a variable.
    pub path: Vec<String>,
    /// Type of the node.
    pub kind: Type,
    /// The value of a literal.
    pub literal: Option<&'a Value<'static>>,
    /// Size as computed from the expression.
    pub computed: Option<SizeEstimate>,
}

/// Size estimates of variables.
#[derive(Debug)]
pub struct Sizes<'a> {
    /// The shape of the variables. As upstream, every path is followed from this root, whatever variable it
    /// starts with.
    pub root: Option<&'a Shape>,
}

impl Sizes<'_> {
    /// Returns the size of a node: as computed, by its path, or unknown.
    pub fn of(&self, node: &Node<'_>) -> SizeEstimate {
        node.computed.or_else(|| self.by_path(&node.path)).unwrap_or(SizeEstimate::UNKNOWN)
    }

    /// Returns the items of a list or the keys of a map, or `None` for a type without parameters.
    pub fn items<'n>(&self, node: &Node<'n>) -> Option<Node<'n>> {
        let kind = node.kind.parameters().first()?.clone();
        let path = match node.path.is_empty() {
            true => Vec::new(),
            false => node.path.iter().cloned().chain(["@items".to_owned()]).collect(),
        };
        Some(Node { path, kind, literal: None, computed: None })
    }

    /// Returns the size at the end of a path, if the shape bounds it.
    pub fn by_path(&self, path: &[String]) -> Option<SizeEstimate> {
        let bound = self.root?.bound_at(path.get(1..)?)?;
        Some(SizeEstimate { min: 0, max: bound })
    }
}
