//! Prunes unknown fields, and nulls that the schema does not allow.

// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning/algorithm.go

use serde_json::Value;

use crate::node::{Flags, Node, NodeId, Rest};
use crate::schema::Schema;

/// The current path during a traversal, as a chain on the stack: it becomes text only for a pruned field.
struct Trail<'t> {
    before: Option<&'t Trail<'t>>,
    step: TrailStep<'t>,
}

#[derive(Clone, Copy)]
enum TrailStep<'t> {
    Key(&'t str),
    Index(usize),
}

impl Trail<'_> {
    fn write(&self, out: &mut String) {
        if let Some(before) = self.before {
            before.write(out);
        }
        match self.step {
            TrailStep::Key(key) => {
                if self.before.is_some() {
                    out.push('.');
                }
                out.push_str(key);
            }
            TrailStep::Index(index) => {
                out.push('[');
                out.push_str(&index.to_string());
                out.push(']');
            }
        }
    }
}

/// Whether this is a field of every complete object.
pub(crate) fn is_meta(name: &str) -> bool {
    matches!(name, "apiVersion" | "kind" | "metadata")
}

impl Schema {
    /// Prunes unknown fields and disallowed nulls. Returns the sorted paths of the fields, without
    /// `apiVersion`, `kind` and `metadata`.
    pub fn prune(&self, object: &mut Value) -> Vec<String> {
        if self.preserves {
            return Vec::new();
        }
        prune(&self.nodes, self.root(), object, true)
    }
}

/// Prunes a part of an object. `is_object` says whether it has its own kind and metadata.
pub(crate) fn prune<'n>(
    nodes: &'n [Node],
    node: &'n Node,
    value: &mut Value,
    is_object: bool,
) -> Vec<String> {
    let (dropped, nulls) = cut(nodes, node, value, is_object);
    if nulls {
        drop_nulls(nodes, node, value);
    }
    dropped
}

/// Prunes only unknown fields. Returns their paths, and whether there may be a disallowed null.
pub(crate) fn cut<'n>(
    nodes: &'n [Node],
    node: &'n Node,
    value: &mut Value,
    is_object: bool,
) -> (Vec<String>, bool) {
    let mut walk = Walk { nodes, dropped: Vec::new(), nulls: false };
    walk.value(Some(node), value, None, is_object);
    walk.dropped.sort_unstable();
    (walk.dropped, walk.nulls)
}

struct Walk<'n> {
    nodes: &'n [Node],
    dropped: Vec<String>,
    /// Whether there may be a disallowed null.
    nulls: bool,
}

impl<'n> Walk<'n> {
    fn at(&self, id: NodeId) -> &'n Node {
        &self.nodes[id.0 as usize]
    }

    fn drop(&mut self, key: &str, trail: Option<&Trail<'_>>) {
        let mut path = String::new();
        Trail { before: trail, step: TrailStep::Key(key) }.write(&mut path);
        self.dropped.push(path);
    }

    /// Prunes a value; `node` is `None` for an unknown field.
    fn value(&mut self, node: Option<&'n Node>, value: &mut Value, trail: Option<&Trail<'_>>, embeds: bool) {
        match value {
            Value::Object(_) | Value::Array(_) => {}
            Value::Null => {
                self.nulls = true;
                return;
            }
            _ => return,
        }
        if let Some(node) = node.filter(|node| node.is(Flags::PRESERVES)) {
            return self.preserved(node, value, trail, embeds);
        }
        match value {
            Value::Object(fields) => fields.retain(|key, value| {
                let Some(node) = node else {
                    self.drop(key, trail);
                    return false;
                };
                if embeds && is_meta(key) {
                    self.nulls |= trail.is_some();
                    return true;
                }
                let trail_here = Trail { before: trail, step: TrailStep::Key(key) };
                match (node.property(key), node.rest) {
                    (Some(id), _) | (None, Rest::Node(id)) => {
                        let child = self.at(id);
                        self.value(Some(child), value, Some(&trail_here), child.is(Flags::EMBEDS));
                    }
                    (None, Rest::Unspecified) => {
                        if !is_meta(key) || trail.is_some() {
                            self.drop(key, trail);
                        }
                        return false;
                    }
                    (None, Rest::Allowed | Rest::Forbidden) => {
                        self.value(None, value, Some(&trail_here), false);
                    }
                }
                true
            }),
            Value::Array(items) => {
                let node = node.and_then(|node| node.items).map(|id| self.at(id));
                let embeds = node.is_some_and(|node| node.is(Flags::EMBEDS));
                for (index, item) in items.iter_mut().enumerate() {
                    let trail = Trail { before: trail, step: TrailStep::Index(index) };
                    self.value(node, item, Some(&trail), embeds);
                }
            }
            _ => {}
        }
    }

    /// Handles a value whose unknown fields are preserved; known fields are still pruned.
    fn preserved(&mut self, node: &'n Node, value: &mut Value, trail: Option<&Trail<'_>>, embeds: bool) {
        match value {
            Value::Object(fields) => {
                for (key, value) in fields.iter_mut() {
                    if embeds && is_meta(key) {
                        self.nulls |= trail.is_some();
                        continue;
                    }
                    let trail = Trail { before: trail, step: TrailStep::Key(key) };
                    match (node.property(key), node.rest) {
                        (Some(id), _) | (None, Rest::Node(id)) => {
                            let child = self.at(id);
                            self.value(Some(child), value, Some(&trail), child.is(Flags::EMBEDS));
                        }
                        (None, Rest::Unspecified) => {}
                        (None, Rest::Allowed | Rest::Forbidden) => {
                            self.value(None, value, Some(&trail), false);
                        }
                    }
                }
            }
            Value::Array(items) => {
                let Some(node) = node.items.map(|id| self.at(id)) else { return };
                for (index, item) in items.iter_mut().enumerate() {
                    let trail = Trail { before: trail, step: TrailStep::Index(index) };
                    self.preserved(node, item, Some(&trail), node.is(Flags::EMBEDS));
                }
            }
            Value::Null => self.nulls = true,
            _ => {}
        }
    }
}

/// Removes nulls in maps where the schema allows none and has no default.
fn drop_nulls(nodes: &[Node], node: &Node, value: &mut Value) {
    let at = |id: NodeId| &nodes[id.0 as usize];
    match value {
        Value::Object(fields) => fields.retain(|key, value| {
            let Some(node) = node.property(key).or(node.rest.node()).map(at) else { return true };
            if value.is_null() && !node.is(Flags::NULLABLE) && node.default_value().is_none() {
                return false;
            }
            drop_nulls(nodes, node, value);
            true
        }),
        Value::Array(items) => {
            let Some(node) = node.items.map(at) else { return };
            items.iter_mut().for_each(|item| drop_nulls(nodes, node, item));
        }
        _ => {}
    }
}
