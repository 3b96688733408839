//! A compiled schema.

use std::sync::OnceLock;

use serde_json::Value;

use crate::compile::{self, CompileMode};
use crate::limits;
use crate::node::{Flags, Node, NodeId, Shape};
use crate::rules::Rules;

/// The compiled schema of a version.
#[derive(Debug)]
pub struct Schema {
    pub(crate) nodes: Box<[Node]>,
    pub(crate) root: NodeId,
    /// Whether unknown fields are preserved everywhere, as in definitions from `v1beta1`.
    pub(crate) preserves: bool,
    /// Compiled at the first validation.
    pub(crate) rules: OnceLock<Rules>,
    /// Estimated size of the compiled patterns.
    pub(crate) patterns: u64,
}

/// The origin of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A request: malformed metadata is refused.
    Request,
    /// The store: malformed metadata is dropped.
    Storage,
}

impl Schema {
    /// Compiles `openAPIV3Schema`. Without a schema all fields are pruned, unless `preserves` is set.
    pub fn compile(schema: Option<&Value>, preserves: bool) -> Schema {
        compile::schema(schema, preserves, CompileMode::Objects)
    }

    /// The structure of the schema.
    pub fn shape(&self) -> Shape<'_> {
        Shape { nodes: &self.nodes, node: self.node(self.root) }
    }

    /// Whether the schema has rules.
    pub fn has_rules(&self) -> bool {
        self.node(self.root).is(Flags::HOLDS_RULES)
    }

    /// Whether validating an object may be slow in a way that a deadline does not interrupt: because of
    /// compilation, or because large patterns are matched with long texts.
    pub fn is_slow(&self, object: &Value) -> bool {
        let in_rules = match self.rules.get() {
            _ if !self.has_rules() => 0,
            Some(rules) => rules.patterns,
            None => return true,
        };
        let patterns = self.patterns.saturating_add(in_rules);
        patterns > limits::SLOW || patterns > 0 && patterns.saturating_mul(texts(object)) > limits::SLOW_MATCH
    }

    /// Number of distinct nodes.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether the schema is empty.
    pub fn is_empty(&self) -> bool {
        self.nodes.len() <= 1
    }

    pub(crate) fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0 as usize]
    }

    pub(crate) fn root(&self) -> &Node {
        self.node(self.root)
    }
}

/// Total length of all strings in a value.
fn texts(value: &Value) -> u64 {
    match value {
        Value::String(text) => text.len() as u64,
        Value::Array(items) => items.iter().map(texts).sum(),
        Value::Object(fields) => fields.values().map(texts).sum(),
        _ => 0,
    }
}
