//! Variables and field selections.

// upstream: github.com/google/cel-go/interpreter/attributes.go

use super::{EvalResult, Evaluator, Local};
use crate::error::Error;
use crate::plan::{Attribute, Base, Selection, SelectionKey};
use crate::value::{List, Map, Value};

/// Result of a selection.
enum Lookup<'a> {
    Value(Value<'a>),
    /// There is no value for this key or index.
    NoKey(Value<'a>),
    NoIndex(Value<'a>),
}

impl<'a> Evaluator<'a, '_> {
    /// Resolves an attribute.
    pub(super) fn resolve(&mut self, attribute: &'a Attribute) -> EvalResult<'a> {
        let value = match &attribute.base {
            Base::Variable(slot, name) => match &self.variables[*slot] {
                Some(value) => value.clone(),
                None => return Err(Error::new(format!("no such attribute(s): {name}"))),
            },
            Base::Local(slot) => self.local(*slot)?,
            Base::Value(step) => self.step(step)?,
            Base::Either(either) => {
                let branch = match self.step(&either.0)? {
                    Value::Bool(true) => &either.1,
                    Value::Bool(false) => &either.2,
                    _ => return Err(Error::NoSuchOverload),
                };
                return self.resolve(branch);
            }
        };
        if attribute.selections.is_empty() && !matches!(value, Value::Optional(Some(_))) {
            return Ok(value);
        }
        self.select(value, &attribute.selections)
    }

    /// Returns a comprehension variable. An accumulator is evaluated on first use.
    fn local(&mut self, slot: usize) -> EvalResult<'a> {
        match &self.locals[slot] {
            Local::Value(value) => value.clone(),
            Local::Lazy(step) => {
                let value = self.step(step);
                if let Err(Error::Cancelled) = value {
                    return value;
                }
                self.locals[slot] = Local::Value(value.clone());
                value
            }
            Local::Empty => Err(Error::new("no such attribute(s)")),
        }
    }

    /// Takes an accumulator out of its slot, so that it can be modified in place. Costs as much as a
    /// variable.
    pub(super) fn accumulated(&mut self, step: &'a crate::plan::Step) -> EvalResult<'a> {
        let crate::plan::Step::Attribute(attribute) = step else { return self.step(step) };
        let Base::Local(slot) = attribute.base else { return self.step(step) };
        let value = self.local(slot);
        if let Err(Error::Cancelled) = value {
            return value;
        }
        drop(std::mem::replace(&mut self.locals[slot], Local::Empty));
        self.charge(1)?;
        value
    }

    fn select(&mut self, value: Value<'a>, selections: &'a [Selection]) -> EvalResult<'a> {
        let (mut value, mut optional) = match value {
            Value::Optional(None) => return Ok(Value::Optional(None)),
            // A value inside an optional loses its schema upstream.
            Value::Optional(Some(inside)) => (without_schema((*inside).clone()), true),
            value => (value, false),
        };
        for selection in selections {
            optional |= selection.optional;
            let lookup = match self.key(selection) {
                Ok(key) => find(&value, key),
                Err(Error::Cancelled) => return Err(Error::Cancelled),
                Err(error) => Err(error),
            };
            // An absent optional value is free.
            if !optional || matches!(lookup, Ok(Lookup::Value(_))) {
                self.charge(1)?;
            }
            value = match lookup? {
                Lookup::Value(_) if selection.test => Value::Bool(true),
                Lookup::Value(value) => value,
                Lookup::NoKey(_) | Lookup::NoIndex(_) if optional => return Ok(Value::Optional(None)),
                Lookup::NoKey(_) | Lookup::NoIndex(_) if selection.test => Value::Bool(false),
                Lookup::NoKey(key) => return Err(Error::new(format!("no such key: {}", key.display()))),
                Lookup::NoIndex(key) => {
                    return Err(Error::new(format!("index out of bounds: {}", key.display())));
                }
            };
        }
        Ok(if optional { Value::optional(Some(value)) } else { value })
    }

    /// Evaluates the key of a selection.
    fn key(&mut self, selection: &'a Selection) -> EvalResult<'a> {
        match &selection.key {
            SelectionKey::Constant(value) => Ok(value.clone()),
            SelectionKey::Attribute(attribute) => self.resolve(attribute),
            SelectionKey::Value(step) => self.step(step),
        }
    }

    /// Evaluates `has()`.
    pub(super) fn test(&mut self, attribute: &'a Attribute) -> EvalResult<'a> {
        match self.resolve(attribute)? {
            Value::Optional(value) => Ok(Value::Bool(value.is_some())),
            other => Ok(other),
        }
    }
}

/// Returns a value without its schema.
fn without_schema(value: Value<'_>) -> Value<'_> {
    match value {
        Value::Map(Map::Json(members, _)) => Value::Map(Map::Plain(members)),
        Value::List(List::Json(items, ..)) => Value::List(List::Plain(items)),
        Value::List(List::Merged(items, ..)) => Value::List(List::Owned(items)),
        other => other,
    }
}

fn find<'a>(value: &Value<'a>, key: Value<'a>) -> Result<Lookup<'a>, Error> {
    match value {
        Value::Map(map) => Ok(match map.find(&key)? {
            Some(value) => Lookup::Value(value),
            None => Lookup::NoKey(key),
        }),
        Value::List(list) => {
            let index = match &key {
                Value::Int(it) => *it,
                Value::Uint(it) => i64::try_from(*it).unwrap_or(-1),
                Value::Double(it) if it.fract() == 0.0 => *it as i64,
                Value::Double(_) => {
                    return Err(Error::new(format!("unsupported index value {} in list", key.display())));
                }
                other => {
                    let message = format!("unsupported index type '{}' in list", other.type_name());
                    return Err(Error::new(message));
                }
            };
            match usize::try_from(index).ok().and_then(|index| list.get(index)) {
                Some(item) => item.map(Lookup::Value),
                None => Ok(Lookup::NoIndex(key)),
            }
        }
        // The value has no fields.
        _ => Ok(Lookup::NoKey(key)),
    }
}
