//! Defaults.

use serde_json::{Map, Value};

use crate::node::{Flags, Node, NodeId};
use crate::schema::Schema;

impl Schema {
    /// Fills in the defaults of the schema, wherever an object stands that can have them.
    pub fn fill(&self, object: &mut Value) {
        if self.root().is(Flags::FILLS) {
            fill(&self.nodes, self.root(), object);
        }
    }
}

fn fill(nodes: &[Node], node: &Node, value: &mut Value) {
    let at = |id: NodeId| &nodes[id.0 as usize];
    match value {
        Value::Object(fields) => {
            for property in &node.properties {
                let child = at(property.node);
                if let Some(default) = child.default_value() {
                    put(fields, &property.name, child, default);
                }
            }
            for (key, value) in fields.iter_mut() {
                match (node.property(key), node.rest.node()) {
                    (Some(id), _) => below(nodes, at(id), value),
                    (None, Some(id)) => {
                        replace_null(at(id), value);
                        below(nodes, at(id), value);
                    }
                    (None, None) => {}
                }
            }
        }
        Value::Array(items) => {
            let Some(node) = node.items.map(at) else { return };
            for item in items {
                replace_null(node, item);
                below(nodes, node, item);
            }
        }
        _ => {}
    }
}

fn below(nodes: &[Node], node: &Node, value: &mut Value) {
    if node.is(Flags::FILLS) {
        fill(nodes, node, value);
    }
}

fn put(fields: &mut Map<String, Value>, name: &str, node: &Node, default: &Value) {
    match fields.get_mut(name) {
        Some(value) if value.is_null() && !node.is(Flags::NULLABLE) => *value = default.clone(),
        Some(_) => {}
        None => drop(fields.insert(name.to_owned(), default.clone())),
    }
}

fn replace_null(node: &Node, value: &mut Value) {
    if value.is_null()
        && !node.is(Flags::NULLABLE)
        && let Some(default) = node.default_value()
    {
        *value = default.clone();
    }
}
