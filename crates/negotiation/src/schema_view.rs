//! The keywords of a structural schema, read as the API server reads them: keywords of the wrong type do not
//! exist.

use std::sync::LazyLock;

use serde_json::{Map, Value};

use crate::difference::shortened;

pub(crate) type Fields = Map<String, Value>;

static NO_FIELDS: LazyLock<Fields> = LazyLock::new(Map::new);

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SchemaType {
    Any,
    IntOrString,
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
}

impl SchemaType {
    const NAMES: [(&'static str, SchemaType); 6] = [
        ("object", SchemaType::Object),
        ("array", SchemaType::Array),
        ("string", SchemaType::String),
        ("integer", SchemaType::Integer),
        ("number", SchemaType::Number),
        ("boolean", SchemaType::Boolean),
    ];

    /// The value of `type`; empty if there is none.
    pub fn name(self) -> &'static str {
        SchemaType::NAMES.iter().find(|(_, known)| *known == self).map_or("", |(name, _)| name)
    }

    /// The type in a message.
    pub fn words(self) -> &'static str {
        match self {
            SchemaType::Any => "any value",
            SchemaType::IntOrString => "integer or string",
            _ => self.name(),
        }
    }
}

/// The fields of an object that are not among its properties.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum OtherFields<'s> {
    /// They are pruned.
    Pruned,
    /// They are refused.
    Refused,
    /// They are kept, without fields of their own.
    Shallow,
    /// They are preserved as they are.
    Preserved,
    /// The object is a map with values of this schema.
    Values(SchemaView<'s>),
}

/// The schema of one value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct SchemaView<'s> {
    fields: &'s Fields,
    /// Whether unknown fields are preserved, also because a list above preserves them.
    pub is_open: bool,
    /// Whether this is a complete object with kind and metadata.
    pub is_resource: bool,
}

impl<'s> SchemaView<'s> {
    /// The schema of a complete object.
    pub fn root(schema: &'s Value) -> SchemaView<'s> {
        SchemaView { is_resource: true, ..SchemaView::of(schema, false) }
    }

    /// The schema of a part. `is_open` says whether the list above preserves unknown fields.
    pub fn of(schema: &'s Value, is_open: bool) -> SchemaView<'s> {
        let fields = schema.as_object().unwrap_or(&NO_FIELDS);
        let flag = |name: &str| fields.get(name) == Some(&Value::Bool(true));
        SchemaView {
            fields,
            is_open: is_open || flag("x-kubernetes-preserve-unknown-fields"),
            is_resource: flag("x-kubernetes-embedded-resource"),
        }
    }

    /// The schema without keywords, which prunes all fields unless `is_open`.
    pub fn empty(is_open: bool) -> SchemaView<'static> {
        SchemaView { fields: &NO_FIELDS, is_open, is_resource: false }
    }

    /// The same schema where all unknown fields are preserved.
    pub fn opened(self) -> SchemaView<'s> {
        SchemaView { is_open: true, ..self }
    }

    pub fn fields(self) -> &'s Fields {
        self.fields
    }

    pub fn flag(self, name: &str) -> bool {
        self.fields.get(name) == Some(&Value::Bool(true))
    }

    pub fn text(self, name: &str) -> Option<&'s str> {
        self.fields.get(name).and_then(Value::as_str).filter(|text| !text.is_empty())
    }

    pub fn list(self, name: &str) -> &'s [Value] {
        self.fields.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    pub fn texts(self, name: &str) -> impl Iterator<Item = &'s str> {
        self.list(name).iter().filter_map(Value::as_str)
    }

    pub fn float(self, name: &str) -> Option<f64> {
        self.fields.get(name).and_then(Value::as_f64)
    }

    pub fn count(self, name: &str) -> Option<i64> {
        self.fields.get(name).and_then(Value::as_i64)
    }

    pub fn default(self) -> Option<&'s Value> {
        self.fields.get("default").filter(|default| !default.is_null())
    }

    pub fn kind(self) -> SchemaType {
        if self.flag("x-kubernetes-int-or-string") {
            return SchemaType::IntOrString;
        }
        let name = self.text("type").unwrap_or_default();
        SchemaType::NAMES.iter().find(|(known, _)| *known == name).map_or(SchemaType::Any, |(_, kind)| *kind)
    }

    pub fn is_nullable(self) -> bool {
        self.flag("nullable") || self.kind() == SchemaType::Any
    }

    pub fn properties(self) -> &'s Fields {
        self.fields.get("properties").and_then(Value::as_object).unwrap_or(&NO_FIELDS)
    }

    pub fn other_fields(self) -> OtherFields<'s> {
        match self.fields.get("additionalProperties") {
            None | Some(Value::Null) if self.is_open => OtherFields::Preserved,
            None | Some(Value::Null) => OtherFields::Pruned,
            Some(Value::Bool(true)) => OtherFields::Shallow,
            Some(Value::Bool(false)) => OtherFields::Refused,
            Some(schema) => OtherFields::Values(SchemaView::of(schema, false)),
        }
    }

    /// The schema of items. Fields of items without a schema are pruned.
    pub fn items(self) -> SchemaView<'s> {
        match self.fields.get("items").filter(|items| items.is_object()) {
            Some(items) => SchemaView::of(items, self.is_open),
            None => SchemaView::empty(self.is_open),
        }
    }

    /// Whether every value is accepted and preserved.
    pub fn is_anything(self) -> bool {
        let says_nothing = |(name, value): (&String, &Value)| {
            is_documentation(name)
                || matches!(value, Value::Null | Value::Bool(false))
                || matches!(name.as_str(), "x-kubernetes-preserve-unknown-fields" | "nullable")
        };
        self.is_open && !self.is_resource && self.fields.iter().all(says_nothing)
    }

    /// The type in a message.
    pub fn words(self) -> &'static str {
        match (self.kind(), self.other_fields()) {
            (SchemaType::Object, OtherFields::Values(_)) => "map",
            (kind, _) => kind.words(),
        }
    }
}

/// Whether a keyword only describes values.
pub(crate) fn is_documentation(keyword: &str) -> bool {
    matches!(keyword, "description" | "title" | "example" | "externalDocs" | "id" | "$schema")
}

/// A value in a message.
pub(crate) fn shown(value: &Value) -> String {
    shortened(&atoll_meta::json::to_string(value))
}
