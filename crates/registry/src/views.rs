//! Kinds that are stored as another: the same objects, in another group or version, with other fields.
//!
//! Requests come and answers go in the view's own form; in between, objects are in the form in which they are stored, and
//! so are checks, selectors and the store.

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

/// How a view relates to what is stored.
#[derive(Debug)]
pub struct View {
    /// The stored kind's.
    pub group: &'static str,
    pub api_version: &'static str,
    to_stored: fn(&mut Value),
    to_view: fn(&mut Value),
    /// Selectable fields: the view's name, then the stored kind's.
    pub labels: &'static [(&'static str, &'static str)],
}

/// The view that a resource is, if it is one.
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

    /// The stored name of a field that the view can be selected by.
    pub fn stored_label(&self, label: &str) -> Option<&'static str> {
        self.labels.iter().find(|(own, _)| *own == label).map(|(_, stored)| *stored)
    }
}

impl Row {
    /// What is known of the fields in the form of the store.
    pub(crate) fn stored_type(&self) -> Option<TypeId> {
        match self.view {
            Some(view) => Types::get().by_kind(view.group, view.version(), &self.kind),
            None => self.type_id,
        }
    }

    /// What goes without saying in the form of the store.
    pub(crate) fn stored_defaults(&self) -> Defaults {
        match self.view {
            Some(view) => atoll_defaults::of(view.group, view.version(), &self.kind),
            None => self.defaults,
        }
    }

    /// From the form of requests to that of the store.
    pub(crate) fn to_stored(&self, object: &mut Value) {
        if let Some(view) = self.view {
            (view.to_stored)(object);
            settle(object, view.api_version, &self.kind, self.stored_type());
        }
    }

    /// From the form of the store to that of requests and answers.
    pub(crate) fn to_view(&self, object: &mut Value) {
        if let Some(view) = self.view {
            (view.to_view)(object);
            settle(object, &self.api_version(), &self.kind, self.type_id);
        }
    }

    /// Stored JSON as clients of this row see it.
    pub fn shown_json(&self, stored: Bytes) -> Bytes {
        if !self.converts() {
            return stored;
        }
        let Ok(parsed) = json::parse(&stored) else { return stored };
        let mut object = parsed.value;
        let revision = object::resource_version(&object).parse().unwrap_or(0);
        match &self.custom {
            Some(custom) => definitions::form::read(self, custom, &mut object),
            None => self.to_view(&mut object),
        }
        let encoded = json::encode_object(&object);
        match revision {
            0 => Bytes::from(encoded),
            revision => Bytes::from(json::splice_resource_version(&encoded, revision)),
        }
    }

    /// Whether what has just been stored looks otherwise to clients of this row.
    pub fn converts(&self) -> bool {
        self.view.is_some() || self.custom.as_ref().is_some_and(|custom| custom.stored.is_some())
    }

    /// Whether an object is stored as clients of this row see it.
    pub fn is_shown(&self, object: &Object) -> bool {
        match (&self.custom, &object.facts.further) {
            (Some(custom), Some(further)) => further.form.load(Ordering::Relaxed) == custom.form,
            (Some(_), None) => false,
            (None, _) => self.view.is_none(),
        }
    }

    /// Whether what is stored may look otherwise to clients of this row.
    pub fn may_convert(&self) -> bool {
        self.view.is_some() || self.custom.is_some()
    }

    /// What is stored as clients of this row see it.
    pub fn shown(&self, object: Arc<Object>) -> Arc<Object> {
        if let Some(custom) = &self.custom {
            return definitions::form::shown(self, custom, object);
        }
        if self.view.is_none() {
            return object;
        }
        let json = self.shown_json(object.json());
        Arc::new(Object::complete(object.key.clone(), object.revision, json, object.facts.clone()))
    }
}

/// What the cells and the metadata of a row in a table are made from: upstream prints a form that is of no version.
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

/// Gives an object the form that its kind has, with all fields that are always shown.
fn settle(object: &mut Value, api_version: &str, kind: &str, id: Option<TypeId>) {
    object::set_type(object, api_version, kind);
    // Every field has a place in the other form, and the same type there.
    let settled = id.map(|id| atoll_schema::normalise(Types::get(), id, object));
    debug_assert!(settled.is_none_or(|settled| settled.is_ok_and(|unknown| unknown.is_empty())));
}

/// Moves fields from one name to another. What is absent stays so.
fn rename(object: &mut Value, names: impl Iterator<Item = (&'static str, &'static str)>) {
    let Some(fields) = object.as_object_mut() else { return };
    let moved: Vec<_> = names.filter_map(|(from, to)| Some((to, fields.remove(from)?))).collect();
    fields.extend(moved.into_iter().map(|(to, value)| (to.to_string(), value)));
}
