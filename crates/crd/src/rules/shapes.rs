//! Types of values in expressions.

// upstream: staging/src/k8s.io/apiserver/pkg/cel/common/schemas.go
// upstream: staging/src/k8s.io/apiserver/pkg/cel/types.go

use std::collections::BTreeMap;
use std::sync::Arc;

use atoll_cel::{ListKind, Object, Shape, ShapeKind};
use serde_json::Value;

use crate::node::{Check, Flags, ListType, Node, NodeId, Types};

/// Assumed maximum size of a request.
const REQUEST: u64 = 3 * 1024 * 1024;
const LONGEST_TIME: u64 = 32;
const DATE: u64 = 12;

/// A shape, and the minimum length of its JSON.
pub(crate) struct SizedShape {
    pub shape: Arc<Shape>,
    pub least: u64,
}

/// Whether values of a node are visible to expressions.
pub(crate) fn is_visible(nodes: &[Node], node: &Node) -> bool {
    let at = |id: NodeId| &nodes[id.0 as usize];
    if node.is(Flags::INT_OR_STRING) {
        return true;
    }
    match node.types {
        Types::ARRAY => node.items.is_some_and(|items| is_visible(nodes, at(items))),
        Types::OBJECT => node.rest.node().is_none_or(|rest| is_visible(nodes, at(rest))),
        types => types.single().is_some(),
    }
}

/// The shape of a node's values, `None` if they are not visible to expressions. `is_object` says whether they
/// are complete objects, which always have a kind and a name.
pub(crate) fn shape(nodes: &[Node], node: &Node, is_object: bool, name: &str) -> Option<SizedShape> {
    let at = |id: NodeId| &nodes[id.0 as usize];
    let inner = |id: NodeId, name: String| shape(nodes, at(id), at(id).is(Flags::EMBEDS), &name);
    let nullable = node.is(Flags::NULLABLE);
    let made = |kind: ShapeKind, max_elements: u64, least: u64| {
        Some(SizedShape { shape: Arc::new(Shape { kind, nullable, max_elements }), least })
    };
    if node.is(Flags::INT_OR_STRING) {
        let longest = longest(node).map_or(REQUEST - 2, |longest| longest * 4);
        return made(ShapeKind::IntOrString, longest, 1);
    }
    match node.types {
        Types::ARRAY => {
            let items = inner(node.items?, format!("{name}.@idx"))?;
            let most = count(node, |check| match check {
                Check::MaxItems(most) => Some(*most),
                _ => None,
            });
            let most = most.unwrap_or((REQUEST - 2) / (items.least + 1));
            let kind = match node.list() {
                ListType::Atomic => ListKind::Atomic,
                ListType::Set => ListKind::Set,
                ListType::Map => ListKind::Map(node.keys().iter().map(ToString::to_string).collect()),
            };
            made(ShapeKind::List(items.shape, kind), most, 2)
        }
        Types::OBJECT => match node.rest.node() {
            Some(rest) => {
                let values = inner(rest, format!("{name}.@elem"))?;
                let most = count(node, |check| match check {
                    Check::MaxProperties(most) => Some(*most),
                    _ => None,
                });
                let most = most.unwrap_or((REQUEST - 2) / (values.least + 6));
                made(ShapeKind::Map(values.shape), most, 2)
            }
            None => object(nodes, node, is_object, name),
        },
        Types::STRING => {
            let format = node.checks.iter().find_map(|check| match check {
                Check::Format(_, name) => Some(name.as_ref()),
                _ => None,
            });
            match format {
                Some("byte") => made(ShapeKind::Bytes, longest(node).unwrap_or(REQUEST - 2), 2),
                Some("duration") => made(ShapeKind::Duration, LONGEST_TIME, 3),
                Some("date") => made(ShapeKind::Date, DATE, DATE),
                Some("date-time") => made(ShapeKind::DateTime, LONGEST_TIME, 21),
                _ => made(ShapeKind::String, text_length(node), 2),
            }
        }
        Types::BOOLEAN => made(ShapeKind::Bool, 0, 4),
        Types::NUMBER => made(ShapeKind::Double, 0, 1),
        Types::INTEGER => made(ShapeKind::Int, 0, 1),
        _ => None,
    }
}

fn object(nodes: &[Node], node: &Node, is_object: bool, name: &str) -> Option<SizedShape> {
    let at = |id: NodeId| &nodes[id.0 as usize];
    let required = |field: &str| {
        node.checks.iter().any(|check| match check {
            Check::Required(names) => names.iter().any(|name| name.as_ref() == field),
            _ => false,
        })
    };
    let mut least = 2;
    let mut fields = BTreeMap::new();
    for property in &node.properties {
        let (field, child) = (&property.name, at(property.node));
        let shape = match shape(nodes, child, child.is(Flags::EMBEDS), &format!("{name}.{field}")) {
            None => Shape::new(ShapeKind::Unknown),
            Some(SizedShape { shape, least: size }) => {
                if required(field) && child.default_value().is_none() {
                    least += field.len() as u64 + size + 4;
                }
                shape
            }
        };
        fields.insert(field.to_string(), shape);
    }
    let has_properties = is_object || !node.properties.is_empty();
    if is_object && !is_complete(nodes, node) {
        let text = || Shape::bounded(ShapeKind::String, REQUEST - 2);
        fields.insert("kind".to_owned(), text());
        fields.insert("apiVersion".to_owned(), text());
        let names = ["name", "generateName"].map(|name| (name.to_owned(), text()));
        let metadata = Object::new(format!("{name}.metadata"), BTreeMap::from(names), true);
        fields.insert("metadata".to_owned(), Shape::new(ShapeKind::Object(metadata)));
    }
    let kind = ShapeKind::Object(Object::new(name, fields, has_properties));
    let shape = Shape { kind, nullable: node.is(Flags::NULLABLE), max_elements: 0 };
    Some(SizedShape { shape: Arc::new(shape), least })
}

/// Whether a schema itself declares the type fields and metadata.
fn is_complete(nodes: &[Node], node: &Node) -> bool {
    let at = |id: NodeId| &nodes[id.0 as usize];
    let typed = |node: &Node, name: &str, types: Types| {
        node.property(name)
            .map(at)
            .filter(|property| property.types == types && !property.is(Flags::INT_OR_STRING))
    };
    typed(node, "kind", Types::STRING).is_some()
        && typed(node, "apiVersion", Types::STRING).is_some()
        && typed(node, "metadata", Types::OBJECT).is_some_and(|metadata| {
            typed(metadata, "name", Types::STRING).is_some()
                && typed(metadata, "generateName", Types::STRING).is_some()
        })
}

fn count(node: &Node, which: impl Fn(&Check) -> Option<i64>) -> Option<u64> {
    node.checks.iter().find_map(which).map(|count| u64::try_from(count).unwrap_or_default())
}

fn longest(node: &Node) -> Option<u64> {
    count(node, |check| match check {
        Check::MaxLength(most) => Some(*most),
        _ => None,
    })
}

/// Maximum length of a string in bytes.
fn text_length(node: &Node) -> u64 {
    if let Some(longest) = longest(node) {
        return longest * 4;
    }
    let listed = node.checks.iter().find_map(|check| match check {
        Check::Enum(values) => {
            Some(values.iter().filter_map(Value::as_str).map(str::len).max().unwrap_or_default())
        }
        _ => None,
    });
    listed.map_or(REQUEST - 2, |longest| longest as u64)
}
