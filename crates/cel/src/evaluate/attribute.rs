//! Variables and selections.

use super::{Local, Result_, Run};
use crate::error::Error;
use crate::plan::{Attribute, Base, By, Selection};
use crate::value::{List, Map, Value};

/// What a selection found.
enum Found<'a> {
    Value(Value<'a>),
    /// Nothing, for want of this key or index.
    NoKey(Value<'a>),
    NoIndex(Value<'a>),
}

impl<'a> Run<'a, '_> {
    /// The value of an attribute.
    pub(super) fn resolve(&mut self, attribute: &'a Attribute) -> Result_<'a> {
        let value = match &attribute.base {
            Base::Variable(place, name) => match &self.variables[*place] {
                Some(value) => value.clone(),
                None => return Err(Error::new(format!("no such attribute(s): {name}"))),
            },
            Base::Local(place) => self.local(*place)?,
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

    /// A loop's variable; an accumulator is evaluated when it is first asked for.
    fn local(&mut self, place: usize) -> Result_<'a> {
        match &self.locals[place] {
            Local::Value(value) => value.clone(),
            Local::Lazy(step) => {
                let value = self.step(step);
                if let Err(Error::Cancelled) = value {
                    return value;
                }
                self.locals[place] = Local::Value(value.clone());
                value
            }
            Local::Empty => Err(Error::new("no such attribute(s)")),
        }
    }

    /// An accumulator, out of its place so that it can be changed; it costs what a variable costs.
    pub(super) fn accumulated(&mut self, step: &'a crate::plan::Step) -> Result_<'a> {
        let crate::plan::Step::Attribute(attribute) = step else { return self.step(step) };
        let Base::Local(place) = attribute.base else { return self.step(step) };
        let value = self.local(place);
        if let Err(Error::Cancelled) = value {
            return value;
        }
        drop(std::mem::replace(&mut self.locals[place], Local::Empty));
        self.charge(1)?;
        value
    }

    fn select(&mut self, value: Value<'a>, selections: &'a [Selection]) -> Result_<'a> {
        let (mut value, mut optional) = match value {
            Value::Optional(None) => return Ok(Value::Optional(None)),
            // What was in an optional value has lost its schema on the way, upstream.
            Value::Optional(Some(inside)) => (bare((*inside).clone()), true),
            value => (value, false),
        };
        for selection in selections {
            optional |= selection.optional;
            let found = match self.key(selection) {
                Ok(key) => find(&value, key),
                Err(Error::Cancelled) => return Err(Error::Cancelled),
                Err(error) => Err(error),
            };
            // What may be absent and is costs nothing.
            if !optional || matches!(found, Ok(Found::Value(_))) {
                self.charge(1)?;
            }
            value = match found? {
                Found::Value(_) if selection.test => Value::Bool(true),
                Found::Value(value) => value,
                Found::NoKey(_) | Found::NoIndex(_) if optional => return Ok(Value::Optional(None)),
                Found::NoKey(_) | Found::NoIndex(_) if selection.test => Value::Bool(false),
                Found::NoKey(key) => return Err(Error::new(format!("no such key: {}", key.shown()))),
                Found::NoIndex(key) => {
                    return Err(Error::new(format!("index out of bounds: {}", key.shown())));
                }
            };
        }
        Ok(if optional { Value::optional(Some(value)) } else { value })
    }

    /// What a selection selects by.
    fn key(&mut self, selection: &'a Selection) -> Result_<'a> {
        match &selection.by {
            By::Constant(value) => Ok(value.clone()),
            By::Attribute(attribute) => self.resolve(attribute),
            By::Value(step) => self.step(step),
        }
    }

    /// `has()`.
    pub(super) fn test(&mut self, attribute: &'a Attribute) -> Result_<'a> {
        match self.resolve(attribute)? {
            Value::Optional(value) => Ok(Value::Bool(value.is_some())),
            other => Ok(other),
        }
    }
}

/// A value as it is without its schema.
fn bare(value: Value<'_>) -> Value<'_> {
    match value {
        Value::Map(Map::Json(members, _)) => Value::Map(Map::Plain(members)),
        Value::List(List::Json(items, ..)) => Value::List(List::Plain(items)),
        Value::List(List::Kept(items, ..)) => Value::List(List::Owned(items)),
        other => other,
    }
}

fn find<'a>(value: &Value<'a>, key: Value<'a>) -> Result<Found<'a>, Error> {
    match value {
        Value::Map(map) => Ok(match map.find(&key)? {
            Some(value) => Found::Value(value),
            None => Found::NoKey(key),
        }),
        Value::List(list) => {
            let index = match &key {
                Value::Int(it) => *it,
                Value::Uint(it) => i64::try_from(*it).unwrap_or(-1),
                Value::Double(it) if it.fract() == 0.0 => *it as i64,
                Value::Double(_) => {
                    return Err(Error::new(format!("unsupported index value {} in list", key.shown())));
                }
                other => {
                    let message = format!("unsupported index type '{}' in list", other.type_name());
                    return Err(Error::new(message));
                }
            };
            match usize::try_from(index).ok().and_then(|index| list.get(index)) {
                Some(item) => item.map(Found::Value),
                None => Ok(Found::NoIndex(key)),
            }
        }
        // What has no fields has not this one.
        _ => Ok(Found::NoKey(key)),
    }
}
