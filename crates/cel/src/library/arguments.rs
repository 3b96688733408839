//! Taking arguments out of a call. They fit the signature, so what does not is as if there were no such function.

use crate::error::Error;
use crate::value::{List, Opaque, Text, Value};

fn fitting<T>(argument: Option<T>) -> Result<T, Error> {
    argument.ok_or(Error::NoSuchOverload)
}

pub(super) fn text<'v>(arguments: &'v [Value<'_>], place: usize) -> Result<&'v str, Error> {
    fitting(arguments.get(place).and_then(Value::as_str))
}

pub(super) fn int(arguments: &[Value<'_>], place: usize) -> Result<i64, Error> {
    fitting(arguments.get(place).and_then(Value::as_int))
}

pub(super) fn list<'v, 'a>(arguments: &'v [Value<'a>], place: usize) -> Result<&'v List<'a>, Error> {
    fitting(arguments.get(place).and_then(Value::as_list))
}

pub(super) fn any<'v, 'a>(arguments: &'v [Value<'a>], place: usize) -> Result<&'v Value<'a>, Error> {
    fitting(arguments.get(place))
}

pub(super) fn opaque<'v, T: Opaque>(arguments: &'v [Value<'_>], place: usize) -> Result<&'v T, Error> {
    fitting(arguments.get(place).and_then(Value::as_opaque))
}

/// A part of a text that was an argument, without copying what is borrowed.
pub(super) fn part<'a>(whole: &Value<'a>, part: &str) -> Value<'a> {
    if let Value::String(Text::Borrowed(whole)) = whole {
        let start = (part.as_ptr() as usize).checked_sub(whole.as_ptr() as usize);
        if let Some(part) = start.and_then(|start| whole.get(start..start + part.len())) {
            return Value::from(part);
        }
    }
    Value::from(part.to_owned())
}

/// A list of texts.
pub(super) fn texts<'a>(items: impl IntoIterator<Item = String>) -> Value<'a> {
    Value::from(items.into_iter().map(Value::from).collect::<Vec<_>>())
}
