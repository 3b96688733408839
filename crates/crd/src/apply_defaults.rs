//! Applies the defaults of a schema.

// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting/algorithm.go

use serde_json::{Map, Value};

use crate::limits;
use crate::node::{Flags, Node, NodeId};
use crate::schema::Schema;

/// Maximum size in bytes that defaults may add to an object: a list of `{}` may get one for each item.
const MAX_ADDED: u64 = 32 << 20;

impl Schema {
    /// Applies the defaults of the schema. Returns `false` if some were omitted because of the size limit.
    pub fn apply_defaults(&self, object: &mut Value) -> bool {
        let mut defaulter = Defaulter { nodes: &self.nodes, left: MAX_ADDED, is_complete: true };
        defaulter.below(self.root(), object);
        defaulter.is_complete
    }
}

struct Defaulter<'n> {
    nodes: &'n [Node],
    left: u64,
    is_complete: bool,
}

impl<'n> Defaulter<'n> {
    fn at(&self, id: NodeId) -> &'n Node {
        &self.nodes[id.0 as usize]
    }

    fn below(&mut self, node: &Node, value: &mut Value) {
        if node.is(Flags::FILLS) && self.is_complete {
            self.fill(node, value);
        }
    }

    fn fill(&mut self, node: &Node, value: &mut Value) {
        match value {
            Value::Object(fields) => {
                for property in &node.properties {
                    let child = self.at(property.node);
                    if let Some(default) = child.default_value() {
                        self.put(fields, &property.name, child, default);
                    }
                }
                for (key, value) in fields.iter_mut() {
                    match (node.property(key), node.rest.node()) {
                        (Some(id), _) => self.below(self.at(id), value),
                        (None, Some(id)) => {
                            self.replace_null(self.at(id), value);
                            self.below(self.at(id), value);
                        }
                        (None, None) => {}
                    }
                }
            }
            Value::Array(items) => {
                let Some(node) = node.items.map(|id| self.at(id)) else { return };
                for item in items {
                    self.replace_null(node, item);
                    self.below(node, item);
                }
            }
            _ => {}
        }
    }

    /// Returns a default if it is within the size limit.
    fn take(&mut self, default: &Value) -> Option<Value> {
        match self.left.checked_sub(limits::values(default)) {
            Some(left) => {
                self.left = left;
                Some(default.clone())
            }
            None => {
                self.is_complete = false;
                None
            }
        }
    }

    fn put(&mut self, fields: &mut Map<String, Value>, name: &str, node: &Node, default: &Value) {
        match fields.get_mut(name) {
            Some(value) if value.is_null() && !node.is(Flags::NULLABLE) => {
                self.take(default).into_iter().for_each(|default| *value = default);
            }
            Some(_) => {}
            None => fields.extend(self.take(default).map(|default| (name.to_owned(), default))),
        }
    }

    fn replace_null(&mut self, node: &Node, value: &mut Value) {
        if value.is_null()
            && !node.is(Flags::NULLABLE)
            && let Some(default) = node.default_value()
        {
            self.take(default).into_iter().for_each(|default| *value = default);
        }
    }
}
