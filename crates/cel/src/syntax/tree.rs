//! Expressions as trees. Nodes lie in one row and know each other by their place in it.

use std::sync::Arc;

use crate::value::Value;

/// A node's place in its tree.
pub type Id = usize;

/// The accumulator of the loops that macros make; no name in a text can be this one.
pub const ACCUMULATOR: &str = "@result";

/// An expression.
#[derive(Debug, Clone)]
pub struct Tree {
    /// All nodes.
    pub nodes: Vec<Node>,
    /// Where each is in the text, in bytes.
    pub offsets: Vec<usize>,
    /// The whole.
    pub root: Id,
}

/// A part of an expression.
#[derive(Debug, Clone)]
pub enum Node {
    /// A value that is written down.
    Literal(Value<'static>),
    /// A variable, or the name of a type; `.a` with a point before it.
    Name(Arc<str>),
    /// `operand.field`, or with `test` `has(operand.field)`.
    Select { operand: Id, field: Arc<str>, test: bool },
    /// A function, or an operator such as `_+_`.
    Call { target: Option<Id>, function: Arc<str>, arguments: Vec<Id> },
    /// A list; optional items are marked.
    List { items: Vec<(Id, bool)> },
    /// A map: key, value, whether the entry is optional.
    Map { entries: Vec<(Id, Id, bool)> },
    /// A message: the name of its type, then field, value, whether it is optional, and where.
    Message { name: Arc<str>, fields: Vec<(Arc<str>, Id, bool, usize)> },
    /// A loop.
    Loop(Box<Loop>),
    /// What could not be read; an issue says why.
    Wrong,
}

/// What macros become.
#[derive(Debug, Clone)]
pub struct Loop {
    pub range: Id,
    pub variable: Arc<str>,
    /// With a second variable the first is the index or key, and the second the value.
    pub second: Option<Arc<str>>,
    pub accumulator: Arc<str>,
    pub start: Id,
    pub condition: Id,
    pub step: Id,
    pub result: Id,
}

impl Tree {
    /// `a.b.c` as one name, if the node is nothing but names.
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
