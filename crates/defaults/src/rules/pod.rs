//! Pods and pod templates.

// upstream: pkg/apis/core/v1/defaults.go
// upstream: pkg/apis/core/v1/conversion.go

use serde_json::{Value, json};

use super::Literal::{self, Text};
use crate::image::pull_policy;
use crate::object::{
    ObjectMap, child_mut, drop_annotations, flag, items_mut, number, set, set_absent, set_empty, text,
};
use crate::resources::{pod_resources, requests_from_limits};

pub const CONTAINER: &[(&str, Literal)] =
    &[("terminationMessagePath", Text("/dev/termination-log")), ("terminationMessagePolicy", Text("File"))];

/// Legacy annotations of init containers, which are removed so that old clients do not read them.
const INIT_CONTAINERS: [&str; 4] = [
    "pod.beta.kubernetes.io/init-containers",
    "pod.alpha.kubernetes.io/init-containers",
    "pod.beta.kubernetes.io/init-container-statuses",
    "pod.alpha.kubernetes.io/init-container-statuses",
];

const CONTAINER_LISTS: [&str; 2] = ["containers", "initContainers"];

/// Applies the defaults of pods that pod templates do not have.
pub fn pod(pod: &mut ObjectMap) {
    drop_annotations(pod, &INIT_CONTAINERS);
    let Some(spec) = child_mut(pod, "spec") else { return };
    for list in CONTAINER_LISTS {
        items_mut(spec, list).for_each(requests_from_limits);
    }
    pod_resources(spec);
    set_absent(spec, "enableServiceLinks", true);
    if flag(spec, "hostNetwork") {
        for list in CONTAINER_LISTS {
            items_mut(spec, list).for_each(host_ports);
        }
    }
    if number(spec, "terminationGracePeriodSeconds") < 0 {
        set(spec, "terminationGracePeriodSeconds", 1);
    }
}

/// Sets host ports to the container ports on the host network.
fn host_ports(container: &mut ObjectMap) {
    for port in items_mut(container, "ports") {
        let own = number(port, "containerPort");
        if number(port, "hostPort") == 0 && own != 0 {
            set(port, "hostPort", own);
        }
    }
}

pub fn template(template: &mut ObjectMap) {
    drop_annotations(template, &INIT_CONTAINERS);
}

/// Applies the defaults of a pod spec. `serviceAccountName` takes precedence over the deprecated
/// `serviceAccount`.
pub fn spec(spec: &mut ObjectMap) {
    const NEW: &str = "serviceAccountName";
    const OLD: &str = "serviceAccount";
    let (from, to) = if text(spec, NEW).is_empty() { (OLD, NEW) } else { (NEW, OLD) };
    if let Some(name) = spec.get(from).filter(|name| **name != *text(spec, to)).cloned() {
        set(spec, to, name);
    }
}

/// Keeps `podIP` and the first of `podIPs` equal. `podIP` takes precedence.
pub fn status(status: &mut ObjectMap) {
    sync_first_element(
        status,
        "podIP",
        "podIPs",
        |list| list.first()?.get("ip")?.as_str(),
        |ip| json!({ "ip": ip }),
    );
}

/// Keeps a field and the first element of a list equal.
pub fn sync_first_element(
    holder: &mut ObjectMap,
    single: &str,
    list: &str,
    first: fn(&[Value]) -> Option<&str>,
    element: fn(&str) -> Value,
) {
    let alone = text(holder, single);
    let items = holder.get(list).and_then(Value::as_array).filter(|items| !items.is_empty());
    let listed = items.map(|items| first(items).unwrap_or_default());
    match (alone, listed) {
        ("", Some(listed)) if !listed.is_empty() => {
            let listed = listed.to_owned();
            set(holder, single, listed);
        }
        ("", _) => {}
        (alone, Some(listed)) if alone == listed => {}
        (alone, _) => {
            let only = element(alone);
            set(holder, list, vec![only]);
        }
    }
}

pub fn container(container: &mut ObjectMap) {
    if text(container, "imagePullPolicy").is_empty() {
        let policy = pull_policy(text(container, "image"));
        set(container, "imagePullPolicy", policy);
    }
}

pub fn volume(volume: &mut ObjectMap) {
    if volume.iter().all(|(name, source)| name == "name" || source.is_null()) {
        set(volume, "emptyDir", json!({}));
    }
    if let Some(image) = child_mut(volume, "image") {
        let policy = pull_policy(text(image, "reference"));
        set_empty(image, "pullPolicy", policy);
    }
}
