//! Events: what they are about must be in their own namespace, and they are gone after an hour.

use atoll_meta::{FieldError, FieldPath, names};
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
            otherwise: Some("reportingComponent"),
        },
        field("type"),
    ],
    validate,
    validate_update: |new, _| validate(new),
    metadata_checks: MetadataChecks::Once,
    ..Strategy::GENERIC
};

/// What the newer style of event must say, with its limit in characters.
const SAID: [(&str, usize); 3] = [("reportingInstance", 128), ("action", 128), ("reason", 128)];

fn validate(event: &Value) -> Vec<FieldError> {
    let involved = FieldPath::new("involvedObject").child("namespace");
    let (about, own) = (text(event, "involvedObject.namespace"), text(event, "metadata.namespace"));
    let is_modern = at(event, "eventTime").is_some_and(Value::is_string);
    // An event about something cluster-scoped lives in `default`; newer ones also in `kube-system`.
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
        errors.extend(modern(event));
    }
    errors
}

fn modern(event: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let (reporter, path) = (text(event, "reportingComponent"), FieldPath::new("reportingComponent"));
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
