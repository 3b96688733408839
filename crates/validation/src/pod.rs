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
mod volume_source;
mod windows;

use atoll_meta::object;
use serde_json::Value;

use crate::Checks;
use crate::field_value::{Errors, FieldValue};

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
    old: Option<&'a FieldValue<'a>>,
}

impl Scope<'_> {
    fn is_pod(&self) -> bool {
        self.pod.is_some()
    }
}

fn create(pod: &Value) -> Errors {
    let mut errors = Errors::new();
    check(&mut errors, pod, None);
    let spec = FieldValue::field(pod, "spec");
    let ephemeral = spec.get("ephemeralContainers");
    if !ephemeral.is_empty() {
        errors.push(ephemeral.forbidden("cannot be set on create"));
    }
    let node = spec.get("nodeName");
    if !node.is_empty() && !spec.get("schedulingGates").is_empty() {
        errors.push(node.forbidden("cannot be set until all schedulingGates have been cleared"));
    }
    annotations::check_profiles(&mut errors, pod, &spec);
    errors
}

/// Checks the rules for both new and updated pods.
fn check(errors: &mut Errors, pod: &Value, old: Option<&Value>) {
    let spec = FieldValue::field(pod, "spec");
    let old = old.map(|old| FieldValue::field(old, "spec"));
    annotations::check(errors, pod, &spec, &FieldValue::field(pod, "metadata").get("annotations").path);
    spec::check(errors, &spec, &Scope { pod: Some(pod), old: old.as_ref() });
    if spec.text_of("serviceAccountName").is_empty() {
        for volume in spec.get("volumes").items() {
            for source in volume.get("projected").get("sources").items() {
                if let Some(token) = source.given("serviceAccountToken") {
                    let detail = "must not be specified when serviceAccountName is not set";
                    errors.push(token.forbidden(detail));
                }
            }
        }
    }
    for field in ["containers", "initContainers"] {
        for container in spec.get(field).items() {
            container::image_padding(errors, &container);
        }
    }
}

/// Calls `visit` with every container, in upstream's order.
fn each_container<'a>(spec: &FieldValue<'a>, mut visit: impl FnMut(&FieldValue<'a>)) {
    for field in ["initContainers", "containers", "ephemeralContainers"] {
        for container in spec.get(field).items() {
            visit(&container);
        }
    }
}

fn is_mirror(pod: &Value) -> bool {
    object::annotation(pod, annotations::MIRROR).is_some()
}

#[cfg(test)]
mod tests;
