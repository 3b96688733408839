//! Descriptions of variables, from which the checker derives types, the evaluator values and the estimator
//! sizes.

// upstream: staging/src/k8s.io/apiserver/pkg/cel/types.go
// upstream: staging/src/k8s.io/apiserver/pkg/cel/escaping.go

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use crate::reserved::is_reserved;
use crate::types::Type;

/// Description of a JSON value that expressions can access, derived from a schema.
#[derive(Debug)]
pub struct Shape {
    /// Kind of value.
    pub kind: ShapeKind,
    /// Whether the value may be null.
    pub nullable: bool,
    /// Maximum length of a string, list or map: upstream's `MaxElements`, with its estimates where the schema
    /// has no bound. 0 for all other kinds.
    pub max_elements: u64,
}

/// The kind of a JSON value.
#[derive(Debug)]
pub enum ShapeKind {
    /// `type: boolean`.
    Bool,
    /// `type: integer`.
    Int,
    /// `type: number`.
    Double,
    /// `type: string`.
    String,
    /// `type: string` and `format: byte`.
    Bytes,
    /// `type: string` and `format: duration`.
    Duration,
    /// `type: string` and `format: date`.
    Date,
    /// `type: string` and `format: date-time`.
    DateTime,
    /// `x-kubernetes-int-or-string`.
    IntOrString,
    /// `x-kubernetes-preserve-unknown-fields` without a type: expressions cannot access it, but can compare
    /// it.
    Unknown,
    /// Any JSON, for variables without a schema.
    Any,
    /// `type: array`.
    List(Arc<Shape>, ListKind),
    /// `type: object` with `additionalProperties`.
    Map(Arc<Shape>),
    /// `type: object` with or without `properties`.
    Object(Object),
}

/// `x-kubernetes-list-type`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListKind {
    /// Order matters.
    Atomic,
    /// Order does not matter; items are unique.
    Set,
    /// Items are identified by these fields.
    Map(Vec<String>),
}

/// An object with fields.
#[derive(Debug)]
pub struct Object {
    /// Type name such as `selfType123.spec`, shown in error messages.
    pub name: Arc<str>,
    /// Fields by their JSON name.
    pub fields: BTreeMap<String, Arc<Shape>>,
    /// Whether the schema has `properties`. Without them keys are not escaped and null is a value.
    pub has_properties: bool,
    visible: OnceLock<BTreeMap<String, Field>>,
}

/// A field that expressions can access.
#[derive(Debug)]
pub struct Field {
    /// Type of the field.
    pub type_of: Type,
    /// Shape of the field.
    pub shape: Arc<Shape>,
    /// JSON name.
    pub name: String,
}

impl Object {
    /// Creates an object type of this name.
    pub fn new(
        name: impl Into<Arc<str>>,
        fields: BTreeMap<String, Arc<Shape>>,
        has_properties: bool,
    ) -> Object {
        Object { name: name.into(), fields, has_properties, visible: OnceLock::new() }
    }

    /// Returns the field with this escaped name, if expressions can access it.
    pub fn field(&self, escaped: &str) -> Option<&Field> {
        let visible = self.visible.get_or_init(|| {
            let fields = self.fields.iter().filter_map(|(name, shape)| {
                let field = Field { type_of: shape.type_of()?, shape: shape.clone(), name: name.clone() };
                Some((escape(name)?.into_owned(), field))
            });
            fields.collect()
        });
        // Reserved words may be used as fields without escaping.
        let word = || is_reserved(escaped).then(|| visible.get(&format!("__{escaped}__"))).flatten();
        visible.get(escaped).or_else(word)
    }
}

impl Shape {
    /// Creates a shape that is not nullable and has no length.
    pub fn new(kind: ShapeKind) -> Arc<Shape> {
        Shape::bounded(kind, 0)
    }

    /// Creates a shape that is not nullable and has a maximum number of characters, bytes, items or entries.
    pub fn bounded(kind: ShapeKind, max_elements: u64) -> Arc<Shape> {
        Arc::new(Shape { kind, nullable: false, max_elements })
    }

    /// Returns the type, or `None` if expressions cannot access it.
    pub fn type_of(self: &Arc<Shape>) -> Option<Type> {
        Some(match &self.kind {
            ShapeKind::Bool => Type::Bool,
            ShapeKind::Int => Type::Int,
            ShapeKind::Double => Type::Double,
            ShapeKind::String => Type::String,
            ShapeKind::Bytes => Type::Bytes,
            ShapeKind::Duration => Type::Duration,
            ShapeKind::Date | ShapeKind::DateTime => Type::Timestamp,
            ShapeKind::IntOrString | ShapeKind::Any => Type::Dyn,
            ShapeKind::Unknown => return None,
            ShapeKind::List(items, _) => Type::list(items.type_of()?),
            ShapeKind::Map(values) => Type::map(Type::String, values.type_of()?),
            ShapeKind::Object(object) => Type::Object(object.name.clone(), Some(self.clone())),
        })
    }

    /// Returns the maximum length at the end of a path: names of fields, `@items`, `@keys` and `@values`.
    pub fn bound_at(&self, path: &[impl AsRef<str>]) -> Option<u64> {
        let mut at = self;
        for (index, step) in path.iter().enumerate() {
            at = match (&at.kind, step.as_ref()) {
                (ShapeKind::List(items, _), "@items" | "@values") => items,
                (ShapeKind::Map(values), "@items" | "@values") => values,
                // Keys have no bound, which upstream treats as zero.
                (ShapeKind::Map(_), "@keys") => return (index + 1 == path.len()).then_some(0),
                (ShapeKind::Object(object), name) => &object.field(name)?.shape,
                _ => return None,
            };
        }
        Some(at.max_elements)
    }
}

/// Returns the name of a field as expressions write it, or `None` if they cannot.
pub fn escape(name: &str) -> Option<Cow<'_, str>> {
    if name.is_empty() || name.starts_with(|first: char| first.is_ascii_digit()) {
        return None;
    }
    if is_reserved(name) {
        return Some(Cow::Owned(format!("__{name}__")));
    }
    if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-./".contains(&byte)) {
        return None;
    }
    if !name.contains(['-', '.', '/']) && !name.contains("__") {
        return Some(Cow::Borrowed(name));
    }
    let replaced =
        name.replace("__", "\0").replace('.', "__dot__").replace('-', "__dash__").replace('/', "__slash__");
    Some(Cow::Owned(replaced.replace('\0', "__underscores__")))
}

/// Returns the JSON name of a field, or `None` if it contains an invalid escape.
pub fn unescape(escaped: &str) -> Option<Cow<'_, str>> {
    if !escaped.contains("__") {
        return Some(Cow::Borrowed(escaped));
    }
    let mut name = String::with_capacity(escaped.len());
    let mut rest = escaped;
    while let Some(start) = rest.find("__") {
        let inside = &rest[start + 2..];
        let length = inside.find('_').unwrap_or(inside.len());
        if length == 0 || !inside[length..].starts_with("__") {
            // No escape starts here; one may start at the next underscore.
            name.push_str(&rest[..=start]);
            rest = &rest[start + 1..];
            continue;
        }
        name.push_str(&rest[..start]);
        name.push_str(match &inside[..length] {
            "underscores" => "__",
            "dot" => ".",
            "dash" => "-",
            "slash" => "/",
            word if is_reserved(word) && length + 4 == escaped.len() => word,
            _ => return None,
        });
        rest = &inside[length + 2..];
    }
    name.push_str(rest);
    Some(Cow::Owned(name))
}

#[cfg(test)]
mod tests;
