//! Access to the arguments of a call. They match the signature, so a mismatch is reported as
//! `NoSuchOverload`.

use crate::error::Error;
use crate::value::{List, Opaque, Text, Value};

fn or_no_overload<T>(argument: Option<T>) -> Result<T, Error> {
    argument.ok_or(Error::NoSuchOverload)
}

pub(super) fn text<'v>(arguments: &'v [Value<'_>], index: usize) -> Result<&'v str, Error> {
    or_no_overload(arguments.get(index).and_then(Value::as_str))
}

pub(super) fn int(arguments: &[Value<'_>], index: usize) -> Result<i64, Error> {
    or_no_overload(arguments.get(index).and_then(Value::as_int))
}

pub(super) fn list<'v, 'a>(arguments: &'v [Value<'a>], index: usize) -> Result<&'v List<'a>, Error> {
    or_no_overload(arguments.get(index).and_then(Value::as_list))
}

pub(super) fn any<'v, 'a>(arguments: &'v [Value<'a>], index: usize) -> Result<&'v Value<'a>, Error> {
    or_no_overload(arguments.get(index))
}

pub(super) fn opaque<'v, T: Opaque>(arguments: &'v [Value<'_>], index: usize) -> Result<&'v T, Error> {
    or_no_overload(arguments.get(index).and_then(Value::as_opaque))
}

/// Returns a part of a string argument without copying borrowed strings.
pub(super) fn part<'a>(whole: &Value<'a>, part: &str) -> Value<'a> {
    if let Value::String(Text::Borrowed(whole)) = whole {
        let start = (part.as_ptr() as usize).checked_sub(whole.as_ptr() as usize);
        if let Some(part) = start.and_then(|start| whole.get(start..start + part.len())) {
            return Value::from(part);
        }
    }
    Value::from(part.to_owned())
}

/// Creates a list of strings.
pub(super) fn texts<'a>(items: impl IntoIterator<Item = String>) -> Value<'a> {
    Value::from(items.into_iter().map(Value::from).collect::<Vec<_>>())
}
