//! The built-in types: kinds, structs, fields, and the named scalars, lists and maps they are made of.

mod parse;

use std::collections::HashMap;
use std::fmt;
use std::ops::Index;
use std::sync::OnceLock;

use serde_json::{Map as Object, Value};

/// A struct type's place in [`Types`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TypeId(u16);

/// Every struct type that the served kinds are made of. There is one, loaded on first use.
pub struct Types {
    all: Vec<Type>,
    by_key: HashMap<&'static str, TypeId>,
    kinds: HashMap<(&'static str, &'static str, &'static str), TypeId>,
    schema: TypeId,
}

/// A Go struct.
#[derive(Debug)]
pub struct Type {
    pub id: TypeId,
    /// Package and name, unique: `core/v1.Container`.
    pub key: &'static str,
    /// The Go name, as it stands in errors: `Container`.
    pub name: &'static str,
    /// In the order of the Go source. An embedded struct is one field with `inline` set.
    pub fields: Vec<Field>,
    /// The fields as JSON sees them, embedded structs flattened, sorted by name.
    pub slots: Vec<Slot>,
    /// Set for structs that server-side apply treats as one value.
    pub atomic: bool,
    /// What has a field in protobuf, in the order of its numbers.
    pub numbered: Vec<Numbered>,
    /// Bit i: slot i is written even when it holds its zero value.
    always: u64,
}

/// A field in protobuf.
#[derive(Clone, Copy, Debug)]
pub struct Numbered {
    pub number: u32,
    /// Its place in `fields`.
    pub field: u16,
    /// The place in `slots` of what it holds; nothing for an embedded struct, whose fields are scattered there.
    pub slot: Option<u8>,
}

/// A field of a Go struct.
#[derive(Debug)]
pub struct Field {
    /// The name in JSON; empty where `inline`.
    pub name: &'static str,
    pub go_name: &'static str,
    pub kind: TypeRef,
    pub pointer: bool,
    /// An embedded struct whose fields stand on the level of its holder in JSON, but not in protobuf.
    pub inline: bool,
    pub omit_empty: bool,
    pub omit_zero: bool,
    /// As OpenAPI has it: marked so, or neither optional nor left out when empty.
    pub required: bool,
    /// Marked so.
    pub optional: bool,
    pub nullable: bool,
    pub proto: Option<Proto>,
    pub list_type: Option<ListType>,
    /// The fields that tell the elements of a `ListType::Map` apart.
    pub map_keys: Vec<&'static str>,
    /// How server-side apply treats a map, where that is said.
    pub map_type: Option<Whole>,
    /// How server-side apply treats a struct, where that is said.
    pub struct_type: Option<Whole>,
    /// Strategic merge: `merge`, `replace`, `retainKeys`, or several with commas.
    pub patch_strategy: Option<&'static str>,
    pub patch_merge_key: Option<&'static str>,
    /// The default marker's value as JSON text. Most defaults are code upstream and stand in no marker.
    pub default: Option<&'static str>,
}

/// What JSON decoding and encoding needs of a field, found by its JSON name.
#[derive(Debug)]
pub struct Slot {
    pub name: &'static str,
    pub kind: TypeRef,
    pub pointer: bool,
    pub omit_empty: bool,
    pub omit_zero: bool,
    /// Go names of the embedded structs on the way to the field, outermost first: Go's errors spell them.
    pub embedded: Vec<&'static str>,
    /// Whether it has a field in protobuf. The kind of an object has none: it is written beside the message.
    pub in_protobuf: bool,
    /// The struct that declares the field, and its place in that struct's `fields`.
    pub declared_by: TypeId,
    pub index: u16,
}

/// A field's tag in protobuf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proto {
    pub number: u32,
    pub wire: Wire,
    pub repeated: bool,
    pub packed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    Varint,
    Bytes,
    Fixed64,
    Fixed32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListType {
    Atomic,
    Set,
    Map,
}

/// Whether server-side apply tracks the parts of a value or only the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whole {
    Atomic,
    Granular,
}

/// A type as fields refer to it.
#[derive(Clone, Copy, Debug)]
pub enum TypeRef {
    String,
    Bool,
    Int32,
    Int64,
    Float64,
    /// `[]byte`: base64 text in JSON.
    Bytes,
    Time,
    MicroTime,
    IntOrString,
    Quantity,
    /// Any object, kept as it is.
    RawExtension,
    /// A set of field paths, kept as it is.
    FieldsV1,
    /// Any JSON value, kept as it is (apiextensions' `JSON`).
    Json,
    /// Go's `any`.
    Any,
    JsonSchemaOrArray,
    JsonSchemaOrBool,
    JsonSchemaOrStringArray,
    /// A string type with a name of its own, perhaps with a closed set of values.
    Named(&'static Scalar),
    List(&'static List),
    Map(&'static Map),
    Struct(TypeId),
}

/// A named string type.
#[derive(Debug)]
pub struct Scalar {
    pub key: &'static str,
    /// The permitted values, where upstream marks the type as an enumeration.
    pub values: Option<Vec<&'static str>>,
}

#[derive(Debug)]
pub struct List {
    /// Where the list type has a name: `meta/v1.Verbs`.
    pub key: Option<&'static str>,
    pub element: TypeRef,
    /// In protobuf a message of its own, with the elements in its field 1.
    pub message: bool,
}

#[derive(Debug)]
pub struct Map {
    /// Where the map type has a name: `core/v1.ResourceList`.
    pub key: Option<&'static str>,
    /// `String` or `Named`.
    pub index: TypeRef,
    pub value: TypeRef,
}

impl Types {
    pub fn get() -> &'static Types {
        static TYPES: OnceLock<Types> = OnceLock::new();
        TYPES.get_or_init(|| match parse::parse(include_str!("../data/types.txt")) {
            Ok(types) => types,
            // The data is part of the program and tested with it.
            Err(error) => panic!("the type data is damaged: {error}"),
        })
    }

    /// The type of a kind. Options, Status, Table and the like belong to every group version, even to those of custom
    /// resources: look those up first.
    pub fn by_kind(&self, group: &str, version: &str, kind: &str) -> Option<TypeId> {
        self.kinds
            .get(&(group, version, kind))
            .or_else(|| self.kinds.get(&("meta.k8s.io", "v1", kind)))
            .copied()
    }

    /// The type with a key as in `core/v1.Container`.
    pub fn by_key(&self, key: &str) -> Option<TypeId> {
        self.by_key.get(key).copied()
    }

    /// Every kind as (group, version, kind, type), sorted.
    pub fn kinds(&self) -> Vec<(&'static str, &'static str, &'static str, TypeId)> {
        let mut kinds: Vec<_> =
            self.kinds.iter().map(|(&(group, version, kind), &id)| (group, version, kind, id)).collect();
        kinds.sort_unstable();
        kinds
    }

    pub fn iter(&self) -> impl Iterator<Item = &Type> {
        self.all.iter()
    }

    /// The field with a JSON name, wherever an embedded struct may hold it.
    pub fn field(&self, id: TypeId, name: &str) -> Option<&Field> {
        let owner = &self[id];
        owner.slot(name).map(|(_, slot)| &self[slot.declared_by].fields[usize::from(slot.index)])
    }

    /// The type of CRD schemas, which the `JsonSchemaOr…` types lead to.
    pub fn json_schema(&self) -> TypeId {
        self.schema
    }

    /// What encoding writes for a value of this type that was never set.
    pub fn zero(&self, kind: TypeRef) -> Value {
        match kind {
            TypeRef::String | TypeRef::Named(_) => Value::String(String::new()),
            TypeRef::Bool => Value::Bool(false),
            TypeRef::Int32 | TypeRef::Int64 | TypeRef::Float64 | TypeRef::IntOrString => Value::from(0),
            TypeRef::Quantity => Value::String("0".to_owned()),
            TypeRef::Struct(id) => {
                let owner = &self[id];
                let mut object = Object::new();
                self.fill(owner, 0, &mut object);
                Value::Object(object)
            }
            TypeRef::JsonSchemaOrBool => Value::Bool(false),
            TypeRef::Bytes
            | TypeRef::Time
            | TypeRef::MicroTime
            | TypeRef::RawExtension
            | TypeRef::FieldsV1
            | TypeRef::Json
            | TypeRef::Any
            | TypeRef::JsonSchemaOrArray
            | TypeRef::JsonSchemaOrStringArray
            | TypeRef::List(_)
            | TypeRef::Map(_) => Value::Null,
        }
    }

    /// Adds the fields that are written even when unset and that are not among `seen`.
    pub(crate) fn fill(&self, owner: &Type, seen: u64, object: &mut Object<String, Value>) {
        let mut missing = owner.always & !seen;
        while missing != 0 {
            let slot = &owner.slots[missing.trailing_zeros() as usize];
            missing &= missing - 1;
            let value = if slot.pointer { Value::Null } else { self.zero(slot.kind) };
            object.insert(slot.name.to_owned(), value);
        }
    }
}

/// Ids come from these types only, so each has its struct.
impl Index<TypeId> for Types {
    type Output = Type;

    fn index(&self, id: TypeId) -> &Type {
        &self.all[usize::from(id.0)]
    }
}

impl Type {
    /// The field with a JSON name and its place in `slots`.
    #[inline]
    pub fn slot(&self, name: &str) -> Option<(usize, &Slot)> {
        let index = self.slots.binary_search_by(|slot| slot.name.cmp(name)).ok()?;
        Some((index, &self.slots[index]))
    }

    /// Whether a field that was not among those seen has to be added.
    #[inline]
    pub(crate) fn lacks(&self, seen: u64) -> bool {
        self.always & !seen != 0
    }
}

impl TypeRef {
    /// The type's name as Go prints it: `[]v1.Container`.
    pub fn go_name(self, types: &Types) -> String {
        struct Spelled<'t>(TypeRef, &'t Types);
        impl fmt::Display for Spelled<'_> {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                let Spelled(kind, types) = *self;
                out.write_str(match kind {
                    TypeRef::String => "string",
                    TypeRef::Bool => "bool",
                    TypeRef::Int32 => "int32",
                    TypeRef::Int64 => "int64",
                    TypeRef::Float64 => "float64",
                    TypeRef::Bytes => "[]uint8",
                    TypeRef::Time => "v1.Time",
                    TypeRef::MicroTime => "v1.MicroTime",
                    TypeRef::IntOrString => "intstr.IntOrString",
                    TypeRef::Quantity => "resource.Quantity",
                    TypeRef::RawExtension => "runtime.RawExtension",
                    TypeRef::FieldsV1 => "v1.FieldsV1",
                    TypeRef::Json => "v1.JSON",
                    TypeRef::Any => "interface {}",
                    TypeRef::JsonSchemaOrArray => "v1.JSONSchemaPropsOrArray",
                    TypeRef::JsonSchemaOrBool => "v1.JSONSchemaPropsOrBool",
                    TypeRef::JsonSchemaOrStringArray => "v1.JSONSchemaPropsOrStringArray",
                    TypeRef::Named(scalar) => unqualified(scalar.key),
                    TypeRef::Struct(id) => unqualified(types[id].key),
                    TypeRef::List(List { key: Some(key), .. }) | TypeRef::Map(Map { key: Some(key), .. }) => {
                        unqualified(key)
                    }
                    TypeRef::List(list) => return write!(out, "[]{}", Spelled(list.element, types)),
                    TypeRef::Map(map) => {
                        return write!(
                            out,
                            "map[{}]{}",
                            Spelled(map.index, types),
                            Spelled(map.value, types)
                        );
                    }
                })
            }
        }
        Spelled(self, types).to_string()
    }
}

/// Go names a type by the last part of its import path: `core/v1.Container` is `v1.Container`.
fn unqualified(key: &str) -> &str {
    key.rsplit_once('/').map_or(key, |(_, name)| name)
}
