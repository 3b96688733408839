//! Custom resources: kinds that clients define.

// Clippy treats only functions marked as tests as test code.
#![allow(clippy::unwrap_used)]

mod lifecycle;
mod memory;
#[path = "../support/support.rs"]
mod support;
mod validation;
mod versions;
mod workspaces;

use serde_json::{Value, json};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Returns a definition of `plural` in the group `example.com` with these versions.
fn definition(plural: &str, kind: &str, scope: &str, versions: Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{plural}.example.com") },
        "spec": {
            "group": "example.com",
            "names": { "plural": plural, "kind": kind },
            "scope": scope,
            "versions": versions,
        },
    })
}

/// Returns a version whose objects may have any field.
fn free(name: &str, storage: bool) -> Value {
    let schema = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    json!({ "name": name, "served": true, "storage": storage, "schema": { "openAPIV3Schema": schema } })
}

fn object(version: &str, kind: &str, name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": format!("example.com/{version}"), "kind": kind, "metadata": { "name": name }, "spec": spec,
    })
}
