//! What expressions cost: sizes and costs as ranges, for estimates, and what is charged for walking over values.

mod calls;
pub mod estimate;
mod path;
pub mod standard;

use crate::shape::Shape;
use crate::types::Type;
use crate::value::Value;

/// What walking over one character or byte costs.
pub const STRING_TRAVERSAL: f64 = 0.1;
/// What one character of a pattern costs for each unit of text.
pub const REGEX_LENGTH: f64 = 0.25;

/// From how much to how much something may be long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeEstimate {
    /// At least.
    pub min: u64,
    /// At most.
    pub max: u64,
}

/// From how much to how much something may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct CostEstimate {
    /// At least.
    pub min: u64,
    /// At most.
    pub max: u64,
}

/// What a call may cost without its arguments, and how large its result may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallEstimate {
    /// What it costs.
    pub cost: CostEstimate,
    /// How large its result is, if it says so.
    pub result: Option<SizeEstimate>,
}

impl CallEstimate {
    /// A call that costs this.
    pub fn new(cost: CostEstimate) -> CallEstimate {
        CallEstimate { cost, result: None }
    }

    /// A call that costs this and has a result of this size.
    pub fn sized(cost: CostEstimate, result: SizeEstimate) -> CallEstimate {
        CallEstimate { cost, result: Some(result) }
    }
}

impl SizeEstimate {
    /// Nothing is known.
    pub const UNKNOWN: SizeEstimate = SizeEstimate { min: 0, max: u64::MAX };

    /// Exactly this.
    pub fn fixed(size: u64) -> SizeEstimate {
        SizeEstimate { min: size, max: size }
    }

    /// Both after each other.
    pub fn plus(self, other: SizeEstimate) -> SizeEstimate {
        SizeEstimate { min: self.min.saturating_add(other.min), max: self.max.saturating_add(other.max) }
    }

    /// So many of those.
    pub fn times(self, other: SizeEstimate) -> SizeEstimate {
        SizeEstimate { min: self.min.saturating_mul(other.min), max: self.max.saturating_mul(other.max) }
    }

    /// One or the other.
    pub fn union(self, other: SizeEstimate) -> SizeEstimate {
        SizeEstimate { min: self.min.min(other.min), max: self.max.max(other.max) }
    }

    /// What it costs at so much a unit.
    pub fn at(self, unit: f64) -> CostEstimate {
        CostEstimate { min: scale(self.min, unit), max: scale(self.max, unit) }
    }

    /// What it costs at such a cost a unit.
    pub fn times_cost(self, cost: CostEstimate) -> CostEstimate {
        CostEstimate { min: self.min.saturating_mul(cost.min), max: self.max.saturating_mul(cost.max) }
    }
}

impl CostEstimate {
    /// Exactly this.
    pub fn fixed(cost: u64) -> CostEstimate {
        CostEstimate { min: cost, max: cost }
    }

    /// Both after each other.
    pub fn plus(self, other: CostEstimate) -> CostEstimate {
        CostEstimate { min: self.min.saturating_add(other.min), max: self.max.saturating_add(other.max) }
    }

    /// One for each of the other.
    pub fn times(self, other: CostEstimate) -> CostEstimate {
        CostEstimate { min: self.min.saturating_mul(other.min), max: self.max.saturating_mul(other.max) }
    }

    /// One or the other.
    pub fn union(self, other: CostEstimate) -> CostEstimate {
        CostEstimate { min: self.min.min(other.min), max: self.max.max(other.max) }
    }

    /// So many times as much, rounded up.
    pub fn at(self, factor: f64) -> CostEstimate {
        CostEstimate { min: scale(self.min, factor), max: scale(self.max, factor) }
    }
}

/// A product, rounded up, that stays at the largest number.
fn scale(number: u64, factor: f64) -> u64 {
    // A cast to an integer saturates.
    (number as f64 * factor).ceil() as u64
}

/// What a length costs at so much a unit, rounded up.
pub fn charge(size: u64, unit: f64) -> u64 {
    scale(size, unit)
}

/// The size of a value for costs: 1 for what has none.
pub fn actual_size(value: &Value<'_>) -> u64 {
    match value {
        Value::Optional(Some(value)) => actual_size(value),
        value => value.size().unwrap_or(1),
    }
}

/// What walking over a whole value costs.
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

/// A part of an expression, for estimates.
#[derive(Clone, Debug)]
pub struct Node<'a> {
    /// How it is reached from a variable: names of fields, `@items`, `@keys` and `@values`. Empty if it is not.
    pub path: Vec<String>,
    /// Its type.
    pub kind: Type,
    /// The value, if it is written down as one.
    pub literal: Option<&'a Value<'static>>,
    /// Its size as far as the expression tells it.
    pub computed: Option<SizeEstimate>,
}

/// What is known of the sizes of variables.
#[derive(Debug)]
pub struct Sizes<'a> {
    /// What the variables look like. As upstream does, every path is followed from here whatever variable it begins with.
    pub root: Option<&'a Shape>,
}

impl Sizes<'_> {
    /// The size of a part: as computed, by its path, or unknown.
    pub fn of(&self, node: &Node<'_>) -> SizeEstimate {
        node.computed.or_else(|| self.by_path(&node.path)).unwrap_or(SizeEstimate::UNKNOWN)
    }

    /// The items of a list (or the keys of a map), or nothing if the type has no parameters.
    pub fn items<'n>(&self, node: &Node<'n>) -> Option<Node<'n>> {
        let kind = node.kind.parameters().first()?.clone();
        let path = match node.path.is_empty() {
            true => Vec::new(),
            false => node.path.iter().cloned().chain(["@items".to_owned()]).collect(),
        };
        Some(Node { path, kind, literal: None, computed: None })
    }

    /// The size of what a path leads to, if the shape says so.
    pub fn by_path(&self, path: &[String]) -> Option<SizeEstimate> {
        let bound = self.root?.bound_at(path.get(1..)?)?;
        Some(SizeEstimate { min: 0, max: bound })
    }
}
