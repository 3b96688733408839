//! Facts of objects for selectors, extracted when an object is written or loaded.

use std::sync::{Arc, LazyLock};

use atoll_fleet::scheduled;
use atoll_store::{Key, WriteHint};
use atoll_watch::object::{Decode, SHARED_FROM, TOMBSTONE};
use atoll_watch::{ExtraFacts, Facts};
use bytes::Bytes;
use memchr::memmem::Finder;
use serde_json::Value;

use crate::catalog::Catalog;
use crate::definitions;
use crate::dialect::intent;
use crate::imports;
use crate::placement::Placements;
use crate::row::Row;
use crate::strategy;

/// The field name of labels in stored JSON.
static LABELS: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\"labels\""));
/// The annotation of placed objects: the dialect that placed one can select it.
static PLACEMENT: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(atoll_fleet::marks::PLACEMENT));
/// The annotation of objects that ask for clusters: the scheduler can select them.
static CLUSTERS: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(scheduled::CLUSTERS));

/// The field name of owner references in stored JSON: the controllers that place owned objects can select them.
static OWNERS: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\"ownerReferences\""));

/// Extracts facts from stored values.
pub struct Decoder {
    pub catalog: Arc<Catalog>,
    /// The index that knows the parents of workspaces.
    pub placements: Arc<Placements>,
}

impl Decode for Decoder {
    fn facts(&self, key: &Key, value: &Bytes, hint: Option<&WriteHint>) -> Arc<Facts> {
        if let Some(facts) = hint.and_then(|hint| hint.clone().downcast::<Facts>().ok()) {
            return facts;
        }
        if value == TOMBSTONE {
            return Facts::none();
        }
        let built_in = key.parts().filter(|parts| !parts.is_custom());
        let row = built_in.and_then(|parts| self.catalog.stored(parts.api_group(), parts.resource));
        // Searching for a word is much faster than parsing, and many objects have no labels.
        let may_have_facts = |row: &Row| {
            !row.strategy.fields.is_empty()
                || row.strategy.compile.is_some()
                || LABELS.find(value).is_some()
                || PLACEMENT.find(value).is_some()
                || CLUSTERS.find(value).is_some()
                || OWNERS.find(value).is_some()
        };
        if row.is_some_and(|row| !may_have_facts(row)) {
            return Facts::none();
        }
        match (row, atoll_meta::json::parse(value)) {
            (Some(row), Ok(parsed)) => of(&self.catalog, row, &parsed.value),
            // A custom object: its definition is found when it is read.
            (None, Ok(parsed)) => {
                let extra = Some(Box::default());
                let labels = labels(&self.catalog, None, &parsed.value);
                Arc::new(Facts { labels, fields: Box::default(), extra })
            }
            // A value that cannot be parsed is kept but not selectable.
            _ => Facts::none(),
        }
    }

    fn inherited(&self, key: &Key, value: &Bytes) -> Option<(Key, Bytes, Arc<Facts>)> {
        imports::inherited(&self.catalog, key, value)
    }

    fn ancestry(&self, workspace: &str) -> Vec<String> {
        self.placements.workspaces.ancestry(workspace)
    }

    fn past_facts(&self, key: &Key, value: &Bytes) -> Arc<Facts> {
        let built_in = key.parts().filter(|parts| !parts.is_custom());
        let row = built_in.and_then(|parts| self.catalog.stored(parts.api_group(), parts.resource));
        let Some(row) = row.filter(|row| row.strategy.compile.is_some()) else {
            return self.facts(key, value, None);
        };
        match atoll_meta::json::parse(value) {
            Ok(parsed) => {
                let (labels, fields) =
                    (labels(&self.catalog, Some(row), &parsed.value), fields(row, &parsed.value));
                Arc::new(Facts { labels, fields, extra: None })
            }
            Err(_) => Facts::none(),
        }
    }
}

/// The labels of an object, and those by which dialects and the scheduler select it, sorted by key. Custom objects
/// have no `row`.
pub fn labels(catalog: &Catalog, row: Option<&Row>, object: &Value) -> Box<[(Box<str>, Box<str>)]> {
    let labels =
        object.get("metadata").and_then(|metadata| metadata.get("labels")).and_then(Value::as_object);
    let texts = labels.into_iter().flatten();
    let own = texts.filter_map(|(name, value)| Some((name.as_str().into(), value.as_str()?.into())));
    let mut derived = intent::labels(catalog, object);
    let resource = row.map(|row| (row.group.as_str(), row.resource.as_str()));
    // The scheduler knows all workloads anyway.
    if scheduled::may_be_placed(resource, object) {
        derived.push((scheduled::INTENT_LABEL.into(), Box::default()));
    }
    if scheduled::is_owned_dependent(resource, object) {
        derived.push((scheduled::OWNED_LABEL.into(), Box::default()));
    }
    if derived.is_empty() {
        return own.collect();
    }
    let mut labels: Vec<(Box<str>, Box<str>)> = own.chain(derived).collect();
    labels.sort_by(|one, other| one.0.cmp(&other.0));
    // The object's own label is the first of two.
    labels.dedup_by(|other, one| one.0 == other.0);
    labels.into()
}

/// Long annotations in their JSON form: tools keep the applied configuration in one.
fn annotations(catalog: &Catalog, object: &Value) -> Vec<Bytes> {
    let annotations = object["metadata"]["annotations"].as_object().into_iter().flatten();
    let long = annotations.filter(|(_, value)| value.as_str().is_some_and(|text| text.len() >= SHARED_FROM));
    long.map(|(_, value)| catalog.texts.text(atoll_meta::json::to_vec(value).into())).collect()
}

/// The selectable fields of an object of a built-in resource.
fn fields(row: &Row, object: &Value) -> Box<[(&'static str, Box<str>)]> {
    let fields = row.strategy.fields.iter().filter_map(|field| {
        let is_empty = |value: &Value| value.as_str().is_some_and(str::is_empty);
        let own = strategy::at(object, field.path).filter(|value| !is_empty(value));
        let found = own.or_else(|| strategy::at(object, field.fallback?));
        let value = match found {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Bool(flag)) => flag.to_string(),
            Some(Value::Number(number)) => number.to_string(),
            _ => field.absent.to_string(),
        };
        (!value.is_empty()).then(|| (field.label, value.into()))
    });
    fields.collect()
}

/// The facts of an object in its stored form.
pub fn of(catalog: &Catalog, row: &Row, object: &Value) -> Arc<Facts> {
    if let Some(custom) = &row.custom {
        return definitions::conversion::of(catalog, custom.storage(), object);
    }
    let (labels, fields) = (labels(catalog, Some(row), object), fields(row, object));
    let extra = row.strategy.compile.map(|compile| {
        let compiled = compile(catalog, object);
        let mut shared = annotations(catalog, object);
        shared.push(compiled.spec.clone());
        Box::new(ExtraFacts { shared: shared.into(), compiled: Some(compiled), ..ExtraFacts::default() })
    });
    if labels.is_empty() && fields.is_empty() && extra.is_none() {
        return Facts::none();
    }
    Arc::new(Facts { labels, fields, extra })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The result without parsing equals the result with parsing.
    #[test]
    fn facts_are_the_same_whether_the_object_is_parsed_or_not() {
        let decoder =
            Decoder { catalog: Arc::new(Catalog::new(crate::Profile::Minimal)), placements: Arc::default() };
        for (resource, object, labels, fields) in [
            ("configmaps", json!({ "metadata": { "name": "a" }, "data": { "k": "v" } }), 0, 0),
            ("configmaps", json!({ "metadata": { "name": "a", "labels": { "a": "b" } } }), 1, 0),
            ("configmaps", json!({ "metadata": { "name": "a" }, "data": { "labels": "v" } }), 0, 0),
            ("secrets", json!({ "metadata": { "name": "a" }, "type": "Opaque" }), 0, 1),
        ] {
            let key = Key::object("", resource, "w", "n", "a");
            let facts = decoder.facts(&key, &Bytes::from(object.to_string()), None);
            assert_eq!((facts.labels.len(), facts.fields.len()), (labels, fields), "{resource} {object}");
            let row = decoder.catalog.stored("", resource).unwrap();
            let parsed = of(&decoder.catalog, row, &object);
            assert_eq!(
                (&facts.labels, &facts.fields),
                (&parsed.labels, &parsed.fields),
                "{resource} {object}"
            );
        }
    }
}
