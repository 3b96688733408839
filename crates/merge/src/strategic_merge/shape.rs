//! Types and patch strategies of merged fields.

// upstream: staging/src/k8s.io/apimachinery/pkg/util/strategicpatch/meta.go
// upstream: staging/src/k8s.io/apimachinery/third_party/forked/golang/json/fields.go

use atoll_meta::quote::quote;
use atoll_schema::{TypeId, TypeRef, Types};

use super::unmergeable;
use crate::PatchError;

/// The type of a value, as far as merging needs it.
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

/// The merge properties of a field (upstream's `PatchMeta`).
pub(super) struct PatchMeta {
    /// Type of the value, or of the elements of a list.
    pub shape: Shape,
    /// Patch strategy of the field. By default a map is merged and a list replaced.
    pub strategy: Strategy,
    /// Merge key of a list of maps; empty for other lists.
    pub merge_key: &'static str,
}

impl Shape {
    pub fn of(id: TypeId) -> Shape {
        Shape { kind: TypeRef::Struct(id), pointer: false }
    }

    /// Returns the field of this JSON name; if there is none, a field whose name differs in case.
    pub fn field(self, types: &Types, name: &str) -> Result<PatchMeta, PatchError> {
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
        // `retainKeys` only matters to clients that create patches.
        let mut strategies = field.patch_strategy.unwrap_or_default().split(',');
        Ok(PatchMeta {
            shape: Shape { kind: slot.kind, pointer: slot.pointer },
            strategy: match strategies.find(|strategy| *strategy != "retainKeys") {
                Some("merge") => Strategy::Merge,
                Some("replace") => Strategy::Replace,
                _ => Strategy::Unsaid,
            },
            merge_key: field.patch_merge_key.unwrap_or_default(),
        })
    }

    /// Returns a field that is a list.
    pub fn list_field(self, types: &Types, name: &str) -> Result<PatchMeta, PatchError> {
        let field = self.field(types, name)?;
        let kind = match (field.shape.kind, field.shape.pointer) {
            (TypeRef::List(list), _) => list.element,
            // Bytes are a list of small numbers in Go.
            (TypeRef::Bytes, _) => TypeRef::Int32,
            // Go dereferences a pointer without checking the target.
            (kind, true) => kind,
            (_, false) => {
                let owner = self.go_kind();
                return Err(unmergeable(format!("expected slice or array type, but got: {owner}")));
            }
        };
        if !field.shape.pointer && matches!(kind, TypeRef::List(_) | TypeRef::Bytes) {
            return Err(unmergeable("unexpected slice of slice"));
        }
        Ok(PatchMeta { shape: Shape { kind, pointer: false }, ..field })
    }

    /// Returns Go's name for this kind of type.
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
