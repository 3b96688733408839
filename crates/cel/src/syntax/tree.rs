//! Syntax trees. All nodes are in one vector and refer to each other by index.

// upstream: github.com/google/cel-go/common/ast/expr.go

use std::sync::Arc;

use crate::value::Value;

/// Index of a node in its tree.
pub type Id = usize;

/// Name of the accumulator of macro comprehensions, which is not a valid identifier.
pub const ACCUMULATOR: &str = "@result";

/// A parsed expression.
#[derive(Debug, Clone)]
pub struct Tree {
    /// All nodes.
    pub nodes: Vec<Node>,
    /// Byte offset of each node in the text.
    pub offsets: Vec<usize>,
    /// Root node.
    pub root: Id,
}

/// A node of an expression.
#[derive(Debug, Clone)]
pub enum Node {
    /// A literal.
    Literal(Value<'static>),
    /// A variable or the name of a type; `.a` with a leading period.
    Name(Arc<str>),
    /// `operand.field`, or with `test` `has(operand.field)`.
    Select { operand: Id, field: Arc<str>, test: bool },
    /// A function, or an operator such as `_+_`.
    Call { target: Option<Id>, function: Arc<str>, arguments: Vec<Id> },
    /// A list: items, and whether each is optional.
    List { items: Vec<(Id, bool)> },
    /// A map: key, value, whether the entry is optional.
    Map { entries: Vec<(Id, Id, bool)> },
    /// A message: the name of its type, then field, value, whether it is optional, and its offset.
    Message { name: Arc<str>, fields: Vec<(Arc<str>, Id, bool, usize)> },
    /// A comprehension.
    Comprehension(Box<Comprehension>),
    /// A placeholder for an expression with an error.
    Invalid,
}

/// A comprehension, the expansion of macros.
#[derive(Debug, Clone)]
pub struct Comprehension {
    pub range: Id,
    pub variable: Arc<str>,
    /// Second variable: if present, the first is the index or key and this is the value.
    pub second: Option<Arc<str>>,
    pub accumulator: Arc<str>,
    pub start: Id,
    pub condition: Id,
    pub step: Id,
    pub result: Id,
}

impl Tree {
    /// Returns `a.b.c` as one name, if the node consists of names only.
    pub fn qualified_name(&self, id: Id) -> Option<String> {
        match &self.nodes[id] {
            Node::Name(name) => Some(name.to_string()),
            Node::Select { operand, field, test: false } => {
                let mut name = self.qualified_name(*operand)?;
                name.push('.');
                name.push_str(field);
                Some(name)
            }
            _ => None,
        }
    }
}
