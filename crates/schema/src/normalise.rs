//! The effects of decoding into a Go struct and encoding it again on a JSON value, in place.
//!
//! Go keeps the first error and continues, except in types with a custom unmarshaler (times, quantities):
//! such an error stops decoding and is the one reported. This code always continues and keeps all problems
//! with their paths, so that a caller with the text can determine which comes first.

// upstream: sigs.k8s.io/json/internal/golang/encoding/json/decode.go
// upstream: sigs.k8s.io/json/internal/golang/encoding/json/encode.go

mod problem;

use std::borrow::Cow;
use std::rc::Rc;

use atoll_meta::base64;
use atoll_meta::quantity::{self, QuantityError};
use atoll_meta::time::{self, TimeError};
use serde_json::{Number, Value};

use crate::error::{TypeMismatch, UnknownField};
use crate::types::{List, Map, Slot, Type, TypeId, TypeRef, Types};

pub(crate) use problem::{MAX_PROBLEMS, MAX_STRICT_ERRORS, Problem, ProblemKind, Segment};

/// Changes `value` as Go's decoding into the type and encoding again would, and returns the fields that the
/// type does not have (they are removed from `value`). After an error `value` is partially changed.
///
/// Fields are visited in the order of the map: with several errors the one reported may differ from Go's,
/// which follows the text. [`decode`](crate::decode) follows the text too.
pub fn normalise(types: &Types, id: TypeId, value: &mut Value) -> Result<Vec<UnknownField>, TypeMismatch> {
    let problems = Normaliser::run(types, id, value);
    if problems.is_empty() {
        return Ok(Vec::new());
    }
    problem::report(problems)
}

/// One pass over one object.
pub(crate) struct Normaliser<'t> {
    types: &'t Types,
    problems: Vec<Problem>,
}

impl<'t> Normaliser<'t> {
    pub(crate) fn run(types: &'t Types, id: TypeId, value: &mut Value) -> Vec<Problem> {
        let mut walk = Normaliser { types, problems: Vec::new() };
        // Null decodes as the zero value, which is encoded as an empty struct.
        if value.is_null() {
            *value = types.zero(TypeRef::Struct(id));
        } else {
            walk.structure(id, value);
        }
        walk.problems
    }

    /// Normalises a single value that is not null. Returns the error that stops decoding, or else the first
    /// one.
    pub(crate) fn single_value(types: &'t Types, kind: TypeRef, value: &mut Value) -> Option<TypeMismatch> {
        let mut walk = Normaliser { types, problems: Vec::new() };
        walk.value(kind, value);
        problem::report(walk.problems).err()
    }

    /// Normalises a value that is not null.
    fn value(&mut self, kind: TypeRef, value: &mut Value) {
        match kind {
            TypeRef::String | TypeRef::Named(_) => {
                if !value.is_string() {
                    self.type_mismatch(kind, value);
                }
            }
            TypeRef::Bool => {
                if !value.is_boolean() {
                    self.type_mismatch(kind, value);
                }
            }
            TypeRef::Int32 => self.integer(kind, value, i64::from(i32::MIN)..=i64::from(i32::MAX)),
            TypeRef::Int64 => self.integer(kind, value, i64::MIN..=i64::MAX),
            TypeRef::Float64 => match value.as_f64() {
                Some(number) if value.is_number() => *value = float(number),
                _ => self.type_mismatch(kind, value),
            },
            TypeRef::Struct(id) => self.structure(id, value),
            TypeRef::List(list) => self.list(kind, list, value),
            TypeRef::Map(map) => self.map(kind, map, value),
            TypeRef::Bytes => self.bytes(value),
            TypeRef::Time => self.time(value, time::canonical),
            TypeRef::MicroTime => self.time(value, time::canonical_micro),
            TypeRef::Quantity => self.quantity(value),
            TypeRef::IntOrString => {
                if !value.is_string() {
                    self.custom_unmarshal(|walk| walk.value(TypeRef::Int32, value));
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
        let Value::Object(object) = value else { return self.type_mismatch(TypeRef::Struct(id), value) };
        let owner = &self.types[id];
        let mut seen = 0u64;
        object.retain(|name, value| {
            let Some((index, slot)) = owner.slot(name) else {
                self.record(Problem::unknown(name));
                return false;
            };
            // Null leaves a field unset.
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
            seen |= 1 << index;
            true
        });
        if owner.lacks(seen) {
            self.types.fill(owner, seen, object);
        }
    }

    fn list(&mut self, kind: TypeRef, list: &List, value: &mut Value) {
        let Value::Array(elements) = value else { return self.type_mismatch(kind, value) };
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
        let Value::Object(object) = value else { return self.type_mismatch(kind, value) };
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

    /// Normalises an element of a list or map: unlike a field, a null element stays, as its zero value.
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
        let Value::Number(number) = value else { return self.type_mismatch(kind, value) };
        match number.as_i64() {
            Some(number) if range.contains(&number) => {}
            // serde_json parses "-0" as a float.
            None if number.as_f64().is_some_and(|number| number == 0.0 && number.is_sign_negative()) => {
                *value = Value::from(0);
            }
            _ => {
                let found = format!("number {number}");
                self.mismatch(Problem::kind(found, kind.go_name(self.types)));
            }
        }
    }

    /// Records a problem that does not make decoding fail.
    fn record(&mut self, problem: Problem) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(problem);
        }
    }

    /// Records a mismatch. Mismatches have a limit of their own, because one of them decides whether decoding
    /// fails.
    fn mismatch(&mut self, problem: Problem) {
        if self.problems.len() < 2 * MAX_PROBLEMS {
            self.problems.push(problem);
        }
    }

    #[cold]
    fn type_mismatch(&mut self, kind: TypeRef, value: &Value) {
        self.mismatch(Problem::kind(name_of(value).to_owned(), kind.go_name(self.types)));
    }

    #[cold]
    fn content(&mut self, message: String) {
        self.mismatch(Problem::new(ProblemKind::Mismatch(TypeMismatch::Content(message))));
    }

    /// Runs a custom unmarshaler: its first error stops decoding, and strict decoding does not check its
    /// contents.
    fn custom_unmarshal(&mut self, read: impl FnOnce(&mut Normaliser<'t>)) {
        let before = self.problems.len();
        read(self);
        if self.problems.len() == before {
            return;
        }
        let found = self.problems.split_off(before);
        self.problems
            .extend(found.into_iter().filter(|problem| !matches!(problem.kind, ProblemKind::Unknown)));
        for problem in &mut self.problems[before..] {
            // The outer decoder replaces the name of the inner struct by that of its own.
            problem.owner = None;
            problem.stops = true;
        }
    }

    fn bytes(&mut self, value: &mut Value) {
        match value {
            Value::String(text) if base64::is_canonical(text) => {}
            Value::String(text) => match base64::decode(text) {
                Ok(bytes) => *text = base64::encode(&bytes),
                Err(error) => self.content(error.to_string()),
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
                *value = Value::String(base64::encode(&bytes));
            }
            _ => self.type_mismatch(TypeRef::Bytes, value),
        }
    }

    fn time(&mut self, value: &mut Value, canonical: fn(&str) -> Result<time::Canonical, TimeError>) {
        let Value::String(text) = value else {
            return self.custom_unmarshal(|walk| walk.type_mismatch(TypeRef::String, value));
        };
        match canonical(text) {
            Ok(time::Canonical::Same) => {}
            Ok(time::Canonical::Changed(written)) => *text = written,
            Ok(time::Canonical::Zero) => *value = Value::Null,
            Err(error) => self.custom_unmarshal(|walk| walk.content(error.to_string())),
        }
    }

    fn quantity(&mut self, value: &mut Value) {
        let written = match value {
            Value::String(text) => match quantity::canonical(text) {
                Ok(canonical) if canonical == text.as_str() => return,
                canonical => canonical.map(Cow::into_owned),
            },
            // A quantity may be quoted or not, but the notation of the number matters.
            Value::Number(number) => {
                if number.is_f64() {
                    self.record(Problem::new(ProblemKind::Literal));
                }
                quantity::canonical(&number.to_string()).map(Cow::into_owned)
            }
            _ => Err(QuantityError::Format),
        };
        match written {
            Ok(written) => *value = Value::String(written),
            Err(error) => self.custom_unmarshal(|walk| walk.content(error.to_string())),
        }
    }

    /// Normalises the unions of a schema and another type in CustomResourceDefinitions.
    fn schema_or(&mut self, kind: TypeRef, value: &mut Value) {
        let schema = TypeRef::Struct(self.types.json_schema());
        match (kind, &mut *value) {
            (_, Value::Object(_)) => self.custom_unmarshal(|walk| walk.value(schema, value)),
            (TypeRef::JsonSchemaOrBool, Value::Bool(_)) => {}
            (TypeRef::JsonSchemaOrBool, _) => {
                self.custom_unmarshal(|walk| walk.content("boolean or JSON schema expected".to_owned()));
            }
            (_, Value::Array(elements)) => {
                let element = if let TypeRef::JsonSchemaOrArray = kind { schema } else { TypeRef::String };
                if elements.is_empty() {
                    *value = Value::Null;
                    return;
                }
                let list = List { key: None, element, message: false };
                self.custom_unmarshal(|walk| walk.list(kind, &list, value));
            }
            // Other values decode as nothing.
            _ => *value = Value::Null,
        }
    }

    /// Adds a field to the paths of the problems found in it.
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
    /// Whether encoding omits the field with this value.
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

/// Returns the name of the value's type in Go's errors.
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

/// Normalises an untyped value: only the notation of floats changes.
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

/// Encodes a float as Go's JSON encoder does: integral floats without a fraction.
fn float(number: f64) -> Value {
    // Above this the nearest integer may not fit an i64; serde_json's own form is kept.
    const EXACT: f64 = 9.0e18;
    if number.fract() == 0.0 && number.abs() < EXACT {
        return Value::from(number as i64);
    }
    Number::from_f64(number).map_or(Value::Null, Value::Number)
}
