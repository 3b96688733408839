//! Correlates values with their old values: unchanged values are not refused, even if the rules have changed
//! (ratcheting).

// upstream: staging/src/k8s.io/apiserver/pkg/cel/common/equality.go

use std::collections::HashMap;
use std::fmt::Write;

use serde_json::Value;

use crate::node::{ListType, Node, NodeId, Types};

/// A value, its old value, and the schema of both.
#[derive(Clone, Copy)]
pub(crate) struct Correlated<'v> {
    pub nodes: &'v [Node],
    pub node: &'v Node,
    pub new: &'v Value,
    pub old: &'v Value,
}

impl<'v> Correlated<'v> {
    fn below(&self, id: NodeId, new: &'v Value, old: &'v Value) -> Correlated<'v> {
        Correlated { nodes: self.nodes, node: &self.nodes[id.0 as usize], new, old }
    }

    /// Correlates a field of an object at `path`. At the root, `apiVersion` and `kind` are not compared
    /// because they were converted.
    pub fn field(&self, path: &str, name: &str) -> Option<Correlated<'v>> {
        if path.is_empty() && matches!(name, "apiVersion" | "kind") {
            return None;
        }
        self.key(name)
    }

    /// Correlates a field that both values and the schema have.
    pub fn key(&self, name: &str) -> Option<Correlated<'v>> {
        let (new, old) = (self.new.as_object()?.get(name)?, self.old.as_object()?.get(name)?);
        let id = self.node.property(name).or(self.node.rest.node())?;
        Some(self.below(id, new, old))
    }

    /// The old items, indexed by their keys.
    pub fn items(&self) -> Items<'v> {
        let mut by_key = HashMap::new();
        let is_map = self.node.list() == ListType::Map;
        if is_map && self.node.types == Types::ARRAY && !self.node.keys().is_empty() {
            for item in self.old.as_array().into_iter().flatten() {
                if let Some(key) = key_of(self.node, item) {
                    by_key.entry(key).or_insert(item);
                }
            }
        }
        Items { list: *self, by_key }
    }

    /// Whether the values are equal. The order of map lists does not matter.
    pub fn is_equal(&self) -> bool {
        match (self.new, self.old) {
            (Value::Array(new), Value::Array(old)) => {
                if new.len() != old.len() {
                    return false;
                }
                if self.node.list() != ListType::Map {
                    return new == old;
                }
                let items = self.items();
                new.iter().all(|item| items.item(item).is_some_and(|item| item.is_equal()))
            }
            (Value::Object(new), Value::Object(old)) => {
                new.len() == old.len()
                    && new.keys().all(|name| self.key(name).is_some_and(|field| field.is_equal()))
            }
            (new, old) => new == old,
        }
    }
}

/// The old items of a list.
pub(crate) struct Items<'v> {
    list: Correlated<'v>,
    by_key: HashMap<String, &'v Value>,
}

impl<'v> Items<'v> {
    /// The correlated old item, if there is one.
    pub fn item(&self, new: &'v Value) -> Option<Correlated<'v>> {
        let old = self.old(new)?;
        Some(self.list.below(self.list.node.items?, new, old))
    }

    /// The old item with the keys of this one.
    pub fn old(&self, new: &Value) -> Option<&'v Value> {
        if self.by_key.is_empty() {
            return None;
        }
        self.by_key.get(&key_of(self.list.node, new)?).copied()
    }
}

/// The map keys of an item as text; `None` if a key is missing or not a scalar.
fn key_of(node: &Node, item: &Value) -> Option<String> {
    let fields = item.as_object()?;
    let mut text = String::new();
    for key in node.keys() {
        text.push('\0');
        // Writing to a String cannot fail.
        let _ = match fields.get(key.as_ref())? {
            Value::Bool(flag) => write!(text, "{flag}"),
            Value::Number(number) if number.is_i64() => write!(text, "{number}"),
            Value::Number(number) => write!(text, "{:?}f", number.as_f64()),
            Value::String(value) => write!(text, "\"{value}\""),
            Value::Null | Value::Array(_) | Value::Object(_) => return None,
        };
    }
    Some(text)
}
