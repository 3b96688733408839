//! `x-kubernetes-validations`: rules in an expression language.
//!
//! ```text
//! shapes    what expressions see
//! compile   from text to programs, with what is wrong and what they may cost at most
//! evaluate  the rules of an object, under a budget
//! ```

mod compile;
mod evaluate;
mod shapes;

use std::collections::HashMap;

use atoll_cel::Program;

use crate::node::NodeId;

pub(crate) use compile::compile_from;
pub use compile::{Report, reports};
pub(crate) use evaluate::{Spent, check_alone};

/// What one expression may cost.
const CALL_LIMIT: u64 = 1_000_000;
/// What all rules of an object may cost.
pub(crate) const BUDGET: i64 = 10_000_000;

/// The compiled rules of a schema, by the node that has them and whether that is a whole object.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    /// Nothing for rules about what expressions cannot see.
    sets: HashMap<(NodeId, bool), Option<RuleSet>>,
    /// What all of them take, compiled, and those that were not compiled because it is too much.
    size: u64,
    /// What their constant patterns take of that.
    pub(crate) patterns: u64,
}

impl Rules {
    /// Whether there is nothing that could be checked.
    pub fn is_empty(&self) -> bool {
        self.sets.is_empty()
    }

    /// Whether some rules were not compiled because all together are too large.
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
    /// Nothing for a rule without text.
    program: Option<Program>,
    /// Why there is none.
    error: Option<Box<str>>,
    uses_old: bool,
    message: Option<Program>,
    /// Where the rule says that it is about.
    field_path: Box<str>,
}

impl CompiledRule {
    /// One that cannot be checked, and refuses what it is about.
    fn failed(error: String) -> CompiledRule {
        CompiledRule { error: Some(error.into()), ..CompiledRule::default() }
    }
}
