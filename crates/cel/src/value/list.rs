//! Lists: borrowed JSON or values that were made.

use std::sync::Arc;

use super::Value;
use crate::error::Error;
use crate::shape::{ListKind, Shape};

/// Lists up to this length are copied where they are joined.
const COPIED: usize = 32;

/// A list.
#[derive(Clone, Debug)]
pub enum List<'a> {
    /// JSON, with the shape of its items.
    Json(&'a [serde_json::Value], &'a Shape, &'a ListKind),
    /// JSON without a shape.
    Plain(&'a [serde_json::Value]),
    /// Values.
    Owned(Arc<Vec<Value<'a>>>),
    /// One after the other, and how many there are in both.
    Joined(Arc<[List<'a>; 2]>, usize),
    /// What was made by adding to a set or a map list, and still compares as one; the shape is that of its items.
    Kept(Arc<Vec<Value<'a>>>, &'a Shape, &'a ListKind),
}

impl<'a> List<'a> {
    /// How many items it has.
    pub fn len(&self) -> usize {
        match self {
            List::Json(items, ..) | List::Plain(items) => items.len(),
            List::Owned(items) | List::Kept(items, ..) => items.len(),
            List::Joined(_, length) => *length,
        }
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One item. An item that does not fit its schema is an error.
    pub fn get(&self, place: usize) -> Option<Result<Value<'a>, Error>> {
        match self {
            List::Json(items, shape, _) => items.get(place).map(|item| Value::from_json(item, shape)),
            List::Plain(items) => items.get(place).map(|item| Ok(Value::plain(item))),
            List::Owned(items) | List::Kept(items, ..) => items.get(place).cloned().map(Ok),
            List::Joined(both, _) => match place.checked_sub(both[0].len()) {
                None => both[0].get(place),
                Some(place) => both[1].get(place),
            },
        }
    }

    /// All items in order.
    pub fn iter(&self) -> impl Iterator<Item = Result<Value<'a>, Error>> + use<'a, '_> {
        (0..self.len()).filter_map(|place| self.get(place))
    }

    /// All items, or the first error among them.
    pub fn values(&self) -> Result<Vec<Value<'a>>, Error> {
        self.iter().collect()
    }

    /// Both after each other. Long lists are not copied for it.
    pub fn joined(&self, other: &List<'a>) -> Result<List<'a>, Error> {
        let length = self.len() + other.len();
        if length > COPIED {
            return Ok(List::Joined(Arc::new([self.clone(), other.clone()]), length));
        }
        let mut items = self.values()?;
        items.extend(other.values()?);
        Ok(List::Owned(Arc::new(items)))
    }

    /// How items are told apart, and what they look like.
    pub(crate) fn kind(&self) -> Option<(&'a ListKind, &'a Shape)> {
        match self {
            List::Json(_, shape, kind) | List::Kept(_, shape, kind) => Some((kind, shape)),
            _ => None,
        }
    }
}
