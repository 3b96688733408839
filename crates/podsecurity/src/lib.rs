//! The Pod Security Standards as functions of a pod: what each level allows, version by version.
//!
//! ```text
//!   labels of a namespace ─► Policy ─► Rule (level, version) ─┐
//!   Deployment, Job, … ─► template ─► metadata, spec ─────────┴─► run ─► Violations
//! ```
//!
//! Who enforces which rule where is decided elsewhere: admission checks the pods of a namespace, and the fleet checks the
//! templates that are placed on a cluster.

mod checks;
mod policy;

use serde_json::Value;

pub use checks::{Violations, run};
pub use policy::{ENFORCE, ENFORCE_VERSION, LABELS, Level, Policy, Rule, Version};

/// Kinds with a pod template, by where they have it.
const TEMPLATES: [(&str, &str, &str); 8] = [
    ("", "replicationcontrollers", "/spec/template"),
    ("", "podtemplates", "/template"),
    ("apps", "replicasets", "/spec/template"),
    ("apps", "deployments", "/spec/template"),
    ("apps", "statefulsets", "/spec/template"),
    ("apps", "daemonsets", "/spec/template"),
    ("batch", "jobs", "/spec/template"),
    ("batch", "cronjobs", "/spec/jobTemplate/spec/template"),
];

/// JSON pointer to the pod template of a resource, if the resource has one.
pub fn template(group: &str, resource: &str) -> Option<&'static str> {
    let found = TEMPLATES.iter().find(|(of, name, _)| *name == resource && *of == group);
    found.map(|(_, _, path)| *path)
}

/// Items of a list field, none if there is no such list.
fn items<'a>(parent: &'a Value, list: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    parent[list].as_array().into_iter().flatten()
}
