//! What selectors can ask of an object, extracted when it is written and when it is loaded.

use std::sync::Arc;

use atoll_store::{Key, Memo, key};
use atoll_watch::Facts;
use atoll_watch::object::{Decode, TOMBSTONE};
use bytes::Bytes;
use serde_json::Value;

use crate::catalog::Catalog;
use crate::row::Row;
use crate::strategy;

/// Extracts facts from what comes back from the store.
pub struct Decoder {
    pub catalog: Arc<Catalog>,
}

impl Decode for Decoder {
    fn facts(&self, key: &Key, value: &Bytes, memo: Option<&Memo>) -> Arc<Facts> {
        if let Some(facts) = memo.and_then(|memo| memo.clone().downcast::<Facts>().ok()) {
            return facts;
        }
        if value == TOMBSTONE {
            return Facts::none();
        }
        let row = key.parts().and_then(|parts| {
            let group = if parts.group == key::CORE { "" } else { parts.group };
            self.catalog.stored(group, parts.resource)
        });
        match (row, atoll_meta::json::parse(value)) {
            (Some(row), Ok(parsed)) => of(row, &parsed.value),
            // A resource that is not served now, or a value that cannot be read: kept, but not selectable.
            _ => Facts::none(),
        }
    }
}

pub fn of(row: &Row, object: &Value) -> Arc<Facts> {
    let labels =
        object.get("metadata").and_then(|metadata| metadata.get("labels")).and_then(Value::as_object);
    let labels: Box<[_]> = labels
        .into_iter()
        .flatten()
        .filter_map(|(name, value)| Some((name.as_str().into(), value.as_str()?.into())))
        .collect();
    let fields: Box<[_]> = row
        .strategy
        .fields
        .iter()
        .filter_map(|field| {
            let is_empty = |value: &Value| value.as_str().is_some_and(str::is_empty);
            let own = strategy::at(object, field.path).filter(|value| !is_empty(value));
            let found = own.or_else(|| strategy::at(object, field.otherwise?));
            let value = match found {
                Some(Value::String(text)) => text.clone(),
                Some(Value::Bool(flag)) => flag.to_string(),
                Some(Value::Number(number)) => number.to_string(),
                _ => field.absent.to_string(),
            };
            (!value.is_empty()).then(|| (field.label, value.into()))
        })
        .collect();
    if labels.is_empty() && fields.is_empty() {
        return Facts::none();
    }
    Arc::new(Facts { labels, fields })
}
