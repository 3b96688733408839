//! Whether the defaults in a schema are what the schema asks for.

use atoll_meta::field::aggregate;
use atoll_meta::{FieldError, FieldPath};
use serde_json::{Map, Value, json};

use crate::check::{failures, is_valid};
use crate::compile::{self, Dialect};
use crate::embedded;
use crate::node::{Flags, Node, NodeId};
use crate::prune;
use crate::prune::is_meta;

/// All that is wrong with the defaults of a schema for whole objects. `path` is where the schema is; `pruned` says whether
/// defaults may have no fields that the schema does not know.
pub fn validate(schema: &Value, path: &FieldPath, pruned: bool) -> Vec<FieldError> {
    let schema = compile::schema(Some(schema), false, Dialect::Defaults);
    let mut walk = Walk { nodes: &schema.nodes, pruned, errors: Vec::new() };
    let root = Root { node: schema.root(), steps: None };
    if schema.root().default_value().is_some() || schema.root().is(Flags::FILLS) {
        walk.node(schema.root(), path, &root, true, false);
    }
    walk.errors
}

/// Whether some default has a field that the schema does not know.
pub fn has_unpruned(schema: &Value) -> bool {
    let schema = compile::schema(Some(schema), false, Dialect::Defaults);
    schema.nodes.iter().any(|node| {
        node.default_value().is_some_and(|default| {
            !prune::cut(&schema.nodes, node, &mut default.clone(), node.is(Flags::EMBEDS)).0.is_empty()
        })
    })
}

/// The whole object that a part belongs to, and the way from there.
struct Root<'r> {
    node: &'r Node,
    steps: Option<&'r Step<'r>>,
}

struct Step<'r> {
    before: Option<&'r Step<'r>>,
    /// A field, or an item.
    name: Option<&'r str>,
}

impl Root<'_> {
    /// An object that has nothing but this value in this place.
    fn object(&self, value: Value) -> Value {
        let mut value = value;
        let mut step = self.steps;
        while let Some(Step { before, name }) = step {
            value = match name {
                Some(name) => Value::Object(Map::from_iter([((*name).to_owned(), value)])),
                None => json!([value]),
            };
            step = *before;
        }
        if let Value::Object(fields) = &mut value {
            fields.entry("kind").or_insert_with(|| "Validation".into());
            fields.entry("apiVersion").or_insert_with(|| "validation/v1".into());
        }
        value
    }
}

struct Walk<'n> {
    nodes: &'n [Node],
    pruned: bool,
    errors: Vec<FieldError>,
}

impl<'n> Walk<'n> {
    fn at(&self, id: NodeId) -> &'n Node {
        &self.nodes[id.0 as usize]
    }

    fn node(&mut self, node: &'n Node, path: &FieldPath, root: &Root<'_>, is_root: bool, in_meta: bool) {
        let embeds = is_root || node.is(Flags::EMBEDS);
        let own = Root { node, steps: None };
        let (root, in_meta) = if embeds { (&own, false) } else { (root, in_meta) };
        if let Some(default) = node.default_value() {
            let path = path.child("default");
            if in_meta {
                self.in_meta(node, default, &path, root);
            } else {
                self.plain(node, default, &path, embeds);
            }
        }
        if let Some(items) = node.items {
            let step = Step { before: root.steps, name: None };
            let inner = Root { node: root.node, steps: Some(&step) };
            self.node(self.at(items), &path.child("items"), &inner, false, in_meta);
        }
        for property in &node.properties {
            let step = Step { before: root.steps, name: Some(&property.name) };
            let inner = Root { node: root.node, steps: Some(&step) };
            let path = path.child("properties").key(&property.name);
            let in_meta = in_meta || (embeds && is_meta(&property.name));
            self.node(self.at(property.node), &path, &inner, false, in_meta);
        }
    }

    fn plain(&mut self, node: &'n Node, default: &Value, path: &FieldPath, embeds: bool) {
        if self.pruned {
            if !prune::cut(self.nodes, node, &mut default.clone(), embeds).0.is_empty() {
                self.errors.push(FieldError::invalid(path, default.clone(), "must not have unknown fields"));
            }
        }
        let mut copy = default.clone();
        if let Err(error) = embedded::coerce_at(self.nodes, node, &mut copy, embeds, false, path) {
            self.errors.push(error);
            return;
        }
        let before = self.errors.len();
        embedded::validate(self.nodes, node, &copy, path, embeds, &mut self.errors);
        if self.errors.len() == before {
            self.value(node, default, path);
        }
    }

    /// A default of metadata or a kind, which is judged with the object around it.
    fn in_meta(&mut self, node: &Node, default: &Value, path: &FieldPath, root: &Root<'_>) {
        let mut object = root.object(default.clone());
        let wrong = |message: String| {
            FieldError::invalid(path, default.clone(), format!("must result in valid metadata: {message}"))
        };
        let mut errors = Vec::new();
        match embedded::coerce(self.nodes, root.node, &mut object, true, false) {
            Err(error) => return self.errors.push(wrong(error.to_string())),
            Ok(_) => embedded::validate(self.nodes, root.node, &object, &FieldPath::nil(), true, &mut errors),
        }
        if errors.is_empty() {
            self.value(node, default, path);
        } else {
            self.errors.push(wrong(aggregate(&errors)));
        }
    }

    fn value(&mut self, node: &Node, default: &Value, path: &FieldPath) {
        if !is_valid(self.nodes, node, default) {
            let found = failures(self.nodes, node, default, None);
            self.errors.extend(found.into_iter().map(|failure| failure.into_error(path)));
        }
    }
}
