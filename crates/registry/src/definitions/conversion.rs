//! Version conversion of custom objects: they are stored in one version and served in any. Strategy `None`
//! changes `apiVersion`; the schemas of both versions then decide which fields are kept.

// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/conversion/nop_converter.go

use std::sync::Arc;
use std::sync::atomic::Ordering;

use atoll_crd::Origin;
use atoll_meta::{json, object};
use atoll_watch::{ExtraFacts, Facts, Object};
use bytes::Bytes;
use serde_json::Value;

use super::custom::CustomVersion;
use crate::catalog::Catalog;
use crate::facts;
use crate::row::Row;

/// Returns the object in the form of this row: unchanged if it has that form, the cached conversion if there
/// is one, or a new conversion.
pub fn to_served(row: &Row, custom: &CustomVersion, stored: Arc<Object>) -> Arc<Object> {
    let Some(extra) = &stored.facts.extra else { return convert(row, custom, &stored) };
    if extra.form.load(Ordering::Relaxed) == custom.form {
        return stored;
    }
    if let Some(cached) = &*extra.converted.load()
        && cached.0 == custom.form
    {
        return cached.1.clone();
    }
    let converted = convert(row, custom, &stored);
    if converted.json() == stored.json() && custom.selectable.is_empty() {
        // The conversion changed nothing: remember that.
        extra.form.store(custom.form, Ordering::Relaxed);
        return stored;
    }
    extra.converted.store(Some(Arc::new((custom.form, converted.clone()))));
    converted
}

fn convert(row: &Row, custom: &CustomVersion, stored: &Object) -> Arc<Object> {
    let mut value = json::parse(&stored.json()).map(|parsed| parsed.value).unwrap_or_default();
    read(row, custom, &mut value);
    let encoded = json::encode_object(&value);
    let json = Bytes::from(json::splice_resource_version(&encoded, stored.revision));
    let facts = facts_with(custom, &value, stored.facts.labels.clone());
    Arc::new(Object::complete(stored.key.clone(), stored.revision, json, facts))
}

/// Converts from the stored form, in whichever version it was stored, to that of the row.
pub fn read(row: &Row, custom: &CustomVersion, value: &mut Value) {
    if let Some(spelling) = custom.dialect.spelling.as_ref() {
        if let Some(stored) = &spelling.stored.custom {
            read(&spelling.stored, stored, value);
        }
        (spelling.to_view)(value);
        object::set_type(value, &row.api_version(), &row.kind);
        // Cannot fail: the conversion has made a valid object.
        let _ = custom.shape(value, Origin::Storage);
        return;
    }
    let version = object::api_version(value).rsplit('/').next().unwrap_or_default();
    let is_other = version != &*custom.version.name;
    if let Some(stored) = custom.definition.version(version) {
        // An object that no longer fits the schema is served unchanged.
        let _ = stored.schema.read(value, Origin::Storage);
        // Later defaults are omitted if the object would become too large.
        let _ = stored.schema.apply_defaults(value);
    }
    if is_other {
        object::set_type(value, &row.api_version(), &row.kind);
        let _ = custom.shape(value, Origin::Storage);
    }
    if object::generation(value) == 0 {
        object::set_generation(value, 1);
    }
}

/// Converts from the form of the row to the stored form.
pub fn to_stored(row: &Row, custom: &CustomVersion, value: &mut Value) {
    if let Some(spelling) = custom.dialect.spelling.as_ref() {
        let stored = &spelling.stored;
        // Writes of the server itself begin with the stored form.
        if (object::kind(value), object::api_version(value)) == (&*row.kind, &*row.api_version()) {
            (spelling.to_stored)(value);
            object::set_type(value, &stored.api_version(), &stored.kind);
            let _ = stored.custom.as_ref().map(|stored| stored.shape(value, Origin::Storage));
        }
        if let Some(stored_version) = &stored.custom {
            to_stored(stored, stored_version, value);
        }
        return;
    }
    if let Some(storage) = &custom.stored {
        object::set_type(value, &format!("{}/{}", row.group, storage.version.name), &row.kind);
        // Cannot fail: the object and its metadata have been decoded before.
        let _ = storage.shape(value, Origin::Storage);
    }
    // Upstream applies defaults whenever it reads, Atoll before it writes: a new object has lost its status
    // by now, which may have defaults.
    let _ = custom.storage().fill(value);
}

/// The facts of an object in this version.
pub fn of(catalog: &Catalog, custom: &CustomVersion, value: &Value) -> Arc<Facts> {
    facts_with(custom, value, facts::labels(catalog, None, value))
}

fn facts_with(custom: &CustomVersion, value: &Value, labels: Box<[(Box<str>, Box<str>)]>) -> Arc<Facts> {
    let names = custom.selectable.iter().zip(&*custom.version.selectable);
    let custom_fields = names.filter_map(|(name, field)| {
        let text = field.value(value);
        (!text.is_empty()).then(|| (name.clone(), text.into()))
    });
    let extra = ExtraFacts {
        custom_fields: custom_fields.collect(),
        form: custom.form.into(),
        ..ExtraFacts::default()
    };
    Arc::new(Facts { labels, fields: Box::default(), extra: Some(Box::new(extra)) })
}
