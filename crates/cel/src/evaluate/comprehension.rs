//! Comprehensions.

// upstream: github.com/google/cel-go/interpreter/interpretable.go

use super::{EvalResult, Evaluator, Local};
use crate::error::Error;
use crate::plan::ComprehensionStep;
use crate::value::Value;

impl<'a> Evaluator<'a, '_> {
    pub(super) fn comprehension(&mut self, it: &'a ComprehensionStep) -> EvalResult<'a> {
        let range = self.step(&it.range)?;
        // Save the slots: a lazily evaluated value runs inside other comprehensions, which may use them.
        let before: [Local<'a>; 3] =
            std::array::from_fn(|offset| std::mem::replace(&mut self.locals[it.slot + offset], Local::Empty));
        self.locals[it.slot] = Local::Lazy(&it.start);
        let result = self.run(it, &range).and_then(|()| self.step(&it.result));
        for (offset, local) in before.into_iter().enumerate() {
            self.locals[it.slot + offset] = local;
        }
        result
    }

    fn run(&mut self, it: &'a ComprehensionStep, range: &Value<'a>) -> Result<(), Error> {
        match range {
            Value::List(list) => {
                for index in 0..list.len() {
                    let Some(item) = list.get(index) else { break };
                    let (first, second) = match it.two {
                        true => (Ok(Value::Int(index as i64)), Some(item)),
                        false => (item, None),
                    };
                    if !self.iterate(it, first, second)? {
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
                    if !self.iterate(it, Ok(key), second)? {
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

    /// Runs one iteration. Returns whether to continue.
    fn iterate(
        &mut self,
        it: &'a ComprehensionStep,
        first: EvalResult<'a>,
        second: Option<EvalResult<'a>>,
    ) -> Result<bool, Error> {
        self.locals[it.slot + 1] = Local::Value(first);
        if let Some(second) = second {
            self.locals[it.slot + 2] = Local::Value(second);
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
        self.locals[it.slot] = Local::Value(value);
        Ok(true)
    }
}

/// Returns Go's name of the type of a value that is not a list or a map.
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
