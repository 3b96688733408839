//! Objects of custom resources are stored in one version and shown in any. Strategy `None` changes the name of the version;
//! the schemas of both then decide which fields there are.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use atoll_extension::Origin;
use atoll_meta::{json, object};
use atoll_watch::{Facts, Further, Object};
use bytes::Bytes;
use serde_json::Value;

use super::custom::Custom;
use crate::facts;
use crate::row::Row;

/// An object in the form of this row: as it stands if it is in that form, else in the one it was last made into, else
/// made now.
pub fn shown(row: &Row, custom: &Custom, stored: Arc<Object>) -> Arc<Object> {
    let Some(further) = &stored.facts.further else { return made(row, custom, &stored) };
    if further.form.load(Ordering::Relaxed) == custom.form {
        return stored;
    }
    if let Some(other) = &*further.other.load()
        && other.0 == custom.form
    {
        return other.1.clone();
    }
    let made = made(row, custom, &stored);
    if made.json() == stored.json() && custom.selectable.is_empty() {
        // Nothing has changed about it: from now on that is known.
        further.form.store(custom.form, Ordering::Relaxed);
        return stored;
    }
    further.other.store(Some(Arc::new((custom.form, made.clone()))));
    made
}

fn made(row: &Row, custom: &Custom, stored: &Object) -> Arc<Object> {
    let mut value = json::parse(&stored.json()).map(|parsed| parsed.value).unwrap_or_default();
    read(row, custom, &mut value);
    let encoded = json::encode_object(&value);
    let json = Bytes::from(json::splice_resource_version(&encoded, stored.revision));
    let facts = of(custom, &value);
    Arc::new(Object::complete(stored.key.clone(), stored.revision, json, facts))
}

/// From the form of the store, whichever version it was stored in, to that of the row.
pub fn read(row: &Row, custom: &Custom, value: &mut Value) {
    let version = object::api_version(value).rsplit('/').next().unwrap_or_default();
    let is_other = version != &*custom.version.name;
    if let Some(stored) = custom.definition.version(version) {
        // What cannot be read any more is shown as it is.
        let _ = stored.schema.read(value, Origin::Storage);
        // Defaults that came later and are too many are left out.
        let _ = stored.schema.fill(value);
    }
    if is_other {
        object::set_type(value, &row.api_version(), &row.kind);
        let _ = custom.shape(value, Origin::Storage);
    }
    if object::generation(value) == 0 {
        object::set_generation(value, 1);
    }
}

/// From the form of the row to that of the store.
pub fn to_stored(row: &Row, custom: &Custom, value: &mut Value) {
    if let Some(storage) = &custom.stored {
        object::set_type(value, &format!("{}/{}", row.group, storage.version.name), &row.kind);
        // It has been read before, and its metadata with it.
        let _ = storage.shape(value, Origin::Storage);
    }
    // Upstream fills this in whenever it reads, we before we write: a new object has lost its status by now, which may
    // have defaults.
    let _ = custom.storage().fill(value);
}

/// What selectors can ask of an object in this version.
pub fn of(custom: &Custom, value: &Value) -> Arc<Facts> {
    let names = custom.selectable.iter().zip(&*custom.version.selectable);
    let named = names.filter_map(|(name, field)| {
        let text = field.value(value);
        (!text.is_empty()).then(|| (name.clone(), text.into()))
    });
    let further = Further { named: named.collect(), form: custom.form.into(), ..Further::default() };
    Arc::new(Facts { labels: facts::labels(value), fields: Box::default(), further: Some(Box::new(further)) })
}
