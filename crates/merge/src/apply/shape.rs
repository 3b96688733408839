//! How server-side apply sees a type: as one value, as fields, or as items that are known by what they hold.

use std::borrow::Cow;

use atoll_extension as extension;
use atoll_schema::{Field, ListType, TypeId, TypeRef, Types, Whole};
use serde_json::Value;

use super::custom::Custom;
use super::element::Element;

/// A type, seen that way.
#[derive(Clone, Copy, Debug)]
pub enum Shape<'s> {
    Scalar(Scalar),
    List {
        element: Inner<'s>,
        items: Items<'s>,
    },
    Map {
        value: TypeRef,
        atomic: bool,
    },
    Struct {
        id: TypeId,
        atomic: bool,
    },
    /// An object that a definition describes.
    Custom(Custom<'s>),
    /// Whatever it is, it is one value.
    Opaque,
    /// Whatever it is: maps have entries, all else is one value.
    Deduced,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scalar {
    Text,
    Number,
    Boolean,
    Untyped,
}

/// What a list holds.
#[derive(Clone, Copy, Debug)]
pub enum Inner<'s> {
    Type(TypeRef),
    Custom(Custom<'s>),
    Deduced,
}

/// What tells the items of a list apart.
#[derive(Clone, Copy, Debug)]
pub enum Items<'s> {
    /// Nothing: the list is one value.
    Atomic,
    /// Their values.
    Set,
    /// Some of their fields.
    Keyed(&'static [&'static str]),
    /// The same, where a definition says which.
    KeyedBy(Custom<'s>),
}

/// Why an item of a list cannot be told from the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoKey(pub String);

impl<'s> Shape<'s> {
    /// The shape of a whole object; of a kind without types, what can be deduced.
    pub fn of_kind(type_id: Option<TypeId>) -> Shape<'s> {
        type_id.map_or(Shape::Deduced, |id| Shape::Struct { id, atomic: false })
    }

    /// The shape of a whole object that a definition describes.
    pub fn of_schema(schema: &'s extension::Schema) -> Shape<'s> {
        Custom::root(schema).shape()
    }

    /// The shape of a type as it is without a field that says otherwise.
    pub fn of_type(kind: TypeRef) -> Shape<'s> {
        Shape::new(kind, None)
    }

    /// The shape of what a field holds.
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
                    None | Some(ListType::Atomic) => Items::Atomic,
                    Some(ListType::Set) => Items::Set,
                    Some(ListType::Map) => Items::Keyed(field.map_or(&[], |field| &field.map_keys)),
                };
                Shape::List { element: Inner::Type(list.element), items }
            }
            TypeRef::Map(map) => {
                let atomic = field.and_then(|field| field.map_type) == Some(Whole::Atomic);
                Shape::Map { value: map.value, atomic }
            }
            TypeRef::Struct(id) => {
                // A field has the last word on the struct that it holds.
                let said = field.and_then(|field| field.struct_type.or(field.map_type));
                let atomic = said.map_or(Types::get()[id].atomic, |said| said == Whole::Atomic);
                Shape::Struct { id, atomic }
            }
        }
    }

    /// The shape of a field of a struct or of an entry of a map, and whether it is a declared field. `None` where there
    /// is no such field.
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

    /// Whether the whole is one value, whatever it holds.
    pub fn is_atomic(self) -> bool {
        match self {
            Shape::Scalar(_) | Shape::Opaque => true,
            Shape::List { items, .. } => matches!(items, Items::Atomic),
            Shape::Map { atomic, .. } | Shape::Struct { atomic, .. } => atomic,
            Shape::Custom(custom) => custom.is_atomic(),
            Shape::Deduced => false,
        }
    }
}

impl<'s> Inner<'s> {
    /// The shape of each item.
    pub fn shape(self) -> Shape<'s> {
        match self {
            Inner::Type(kind) => Shape::of_type(kind),
            Inner::Custom(custom) => custom.shape(),
            Inner::Deduced => Shape::Deduced,
        }
    }

    /// What a key field counts as where it is absent.
    fn default(self, key: &str) -> Option<Value> {
        match self {
            Inner::Type(kind) => default(kind, key),
            Inner::Custom(custom) => custom.default(key).cloned(),
            Inner::Deduced => None,
        }
    }
}

impl Items<'_> {
    /// The step that leads to an item.
    pub fn step<'a>(self, element: Inner<'_>, item: &'a Value) -> Result<Element<'a>, NoKey> {
        let refuse = |words: &str| Err(NoKey(words.to_owned()));
        match self {
            Items::Atomic => refuse("invalid indexing of non-associative list"),
            Items::Set => match item {
                Value::Object(_) => refuse("associative list without keys has an element that's a map type"),
                Value::Array(_) => refuse("not supported: associative list with lists as elements"),
                Value::Null => refuse("associative list without keys has an element that's an explicit null"),
                scalar => Ok(Element::Value(Cow::Borrowed(scalar))),
            },
            Items::Keyed(keys) => keyed(keys.iter().map(|key| Cow::Borrowed(*key)), element, item),
            Items::KeyedBy(list) => {
                let keys: Vec<_> = list.keys().map(|key| Cow::Owned(key.to_owned())).collect();
                keyed(keys.into_iter(), element, item)
            }
        }
    }
}

/// The step to an item that some of its fields tell from the others.
fn keyed<'a>(
    keys: impl Iterator<Item = Cow<'static, str>> + Clone,
    element: Inner<'_>,
    item: &'a Value,
) -> Result<Element<'a>, NoKey> {
    let refuse = |words: &str| Err(NoKey(words.to_owned()));
    let fields = match item {
        Value::Object(fields) => fields,
        Value::Null => return refuse("associative list with keys may not have a null element"),
        _ => return refuse("associative list with keys may not have non-map elements"),
    };
    let named = keys.clone().filter_map(|key| {
        let value = fields.get(&*key).map(Cow::Borrowed);
        value.or_else(|| element.default(&key).map(Cow::Owned)).map(|value| (key, value))
    });
    let mut named: Vec<_> = named.collect();
    if named.is_empty() {
        let quoted: Vec<_> = keys.map(|key| format!("{key:?}")).collect();
        return Err(NoKey(format!(
            "associative list with keys has an element that omits all key fields [{}] (and doesn't have default values \
             for any key fields)",
            quoted.join(" ")
        )));
    }
    named.sort_by(|left, right| left.0.cmp(&right.0));
    Ok(Element::Key(named))
}

/// What a key field counts as where it is absent: what is said of it, or its zero if Go would always write it.
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
