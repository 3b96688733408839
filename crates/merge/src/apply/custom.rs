//! What a definition says about its objects, as server-side apply sees it.

use std::fmt;

use atoll_extension::{Additional, ListType, Schema, Shape as Tree};
use atoll_schema::{TypeRef, Types};
use serde_json::Value;

use super::shape::{Inner, Items, Scalar, Shape};

/// A part of a definition's schema.
#[derive(Clone, Copy)]
pub struct Custom<'s> {
    tree: Tree<'s>,
    /// Whether it is a whole object, with a kind and metadata.
    is_object: bool,
    /// Whether this or something around it keeps fields that it does not know.
    preserves: bool,
}

impl fmt::Debug for Custom<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Custom")
    }
}

impl<'s> Custom<'s> {
    pub fn root(schema: &'s Schema) -> Custom<'s> {
        let tree = schema.shape();
        Custom { tree, is_object: true, preserves: tree.preserves_unknown_fields() }
    }

    fn below(self, tree: Tree<'s>) -> Custom<'s> {
        let preserves = self.preserves || tree.preserves_unknown_fields();
        Custom { tree, is_object: tree.is_embedded_resource(), preserves }
    }

    pub fn shape(self) -> Shape<'s> {
        match self.tree.type_name() {
            Some("object") => Shape::Custom(self),
            // A whole object without a schema is one nevertheless.
            None if self.is_object => Shape::Custom(self),
            Some("array") => {
                let element =
                    self.tree.items().map_or(Inner::Deduced, |items| Inner::Custom(self.below(items)));
                let items = match self.tree.list_type() {
                    Some(ListType::Set) => Items::Set,
                    Some(ListType::Map) => Items::KeyedBy(self),
                    Some(ListType::Atomic) | None => Items::Atomic,
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
            Additional::Unsaid if self.preserves || !self.has_properties() => Some((Shape::Deduced, false)),
            Additional::Unsaid | Additional::Forbidden => None,
        }
    }

    fn has_properties(self) -> bool {
        self.is_object || self.tree.properties().next().is_some()
    }

    pub fn is_atomic(self) -> bool {
        self.tree.is_atomic()
    }

    /// The fields that tell the items of this list apart.
    pub fn keys(self) -> impl Iterator<Item = &'s str> {
        self.tree.list_map_keys()
    }

    /// What a field counts as where it is absent.
    pub fn default(self, key: &str) -> Option<&'s Value> {
        self.tree.property(key)?.default()
    }
}
