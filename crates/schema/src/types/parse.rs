//! Parser of `data/types.txt`, with one line per kind, named type or field.
//!
//! ```text
//! kind apps v1 Deployment apps/v1.Deployment
//! alias core/v1.Protocol string enum=TCP|UDP|SCTP
//! struct core/v1.Container
//!  name Name string proto=1,bytes
//! ```

// upstream: sigs.k8s.io/json/internal/golang/encoding/json/encode.go

use std::collections::HashMap;

use super::{
    Field, Granularity, List, ListType, Map, Proto, ProtoField, Scalar, Slot, Type, TypeId, TypeRef, Types,
    Wire,
};

/// Position and reason of a parse error.
type ParseError = String;

pub(super) fn parse(data: &'static str) -> Result<Types, ParseError> {
    let mut reader = Reader::default();
    reader.declare(data)?;
    let mut kinds = HashMap::with_capacity(400);
    let mut all: Vec<Type> = Vec::with_capacity(reader.structs.len());
    for line in data.lines() {
        if let Some(line) = line.strip_prefix(' ') {
            let field = reader.field(line).map_err(|damage| format!("{line}: {damage}"))?;
            all.last_mut().ok_or("a field before any struct")?.fields.push(field);
        } else if let Some(line) = line.strip_prefix("struct ") {
            let (key, facts) = line.split_once(' ').unwrap_or((line, ""));
            all.push(Type {
                id: TypeId(all.len() as u16),
                key,
                name: key.rsplit_once('.').map_or(key, |(_, name)| name),
                fields: Vec::new(),
                slots: Vec::new(),
                numbered: Vec::new(),
                atomic: facts.split(' ').any(|fact| fact == "structType=atomic" || fact == "mapType=atomic"),
                always: 0,
            });
        } else if let Some(line) = line.strip_prefix("kind ") {
            let mut words = line.split(' ');
            let mut word = || words.next().ok_or_else(|| format!("{line}: too short"));
            let (group, version, kind, key) = (word()?, word()?, word()?, word()?);
            let id = *reader.structs.get(key).ok_or_else(|| format!("{line}: no such struct"))?;
            kinds.insert((if group == "core" { "" } else { group }, version, kind), id);
        }
    }
    for index in 0..all.len() {
        let slots = flatten(&all, index)?;
        all[index].always = always(&slots)?;
        all[index].slots = slots;
        all[index].numbered = numbered(&all[index])?;
    }
    let schema =
        *reader.structs.get("apiextensions/v1.JSONSchemaProps").ok_or("there is no JSONSchemaProps")?;
    Ok(Types { all, by_key: reader.structs, kinds, schema })
}

#[derive(Default)]
struct Reader {
    structs: HashMap<&'static str, TypeId>,
    aliases: HashMap<&'static str, &'static str>,
    /// Types by their notation, so that each is created once.
    created: HashMap<&'static str, TypeRef>,
}

impl Reader {
    /// Collects all names first, because fields refer to types in any order.
    fn declare(&mut self, data: &'static str) -> Result<(), ParseError> {
        for line in data.lines() {
            if let Some(line) = line.strip_prefix("struct ") {
                let key = line.split(' ').next().unwrap_or(line);
                let id = u16::try_from(self.structs.len()).map_err(|_| "too many structs")?;
                self.structs.insert(key, TypeId(id));
            } else if let Some(line) = line.strip_prefix("alias ") {
                let (key, rest) = line.split_once(' ').ok_or_else(|| format!("{line}: too short"))?;
                self.aliases.insert(key, rest);
            }
        }
        Ok(())
    }

    fn kind(&mut self, text: &'static str) -> Result<TypeRef, ParseError> {
        if let Some(kind) = self.created.get(text) {
            return Ok(*kind);
        }
        let kind = self.make(text)?;
        self.created.insert(text, kind);
        Ok(kind)
    }

    fn make(&mut self, text: &'static str) -> Result<TypeRef, ParseError> {
        if let Some(collection) = self.collection(None, text, false)? {
            return Ok(collection);
        }
        Ok(match text {
            "string" => TypeRef::String,
            "bool" => TypeRef::Bool,
            "int32" => TypeRef::Int32,
            "int64" => TypeRef::Int64,
            "float64" => TypeRef::Float64,
            "bytes" => TypeRef::Bytes,
            "any" => TypeRef::Any,
            "meta/v1.Time" => TypeRef::Time,
            "meta/v1.MicroTime" => TypeRef::MicroTime,
            "meta/v1.FieldsV1" => TypeRef::FieldsV1,
            "util/intstr.IntOrString" => TypeRef::IntOrString,
            "api/resource.Quantity" => TypeRef::Quantity,
            "runtime.RawExtension" => TypeRef::RawExtension,
            "apiextensions/v1.JSON" => TypeRef::Json,
            "apiextensions/v1.JSONSchemaPropsOrArray" => TypeRef::JsonSchemaOrArray,
            "apiextensions/v1.JSONSchemaPropsOrBool" => TypeRef::JsonSchemaOrBool,
            "apiextensions/v1.JSONSchemaPropsOrStringArray" => TypeRef::JsonSchemaOrStringArray,
            key => match (self.structs.get(key), self.aliases.get(key).copied()) {
                (Some(id), _) => TypeRef::Struct(*id),
                (None, Some(alias)) => self.alias(key, alias)?,
                (None, None) => return Err(format!("{text}: no such type")),
            },
        })
    }

    fn alias(&mut self, key: &'static str, line: &'static str) -> Result<TypeRef, ParseError> {
        let (text, facts) = line.split_once(' ').unwrap_or((line, ""));
        if text == "string" {
            let values = facts.strip_prefix("enum=").map(|values| values.split('|').collect());
            return Ok(TypeRef::Named(leak(Scalar { key, values })));
        }
        let collection = self.collection(Some(key), text, facts == "message")?;
        collection.ok_or_else(|| format!("{text}: it has a name and is no collection"))
    }

    /// Parses a list or map type, which may have a name.
    fn collection(
        &mut self,
        key: Option<&'static str>,
        text: &'static str,
        message: bool,
    ) -> Result<Option<TypeRef>, ParseError> {
        if let Some(element) = text.strip_prefix("[]") {
            let element = self.kind(element)?;
            return Ok(Some(TypeRef::List(leak(List { key, element, message }))));
        }
        let Some(rest) = text.strip_prefix("map[") else { return Ok(None) };
        let (index, value) = rest.split_once(']').ok_or_else(|| format!("{text}: no value type"))?;
        let (index, value) = (self.kind(index)?, self.kind(value)?);
        Ok(Some(TypeRef::Map(leak(Map { key, index, value }))))
    }

    fn field(&mut self, line: &'static str) -> Result<Field, ParseError> {
        // A default may contain spaces, so it comes last.
        let (line, default) = match line.split_once(" default=") {
            Some((line, default)) => (line, Some(default)),
            None => (line, None),
        };
        let mut words = line.split(' ');
        let mut word = || words.next().ok_or("too short");
        let (name, go_name, text) = (word()?, word()?, word()?);
        let (text, pointer) = match text.strip_prefix('*') {
            Some(text) => (text, true),
            None => (text, false),
        };
        let mut field = Field {
            name: if name == "-" { "" } else { name },
            go_name,
            kind: self.kind(text)?,
            pointer,
            inline: false,
            omit_empty: false,
            omit_zero: false,
            required: false,
            optional: false,
            nullable: false,
            proto: None,
            list_type: None,
            map_keys: Vec::new(),
            map_type: None,
            struct_type: None,
            patch_strategy: None,
            patch_merge_key: None,
            default,
        };
        for fact in words {
            let (name, value) = fact.split_once('=').unwrap_or((fact, ""));
            match name {
                "inline" => field.inline = true,
                "omitempty" => field.omit_empty = true,
                "omitzero" => field.omit_zero = true,
                "required" => field.required = true,
                "optional" => field.optional = true,
                "nullable" => field.nullable = true,
                "proto" => field.proto = Some(proto(value)?),
                "listType" => {
                    field.list_type = Some(match value {
                        "atomic" => ListType::Atomic,
                        "set" => ListType::Set,
                        "map" => ListType::Map,
                        _ => return Err(format!("unknown list type {value}")),
                    });
                }
                "listMapKey" => field.map_keys = value.split(',').collect(),
                "mapType" => field.map_type = Some(granularity(value)?),
                "structType" => field.struct_type = Some(granularity(value)?),
                "patchStrategy" => field.patch_strategy = Some(value),
                "patchMergeKey" => field.patch_merge_key = Some(value),
                _ => return Err(format!("unknown fact {fact}")),
            }
        }
        field.required |= !field.inline && !field.optional && !field.omit_empty;
        Ok(field)
    }
}

/// Leaks a part: the types live as long as the program, so that their parts may refer to each other.
fn leak<T>(part: T) -> &'static T {
    Box::leak(Box::new(part))
}

fn granularity(text: &str) -> Result<Granularity, ParseError> {
    match text {
        "atomic" => Ok(Granularity::Atomic),
        "granular" => Ok(Granularity::Granular),
        _ => Err(format!("neither atomic nor granular: {text}")),
    }
}

fn proto(text: &str) -> Result<Proto, ParseError> {
    let mut words = text.split(',');
    let number = words.next().and_then(|number| number.parse().ok()).ok_or("no field number")?;
    let wire = match words.next() {
        Some("varint") => Wire::Varint,
        Some("bytes") => Wire::Bytes,
        Some("fixed64") => Wire::Fixed64,
        Some("fixed32") => Wire::Fixed32,
        other => return Err(format!("unknown wire type {other:?}")),
    };
    let mut proto = Proto { number, wire, repeated: false, packed: false };
    for word in words {
        match word {
            "rep" => proto.repeated = true,
            "packed" => proto.packed = true,
            _ => return Err(format!("unknown protobuf word {word}")),
        }
    }
    Ok(proto)
}

/// Returns the fields of a struct as JSON sees them. As in Go, a field hides those of the same name in deeper
/// embedded structs.
fn flatten(all: &[Type], index: usize) -> Result<Vec<Slot>, ParseError> {
    let mut slots: Vec<Slot> = Vec::with_capacity(all[index].fields.len() + 4);
    let mut level = vec![Embedded { owner: index, names: Vec::new(), in_protobuf: true }];
    while !level.is_empty() {
        let shallower = slots.len();
        let mut next = Vec::new();
        for embedded in level {
            for (index, field) in all[embedded.owner].fields.iter().enumerate() {
                let in_protobuf = embedded.in_protobuf && field.proto.is_some();
                if field.inline {
                    let TypeRef::Struct(id) = field.kind else {
                        return Err(format!(
                            "{}.{} embeds no struct",
                            all[embedded.owner].key, field.go_name
                        ));
                    };
                    let mut names = embedded.names.clone();
                    names.push(field.go_name);
                    next.push(Embedded { owner: usize::from(id.0), names, in_protobuf });
                    continue;
                }
                if let Some(hiding) = slots.iter().position(|slot| slot.name == field.name) {
                    if hiding >= shallower {
                        return Err(format!("{} has {} twice on one level", all[index].key, field.name));
                    }
                    continue;
                }
                slots.push(Slot {
                    name: field.name,
                    kind: field.kind,
                    pointer: field.pointer,
                    omit_empty: field.omit_empty,
                    omit_zero: field.omit_zero,
                    embedded: embedded.names.clone(),
                    in_protobuf,
                    declared_by: all[embedded.owner].id,
                    index: u16::try_from(index).map_err(|_| "too many fields")?,
                });
            }
        }
        level = next;
    }
    slots.sort_unstable_by_key(|slot| slot.name);
    Ok(slots)
}

/// A struct that is embedded in the current one.
struct Embedded {
    owner: usize,
    /// Go names on the path to it.
    names: Vec<&'static str>,
    in_protobuf: bool,
}

/// Returns the protobuf fields in order.
fn numbered(owner: &Type) -> Result<Vec<ProtoField>, ParseError> {
    let mut numbered = Vec::with_capacity(owner.fields.len());
    for (index, field) in owner.fields.iter().enumerate() {
        let Some(proto) = field.proto else { continue };
        let slot = owner.slot(field.name).map(|(slot, _)| u8::try_from(slot)).transpose();
        numbered.push(ProtoField {
            number: proto.number,
            field: u16::try_from(index).map_err(|_| "too many fields")?,
            slot: slot.map_err(|_| "too many slots")?,
        });
    }
    numbered.sort_unstable_by_key(|entry| entry.number);
    Ok(numbered)
}

/// Returns the slots that are written even when they have their zero value.
fn always(slots: &[Slot]) -> Result<u64, ParseError> {
    if slots.len() > 64 {
        return Err("a struct has more than 64 fields".to_owned());
    }
    let mut mask = 0;
    for (index, slot) in slots.iter().enumerate() {
        // Go never considers a struct empty, so omitempty has no effect on one.
        let never_empty = !slot.pointer
            && matches!(
                slot.kind,
                TypeRef::Struct(_)
                    | TypeRef::Time
                    | TypeRef::MicroTime
                    | TypeRef::IntOrString
                    | TypeRef::Quantity
                    | TypeRef::RawExtension
                    | TypeRef::FieldsV1
                    | TypeRef::Json
                    | TypeRef::JsonSchemaOrArray
                    | TypeRef::JsonSchemaOrBool
                    | TypeRef::JsonSchemaOrStringArray
            );
        if !slot.omit_zero && (!slot.omit_empty || never_empty) {
            mask |= 1 << index;
        }
    }
    Ok(mask)
}
