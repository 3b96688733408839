//! The built-in types: kinds, structs, fields, and the named scalars, lists and maps that they consist of.

// upstream: staging/src/k8s.io/api/core/v1/types.go

mod parse;

use std::collections::HashMap;
use std::fmt;
use std::ops::Index;
use std::sync::OnceLock;

use serde_json::{Map as Object, Value};

/// Index of a struct type in [`Types`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TypeId(u16);

/// All struct types of the served kinds. A singleton, loaded on first use.
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
    /// Go name, as in errors: `Container`.
    pub name: &'static str,
    /// Fields in the order of the Go source. An embedded struct is one field with `inline` set.
    pub fields: Vec<Field>,
    /// Fields as JSON sees them, with embedded structs flattened, sorted by name.
    pub slots: Vec<Slot>,
    /// Whether server-side apply treats the struct as atomic.
    pub atomic: bool,
    /// Fields with a protobuf number, in the order of numbers.
    pub numbered: Vec<ProtoField>,
    /// Bit i: slot i is written even when it has its zero value.
    always: u64,
}

/// A field in protobuf.
#[derive(Clone, Copy, Debug)]
pub struct ProtoField {
    pub number: u32,
    /// Index in `fields`.
    pub field: u16,
    /// Index in `slots`; `None` for an embedded struct, whose fields are several slots.
    pub slot: Option<u8>,
}

/// A field of a Go struct.
#[derive(Debug)]
pub struct Field {
    /// JSON name; empty if `inline`.
    pub name: &'static str,
    pub go_name: &'static str,
    pub kind: TypeRef,
    pub pointer: bool,
    /// Whether this is an embedded struct whose fields are on the level of its parent in JSON, but not in
    /// protobuf.
    pub inline: bool,
    pub omit_empty: bool,
    pub omit_zero: bool,
    /// Whether the field is required in OpenAPI: marked as such, or neither optional nor omitted when empty.
    pub required: bool,
    /// Whether the field is marked as optional.
    pub optional: bool,
    pub nullable: bool,
    pub proto: Option<Proto>,
    pub list_type: Option<ListType>,
    /// Keys of a `ListType::Map`.
    pub map_keys: Vec<&'static str>,
    /// How server-side apply treats a map, if it is marked.
    pub map_type: Option<Granularity>,
    /// How server-side apply treats a struct, if it is marked.
    pub struct_type: Option<Granularity>,
    /// Patch strategy of strategic merge: `merge`, `replace`, `retainKeys`, or several separated by commas.
    pub patch_strategy: Option<&'static str>,
    pub patch_merge_key: Option<&'static str>,
    /// Value of the `+default` marker as JSON. Most defaults are code upstream and have no marker.
    pub default: Option<&'static str>,
}

/// The properties of a field for JSON decoding and encoding, by its JSON name.
#[derive(Debug)]
pub struct Slot {
    pub name: &'static str,
    pub kind: TypeRef,
    pub pointer: bool,
    pub omit_empty: bool,
    pub omit_zero: bool,
    /// Go names of the embedded structs on the path to the field, outermost first, for Go's errors.
    pub embedded: Vec<&'static str>,
    /// Whether the field exists in protobuf. The kind of an object does not: it is written beside the
    /// message.
    pub in_protobuf: bool,
    /// The struct that declares the field, and the index in that struct's `fields`.
    pub declared_by: TypeId,
    pub index: u16,
}

/// A field's protobuf tag.
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

/// Whether server-side apply tracks the parts of a value or only the value as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Granularity {
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
    /// `[]byte`: a base64 string in JSON.
    Bytes,
    Time,
    MicroTime,
    IntOrString,
    Quantity,
    /// Any object, kept unchanged.
    RawExtension,
    /// A set of field paths, kept unchanged.
    FieldsV1,
    /// Any JSON value, kept unchanged (apiextensions' `JSON`).
    Json,
    /// Go's `any`.
    Any,
    JsonSchemaOrArray,
    JsonSchemaOrBool,
    JsonSchemaOrStringArray,
    /// A named string type, possibly an enumeration.
    Named(&'static Scalar),
    List(&'static List),
    Map(&'static Map),
    Struct(TypeId),
}

/// A named string type.
#[derive(Debug)]
pub struct Scalar {
    pub key: &'static str,
    /// Allowed values, if upstream marks the type as an enumeration.
    pub values: Option<Vec<&'static str>>,
}

#[derive(Debug)]
pub struct List {
    /// Key of a named list type: `meta/v1.Verbs`.
    pub key: Option<&'static str>,
    pub element: TypeRef,
    /// Whether the list is a message of its own in protobuf, with the elements in field 1.
    pub message: bool,
}

#[derive(Debug)]
pub struct Map {
    /// Key of a named map type: `core/v1.ResourceList`.
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
            // The data is compiled in and tested.
            Err(error) => panic!("cannot parse data/types.txt: {error}"),
        })
    }

    /// Returns the type of a kind. Options, Status, Table and the like belong to every group version,
    /// including those of custom resources: look those up first.
    pub fn by_kind(&self, group: &str, version: &str, kind: &str) -> Option<TypeId> {
        self.kinds
            .get(&(group, version, kind))
            .or_else(|| self.kinds.get(&("meta.k8s.io", "v1", kind)))
            .copied()
    }

    /// Returns the type with a key such as `core/v1.Container`.
    pub fn by_key(&self, key: &str) -> Option<TypeId> {
        self.by_key.get(key).copied()
    }

    /// Returns every kind as (group, version, kind, type), sorted.
    pub fn kinds(&self) -> Vec<(&'static str, &'static str, &'static str, TypeId)> {
        let mut kinds: Vec<_> =
            self.kinds.iter().map(|(&(group, version, kind), &id)| (group, version, kind, id)).collect();
        kinds.sort_unstable();
        kinds
    }

    pub fn iter(&self) -> impl Iterator<Item = &Type> {
        self.all.iter()
    }

    /// Returns the field with a JSON name, possibly of an embedded struct.
    pub fn field(&self, id: TypeId, name: &str) -> Option<&Field> {
        let owner = &self[id];
        owner.slot(name).map(|(_, slot)| &self[slot.declared_by].fields[usize::from(slot.index)])
    }

    /// Returns the type of CustomResourceDefinition schemas, to which the `JsonSchemaOr…` types refer.
    pub fn json_schema(&self) -> TypeId {
        self.schema
    }

    /// Returns the encoded zero value of a type.
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

/// IDs come from these types only, so each is valid.
impl Index<TypeId> for Types {
    type Output = Type;

    fn index(&self, id: TypeId) -> &Type {
        &self.all[usize::from(id.0)]
    }
}

impl Type {
    /// Returns the field with a JSON name and its index in `slots`.
    #[inline]
    pub fn slot(&self, name: &str) -> Option<(usize, &Slot)> {
        let index = self.slots.binary_search_by(|slot| slot.name.cmp(name)).ok()?;
        Some((index, &self.slots[index]))
    }

    /// Whether a field that is always written was not seen.
    #[inline]
    pub(crate) fn lacks(&self, seen: u64) -> bool {
        self.always & !seen != 0
    }
}

impl TypeRef {
    /// Returns the type's name as Go prints it: `[]v1.Container`.
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
