//! What a variable looks like: one description for the checker's types, the evaluator's values and the estimator's sizes.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use crate::types::Type;

/// What a JSON value that an expression sees looks like; made from a schema.
#[derive(Debug)]
pub struct Shape {
    /// What it is.
    pub kind: ShapeKind,
    /// Whether null may stand for it.
    pub nullable: bool,
    /// How long a string, list or map may be: upstream's `MaxElements`, with its estimates where the schema has no bound.
    /// 0 for everything else.
    pub max_elements: u64,
}

/// What a JSON value is to an expression.
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
    /// `x-kubernetes-preserve-unknown-fields` without a type: not visible to expressions, but compared.
    Unknown,
    /// Any JSON as it is, for variables without a schema.
    Any,
    /// `type: array`.
    List(Arc<Shape>, ListKind),
    /// `type: object` with `additionalProperties`.
    Map(Arc<Shape>),
    /// `type: object` with `properties` or with nothing.
    Object(Object),
}

/// `x-kubernetes-list-type`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListKind {
    /// Order matters.
    Atomic,
    /// Order does not matter; all items differ.
    Set,
    /// Items are told apart by these fields.
    Map(Vec<String>),
}

/// An object with fields.
#[derive(Debug)]
pub struct Object {
    /// The name of its type, such as `selfType123.spec`: shown in error messages.
    pub name: Arc<str>,
    /// Its fields by their name in JSON.
    pub fields: BTreeMap<String, Arc<Shape>>,
    /// Whether the schema has `properties` at all: without them keys are not escaped and null is a value.
    pub has_properties: bool,
    visible: OnceLock<BTreeMap<String, Field>>,
}

/// A field that expressions can see.
#[derive(Debug)]
pub struct Field {
    /// Its type.
    pub type_of: Type,
    /// What it looks like.
    pub shape: Arc<Shape>,
    /// Its name in JSON.
    pub name: String,
}

impl Object {
    /// An object type of this name.
    pub fn new(
        name: impl Into<Arc<str>>,
        fields: BTreeMap<String, Arc<Shape>>,
        has_properties: bool,
    ) -> Object {
        Object { name: name.into(), fields, has_properties, visible: OnceLock::new() }
    }

    /// A field by its escaped name, if expressions can see it.
    pub fn field(&self, escaped: &str) -> Option<&Field> {
        let visible = self.visible.get_or_init(|| {
            let fields = self.fields.iter().filter_map(|(name, shape)| {
                let field = Field { type_of: shape.type_of()?, shape: shape.clone(), name: name.clone() };
                Some((escape(name)?.into_owned(), field))
            });
            fields.collect()
        });
        // Words of the language can be fields without being escaped.
        let word = || RESERVED.contains(&escaped).then(|| visible.get(&format!("__{escaped}__"))).flatten();
        visible.get(escaped).or_else(word)
    }
}

impl Shape {
    /// A shape that cannot be null and has no length.
    pub fn new(kind: ShapeKind) -> Arc<Shape> {
        Shape::bounded(kind, 0)
    }

    /// A shape that cannot be null and has at most so many characters, bytes, items or entries.
    pub fn bounded(kind: ShapeKind, max_elements: u64) -> Arc<Shape> {
        Arc::new(Shape { kind, nullable: false, max_elements })
    }

    /// Its type, or nothing if expressions cannot see it.
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

    /// How long what a path leads to from here may be: names of fields, `@items`, `@keys` and `@values`.
    pub fn bound_at(&self, path: &[impl AsRef<str>]) -> Option<u64> {
        let mut at = self;
        for (place, step) in path.iter().enumerate() {
            at = match (&at.kind, step.as_ref()) {
                (ShapeKind::List(items, _), "@items" | "@values") => items,
                (ShapeKind::Map(values), "@items" | "@values") => values,
                // Nothing bounds keys, and upstream takes that for empty ones.
                (ShapeKind::Map(_), "@keys") => return (place + 1 == path.len()).then_some(0),
                (ShapeKind::Object(object), name) => &object.field(name)?.shape,
                _ => return None,
            };
        }
        Some(at.max_elements)
    }
}

const RESERVED: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// The name of a field as expressions write it, or nothing if they cannot.
pub fn escape(name: &str) -> Option<Cow<'_, str>> {
    if name.is_empty() || name.starts_with(|first: char| first.is_ascii_digit()) {
        return None;
    }
    if RESERVED.contains(&name) {
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

/// The name of a field in JSON, or nothing if it has escapes that mean nothing.
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
            // No escape begins here; one may begin at the next underscore.
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
            word if RESERVED.contains(&word) && length + 4 == escaped.len() => word,
            _ => return None,
        });
        rest = &inside[length + 2..];
    }
    name.push_str(rest);
    Some(Cow::Owned(name))
}

#[cfg(test)]
mod tests;
