//! The binding subresource, which assigns a Pod to a node.

// upstream: pkg/registry/core/pod/storage/storage.go

use atoll_meta::{FieldError, FieldPath, Status, field, object};
use serde_json::{Value, json};

use crate::Registry;
use crate::catalog::ATOLL;
use crate::modify::{Limits, Preconditions, set_condition};
use crate::row::{ObjectRef, Row};

impl Registry {
    /// Applies a `Binding` to the Pod at `object_ref`.
    pub async fn bind(
        &self,
        pods: &Row,
        object_ref: &ObjectRef<'_>,
        binding: &Value,
        dry_run: bool,
    ) -> Result<(), Status> {
        let errors = check(binding);
        if !errors.is_empty() {
            return Err(Status::plain_internal(field::aggregate(&errors)));
        }
        let node = &binding["target"]["name"];
        let (now, dialects) = (self.now(), self.enabled_dialects(object_ref.workspace));
        let assign = |pod: &mut Value| {
            if let Some(binding_error) = binding_error(pod) {
                return Err(Status::conflict("", "pods/binding", object_ref.name, binding_error));
            }
            let before = pod.clone();
            pod["spec"]["nodeName"] = node.clone();
            if let Some(status) = pod["status"].as_object_mut() {
                status.remove("nominatedNodeName");
            }
            let annotations = object::annotations(binding).filter(|(key, _)| !is_reserved(key));
            annotations.for_each(|(key, value)| object::set_annotation(pod, key, value));
            let labels = object::labels(binding).filter(|(key, _)| !is_reserved(key));
            labels.for_each(|(key, value)| object::set_label(pod, key, value));
            dialects.iter().for_each(|dialect| dialect.keep_protected(pods, pod, Some(&before)));
            set_condition(
                pod,
                json!({ "type": "PodScheduled", "status": "True", "lastProbeTime": null }),
                &now,
            );
            Ok(())
        };
        let expected =
            Preconditions { uid: object::uid(binding), resource_version: object::resource_version(binding) };
        self.modify(pods, object_ref, expected, Limits::Apply, dry_run, &assign).await.map(drop)
    }
}

/// The annotations and labels of a Binding that are ignored, each with the field that contains it. Those of
/// Atoll are: a Binding is not admitted as a change of the Pod.
pub fn reserved_metadata(binding: &Value) -> Vec<(&'static str, &str)> {
    let annotations = object::annotations(binding).map(|(key, _)| ("annotations", key));
    let labels = object::labels(binding).map(|(key, _)| ("labels", key));
    annotations.chain(labels).filter(|(_, key)| is_reserved(key)).collect()
}

/// Whether an annotation or a label belongs to Atoll.
fn is_reserved(key: &str) -> bool {
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    domain == ATOLL || domain.strip_suffix(ATOLL).is_some_and(|rest| rest.ends_with('.'))
}

fn check(binding: &Value) -> Vec<FieldError> {
    let target = FieldPath::new("target");
    let text = |name: &str| binding["target"][name].as_str().unwrap_or_default();
    let mut errors = Vec::new();
    if !matches!(text("kind"), "" | "Node") {
        errors.push(FieldError::not_supported(&target.child("kind"), text("kind"), &["Node", "<empty>"]));
    }
    if text("name").is_empty() {
        errors.push(FieldError::required(&target.child("name"), ""));
    }
    errors
}

/// The reason why the Pod cannot be assigned to a node.
fn binding_error(pod: &Value) -> Option<String> {
    let name = object::name(pod);
    let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
    let gates = pod["spec"]["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty());
    match () {
        () if object::is_being_deleted(pod) => {
            Some(format!("pod {name} is being deleted, cannot be assigned to a host"))
        }
        () if !node.is_empty() => Some(format!("pod {name} is already assigned to node {node:?}")),
        () if gates => Some(format!("pod {name} has non-empty .spec.schedulingGates")),
        () => None,
    }
}
