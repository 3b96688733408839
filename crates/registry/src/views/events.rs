//! `events.k8s.io` Events are core Events with renamed fields.

// upstream: pkg/apis/events/v1/conversion.go

use serde_json::Value;

use super::{View, rename};

pub static VIEW: View = View {
    group: "",
    api_version: "v1",
    to_stored,
    to_view,
    labels: &[
        ("reason", "reason"),
        ("regarding.kind", "involvedObject.kind"),
        ("regarding.namespace", "involvedObject.namespace"),
        ("regarding.name", "involvedObject.name"),
        ("regarding.uid", "involvedObject.uid"),
        ("regarding.apiVersion", "involvedObject.apiVersion"),
        ("regarding.resourceVersion", "involvedObject.resourceVersion"),
        ("regarding.fieldPath", "involvedObject.fieldPath"),
        ("reportingController", "reportingComponent"),
        ("type", "type"),
    ],
};

/// The name of a field in the view, and in the stored form.
const NAMES: [(&str, &str); 7] = [
    ("regarding", "involvedObject"),
    ("deprecatedSource", "source"),
    ("note", "message"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
    ("reportingController", "reportingComponent"),
];

fn to_stored(event: &mut Value) {
    rename(event, NAMES.into_iter());
}

fn to_view(event: &mut Value) {
    rename(event, NAMES.into_iter().map(|(view, stored)| (stored, view)));
}
