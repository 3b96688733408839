//! Validates the defaults in a schema.

// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting/validation.go

use atoll_meta::field::{BadValue, aggregate};
use atoll_meta::{Deadline, FieldError, FieldPath};
use serde_json::{Map, Value, json};

use crate::compile::{self, CompileMode};
use crate::embedded;
use crate::limits;
use crate::node::{Flags, Node, NodeId};
use crate::prune;
use crate::prune::is_meta;
use crate::rules::{self, BudgetExhausted};
use crate::validate_value::{failures, is_valid};

/// All errors of the defaults in a schema of complete objects. `path` is the path of the schema; `pruned`
/// says whether defaults must not have unknown fields. A default that is not checked before the deadline is an error, and
/// the rest is not checked.
pub fn validate(schema: &Value, path: &FieldPath, pruned: bool, deadline: &Deadline<'_>) -> Vec<FieldError> {
    if deadline.has_passed() {
        // The error is in another version.
        return Vec::new();
    }
    let schema = compile::schema(Some(schema), false, CompileMode::Defaults);
    let mut walk = Walk { nodes: &schema.nodes, pruned, errors: Vec::new(), budget: rules::BUDGET, deadline };
    let root = Root { node: schema.root(), steps: None };
    if schema.root().default_value().is_some() || schema.root().is(Flags::FILLS) {
        // If the cost budget of the rules is exhausted or the deadline has passed, the rest is not checked.
        let _ = walk.node(schema.root, path, &root, true, false);
    }
    walk.errors
}

/// Whether some default has unknown fields.
pub fn has_unpruned(schema: &Value) -> bool {
    let schema = compile::schema(Some(schema), false, CompileMode::Defaults);
    schema.nodes.iter().any(|node| {
        node.default_value().is_some_and(|default| {
            let mut copy = default.clone();
            prune::cut(&schema.nodes, node, &mut copy, node.is(Flags::EMBEDS));
            copy != *default
        })
    })
}

/// The enclosing complete object of a part, and the path from there.
struct Root<'r> {
    node: &'r Node,
    steps: Option<&'r RootStep<'r>>,
}

struct RootStep<'r> {
    before: Option<&'r RootStep<'r>>,
    /// The name of a field; `None` for an item.
    name: Option<&'r str>,
}

impl Root<'_> {
    /// An object that contains only this value, at this path.
    fn object(&self, value: Value) -> Value {
        let mut value = value;
        let mut step = self.steps;
        while let Some(RootStep { before, name }) = step {
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

/// The error of a default that takes too long to check.
const TOO_SLOW: &str = "takes too long to check against the patterns and rules of the schema; simplify them, or make the defaults smaller";

struct Walk<'n> {
    nodes: &'n [Node],
    pruned: bool,
    errors: Vec<FieldError>,
    /// Remaining cost budget of the rules of all defaults.
    budget: i64,
    deadline: &'n Deadline<'n>,
}

impl<'n> Walk<'n> {
    fn at(&self, id: NodeId) -> &'n Node {
        &self.nodes[id.0 as usize]
    }

    fn node(
        &mut self,
        id: NodeId,
        path: &FieldPath,
        root: &Root<'_>,
        is_root: bool,
        in_meta: bool,
    ) -> Result<(), BudgetExhausted> {
        let node = self.at(id);
        let embeds = is_root || node.is(Flags::EMBEDS);
        let own = Root { node, steps: None };
        let (root, in_meta) = if embeds { (&own, false) } else { (root, in_meta) };
        if let Some(default) = node.default_value() {
            let path = path.child("default");
            let good = if in_meta {
                self.in_meta(node, default, &path, root)
            } else {
                self.plain(node, default, &path, embeds)
            };
            if good && node.is(Flags::HOLDS_RULES) {
                self.rules((id, embeds), default, &path)?;
            }
            // Copying and pruning it cost as much as its size.
            if self.deadline.steps(limits::size_of_value(default)) {
                return self.too_slow(&path);
            }
        }
        if let Some(items) = node.items {
            let step = RootStep { before: root.steps, name: None };
            let inner = Root { node: root.node, steps: Some(&step) };
            self.node(items, &path.child("items"), &inner, false, in_meta)?;
        }
        for property in &node.properties {
            let step = RootStep { before: root.steps, name: Some(&property.name) };
            let inner = Root { node: root.node, steps: Some(&step) };
            let path = path.child("properties").key(&property.name);
            let in_meta = in_meta || (embeds && is_meta(&property.name));
            self.node(property.node, &path, &inner, false, in_meta)?;
        }
        Ok(())
    }

    /// Checks the rules of a default, as an unchanged and as a new value.
    fn rules(
        &mut self,
        root: (NodeId, bool),
        default: &Value,
        path: &FieldPath,
    ) -> Result<(), BudgetExhausted> {
        let compiled = rules::compile_from(self.nodes, root);
        // Compiling the rules may take long.
        if self.deadline.steps(usize::MAX) {
            return self.too_slow(path);
        }
        let before = self.errors.len();
        let mut left = self.budget;
        for old in [Some(default), None] {
            if self.errors.len() > before {
                break;
            }
            let mut budget = self.budget;
            let asked = (self.nodes, &compiled, root);
            let found = rules::check_alone(asked, default, old, path, (&mut budget, self.deadline));
            if self.deadline.has_passed() {
                return self.too_slow(path);
            }
            self.errors.extend(found);
            left = left.min(budget);
        }
        self.budget = left;
        if left < 0 { Err(BudgetExhausted) } else { Ok(()) }
    }

    /// Refuses a default because the deadline has passed, and ends the walk.
    fn too_slow(&mut self, path: &FieldPath) -> Result<(), BudgetExhausted> {
        self.errors.push(FieldError::invalid(path, BadValue::Omitted, TOO_SLOW));
        Err(BudgetExhausted)
    }

    /// Validates a default outside of metadata. Returns whether it is valid.
    fn plain(&mut self, node: &'n Node, default: &Value, path: &FieldPath, embeds: bool) -> bool {
        if self.pruned {
            let mut copy = default.clone();
            prune::cut(self.nodes, node, &mut copy, embeds);
            if copy != *default {
                self.errors.push(FieldError::invalid(path, default.clone(), "must not have unknown fields"));
            }
        }
        let mut copy = default.clone();
        if let Err(error) = embedded::coerce_at(self.nodes, node, &mut copy, embeds, false, path) {
            self.errors.push(error);
            return false;
        }
        let before = self.errors.len();
        embedded::validate(self.nodes, node, &copy, path, embeds, &mut self.errors);
        self.errors.len() == before && self.value(node, default, path)
    }

    /// Validates a default in metadata or type fields, together with the enclosing object.
    fn in_meta(&mut self, node: &Node, default: &Value, path: &FieldPath, root: &Root<'_>) -> bool {
        let mut object = root.object(default.clone());
        let wrong = |message: String| {
            FieldError::invalid(path, default.clone(), format!("must result in valid metadata: {message}"))
        };
        let mut errors = Vec::new();
        match embedded::coerce(self.nodes, root.node, &mut object, true, false) {
            Err(error) => {
                self.errors.push(wrong(error.to_string()));
                return false;
            }
            Ok(_) => embedded::validate(self.nodes, root.node, &object, &FieldPath::nil(), true, &mut errors),
        }
        if !errors.is_empty() {
            self.errors.push(wrong(aggregate(&errors)));
            return false;
        }
        self.value(node, default, path)
    }

    fn value(&mut self, node: &Node, default: &Value, path: &FieldPath) -> bool {
        if is_valid(self.nodes, node, default, self.deadline) {
            return true;
        }
        let found = failures(self.nodes, node, default, None, self.deadline);
        if self.deadline.has_passed() {
            // These are not its errors.
            return false;
        }
        self.errors.extend(found.into_iter().map(|failure| failure.into_error(path)));
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(schema: &Value, is_over: bool) -> Vec<String> {
        let errors = validate(schema, &FieldPath::new("schema"), true, &Deadline::new(&|| is_over));
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn defaults_that_are_not_checked_in_time_are_refused() {
        let text = "a".repeat(4096);
        let with_pattern = json!({ "type": "string", "pattern": "^a*$", "default": text });
        let rules = json!([{ "rule": "self.size() < 10" }]);
        let with_rule =
            json!({ "type": "string", "default": "a", "maxLength": 5, "x-kubernetes-validations": rules });
        let large = json!({ "type": "array", "items": { "type": "integer" }, "default": vec![1; 2048] });
        for (default, field) in [(with_pattern, "f"), (with_rule, "f"), (large, "f")] {
            let second = json!({ "type": "string", "default": "b" });
            let schema = json!({ "type": "object", "properties": { (field): default, "z": second } });
            assert_eq!(found(&schema, false), Vec::<String>::new(), "{schema}");
            let expected = format!("schema.properties[{field}].default: Invalid value: {TOO_SLOW}");
            assert_eq!(found(&schema, true), [expected]);
        }
    }
}
