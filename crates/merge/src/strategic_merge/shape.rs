//! What the types say of a field that is to be merged.

use atoll_meta::quote::quote;
use atoll_schema::{TypeId, TypeRef, Types};

use super::unmergeable;
use crate::PatchError;

/// The type of a value, as far as merging asks for it.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    kind: TypeRef,
    pointer: bool,
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Strategy {
    Unsaid,
    Merge,
    Replace,
}

/// How a field is merged.
pub(super) struct Merged {
    /// Of the value, or of a list's elements.
    pub shape: Shape,
    /// What the types say shall be done; by itself a map is merged and a list replaced.
    pub strategy: Strategy,
    /// What tells a list's elements apart; empty where they are no maps.
    pub merge_key: &'static str,
}

impl Shape {
    pub fn of(id: TypeId) -> Shape {
        Shape { kind: TypeRef::Struct(id), pointer: false }
    }

    /// The field that JSON calls so; if there is none, one whose name differs in case.
    pub fn field(self, types: &Types, name: &str) -> Result<Merged, PatchError> {
        let missing = |owner: &str| {
            let name = quote(name);
            unmergeable(format!("unable to find api field in struct {owner} for the json field {name}"))
        };
        let owner = match self.kind {
            TypeRef::Struct(id) => &types[id],
            kind if Shape { kind, pointer: false }.go_kind() == "struct" => {
                let owner = kind.go_name(types);
                return Err(missing(owner.rsplit('.').next().unwrap_or_default()));
            }
            kind => {
                return Err(unmergeable(format!(
                    "merging an object in json but data type is not struct, instead is: {}",
                    Shape { kind, pointer: false }.go_kind()
                )));
            }
        };
        let folded = || owner.slots.iter().find(|slot| slot.name.eq_ignore_ascii_case(name));
        let slot = owner.slot(name).map(|(_, slot)| slot).or_else(folded);
        let slot = slot.ok_or_else(|| missing(owner.name))?;
        let field = &types[slot.declared_by].fields[usize::from(slot.index)];
        // `retainKeys` is for clients that make patches.
        let mut strategies = field.patch_strategy.unwrap_or_default().split(',');
        Ok(Merged {
            shape: Shape { kind: slot.kind, pointer: slot.pointer },
            strategy: match strategies.find(|strategy| *strategy != "retainKeys") {
                Some("merge") => Strategy::Merge,
                Some("replace") => Strategy::Replace,
                _ => Strategy::Unsaid,
            },
            merge_key: field.patch_merge_key.unwrap_or_default(),
        })
    }

    /// The same for a field that is a list.
    pub fn list_field(self, types: &Types, name: &str) -> Result<Merged, PatchError> {
        let field = self.field(types, name)?;
        let kind = match (field.shape.kind, field.shape.pointer) {
            (TypeRef::List(list), _) => list.element,
            // Bytes are small numbers to Go.
            (TypeRef::Bytes, _) => TypeRef::Int32,
            // Go looks through a pointer without asking what is behind it.
            (kind, true) => kind,
            (_, false) => {
                let owner = self.go_kind();
                return Err(unmergeable(format!("expected slice or array type, but got: {owner}")));
            }
        };
        if !field.shape.pointer && matches!(kind, TypeRef::List(_) | TypeRef::Bytes) {
            return Err(unmergeable("unexpected slice of slice"));
        }
        Ok(Merged { shape: Shape { kind, pointer: false }, ..field })
    }

    /// What Go calls this kind of type.
    pub fn go_kind(self) -> &'static str {
        if self.pointer {
            return "ptr";
        }
        match self.kind {
            TypeRef::String | TypeRef::Named(_) => "string",
            TypeRef::Bool => "bool",
            TypeRef::Int32 => "int32",
            TypeRef::Int64 => "int64",
            TypeRef::Float64 => "float64",
            TypeRef::Bytes | TypeRef::List(_) => "slice",
            TypeRef::Map(_) => "map",
            TypeRef::Any => "interface",
            TypeRef::Time
            | TypeRef::MicroTime
            | TypeRef::IntOrString
            | TypeRef::Quantity
            | TypeRef::RawExtension
            | TypeRef::FieldsV1
            | TypeRef::Json
            | TypeRef::JsonSchemaOrArray
            | TypeRef::JsonSchemaOrBool
            | TypeRef::JsonSchemaOrStringArray
            | TypeRef::Struct(_) => "struct",
        }
    }
}
