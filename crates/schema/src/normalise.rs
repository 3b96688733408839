//! What decoding into a Go struct and encoding it again does to a JSON value, done in place.
//!
//! Go keeps the first error it meets and reads on, except where a type reads itself (times, quantities): such an
//! error ends the reading and is the one reported. Here reading always goes on, and everything found is kept with its
//! path, so that whoever has the text can tell what came first.

mod problem;

use std::rc::Rc;

use serde_json::Value;

use crate::error::{TypeMismatch, UnknownField};
use crate::go::{decode_base64, encode_base64, float, is_canonical_base64};
use crate::quantity::{Canonical, QuantityError, canonical_quantity};
use crate::time::{Rewritten, canonical_micro_time, canonical_time};
use crate::types::{List, Map, Slot, Type, TypeId, TypeRef, Types};

pub(crate) use problem::{MOST_PROBLEMS, MOST_REMARKS, Problem, Segment, Trouble};

/// Makes `value` what Go's decoding into the type and encoding again would make of it, and reports the fields that the
/// type does not have (they are gone from `value`). On error `value` is left half done.
///
/// Fields are visited in the order of the map: with several mistakes the one reported first may differ from Go's, who
/// follows the text. [`decode`](crate::decode) follows it too.
pub fn normalise(types: &Types, id: TypeId, value: &mut Value) -> Result<Vec<UnknownField>, TypeMismatch> {
    let problems = Walk::run(types, id, value);
    if problems.is_empty() {
        return Ok(Vec::new());
    }
    problem::report(problems)
}

/// One pass over one object.
pub(crate) struct Walk<'t> {
    types: &'t Types,
    problems: Vec<Problem>,
}

impl<'t> Walk<'t> {
    pub(crate) fn run(types: &'t Types, id: TypeId, value: &mut Value) -> Vec<Problem> {
        let mut walk = Walk { types, problems: Vec::new() };
        // Null decodes into nothing, and what is encoded is an empty struct.
        if value.is_null() {
            *value = types.zero(TypeRef::Struct(id));
        } else {
            walk.structure(id, value);
        }
        walk.problems
    }

    /// A value on its own, which is not null: the first mistake in it, or the one that ends the reading.
    pub(crate) fn alone(types: &'t Types, kind: TypeRef, value: &mut Value) -> Option<TypeMismatch> {
        let mut walk = Walk { types, problems: Vec::new() };
        walk.value(kind, value);
        problem::report(walk.problems).err()
    }

    /// A value that is not null.
    fn value(&mut self, kind: TypeRef, value: &mut Value) {
        match kind {
            TypeRef::String | TypeRef::Named(_) => {
                if !value.is_string() {
                    self.wrong(kind, value);
                }
            }
            TypeRef::Bool => {
                if !value.is_boolean() {
                    self.wrong(kind, value);
                }
            }
            TypeRef::Int32 => self.integer(kind, value, i64::from(i32::MIN)..=i64::from(i32::MAX)),
            TypeRef::Int64 => self.integer(kind, value, i64::MIN..=i64::MAX),
            TypeRef::Float64 => match value.as_f64() {
                Some(number) if value.is_number() => *value = float(number),
                _ => self.wrong(kind, value),
            },
            TypeRef::Struct(id) => self.structure(id, value),
            TypeRef::List(list) => self.list(kind, list, value),
            TypeRef::Map(map) => self.map(kind, map, value),
            TypeRef::Bytes => self.bytes(value),
            TypeRef::Time => self.time(value, canonical_time),
            TypeRef::MicroTime => self.time(value, canonical_micro_time),
            TypeRef::Quantity => self.quantity(value),
            TypeRef::IntOrString => {
                if !value.is_string() {
                    self.itself(|walk| walk.value(TypeRef::Int32, value));
                }
            }
            TypeRef::RawExtension | TypeRef::FieldsV1 | TypeRef::Json => {}
            TypeRef::Any => untyped(value),
            TypeRef::JsonSchemaOrArray | TypeRef::JsonSchemaOrBool | TypeRef::JsonSchemaOrStringArray => {
                self.schema_or(kind, value);
            }
        }
    }

    fn structure(&mut self, id: TypeId, value: &mut Value) {
        let Value::Object(object) = value else { return self.wrong(TypeRef::Struct(id), value) };
        let owner = &self.types[id];
        let mut seen = 0u64;
        object.retain(|name, value| {
            let Some((place, slot)) = owner.slot(name) else {
                self.remark(Problem::unknown(name));
                return false;
            };
            // Null leaves a field as it was, that is unset.
            if value.is_null() {
                return false;
            }
            let before = self.problems.len();
            self.value(slot.kind, value);
            if self.problems.len() > before {
                self.inside_field(before, owner, slot);
            }
            if slot.omits(value, self.types) {
                return false;
            }
            seen |= 1 << place;
            true
        });
        if owner.lacks(seen) {
            self.types.fill(owner, seen, object);
        }
    }

    fn list(&mut self, kind: TypeRef, list: &List, value: &mut Value) {
        let Value::Array(elements) = value else { return self.wrong(kind, value) };
        for (index, element) in elements.iter_mut().enumerate() {
            let before = self.problems.len();
            self.element(list.element, element);
            if self.problems.len() > before {
                self.problems[before..]
                    .iter_mut()
                    .for_each(|problem| problem.path.push(Segment::Index(index)));
            }
        }
    }

    fn map(&mut self, kind: TypeRef, map: &Map, value: &mut Value) {
        let Value::Object(object) = value else { return self.wrong(kind, value) };
        for (key, element) in object.iter_mut() {
            let before = self.problems.len();
            self.element(map.value, element);
            if self.problems.len() > before {
                let key: Rc<str> = key.as_str().into();
                self.problems[before..]
                    .iter_mut()
                    .for_each(|problem| problem.path.push(Segment::Key(key.clone())));
            }
        }
    }

    /// An element of a list or map: unlike a field it stays where it is null, as its zero value.
    #[inline]
    fn element(&mut self, kind: TypeRef, element: &mut Value) {
        if element.is_null() {
            if let TypeRef::JsonSchemaOrBool = kind {
                return self.schema_or(kind, element);
            }
            *element = self.types.zero(kind);
        } else {
            self.value(kind, element);
        }
    }

    fn integer(&mut self, kind: TypeRef, value: &mut Value, range: std::ops::RangeInclusive<i64>) {
        let Value::Number(number) = value else { return self.wrong(kind, value) };
        match number.as_i64() {
            Some(number) if range.contains(&number) => {}
            // serde_json reads "-0" as a float.
            None if number.as_f64().is_some_and(|number| number == 0.0 && number.is_sign_negative()) => {
                *value = Value::from(0);
            }
            _ => {
                let found = format!("number {number}");
                self.mismatch(Problem::kind(found, kind.go_name(self.types)));
            }
        }
    }

    /// What does not keep the object from being read.
    fn remark(&mut self, problem: Problem) {
        if self.problems.len() < MOST_PROBLEMS {
            self.problems.push(problem);
        }
    }

    /// Mismatches have room of their own: one of them decides whether the object is read at all.
    fn mismatch(&mut self, problem: Problem) {
        if self.problems.len() < 2 * MOST_PROBLEMS {
            self.problems.push(problem);
        }
    }

    #[cold]
    fn wrong(&mut self, kind: TypeRef, value: &Value) {
        self.mismatch(Problem::kind(name_of(value).to_owned(), kind.go_name(self.types)));
    }

    #[cold]
    fn content(&mut self, message: String) {
        self.mismatch(Problem::new(Trouble::Mismatch(TypeMismatch::Content(message))));
    }

    /// Runs what a type that reads itself does: its first mistake ends the reading, and strict reading does not look
    /// inside.
    fn itself(&mut self, read: impl FnOnce(&mut Walk<'t>)) {
        let before = self.problems.len();
        read(self);
        if self.problems.len() == before {
            return;
        }
        let found = self.problems.split_off(before);
        self.problems
            .extend(found.into_iter().filter(|problem| !matches!(problem.trouble, Trouble::Unknown)));
        for problem in &mut self.problems[before..] {
            // The outer reading puts its own struct's name in place of the inner one's.
            problem.owner = None;
            problem.ends = true;
        }
    }

    fn bytes(&mut self, value: &mut Value) {
        match value {
            Value::String(text) if is_canonical_base64(text) => {}
            Value::String(text) => match decode_base64(text) {
                Ok(bytes) => *text = encode_base64(&bytes),
                Err(offset) => self.content(format!("illegal base64 data at input byte {offset}")),
            },
            Value::Array(elements) => {
                let mut bytes = Vec::with_capacity(elements.len());
                for (index, element) in elements.iter().enumerate() {
                    match element.as_u64().map(u8::try_from) {
                        Some(Ok(byte)) => bytes.push(byte),
                        _ if element.is_null() => bytes.push(0),
                        _ => {
                            let found = if element.is_number() {
                                format!("number {element}")
                            } else {
                                name_of(element).to_owned()
                            };
                            let mut problem = Problem::kind(found, "uint8".to_owned());
                            problem.path.push(Segment::Index(index));
                            self.mismatch(problem);
                        }
                    }
                }
                *value = Value::String(encode_base64(&bytes));
            }
            _ => self.wrong(TypeRef::Bytes, value),
        }
    }

    fn time(&mut self, value: &mut Value, canonical: fn(&str) -> Result<Rewritten, String>) {
        let Value::String(text) = value else {
            return self.itself(|walk| walk.wrong(TypeRef::String, value));
        };
        match canonical(text) {
            Ok(Rewritten::Same) => {}
            Ok(Rewritten::Changed(written)) => *text = written,
            Ok(Rewritten::Zero) => *value = Value::Null,
            Err(message) => self.itself(|walk| walk.content(message)),
        }
    }

    fn quantity(&mut self, value: &mut Value) {
        let result = match value {
            Value::String(text) => canonical_quantity(text),
            // Quotes do not matter to a quantity, but how the number was written does.
            Value::Number(number) => {
                if number.is_f64() {
                    self.remark(Problem::new(Trouble::Literal));
                }
                let text = number.to_string();
                canonical_quantity(&text).map(|canonical| match canonical {
                    Canonical::Same => Canonical::Changed(text),
                    changed => changed,
                })
            }
            _ => Err(QuantityError::Format),
        };
        match result {
            Ok(Canonical::Same) => {}
            Ok(Canonical::Changed(written)) => *value = Value::String(written),
            Err(error) => self.itself(|walk| walk.content(error.to_string())),
        }
    }

    /// The CRD schema types that are a schema or something else.
    fn schema_or(&mut self, kind: TypeRef, value: &mut Value) {
        let schema = TypeRef::Struct(self.types.json_schema());
        match (kind, &mut *value) {
            (_, Value::Object(_)) => self.itself(|walk| walk.value(schema, value)),
            (TypeRef::JsonSchemaOrBool, Value::Bool(_)) => {}
            (TypeRef::JsonSchemaOrBool, _) => {
                self.itself(|walk| walk.content("boolean or JSON schema expected".to_owned()));
            }
            (_, Value::Array(elements)) => {
                let element = if let TypeRef::JsonSchemaOrArray = kind { schema } else { TypeRef::String };
                if elements.is_empty() {
                    *value = Value::Null;
                    return;
                }
                let list = List { key: None, element, message: false };
                self.itself(|walk| walk.list(kind, &list, value));
            }
            // Anything else is read as nothing.
            _ => *value = Value::Null,
        }
    }

    /// Adds a field to the way of the problems found in it.
    #[cold]
    fn inside_field(&mut self, from: usize, owner: &Type, slot: &Slot) {
        for problem in &mut self.problems[from..] {
            problem.path.push(Segment::Field(slot.name));
            problem.owner.get_or_insert(owner.name);
            problem.fields.push(slot.name);
            problem.fields.extend(slot.embedded.iter().rev());
        }
    }
}

impl Slot {
    /// Whether encoding leaves the field out when it holds this.
    #[inline]
    fn omits(&self, value: &Value, types: &Types) -> bool {
        if self.pointer {
            return false;
        }
        if self.omit_empty {
            let empty = match value {
                Value::String(text) => {
                    text.is_empty() && !matches!(self.kind, TypeRef::IntOrString | TypeRef::Any)
                }
                Value::Bool(set) => !set && matches!(self.kind, TypeRef::Bool),
                Value::Number(number) => {
                    matches!(self.kind, TypeRef::Int32 | TypeRef::Int64 | TypeRef::Float64)
                        && number.as_f64() == Some(0.0)
                }
                Value::Array(elements) => elements.is_empty() && matches!(self.kind, TypeRef::List(_)),
                Value::Object(members) => members.is_empty() && matches!(self.kind, TypeRef::Map(_)),
                Value::Null => false,
            };
            if empty {
                return true;
            }
        }
        self.omit_zero && *value == types.zero(self.kind)
    }
}

/// What Go's errors call a value.
fn name_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Untyped values keep everything but the spelling of floats.
pub(crate) fn untyped(value: &mut Value) {
    match value {
        Value::Number(number) => {
            if let Some(number) = number.as_f64().filter(|_| !number.is_i64()) {
                *value = float(number);
            }
        }
        Value::Array(elements) => elements.iter_mut().for_each(untyped),
        Value::Object(members) => members.values_mut().for_each(untyped),
        _ => {}
    }
}
