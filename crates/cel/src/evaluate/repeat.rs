//! Loops.

use super::{Local, Result_, Run};
use crate::error::Error;
use crate::plan::LoopStep;
use crate::value::Value;

impl<'a> Run<'a, '_> {
    pub(super) fn repeat(&mut self, it: &'a LoopStep) -> Result_<'a> {
        let range = self.step(&it.range)?;
        // Another loop may be using these places: a value that is evaluated late is evaluated within others.
        let before: [Local<'a>; 3] = std::array::from_fn(|offset| {
            std::mem::replace(&mut self.locals[it.place + offset], Local::Empty)
        });
        self.locals[it.place] = Local::Lazy(&it.start);
        let result = self.run(it, &range).and_then(|()| self.step(&it.result));
        for (offset, local) in before.into_iter().enumerate() {
            self.locals[it.place + offset] = local;
        }
        result
    }

    fn run(&mut self, it: &'a LoopStep, range: &Value<'a>) -> Result<(), Error> {
        match range {
            Value::List(list) => {
                for place in 0..list.len() {
                    let Some(item) = list.get(place) else { break };
                    let (first, second) = match it.two {
                        true => (Ok(Value::Int(place as i64)), Some(item)),
                        false => (item, None),
                    };
                    if !self.once(it, first, second)? {
                        break;
                    }
                }
            }
            Value::Map(map) => {
                for key in map.keys() {
                    let second = match it.two {
                        true => map.find(&key).transpose(),
                        false => None,
                    };
                    if !self.once(it, Ok(key), second)? {
                        break;
                    }
                }
            }
            other => {
                let message = format!("got '{}', expected iterable type", go_type(other));
                return Err(Error::new(message));
            }
        }
        Ok(())
    }

    /// One round; whether to go on.
    fn once(
        &mut self,
        it: &'a LoopStep,
        first: Result_<'a>,
        second: Option<Result_<'a>>,
    ) -> Result<bool, Error> {
        self.locals[it.place + 1] = Local::Value(first);
        if let Some(second) = second {
            self.locals[it.place + 2] = Local::Value(second);
        }
        match self.step(&it.condition) {
            Err(Error::Cancelled) => return Err(Error::Cancelled),
            Ok(Value::Bool(false)) => return Ok(false),
            _ => {}
        }
        let value = self.step(&it.step);
        if let Err(Error::Cancelled) = value {
            return Err(Error::Cancelled);
        }
        self.locals[it.place] = Local::Value(value);
        Ok(true)
    }
}

/// What Go calls the type of a value that is not a list or a map.
fn go_type(value: &Value<'_>) -> &'static str {
    match value {
        Value::Null => "types.Null",
        Value::Bool(_) => "types.Bool",
        Value::Int(_) => "types.Int",
        Value::Uint(_) => "types.Uint",
        Value::Double(_) => "types.Double",
        Value::String(_) => "types.String",
        Value::Bytes(_) => "types.Bytes",
        Value::Timestamp(_) => "types.Timestamp",
        Value::Duration(_) => "types.Duration",
        Value::Type(_) => "*types.Type",
        _ => "*types.Optional",
    }
}
