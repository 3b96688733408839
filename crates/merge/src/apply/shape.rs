//! Types as server-side apply sees them: atomic values, structs and maps, or lists with identifiable items.

// upstream: sigs.k8s.io/structured-merge-diff/v6/schema/elements.go
// upstream: sigs.k8s.io/structured-merge-diff/v6/typed/helpers.go

use std::borrow::Cow;

use atoll_crd as extension;
use atoll_schema::{Field, Granularity, ListType, TypeId, TypeRef, Types};
use serde_json::Value;

use super::custom::CustomSchema;
use super::element::Element;

/// The structure of a type.
#[derive(Clone, Copy, Debug)]
pub enum Shape<'s> {
    Scalar(Scalar),
    List {
        element: ItemType<'s>,
        items: ListIdentity<'s>,
    },
    Map {
        value: TypeRef,
        atomic: bool,
    },
    Struct {
        id: TypeId,
        atomic: bool,
    },
    /// An object that a CustomResourceDefinition describes.
    Custom(CustomSchema<'s>),
    /// An atomic value of any type.
    Opaque,
    /// A value of unknown type: maps have entries, everything else is atomic.
    Deduced,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scalar {
    Text,
    Number,
    Boolean,
    Untyped,
}

/// The element type of a list.
#[derive(Clone, Copy, Debug)]
pub enum ItemType<'s> {
    Type(TypeRef),
    Custom(CustomSchema<'s>),
    Deduced,
}

/// The identity of the items of a list.
#[derive(Clone, Copy, Debug)]
pub enum ListIdentity<'s> {
    /// The list is atomic.
    Atomic,
    /// Items are identified by their values.
    Set,
    /// Items are identified by these fields.
    Keyed(&'static [&'static str]),
    /// Items are identified by fields that a CustomResourceDefinition specifies.
    KeyedBy(CustomSchema<'s>),
}

/// The reason why an item of a list cannot be identified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoKey(pub String);

impl<'s> Shape<'s> {
    /// Returns the shape of an object. Without types it is deduced.
    pub fn of_kind(type_id: Option<TypeId>) -> Shape<'s> {
        type_id.map_or(Shape::Deduced, |id| Shape::Struct { id, atomic: false })
    }

    /// Returns the shape of a custom resource.
    pub fn of_schema(schema: &'s extension::Schema) -> Shape<'s> {
        CustomSchema::root(schema).shape()
    }

    /// Returns the shape of a type, without the markers of a field.
    pub fn of_type(kind: TypeRef) -> Shape<'s> {
        Shape::new(kind, None)
    }

    /// Returns the shape of the value of a field.
    pub fn of_field(field: &'static Field) -> Shape<'s> {
        Shape::new(field.kind, Some(field))
    }

    fn new(kind: TypeRef, field: Option<&'static Field>) -> Shape<'s> {
        match kind {
            TypeRef::String | TypeRef::Bytes | TypeRef::Named(_) => Shape::Scalar(Scalar::Text),
            TypeRef::Bool => Shape::Scalar(Scalar::Boolean),
            TypeRef::Int32 | TypeRef::Int64 | TypeRef::Float64 => Shape::Scalar(Scalar::Number),
            TypeRef::Time | TypeRef::MicroTime | TypeRef::IntOrString | TypeRef::Quantity => {
                Shape::Scalar(Scalar::Untyped)
            }
            TypeRef::RawExtension => Shape::Opaque,
            TypeRef::FieldsV1
            | TypeRef::Json
            | TypeRef::Any
            | TypeRef::JsonSchemaOrArray
            | TypeRef::JsonSchemaOrBool
            | TypeRef::JsonSchemaOrStringArray => Shape::Deduced,
            TypeRef::List(list) => {
                let items = match field.and_then(|field| field.list_type) {
                    None | Some(ListType::Atomic) => ListIdentity::Atomic,
                    Some(ListType::Set) => ListIdentity::Set,
                    Some(ListType::Map) => ListIdentity::Keyed(field.map_or(&[], |field| &field.map_keys)),
                };
                Shape::List { element: ItemType::Type(list.element), items }
            }
            TypeRef::Map(map) => {
                let atomic = field.and_then(|field| field.map_type) == Some(Granularity::Atomic);
                Shape::Map { value: map.value, atomic }
            }
            TypeRef::Struct(id) => {
                // Markers of a field override those of its type.
                let marker = field.and_then(|field| field.struct_type.or(field.map_type));
                let atomic = marker.map_or(Types::get()[id].atomic, |marker| marker == Granularity::Atomic);
                Shape::Struct { id, atomic }
            }
        }
    }

    /// Returns the shape of a struct field or a map entry, and whether it is a declared field. `None` if
    /// there is no such field.
    pub fn member(self, name: &str) -> Option<(Shape<'s>, bool)> {
        match self {
            Shape::Struct { id, .. } => {
                let types = Types::get();
                let (_, slot) = types[id].slot(name)?;
                let field = &types[slot.declared_by].fields[usize::from(slot.index)];
                Some((Shape::of_field(field), true))
            }
            Shape::Custom(custom) => custom.member(name),
            Shape::Map { value, .. } => Some((Shape::of_type(value), false)),
            Shape::Opaque => Some((Shape::Opaque, false)),
            _ => Some((Shape::Deduced, false)),
        }
    }

    /// Whether the value is atomic.
    pub fn is_atomic(self) -> bool {
        match self {
            Shape::Scalar(_) | Shape::Opaque => true,
            Shape::List { items, .. } => matches!(items, ListIdentity::Atomic),
            Shape::Map { atomic, .. } | Shape::Struct { atomic, .. } => atomic,
            Shape::Custom(custom) => custom.is_atomic(),
            Shape::Deduced => false,
        }
    }
}

impl<'s> ItemType<'s> {
    /// Returns the shape of each item.
    pub fn shape(self) -> Shape<'s> {
        match self {
            ItemType::Type(kind) => Shape::of_type(kind),
            ItemType::Custom(custom) => custom.shape(),
            ItemType::Deduced => Shape::Deduced,
        }
    }

    /// Returns the default of a key field.
    fn default(self, key: &str) -> Option<Value> {
        match self {
            ItemType::Type(kind) => default(kind, key),
            ItemType::Custom(custom) => custom.default(key).cloned(),
            ItemType::Deduced => None,
        }
    }
}

impl ListIdentity<'_> {
    /// Returns the path element of an item.
    pub fn step<'a>(self, element: ItemType<'_>, item: &'a Value) -> Result<Element<'a>, NoKey> {
        let no_key = |message: &str| Err(NoKey(message.to_owned()));
        match self {
            ListIdentity::Atomic => no_key("invalid indexing of non-associative list"),
            ListIdentity::Set => match item {
                Value::Object(_) => no_key("associative list without keys has an element that's a map type"),
                Value::Array(_) => no_key("not supported: associative list with lists as elements"),
                Value::Null => no_key("associative list without keys has an element that's an explicit null"),
                scalar => Ok(Element::Value(Cow::Borrowed(scalar))),
            },
            ListIdentity::Keyed(keys) => keyed(keys.iter().map(|key| Cow::Borrowed(*key)), element, item),
            ListIdentity::KeyedBy(list) => {
                let keys: Vec<_> = list.keys().map(|key| Cow::Owned(key.to_owned())).collect();
                keyed(keys.into_iter(), element, item)
            }
        }
    }
}

/// Returns the path element of an item that is identified by its key fields.
fn keyed<'a>(
    keys: impl Iterator<Item = Cow<'static, str>> + Clone,
    element: ItemType<'_>,
    item: &'a Value,
) -> Result<Element<'a>, NoKey> {
    let no_key = |message: &str| Err(NoKey(message.to_owned()));
    let fields = match item {
        Value::Object(fields) => fields,
        Value::Null => return no_key("associative list with keys may not have a null element"),
        _ => return no_key("associative list with keys may not have non-map elements"),
    };
    let named = keys.clone().filter_map(|key| {
        let value = fields.get(&*key).map(Cow::Borrowed);
        value.or_else(|| element.default(&key).map(Cow::Owned)).map(|value| (key, value))
    });
    let mut named: Vec<_> = named.collect();
    if named.is_empty() {
        let quoted: Vec<_> = keys.map(|key| atoll_meta::quote::quote(&key)).collect();
        return Err(NoKey(format!(
            "associative list with keys has an element that omits all key fields [{}] (and doesn't have default values \
             for any key fields)",
            quoted.join(" ")
        )));
    }
    named.sort_by(|left, right| left.0.cmp(&right.0));
    Ok(Element::Key(named))
}

/// Returns the default of a key field: the declared one, or its zero value if Go always writes it.
fn default(element: TypeRef, key: &str) -> Option<Value> {
    let TypeRef::Struct(id) = element else { return None };
    let types = Types::get();
    let field = types.field(id, key)?;
    match field.default {
        Some(text) => atoll_meta::json::parse(text.as_bytes()).ok().map(|parsed| parsed.value),
        None if field.omit_empty || field.omit_zero || field.pointer => None,
        None => Some(types.zero(field.kind)),
    }
}
