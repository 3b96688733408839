//! Replaces values that differ between clusters with placeholders.

use atoll_meta::{object, time};
use serde_json::Value;

/// The prefix of names of token volumes.
const TOKENS: &str = "kube-api-access-";
const GRAIN: &str = "atoll.dev/grain";

/// Field managers, and the role that they have in a cluster.
const MANAGER_ROLES: &[(&[&str], &str)] = &[
    (&["atoll-controllers", "kube-controller-manager"], "<controllers>"),
    (&["node-simulator", "kwok"], "<kubelets>"),
];

const TIMES: &[&str] = &["f:lastTransitionTime", "f:lastUpdateTime", "f:lastProbeTime"];

/// Objects with their resources.
type ListedObjects = Vec<(&'static str, Value)>;

pub fn masked(found: Vec<(&'static str, Value)>) -> ListedObjects {
    let placeholders = generated_strings(&found);
    found
        .into_iter()
        .map(|(resource, object)| {
            let mut text = object.to_string();
            for (word, placeholder) in &placeholders {
                text = text.replace(word, placeholder);
            }
            let mut object: Value = serde_json::from_str(&text).unwrap();
            mask_times(&mut object);
            mask_metadata(&mut object);
            // Conditions are ordered by the time of their first write, which may differ.
            if let Some(conditions) = object.pointer_mut("/status/conditions").and_then(Value::as_array_mut) {
                conditions.sort_by_cached_key(|condition| condition["type"].to_string());
            }
            match resource {
                "pods" => mask_pod(&mut object),
                "replicasets" => mask_replica_set(&mut object),
                "persistentvolumes" => mask_volume(&mut object),
                // The API server counts evictions, and whether it or the controllers wrote last depends on
                // timing.
                "poddisruptionbudgets" => drop(object::remove_metadata(&mut object, "managedFields")),
                "nodes" => mask_node(&mut object),
                "deployments" => mask_deployment(&mut object),
                "endpoints" => mask_addresses(&mut object),
                "endpointslices" => {
                    mask_addresses(&mut object);
                    // Pods that become ready at the same time may cause one change or several.
                    mask(&mut object, "/metadata/generation");
                }
                _ => {}
            }
            (resource, object)
        })
        .collect()
}

/// Returns generated strings of a cluster and their placeholders, longer strings first. They may occur
/// anywhere, also as a part of other strings and in keys of managed fields.
fn generated_strings(found: &[(&'static str, Value)]) -> Vec<(String, String)> {
    let mut placeholders = Vec::new();
    // Hashes of templates differ between implementations, because upstream's depends on Go's formatting of
    // structs.
    for (resource, object) in found {
        let owner = object::controller_of(object).map(|owner| owner.name).unwrap_or_default();
        match *resource {
            "replicasets" => {
                let revision =
                    object::annotation(object, "deployment.kubernetes.io/revision").unwrap_or_default();
                if let Some(hash) = object::label(object, "pod-template-hash") {
                    placeholders.push((hash.to_owned(), format!("<template {revision} of {owner}>")));
                }
            }
            "controllerrevisions" => {
                let hash = object::name(object).rsplit('-').next().unwrap_or_default();
                placeholders.push((hash.to_owned(), format!("<revision {} of {owner}>", object["revision"])));
            }
            _ => {}
        }
    }
    let mut named = Vec::new();
    for (resource, object) in found {
        let (name, prefix) = (object::name(object), object::generate_name(object));
        let mut shown = name.to_owned();
        let is_numbered = object::controller_of(object).is_some_and(|owner| owner.kind == "StatefulSet");
        if !prefix.is_empty() && !is_numbered {
            // Generated at random.
            shown = format!("{prefix}?");
            named.push((name.to_owned(), shown.clone()));
        }
        for (word, placeholder) in &placeholders {
            shown = shown.replace(word, placeholder);
        }
        // Names of token volumes are random as well.
        let volumes = object["spec"]["volumes"].as_array().into_iter().flatten();
        for volume in volumes.filter_map(|volume| volume["name"].as_str()) {
            if volume.starts_with(TOKENS) {
                named.push((volume.to_owned(), format!("{TOKENS}?")));
            }
        }
        named.push((object::uid(object).to_owned(), format!("<uid of {resource}/{shown}>")));
    }
    named.extend(placeholders);
    named.sort_by_key(|(word, _)| std::cmp::Reverse(word.len()));
    named
}

/// Replaces all times, because clusters do not run in step.
fn mask_times(value: &mut Value) {
    match value {
        Value::String(text) if text.len() >= 20 && time::parse(text).is_ok() => *text = "<time>".into(),
        Value::Array(items) => items.iter_mut().for_each(mask_times),
        Value::Object(fields) => fields.values_mut().for_each(mask_times),
        _ => {}
    }
}

/// Replaces the ReplicaSet that the condition of a finished rollout names: if the next rollout ends before the
/// controller has reported its progress, upstream keeps the message, which names the ReplicaSet of the one before.
fn mask_deployment(object: &mut Value) {
    let conditions = object.pointer_mut("/status/conditions").and_then(Value::as_array_mut);
    for condition in conditions.into_iter().flatten() {
        if condition["reason"] == "NewReplicaSetAvailable" {
            mask(condition, "/message");
        }
    }
}

fn mask_metadata(object: &mut Value) {
    let Some(metadata) = object["metadata"].as_object_mut() else { return };
    // Each server counts its own writes.
    metadata.remove("resourceVersion");
    // Only namespaces of a control plane have a grain.
    if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
        annotations.remove(GRAIN);
        if annotations.is_empty() {
            metadata.remove("annotations");
        }
    }
    let Some(managers) = metadata.get_mut("managedFields").and_then(Value::as_array_mut) else { return };
    for entry in &mut *managers {
        let name = entry["manager"].as_str().unwrap_or_default();
        // Programs with different names have the same role.
        if let Some((_, role)) = MANAGER_ROLES.iter().find(|(names, _)| names.contains(&name)) {
            entry["manager"] = (*role).into();
        }
        without_grain(entry);
        without_times(entry);
    }
    // Managers are ordered by time in seconds.
    managers.sort_by_cached_key(Value::to_string);
}

/// Removes the grain annotation from an entry of managedFields.
fn without_grain(entry: &mut Value) {
    let Some(metadata) = entry.pointer_mut("/fieldsV1/f:metadata").and_then(Value::as_object_mut) else {
        return;
    };
    let Some(annotations) = metadata.get_mut("f:annotations").and_then(Value::as_object_mut) else { return };
    annotations.remove(&format!("f:{GRAIN}"));
    // The manager of the first annotation owns the map, too.
    annotations.remove(".");
    if annotations.is_empty() {
        metadata.remove("f:annotations");
    }
    if metadata.is_empty() {
        entry["fieldsV1"].as_object_mut().unwrap().remove("f:metadata");
    }
}

/// Removes times: their last writer depends on whether a second had passed.
fn without_times(fields: &mut Value) {
    let Some(fields) = fields.as_object_mut() else { return };
    fields.retain(|name, _| !TIMES.contains(&name.as_str()));
    fields.values_mut().for_each(without_times);
}

fn mask_pod(pod: &mut Value) {
    // The status before binding and its writer depend on the scheduler's timing.
    if let Some(managers) = pod["metadata"]["managedFields"].as_array_mut() {
        managers.retain(|entry| entry.get("subresource").is_none());
    }
    // Schedulers choose randomly among equally good nodes. Pods of a DaemonSet are bound to a fixed node.
    if object::controller_of(pod).is_none_or(|owner| owner.kind != "DaemonSet") {
        mask(pod, "/spec/nodeName");
    }
    // Each cluster has its own network.
    for field in ["/status/podIP", "/status/hostIP", "/status/podIPs", "/status/hostIPs"] {
        mask(pod, field);
    }
    for field in ["containerStatuses", "initContainerStatuses"] {
        for status in pod["status"][field].as_array_mut().into_iter().flatten() {
            // There are no images and containers, so simulated kubelets generate their ids.
            for field in ["/imageID", "/containerID", "/state/terminated/containerID"] {
                mask(status, field);
            }
        }
    }
}

/// The number of steps of a rollout depends on timing, but the last one must be observed.
fn mask_replica_set(set: &mut Value) {
    let is_observed = set["metadata"]["generation"] == set["status"]["observedGeneration"];
    set["metadata"]["generation"] = "<steps>".into();
    set["status"]["observedGeneration"] = if is_observed { "<steps>" } else { "<not all steps>" }.into();
}

/// Masks the claim's uid and version at binding time: the claim may be deleted, so that its uid cannot be
/// resolved.
fn mask_volume(volume: &mut Value) {
    mask(volume, "/spec/claimRef/resourceVersion");
    mask(volume, "/spec/claimRef/uid");
}

/// Removes the description of a node, which depends on the simulator.
fn mask_node(node: &mut Value) {
    node.as_object_mut().unwrap().remove("status");
    object::remove_metadata(node, "managedFields");
    // A hint for the caches of kubelets, which simulated ones ignore.
    object::remove_annotation(node, "node.alpha.kubernetes.io/ttl");
}

fn mask_addresses(object: &mut Value) {
    match object {
        Value::Array(items) => items.iter_mut().for_each(mask_addresses),
        Value::Object(fields) => {
            for (name, value) in fields {
                match name.as_str() {
                    "ip" => *value = "<address>".into(),
                    "nodeName" => *value = "<node>".into(),
                    "addresses" if value[0].is_string() => *value = "<addresses>".into(),
                    // Ordered by address or by time.
                    "addresses" | "endpoints" => {
                        mask_addresses(value);
                        value.as_array_mut().unwrap().sort_by_cached_key(Value::to_string);
                    }
                    _ => mask_addresses(value),
                }
            }
        }
        _ => {}
    }
}

/// Replaces a value that is not empty.
fn mask(object: &mut Value, pointer: &str) {
    if let Some(value) = object.pointer_mut(pointer)
        && *value != ""
    {
        *value = "<masked>".into();
    }
}
