//! The binding subresource, which assigns a Pod to a node.

// upstream: pkg/registry/core/pod/storage/storage.go

use atoll_meta::{FieldError, FieldPath, Status, field, object};
use serde_json::{Value, json};

use crate::Registry;
use crate::modify::{Preconditions, set_condition};
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
        let now = self.now();
        let assign = |pod: &mut Value| {
            if let Some(binding_error) = binding_error(pod) {
                return Err(Status::conflict("", "pods/binding", object_ref.name, binding_error));
            }
            pod["spec"]["nodeName"] = node.clone();
            if let Some(status) = pod["status"].as_object_mut() {
                status.remove("nominatedNodeName");
            }
            object::annotations(binding).for_each(|(key, value)| object::set_annotation(pod, key, value));
            object::labels(binding).for_each(|(key, value)| object::set_label(pod, key, value));
            set_condition(
                pod,
                json!({ "type": "PodScheduled", "status": "True", "lastProbeTime": null }),
                &now,
            );
            Ok(())
        };
        let expected =
            Preconditions { uid: object::uid(binding), resource_version: object::resource_version(binding) };
        self.modify(pods, object_ref, expected, dry_run, &assign).await.map(drop)
    }
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
