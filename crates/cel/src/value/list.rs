//! Lists: borrowed JSON or computed values.

// upstream: staging/src/k8s.io/apiserver/pkg/cel/common/valuesunstructured.go
// upstream: github.com/google/cel-go/common/types/list.go

use std::sync::Arc;

use super::Value;
use crate::error::Error;
use crate::shape::{ListKind, Shape};

/// Maximum length of lists that are copied when concatenated.
const MAX_COPIED: usize = 32;

/// A list.
#[derive(Clone, Debug)]
pub enum List<'a> {
    /// JSON, with the shape of its items.
    Json(&'a [serde_json::Value], &'a Shape, &'a ListKind),
    /// JSON without a shape.
    Plain(&'a [serde_json::Value]),
    /// Computed values.
    Owned(Arc<Vec<Value<'a>>>),
    /// Two concatenated lists and their total length.
    Joined(Arc<[List<'a>; 2]>, usize),
    /// The result of merging sets or map lists, which still compares as one; the shape is that of its items.
    Merged(Arc<Vec<Value<'a>>>, &'a Shape, &'a ListKind),
}

impl<'a> List<'a> {
    /// Returns the number of items.
    pub fn len(&self) -> usize {
        match self {
            List::Json(items, ..) | List::Plain(items) => items.len(),
            List::Owned(items) | List::Merged(items, ..) => items.len(),
            List::Joined(_, length) => *length,
        }
    }

    /// Whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns one item. An item that does not match its schema is an error.
    pub fn get(&self, index: usize) -> Option<Result<Value<'a>, Error>> {
        match self {
            List::Json(items, shape, _) => items.get(index).map(|item| Value::from_json(item, shape)),
            List::Plain(items) => items.get(index).map(|item| Ok(Value::plain(item))),
            List::Owned(items) | List::Merged(items, ..) => items.get(index).cloned().map(Ok),
            List::Joined(both, _) => match index.checked_sub(both[0].len()) {
                None => both[0].get(index),
                Some(index) => both[1].get(index),
            },
        }
    }

    /// Iterates over the items in order.
    pub fn iter(&self) -> impl Iterator<Item = Result<Value<'a>, Error>> + use<'a, '_> {
        (0..self.len()).filter_map(|index| self.get(index))
    }

    /// Returns all items, or the first error.
    pub fn values(&self) -> Result<Vec<Value<'a>>, Error> {
        self.iter().collect()
    }

    /// Concatenates two lists. Long lists are not copied.
    pub fn joined(&self, other: &List<'a>) -> Result<List<'a>, Error> {
        let length = self.len() + other.len();
        if length > MAX_COPIED {
            return Ok(List::Joined(Arc::new([self.clone(), other.clone()]), length));
        }
        let mut items = self.values()?;
        items.extend(other.values()?);
        Ok(List::Owned(Arc::new(items)))
    }

    /// Returns the list type and the shape of the items.
    pub(crate) fn kind(&self) -> Option<(&'a ListKind, &'a Shape)> {
        match self {
            List::Json(_, shape, kind) | List::Merged(_, shape, kind) => Some((kind, shape)),
            _ => None,
        }
    }
}
