//! Events: the involved object must be in the same namespace.

// upstream: pkg/registry/core/event/strategy.go
// upstream: pkg/apis/core/validation/events.go

use atoll_meta::{FieldError, FieldPath, names, object};
use serde_json::Value;

use super::{MetadataChecks, Selectable, Strategy, at, field, text};

pub static STRATEGY: Strategy = Strategy {
    name_rule: names::name_is_path_segment,
    create_on_update: true,
    fields: &[
        field("involvedObject.kind"),
        field("involvedObject.namespace"),
        field("involvedObject.name"),
        field("involvedObject.uid"),
        field("involvedObject.apiVersion"),
        field("involvedObject.resourceVersion"),
        field("involvedObject.fieldPath"),
        field("reason"),
        field("reportingComponent"),
        Selectable {
            label: "source",
            path: "source.component",
            absent: "",
            fallback: Some("reportingComponent"),
        },
        field("type"),
    ],
    validate: |event| validate(event, "reportingComponent"),
    validate_update: |new, _| validate(new, "reportingComponent"),
    metadata_checks: MetadataChecks::Once,
    ..Strategy::GENERIC
};

/// The stricter strategy of the group `events.k8s.io`.
pub static NEWER: Strategy =
    Strategy { validate: validate_newer, validate_update: validate_newer_update, ..STRATEGY };

/// Required fields of `events.k8s.io` Events, with their maximum length in characters.
const SAID: [(&str, usize); 3] = [("reportingInstance", 128), ("action", 128), ("reason", 128)];

/// Validates an Event; the field of the reporting controller has a different name in each group.
fn validate(event: &Value, reporter: &'static str) -> Vec<FieldError> {
    let involved = FieldPath::new("involvedObject").child("namespace");
    let (about, own) = (text(event, "involvedObject.namespace"), text(event, "metadata.namespace"));
    let is_modern = at(event, "eventTime").is_some_and(Value::is_string);
    // An Event about a cluster-scoped object is in `default`; newer ones may also be in `kube-system`.
    let fits = match (about, is_modern) {
        ("", false) => own.is_empty() || own == "default",
        ("", true) => own == "default" || own == "kube-system",
        (about, false) => about == own,
        (_, true) => true,
    };
    let mut errors = Vec::new();
    if !fits {
        errors.push(FieldError::invalid(&involved, about, "does not match event.namespace"));
    }
    if is_modern {
        errors.extend(modern(event, reporter));
    }
    errors
}

fn modern(event: &Value, reporter: &'static str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let path = FieldPath::new(reporter);
    let reporter = text(event, "reportingComponent");
    if reporter.is_empty() {
        errors.push(FieldError::required(&path, ""));
    }
    let wrong = names::qualified_name(reporter).into_iter();
    errors.extend(wrong.map(|message| FieldError::invalid(&path, reporter, message)));
    for (name, limit) in SAID {
        let (value, path) = (text(event, name), FieldPath::new(name));
        if value.is_empty() {
            errors.push(FieldError::required(&path, ""));
        }
        errors.extend(too_long(&path, value, limit));
    }
    errors.extend(too_long(&FieldPath::new("message"), text(event, "message"), 1024));
    errors
}

fn too_long(path: &FieldPath, value: &str, limit: usize) -> Option<FieldError> {
    (value.len() > limit)
        .then(|| FieldError::invalid(path, "", format!("can have at most {limit} characters")))
}

fn validate_newer(event: &Value) -> Vec<FieldError> {
    let mut errors = validate(event, "reportingController");
    let metadata = FieldPath::new("metadata");
    errors.extend(object::validate_object_meta(event, true, names::name_is_dns_subdomain, &metadata));
    errors.extend(series(event));
    if event["eventTime"].is_null() {
        errors.push(FieldError::required(&FieldPath::new("eventTime"), ""));
    }
    if !matches!(text(event, "type"), "Normal" | "Warning") {
        let message = format!("has invalid value: {}", text(event, "type"));
        errors.push(FieldError::invalid(&FieldPath::new("type"), "", message));
    }
    let is_source = |source: &Value| source.as_object().is_some_and(|fields| !fields.is_empty());
    let set = [
        ("firstTimestamp", event["firstTimestamp"].is_string()),
        ("lastTimestamp", event["lastTimestamp"].is_string()),
        ("count", event["count"].as_i64().unwrap_or(0) != 0),
        ("source", is_source(&event["source"])),
    ];
    let set = set.into_iter().filter(|(_, is_set)| *is_set);
    errors.extend(set.map(|(name, _)| FieldError::invalid(&FieldPath::new(name), "", "needs to be unset")));
    errors
}

/// Immutable fields; upstream checks the reason twice.
const FIXED: [&str; 14] = [
    "involvedObject",
    "reason",
    "message",
    "source",
    "firstTimestamp",
    "lastTimestamp",
    "count",
    "reason",
    "type",
    "eventTime",
    "action",
    "related",
    "reportingComponent",
    "reportingInstance",
];

fn validate_newer_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = validate(new, "reportingController");
    errors.extend(object::validate_object_meta_update(new, old, &FieldPath::new("metadata")));
    if new.get("series") != old.get("series") {
        errors.extend(series(new));
    }
    errors.extend(FIXED.iter().filter_map(|name| {
        let shown = if *name == "reportingComponent" { "reportingController" } else { *name };
        object::validate_immutable(&new[*name], &old[*name], &FieldPath::new(shown))
    }));
    errors
}

fn series(event: &Value) -> Vec<FieldError> {
    let Some(series) = event.get("series").filter(|series| series.is_object()) else { return Vec::new() };
    let mut errors = Vec::new();
    if series["count"].as_i64().unwrap_or(0) < 2 {
        errors.push(FieldError::invalid(&FieldPath::new("series.count"), "", "should be at least 2"));
    }
    if !series["lastObservedTime"].is_string() {
        errors.push(FieldError::required(&FieldPath::new("series.lastObservedTime"), ""));
    }
    errors
}
