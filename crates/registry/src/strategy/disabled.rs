//! Fields of features that are disabled by default upstream. They are dropped from requests, so that stored
//! objects do not have them.

// upstream: pkg/api/pod/util.go
// upstream: pkg/registry/coordination/lease/strategy.go

use serde_json::Value;

const CONTAINER_LISTS: [&str; 3] = ["containers", "initContainers", "ephemeralContainers"];

/// Fields of a pod spec. `[]` matches all elements.
const POD_SPEC: &[&[&str]] = &[
    &["schedulingGroup"],
    &["volumes", "[]", "projected", "sources", "[]", "clusterTrustBundle"],
    &["volumes", "[]", "projected", "sources", "[]", "podCertificate"],
];

const POD_STATUS: &[&[&str]] = &[
    &["nodeAllocatableResourceClaimStatuses"],
    &["containerStatuses", "[]", "volumeMounts", "[]", "volumeStatus"],
    &["initContainerStatuses", "[]", "volumeMounts", "[]", "volumeStatus"],
    &["ephemeralContainerStatuses", "[]", "volumeMounts", "[]", "volumeStatus"],
];

pub const STATEFUL_SET: &[&[&str]] = &[&["spec", "updateStrategy", "rollingUpdate", "maxUnavailable"]];
pub const STORAGE_DRIVER: &[&[&str]] = &[&["spec", "preventPodSchedulingIfMissing"]];
pub const LEASE: &[&[&str]] = &[&["spec", "strategy"], &["spec", "preferredHolder"]];
pub const RESOURCE_SLICE: &[&[&str]] = &[
    &["spec", "devices", "[]", "nodeAllocatableResourceMappings"],
    &["spec", "devices", "[]", "attributes", "[]", "bools"],
    &["spec", "devices", "[]", "attributes", "[]", "ints"],
    &["spec", "devices", "[]", "attributes", "[]", "strings"],
    &["spec", "devices", "[]", "attributes", "[]", "versions"],
];

pub fn drop_from_pod(pod: &mut Value) {
    pod.get_mut("spec").map(drop_from_pod_spec);
    if let Some(status) = pod.get_mut("status") {
        drop_from(status, POD_STATUS);
    }
}

/// Drops fields of the pod template at a path that is separated by dots.
pub fn drop_from_template(object: &mut Value, path: &str) {
    let template = path.split('.').try_fold(object, |value, step| value.get_mut(step));
    template.and_then(|template| template.get_mut("spec")).map(drop_from_pod_spec);
}

fn drop_from_pod_spec(spec: &mut Value) {
    drop_from(spec, POD_SPEC);
    for list in CONTAINER_LISTS {
        for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            drop_stop_signal(container);
        }
    }
}

/// Drops the stop signal, and the lifecycle if it becomes empty.
fn drop_stop_signal(container: &mut Value) {
    let Some(container) = container.as_object_mut() else { return };
    let Some(Value::Object(lifecycle)) = container.get_mut("lifecycle") else { return };
    if lifecycle.remove("stopSignal").is_some() && lifecycle.is_empty() {
        container.remove("lifecycle");
    }
}

pub fn drop_from(value: &mut Value, paths: &[&[&str]]) {
    paths.iter().for_each(|path| remove(value, path));
}

fn remove(value: &mut Value, path: &[&str]) {
    match path {
        [] => {}
        ["[]", rest @ ..] => match value {
            Value::Array(items) => items.iter_mut().for_each(|item| remove(item, rest)),
            Value::Object(entries) => entries.values_mut().for_each(|entry| remove(entry, rest)),
            _ => {}
        },
        [last] => drop(value.as_object_mut().and_then(|fields| fields.remove(*last))),
        [step, rest @ ..] => {
            if let Some(inner) = value.get_mut(*step) {
                remove(inner, rest);
            }
        }
    }
}
