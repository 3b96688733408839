//! Views: kinds that are stored as another kind, in another group or version and with other fields.
//!
//! Requests and responses have the form of the view; validation, selectors and the store use the stored form.

mod autoscalers;
mod events;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use atoll_defaults::Defaults;
use atoll_meta::{json, object};
use atoll_schema::{TypeId, Types};
use atoll_watch::Object;
use bytes::Bytes;
use serde_json::Value;

use crate::definitions;
use crate::row::Row;

/// The relation of a view to the stored kind.
#[derive(Debug)]
pub struct View {
    /// Group of the stored kind.
    pub group: &'static str,
    pub api_version: &'static str,
    to_stored: fn(&mut Value),
    to_view: fn(&mut Value),
    /// Selectable fields: the name in the view, then in the stored kind.
    pub labels: &'static [(&'static str, &'static str)],
}

/// The view of a resource, if it is one.
pub(crate) fn of(group: &str, version: &str, resource: &str) -> Option<&'static View> {
    match (group, version, resource) {
        ("events.k8s.io", "v1", "events") => Some(&events::VIEW),
        ("autoscaling", "v1", "horizontalpodautoscalers") => Some(&autoscalers::VIEW),
        _ => None,
    }
}

impl View {
    pub(crate) fn version(&self) -> &'static str {
        self.api_version.rsplit('/').next().unwrap_or_default()
    }

    /// The stored name of a selectable field of the view.
    pub fn stored_label(&self, label: &str) -> Option<&'static str> {
        self.labels.iter().find(|(own, _)| *own == label).map(|(_, stored)| *stored)
    }
}

impl Row {
    /// The type of the stored form.
    pub(crate) fn stored_type(&self) -> Option<TypeId> {
        match self.view {
            Some(view) => Types::get().by_kind(view.group, view.version(), &self.kind),
            None => self.type_id,
        }
    }

    /// The defaults of the stored form.
    pub(crate) fn stored_defaults(&self) -> Defaults {
        match self.view {
            Some(view) => atoll_defaults::defaults_for(view.group, view.version(), &self.kind),
            None => self.defaults,
        }
    }

    /// Converts from the form of requests to the stored form.
    pub(crate) fn to_stored(&self, object: &mut Value) {
        if let Some(view) = self.view {
            (view.to_stored)(object);
            normalise(object, view.api_version, &self.kind, self.stored_type());
        }
    }

    /// Converts from the stored form to that of requests and responses.
    pub(crate) fn to_view(&self, object: &mut Value) {
        if let Some(view) = self.view {
            (view.to_view)(object);
            normalise(object, &self.api_version(), &self.kind, self.type_id);
        }
    }

    /// Converts stored JSON to the form that this row serves.
    pub fn served_json(&self, stored: Bytes) -> Bytes {
        if !self.converts_on_write() {
            return stored;
        }
        let Ok(parsed) = json::parse(&stored) else { return stored };
        let mut object = parsed.value;
        let revision = object::resource_version(&object).parse().unwrap_or(0);
        match &self.custom {
            Some(custom) => definitions::conversion::read(self, custom, &mut object),
            None => self.to_view(&mut object),
        }
        let encoded = json::encode_object(&object);
        match revision {
            0 => Bytes::from(encoded),
            revision => Bytes::from(json::splice_resource_version(&encoded, revision)),
        }
    }

    /// Whether a newly stored object differs from the form that this row serves.
    pub fn converts_on_write(&self) -> bool {
        self.view.is_some() || self.custom.as_ref().is_some_and(|custom| custom.is_stored_otherwise())
    }

    /// Whether a stored object already has the form that this row serves.
    pub fn is_in_served_form(&self, object: &Object) -> bool {
        match (&self.custom, &object.facts.extra) {
            (Some(custom), Some(extra)) => extra.form.load(Ordering::Relaxed) == custom.form,
            (Some(_), None) => false,
            (None, _) => self.view.is_none(),
        }
    }

    /// Whether a stored object may differ from the form that this row serves.
    pub fn may_convert(&self) -> bool {
        self.view.is_some() || self.custom.is_some()
    }

    /// Converts a stored object to the form that this row serves.
    pub fn to_served(&self, object: Arc<Object>) -> Arc<Object> {
        if let Some(custom) = &self.custom {
            return definitions::conversion::to_served(self, custom, object);
        }
        if self.view.is_none() {
            return object;
        }
        let json = self.served_json(object.json());
        Arc::new(Object::complete(object.key.clone(), object.revision, json, object.facts.clone()))
    }
}

/// The object for the cells and the metadata of a table row: upstream prints an unversioned form.
pub fn printed(shown: Bytes) -> (Value, Bytes) {
    let mut object = json::parse(&shown).map(|parsed| parsed.value).unwrap_or_default();
    if object::api_version(&object) != "autoscaling/v1" || object::kind(&object) != "HorizontalPodAutoscaler"
    {
        return (object, shown);
    }
    let revision = object::resource_version(&object).parse().unwrap_or(0);
    (autoscalers::VIEW.to_stored)(&mut object);
    let encoded = json::encode_object(&object);
    (object, Bytes::from(json::splice_resource_version(&encoded, revision)))
}

/// Sets the type of an object and adds the fields that are always encoded.
fn normalise(object: &mut Value, api_version: &str, kind: &str, id: Option<TypeId>) {
    object::set_type(object, api_version, kind);
    // Every field exists in the other form, with the same type.
    let settled = id.map(|id| atoll_schema::normalise(Types::get(), id, object));
    debug_assert!(settled.is_none_or(|settled| settled.is_ok_and(|unknown| unknown.is_empty())));
}

/// Renames fields. Absent fields stay absent.
fn rename(object: &mut Value, names: impl Iterator<Item = (&'static str, &'static str)>) {
    let Some(fields) = object.as_object_mut() else { return };
    let moved: Vec<_> = names.filter_map(|(from, to)| Some((to, fields.remove(from)?))).collect();
    fields.extend(moved.into_iter().map(|(to, value)| (to.to_string(), value)));
}
