//! The Pod Security Standards as functions of a pod: the checks of each level, by version.
//!
//! ```text
//!   labels of a namespace ─► Policy ─► LevelVersion ──┐
//!   Deployment, Job, … ─► template ─► metadata, spec ─┴─► evaluate ─► Violations
//! ```
//!
//! The callers decide which level to enforce: admission checks the pods of a namespace, and the fleet checks
//! the templates that are placed on a cluster.

// upstream: staging/src/k8s.io/pod-security-admission/admission/admission.go

mod checks;
mod policy;

use serde_json::Value;

pub use checks::{Violations, evaluate};
pub use policy::{ENFORCE, ENFORCE_VERSION, LABELS, Level, LevelVersion, Policy, Version};

/// Resources with a pod template: group, resource and JSON pointer.
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

/// Returns the JSON pointer to the pod template of a resource, if it has one.
pub fn template(group: &str, resource: &str) -> Option<&'static str> {
    let found = TEMPLATES.iter().find(|(of, name, _)| *name == resource && *of == group);
    found.map(|(_, _, path)| *path)
}

/// Returns the items of a list field, or nothing if it is absent.
fn items<'a>(parent: &'a Value, list: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    parent[list].as_array().into_iter().flatten()
}
