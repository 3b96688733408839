//! Pods, pod templates and ReplicationControllers.
//!
//! ```text
//! create, update, subresources ─ spec ─┬ volume ─ volume_source, projection
//! template ────────────────────────────┤ container ─ environment, mount, probe, security, windows
//!                                      └ placement, dns, level (pod-level resources)
//! annotations, change (allowed changes), status, resize
//! ```
//!
//! The rules are those of the default feature gates. Upstream relaxes some of them on update for objects that
//! were written before the rule existed. Atoll has no such objects, so the old object is only consulted for
//! values that can be written today.

// upstream: pkg/apis/core/validation/validation.go
// upstream: pkg/registry/core/pod/strategy.go

mod annotations;
mod change;
mod container;
mod controller;
mod dns;
mod environment;
mod level;
mod mount;
pub(crate) mod placement;
mod probe;
mod projection;
mod resize;
mod security;
mod spec;
mod status;
pub(crate) mod template;
mod volume;
pub(crate) mod volume_source;
mod windows;

use atoll_meta::{FieldError, FieldPath, object};
use serde_json::Value;

use crate::Checks;
use crate::fields::{Errors, Fields};

pub(crate) use annotations::check as check_annotations;
pub(crate) use change::same;
pub(crate) use controller::{CHECKS as REPLICATION_CONTROLLERS, at_most, check_always_restarted};
pub(crate) use template::CHECKS as POD_TEMPLATES;
pub(crate) use volume::claim_metadata;

pub(crate) static PODS: Checks = Checks {
    create,
    update: change::update,
    subresource: |name, new, old| match name {
        "status" => status::update(new, old),
        "ephemeralcontainers" => change::ephemeral_containers(new, old),
        "resize" => resize::update(new, old),
        _ => Vec::new(),
    },
};

/// The context of a pod spec: a pod or a template, and the old spec.
struct Scope<'a> {
    pod: Option<&'a Value>,
    old: Option<&'a Value>,
}

impl Scope<'_> {
    fn is_pod(&self) -> bool {
        self.pod.is_some()
    }
}

fn create(pod: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    check(&mut errors, pod, None);
    let path = FieldPath::new("spec");
    let spec = pod.part("spec");
    if !spec.list("ephemeralContainers").is_empty() {
        errors.push(FieldError::forbidden(&path.child("ephemeralContainers"), "cannot be set on create"));
    }
    if !spec.text("nodeName").is_empty() && !spec.list("schedulingGates").is_empty() {
        let detail = "cannot be set until all schedulingGates have been cleared";
        errors.push(FieldError::forbidden(&path.child("nodeName"), detail));
    }
    annotations::check_profiles(&mut errors, pod, spec, &path);
    errors
}

/// Checks the rules for both new and updated pods.
fn check(errors: &mut Errors, pod: &Value, old: Option<&Value>) {
    let spec = pod.part("spec");
    let path = FieldPath::new("spec");
    annotations::check(errors, pod, spec, &FieldPath::new("metadata").child("annotations"));
    spec::check(errors, spec, &Scope { pod: Some(pod), old: old.map(|old| old.part("spec")) }, &path);
    if spec.text("serviceAccountName").is_empty() {
        for (index, volume) in spec.list("volumes").iter().enumerate() {
            for (source_index, source) in volume.part("projected").list("sources").iter().enumerate() {
                if source.field("serviceAccountToken").is_some() {
                    let path = path.child("volumes").index(index).child("projected").child("sources");
                    let path = path.index(source_index).child("serviceAccountToken");
                    let detail = "must not be specified when serviceAccountName is not set";
                    errors.push(FieldError::forbidden(&path, detail));
                }
            }
        }
    }
    for field in ["containers", "initContainers"] {
        for (index, container) in spec.list(field).iter().enumerate() {
            container::image_padding(errors, container, &path.child(field).index(index));
        }
    }
}

/// Calls `visit` with every container and its path, in upstream's order.
fn each_container<'a>(spec: &'a Value, path: &FieldPath, mut visit: impl FnMut(&'a Value, &FieldPath)) {
    for field in ["initContainers", "containers", "ephemeralContainers"] {
        for (index, container) in spec.list(field).iter().enumerate() {
            visit(container, &path.child(field).index(index));
        }
    }
}

fn is_mirror(pod: &Value) -> bool {
    object::annotation(pod, annotations::MIRROR).is_some()
}

#[cfg(test)]
mod tests;
