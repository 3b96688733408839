//! Lists: borrowed JSON or values that were made.

use std::sync::Arc;

use super::Value;
use crate::error::Error;
use crate::shape::{ListKind, Shape};

/// A list.
#[derive(Clone, Debug)]
pub enum List<'a> {
    /// JSON, with the shape of its items.
    Json(&'a [serde_json::Value], &'a Shape, &'a ListKind),
    /// JSON without a shape.
    Plain(&'a [serde_json::Value]),
    /// Values.
    Owned(Arc<Vec<Value<'a>>>),
    /// What was made by adding to a set or a map list, and still compares as one; the shape is that of its items.
    Kept(Arc<Vec<Value<'a>>>, &'a Shape, &'a ListKind),
}

impl<'a> List<'a> {
    /// How many items it has.
    pub fn len(&self) -> usize {
        match self {
            List::Json(items, ..) | List::Plain(items) => items.len(),
            List::Owned(items) | List::Kept(items, ..) => items.len(),
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

    /// How items are told apart, and what they look like.
    pub(crate) fn kind(&self) -> Option<(&'a ListKind, &'a Shape)> {
        match self {
            List::Json(_, shape, kind) | List::Kept(_, shape, kind) => Some((kind, shape)),
            _ => None,
        }
    }
}
