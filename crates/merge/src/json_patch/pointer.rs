//! JSON pointers (RFC 6901) and operations at their end.

// upstream: gopkg.in/evanphx/json-patch.v4/patch.go

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::MAX_MOVED_ELEMENTS;
use crate::PatchError;

/// The parent of the value that a path refers to.
pub(super) enum Container<'a> {
    Object(&'a mut Map<String, Value>),
    Array(&'a mut Vec<Value>),
}

/// Returns the number of elements of a path.
pub(super) fn steps(path: &str) -> usize {
    path.matches('/').count()
}

/// Decodes `~1` as a slash and `~0` as a tilde.
fn decoded(step: &str) -> Cow<'_, str> {
    if !step.contains('~') {
        return Cow::Borrowed(step);
    }
    let mut out = String::with_capacity(step.len());
    let mut rest = step;
    while let Some(position) = rest.find('~') {
        out.push_str(&rest[..position]);
        rest = &rest[position + 1..];
        if let Some(after) = rest.strip_prefix('1') {
            out.push('/');
            rest = after;
        } else {
            out.push('~');
            rest = rest.strip_prefix('0').unwrap_or(rest);
        }
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// Returns the parent of the last path element. `None` if there is no such parent, or if the path is empty.
pub(super) fn find<'a, 'p>(root: &'a mut Value, path: &'p str) -> Option<(Container<'a>, Cow<'p, str>)> {
    let (parents, last) = path.rsplit_once('/')?;
    let mut container = Container::of(root)?;
    // Everything before the first slash is ignored.
    for step in parents.split('/').skip(1) {
        let next = match container {
            Container::Object(fields) => fields.get_mut(decoded(step).as_ref())?,
            Container::Array(elements) => {
                let index = position(&decoded(step), elements.len(), "").ok()?;
                elements.get_mut(index)?
            }
        };
        container = Container::of(next)?;
    }
    Some((container, decoded(last)))
}

impl<'a> Container<'a> {
    fn of(value: &'a mut Value) -> Option<Container<'a>> {
        match value {
            Value::Object(fields) => Some(Container::Object(fields)),
            Value::Array(elements) => Some(Container::Array(elements)),
            _ => None,
        }
    }

    /// Returns the value of a key. An absent key is `None` in an object and an error in a list.
    pub(super) fn get_mut(&mut self, key: &str, context: &str) -> Result<Option<&mut Value>, PatchError> {
        match self {
            Container::Object(fields) => Ok(fields.get_mut(key)),
            Container::Array(elements) => {
                let length = elements.len();
                let index = position(key, length, context)?;
                Ok(elements.get_mut(index))
            }
        }
    }

    /// Adds a value, and counts the elements of a list that it moves.
    pub(super) fn add(
        self,
        key: &str,
        value: Value,
        moved: &mut usize,
        context: &str,
    ) -> Result<(), PatchError> {
        match self {
            Container::Object(fields) => {
                fields.insert(key.to_owned(), value);
            }
            Container::Array(elements) if key == "-" => elements.push(value),
            Container::Array(elements) => {
                if let Err(error) = key.parse::<i64>() {
                    return Err(invalid_number(
                        key,
                        &error,
                        &format!("{context}: value was not a proper array index: '{key}'"),
                    ));
                }
                // An element can be inserted after the last one.
                let positions = elements.len() + 1;
                let index = position(key, positions, context)?;
                count_moved(moved, elements.len() - index)?;
                elements.insert(index, value);
            }
        }
        Ok(())
    }

    /// Removes a value, and counts the elements of a list that it moves.
    pub(super) fn remove(self, key: &str, moved: &mut usize, context: &str) -> Result<Value, PatchError> {
        match self {
            Container::Object(fields) => fields.remove(key).ok_or_else(|| PatchError::Missing {
                message: format!("{context}: Unable to remove nonexistent key: {key}: missing value"),
            }),
            Container::Array(elements) => {
                let index = position(key, elements.len(), context)?;
                count_moved(moved, elements.len() - index)?;
                Ok(elements.remove(index))
            }
        }
    }
}

/// Counts moved elements of a list, up to the limit.
fn count_moved(moved: &mut usize, more: usize) -> Result<(), PatchError> {
    *moved += more;
    if *moved > MAX_MOVED_ELEMENTS { Err(PatchError::TooMuchMoved) } else { Ok(()) }
}

/// Returns the index of a path element. Negative ones count from the end.
fn position(step: &str, positions: usize, context: &str) -> Result<usize, PatchError> {
    let number: i64 = step.parse().map_err(|error| invalid_number(step, &error, context))?;
    let index = if number < 0 {
        usize::try_from(number.unsigned_abs()).ok().and_then(|back| positions.checked_sub(back))
    } else {
        usize::try_from(number).ok()
    };
    index.filter(|index| *index < positions).ok_or_else(|| PatchError::InvalidIndex {
        message: format!("{context}: Unable to access invalid index: {number}: invalid index referenced"),
    })
}

fn invalid_number(step: &str, error: &std::num::ParseIntError, context: &str) -> PatchError {
    use std::num::IntErrorKind::{NegOverflow, PosOverflow};
    let reason = if matches!(error.kind(), PosOverflow | NegOverflow) {
        "value out of range"
    } else {
        "invalid syntax"
    };
    PatchError::InvalidIndex {
        message: format!("{context}: strconv.Atoi: parsing {}: {reason}", atoll_meta::quote::quote(step)),
    }
}
