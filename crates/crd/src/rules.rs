//! `x-kubernetes-validations`: validation rules in CEL.
//!
//! ```text
//! shapes    types of values in expressions
//! compile   from text to programs, with errors and cost estimates
//! evaluate  evaluates the rules of an object within a cost budget
//! ```

// upstream: staging/src/k8s.io/apiserver/pkg/apis/cel/config.go

mod compile;
mod evaluate;
mod shapes;

use std::collections::HashMap;

use atoll_cel::Program;

use crate::node::NodeId;

pub(crate) use compile::compile_from;
pub use compile::{RuleReport, reports};
pub(crate) use evaluate::{BudgetExhausted, check_alone};

/// Cost limit of one expression.
const CALL_LIMIT: u64 = 1_000_000;
/// Cost budget of all rules of an object.
pub(crate) const BUDGET: i64 = 10_000_000;

/// The compiled rules of a schema, by node and whether the node is a complete object.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    /// `None` for rules on values that are not visible to expressions.
    sets: HashMap<(NodeId, bool), Option<RuleSet>>,
    /// Total size of the compiled rules, including those that were not compiled because of the limit.
    size: u64,
    /// The part of the constant patterns.
    pub(crate) patterns: u64,
}

impl Rules {
    /// Whether there are no rules.
    pub fn is_empty(&self) -> bool {
        self.sets.is_empty()
    }

    /// Whether some rules were not compiled because the total exceeds the limit.
    fn is_too_large(&self) -> bool {
        self.size > crate::limits::COMPILED
    }
}

/// The compiled rules of one node.
#[derive(Debug)]
struct RuleSet {
    shape: std::sync::Arc<atoll_cel::Shape>,
    rules: Box<[CompiledRule]>,
    uses_old: bool,
}

#[derive(Debug, Default)]
struct CompiledRule {
    /// `None` for an empty rule.
    program: Option<Program>,
    /// The compilation error.
    error: Option<Box<str>>,
    uses_old: bool,
    message: Option<Program>,
    /// The `fieldPath` of the rule.
    field_path: Box<str>,
}

impl CompiledRule {
    /// A rule that failed to compile and refuses every value.
    fn failed(error: String) -> CompiledRule {
        CompiledRule { error: Some(error.into()), ..CompiledRule::default() }
    }
}
