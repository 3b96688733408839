//! Removal of paths from an object, and the operations on sets that it needs.

// upstream: sigs.k8s.io/structured-merge-diff/v6/typed/remove.go
// upstream: sigs.k8s.io/structured-merge-diff/v6/typed/reconcile_schema.go

use serde_json::{Map, Value};

use super::element::Element;
use super::path_set::Set;
use super::shape::{ListIdentity, Shape};

/// Returns the object without the paths of the set. If a path leads into an atomic value, the whole value is
/// removed.
pub fn remove(shape: Shape<'_>, value: &Value, set: &Set<'_>) -> Value {
    if let Shape::Scalar(_) = shape {
        return value.clone();
    }
    match (shape, value) {
        (Shape::List { element, items }, Value::Array(list)) if !matches!(items, ListIdentity::Atomic) => {
            let inner = element.shape();
            let kept = list.iter().filter_map(|item| {
                let found = items.step(element, item).ok().and_then(|step| set.find(&step));
                match found {
                    Some(node) if node.member => None,
                    Some(node) => Some(remove(inner, item, &node.below)),
                    None => Some(item.clone()),
                }
            });
            let kept: Vec<Value> = kept.collect();
            if kept.is_empty() { Value::Null } else { Value::Array(kept) }
        }
        (
            Shape::Struct { .. } | Shape::Map { .. } | Shape::Custom(_) | Shape::Deduced,
            Value::Object(map),
        ) if !shape.is_atomic() => {
            let mut kept = Map::new();
            for (name, value) in map {
                match set.field(name) {
                    Some(node) if node.member => {}
                    Some(node) => {
                        let inner = shape.member(name).map_or(Shape::Deduced, |(inner, _)| inner);
                        kept.insert(name.clone(), remove(inner, value, &node.below));
                    }
                    None => {
                        kept.insert(name.clone(), value.clone());
                    }
                }
            }
            if kept.is_empty() { Value::Null } else { Value::Object(kept) }
        }
        (Shape::Deduced, scalar) if !scalar.is_array() => scalar.clone(),
        (Shape::Opaque, scalar) if !scalar.is_array() && !scalar.is_object() => scalar.clone(),
        _ => Value::Null,
    }
}

impl Set<'_> {
    /// Adds every declared struct field on a path as a member.
    pub(super) fn with_named_fields(mut self, shape: Shape<'_>) -> Self {
        for node in &mut self.nodes {
            let inner = match (&node.element, shape) {
                (Element::Field(name), shape) if !matches!(shape, Shape::List { .. } | Shape::Scalar(_)) => {
                    let member = shape.member(name);
                    node.member |= member.is_some_and(|(_, declared)| declared);
                    member.map(|(inner, _)| inner)
                }
                (Element::Key(_), Shape::List { element, .. }) => Some(element.shape()),
                _ => None,
            };
            let below = std::mem::take(&mut node.below);
            // Without a known type there are no declared fields.
            node.below =
                below.with_named_fields(inner.unwrap_or(Shape::Scalar(super::shape::Scalar::Untyped)));
        }
        self
    }

    /// Replaces the parts of atomic values by the values themselves.
    pub(super) fn collapse(&mut self, shape: Shape<'_>) {
        for node in &mut self.nodes {
            if node.below.is_empty() {
                continue;
            }
            let inner = match (&node.element, shape) {
                (_, Shape::Deduced | Shape::Scalar(_)) => None,
                (Element::Field(name), Shape::Struct { .. } | Shape::Map { .. } | Shape::Custom(_)) => {
                    shape.member(name).map(|(inner, _)| inner)
                }
                (_, Shape::List { element, .. }) => Some(element.shape()),
                _ => None,
            };
            match inner {
                Some(Shape::Scalar(_)) | None => {}
                Some(inner) if inner.is_atomic() => {
                    node.member = true;
                    node.below = Set::default();
                }
                Some(inner) => node.below.collapse(inner),
            }
        }
    }
}
