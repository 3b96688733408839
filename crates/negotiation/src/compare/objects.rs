//! Properties, required fields and unknown fields.

use std::collections::BTreeSet;

use serde_json::Value;

use super::SchemaWalk;
use crate::schema_path::SchemaPathStep;
use crate::schema_view::{Fields, OtherFields, SchemaView, is_documentation};

const MAP: &str = "map";
const FIXED: &str = "an object with fixed fields";
const ABSENT: &str = "absent";
const PRESENT: &str = "present";

/// Whether every complete object has this field.
fn is_meta(view: SchemaView<'_>, name: &str) -> bool {
    view.is_resource && matches!(name, "apiVersion" | "kind" | "metadata")
}

impl<'s> SchemaWalk<'s> {
    pub(super) fn merge_object(
        &mut self,
        offered: SchemaView<'s>,
        cluster: SchemaView<'s>,
        merged: &mut Fields,
    ) {
        let mut properties = Fields::new();
        for (name, schema) in offered.properties() {
            let step = SchemaPathStep::Field(name);
            let one = SchemaView::of(schema, false);
            let kept = self.below(step, |walk| walk.property((offered, name, one), cluster));
            properties.extend(kept.map(|schema| (name.clone(), schema)));
        }
        for (name, schema) in cluster.properties() {
            if !offered.properties().contains_key(name) {
                let step = SchemaPathStep::Field(name);
                let other = SchemaView::of(schema, false);
                let added = self.below(step, |walk| walk.new_property(offered, cluster, (name, other)));
                properties.extend(added.map(|schema| (name.clone(), schema)));
            }
        }
        self.merge_other_fields(offered, cluster, properties.is_empty(), merged);
        self.merge_required(offered, cluster, &properties, merged);
        if !properties.is_empty() || offered.fields().get("properties").is_some_and(Value::is_object) {
            merged.insert("properties".to_owned(), Value::Object(properties));
        }
    }

    /// Compares a property of the offered schema. `None` if it is lost.
    fn property(
        &mut self,
        (parent, name, one): (SchemaView<'s>, &str, SchemaView<'s>),
        cluster: SchemaView<'s>,
    ) -> Option<Value> {
        let unchanged = || Some(Value::Object(one.fields().clone()));
        let other = match (cluster.properties().get(name), cluster.other_fields()) {
            (Some(schema), _) if is_meta(parent, name) && is_meta(cluster, name) => {
                // All fields of metadata exist, whether a schema describes them or not.
                return Some(self.node(one.opened(), SchemaView::of(schema, true)));
            }
            (Some(schema), _) => SchemaView::of(schema, false),
            (None, _) if is_meta(cluster, name) => return unchanged(),
            (None, OtherFields::Values(values)) => values,
            (None, OtherFields::Preserved) => SchemaView::empty(true),
            (None, OtherFields::Shallow) => SchemaView::empty(false),
            (None, OtherFields::Pruned | OtherFields::Refused) => {
                if parent.texts("required").any(|required| required == name) {
                    self.contradict("required", ABSENT);
                    return unchanged();
                }
                self.lose(PRESENT, ABSENT);
                return None;
            }
        };
        Some(self.node(one, other))
    }

    /// Considers a property that only the cluster has. Returns its schema if the offered one accepts the
    /// field.
    fn new_property(
        &mut self,
        offered: SchemaView<'s>,
        cluster: SchemaView<'s>,
        (name, other): (&str, SchemaView<'s>),
    ) -> Option<Value> {
        if is_meta(offered, name) {
            let usual = if name == "metadata" { "object" } else { "string" };
            let is_usual = |(keyword, value): (&String, &Value)| {
                is_documentation(keyword) || keyword == "type" && value == usual
            };
            let is_restricted = !other.fields().iter().all(is_usual);
            return is_restricted.then(|| self.node(SchemaView::empty(true), other.opened()));
        }
        match offered.other_fields() {
            OtherFields::Pruned | OtherFields::Refused => None,
            OtherFields::Preserved => Some(self.node(SchemaView::empty(true), other)),
            OtherFields::Shallow => Some(self.node(SchemaView::empty(false), other)),
            OtherFields::Values(_)
                if matches!(cluster.other_fields(), OtherFields::Pruned | OtherFields::Refused) =>
            {
                // The map contradicts as a whole.
                None
            }
            OtherFields::Values(values) => {
                self.contradict(values.words(), format!("{} as a field of its own", other.words()));
                None
            }
        }
    }

    fn merge_other_fields(
        &mut self,
        offered: SchemaView<'s>,
        cluster: SchemaView<'s>,
        has_no_properties: bool,
        merged: &mut Fields,
    ) {
        const REST: &str = "additionalProperties";
        let values = match (offered.other_fields(), cluster.other_fields()) {
            (OtherFields::Pruned | OtherFields::Refused, _)
            | (OtherFields::Preserved, OtherFields::Preserved)
            | (OtherFields::Shallow, OtherFields::Shallow | OtherFields::Preserved) => return,
            (OtherFields::Values(one), OtherFields::Values(other)) => (one, other),
            (OtherFields::Values(one), OtherFields::Preserved) => (one, SchemaView::empty(true)),
            (OtherFields::Values(one), OtherFields::Shallow) => (one, SchemaView::empty(false)),
            (OtherFields::Values(one), OtherFields::Pruned | OtherFields::Refused) => {
                self.contradict(MAP, FIXED);
                merged.insert(REST.to_owned(), Value::Object(one.fields().clone()));
                return;
            }
            (OtherFields::Preserved | OtherFields::Shallow, OtherFields::Values(_)) if !has_no_properties => {
                return self.contradict(FIXED, MAP);
            }
            (OtherFields::Preserved, OtherFields::Values(other)) => (SchemaView::empty(true), other),
            (OtherFields::Shallow, OtherFields::Values(other)) => (SchemaView::empty(false), other),
            // The loss of preserved fields is noted with the keyword.
            (OtherFields::Preserved, _) => return,
            (OtherFields::Shallow, OtherFields::Pruned | OtherFields::Refused) => {
                self.lose("any other fields", "no other fields");
                merged.remove(REST);
                return;
            }
        };
        let schema = self.below(SchemaPathStep::Values, |walk| walk.node(values.0, values.1));
        // A malformed schema is an empty one, and stays as it is.
        if !merged.contains_key(REST) || schema.as_object().is_some_and(|schema| !schema.is_empty()) {
            merged.insert(REST.to_owned(), schema);
        }
    }

    /// Requires the fields that either schema requires. A default counts as the value of a field.
    fn merge_required(
        &mut self,
        offered: SchemaView<'s>,
        cluster: SchemaView<'s>,
        properties: &Fields,
        merged: &mut Fields,
    ) {
        let has_default = |view: SchemaView<'s>, name: &str| {
            let property = view.properties().get(name);
            property.is_some_and(|schema| SchemaView::of(schema, false).default().is_some())
        };
        let required: BTreeSet<&str> = offered.texts("required").collect();
        let needed: BTreeSet<&'s str> =
            cluster.texts("required").filter(|name| !has_default(cluster, name)).collect();
        let mut added: Vec<&str> = Vec::new();
        for name in needed {
            if required.contains(name) || self.is_root_meta(name) {
                continue;
            }
            let is_offered = properties.contains_key(name) || accepts_other(offered, cluster, name);
            if is_offered && has_default(offered, name) {
                continue;
            }
            self.below(SchemaPathStep::Field(name), |walk| match is_offered {
                true => walk.lose("optional", "required"),
                false => walk.contradict(ABSENT, "required"),
            });
            if is_offered {
                added.push(name);
            }
        }
        if !added.is_empty() {
            let names = offered.texts("required").chain(added).map(Value::from).collect();
            merged.insert("required".to_owned(), Value::Array(names));
        }
    }

    /// Whether this is a field of the whole object that is always set.
    fn is_root_meta(&self, name: &str) -> bool {
        self.path.is_empty() && matches!(name, "apiVersion" | "kind" | "metadata")
    }
}

/// Whether the merged schema accepts a field that is not among its properties.
fn accepts_other(offered: SchemaView<'_>, cluster: SchemaView<'_>, name: &str) -> bool {
    let accepts = |view: SchemaView<'_>| {
        is_meta(view, name) || !matches!(view.other_fields(), OtherFields::Pruned | OtherFields::Refused)
    };
    accepts(offered) && accepts(cluster)
}
