//! Shapes of custom resources, from the schemas of their definitions.

// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder/builder.go

use std::fmt;

use atoll_crd::{Additional, ListType, Schema, Shape as Tree};
use atoll_schema::{TypeRef, Types};
use serde_json::Value;

use super::shape::{ItemType, ListIdentity, Scalar, Shape};

/// A part of the schema of a definition.
#[derive(Clone, Copy)]
pub struct CustomSchema<'s> {
    tree: Tree<'s>,
    /// Whether it is a whole object with a kind and metadata.
    is_object: bool,
    /// Whether this or a parent preserves unknown fields.
    preserves: bool,
}

impl fmt::Debug for CustomSchema<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Custom")
    }
}

impl<'s> CustomSchema<'s> {
    pub fn root(schema: &'s Schema) -> CustomSchema<'s> {
        let tree = schema.shape();
        CustomSchema { tree, is_object: true, preserves: tree.preserves_unknown_fields() }
    }

    fn below(self, tree: Tree<'s>) -> CustomSchema<'s> {
        let preserves = self.preserves || tree.preserves_unknown_fields();
        CustomSchema { tree, is_object: tree.is_embedded_resource(), preserves }
    }

    pub fn shape(self) -> Shape<'s> {
        match self.tree.type_name() {
            Some("object") => Shape::Custom(self),
            // An embedded object without a schema is still an object.
            None if self.is_object => Shape::Custom(self),
            Some("array") => {
                let element =
                    self.tree.items().map_or(ItemType::Deduced, |items| ItemType::Custom(self.below(items)));
                let items = match self.tree.list_type() {
                    Some(ListType::Set) => ListIdentity::Set,
                    Some(ListType::Map) => ListIdentity::KeyedBy(self),
                    Some(ListType::Atomic) | None => ListIdentity::Atomic,
                };
                Shape::List { element, items }
            }
            Some("string") => Shape::Scalar(Scalar::Text),
            Some("integer" | "number") => Shape::Scalar(Scalar::Number),
            Some("boolean") => Shape::Scalar(Scalar::Boolean),
            _ if self.tree.properties().next().is_some() => Shape::Custom(self),
            _ => Shape::Deduced,
        }
    }

    pub fn member(self, name: &str) -> Option<(Shape<'s>, bool)> {
        if self.is_object {
            match name {
                "apiVersion" | "kind" => return Some((Shape::Scalar(Scalar::Text), true)),
                "metadata" => {
                    let id = Types::get().by_key("meta/v1.ObjectMeta")?;
                    return Some((Shape::of_type(TypeRef::Struct(id)), true));
                }
                _ => {}
            }
        }
        if let Some(property) = self.tree.property(name) {
            return Some((self.below(property).shape(), true));
        }
        match self.tree.additional() {
            Additional::Shape(value) => Some((self.below(value).shape(), false)),
            Additional::Allowed => Some((Shape::Deduced, false)),
            Additional::Unspecified if self.preserves || !self.has_properties() => {
                Some((Shape::Deduced, false))
            }
            Additional::Unspecified | Additional::Forbidden => None,
        }
    }

    fn has_properties(self) -> bool {
        self.is_object || self.tree.properties().next().is_some()
    }

    pub fn is_atomic(self) -> bool {
        self.tree.is_atomic()
    }

    /// Returns the map keys of this list.
    pub fn keys(self) -> impl Iterator<Item = &'s str> {
        self.tree.list_map_keys()
    }

    /// Returns the default of a key field.
    pub fn default(self, key: &str) -> Option<&'s Value> {
        self.tree.property(key)?.default()
    }
}
