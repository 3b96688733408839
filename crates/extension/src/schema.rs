//! A compiled schema.

use std::sync::OnceLock;

use serde_json::Value;

use crate::compile::{self, Dialect};
use crate::limits;
use crate::node::{Flags, Node, NodeId, Shape};
use crate::rules::Rules;

/// What a version of a definition says about its objects.
#[derive(Debug)]
pub struct Schema {
    pub(crate) nodes: Box<[Node]>,
    pub(crate) root: NodeId,
    /// Whether unknown fields are kept everywhere, as definitions of old could say.
    pub(crate) preserves: bool,
    /// Compiled when an object is first checked.
    pub(crate) rules: OnceLock<Rules>,
    /// What its patterns take, compiled, estimated.
    pub(crate) patterns: u64,
}

/// Where an object comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A request: what is malformed is refused.
    Request,
    /// The store: what is malformed is dropped.
    Storage,
}

impl Schema {
    /// Compiles what stands in `openAPIV3Schema`; nothing there says nothing but that all fields are dropped, unless
    /// `preserves` is set.
    pub fn compile(schema: Option<&Value>, preserves: bool) -> Schema {
        compile::schema(schema, preserves, Dialect::Served)
    }

    /// The structure: what is a field, a map, a list with keys.
    pub fn shape(&self) -> Shape<'_> {
        Shape { nodes: &self.nodes, node: self.node(self.root) }
    }

    /// Whether there are rules in it.
    pub fn has_rules(&self) -> bool {
        self.node(self.root).is(Flags::HOLDS_RULES)
    }

    /// Whether checking an object may take long in a way that a deadline does not end: because much has to be compiled first, or
    /// large patterns meet long texts.
    pub fn is_slow(&self, object: &Value) -> bool {
        let in_rules = match self.rules.get() {
            _ if !self.has_rules() => 0,
            Some(rules) => rules.patterns,
            None => return true,
        };
        let patterns = self.patterns.saturating_add(in_rules);
        patterns > limits::SLOW || patterns > 0 && patterns.saturating_mul(texts(object)) > limits::SLOW_MATCH
    }

    /// How many different nodes there are.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether nothing is said.
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

/// How long all texts in a value are together.
fn texts(value: &Value) -> u64 {
    match value {
        Value::String(text) => text.len() as u64,
        Value::Array(items) => items.iter().map(texts).sum(),
        Value::Object(fields) => fields.values().map(texts).sum(),
        _ => 0,
    }
}
