//! What cannot be the same in two clusters is replaced by what it stands for.

use atoll_meta::{object, time};
use serde_json::Value;

/// What names of volumes with tokens begin with.
const TOKENS: &str = "kube-api-access-";
const GRAIN: &str = "atoll.dev/grain";

/// Who writes: names of programs, and the part they play.
const PARTS: &[(&[&str], &str)] = &[
    (&["atoll-controllers", "kube-controller-manager"], "<controllers>"),
    (&["node-simulator", "kwok"], "<kubelets>"),
];

const TIMES: &[&str] = &["f:lastTransitionTime", "f:lastUpdateTime", "f:lastProbeTime"];

/// Objects with their resources, as listed.
type Listed = Vec<(&'static str, Value)>;

pub fn masked(found: Vec<(&'static str, Value)>) -> Listed {
    let words = words(&found);
    found
        .into_iter()
        .map(|(resource, object)| {
            let mut text = object.to_string();
            for (word, meaning) in &words {
                text = text.replace(word, meaning);
            }
            let mut object: Value = serde_json::from_str(&text).unwrap();
            times(&mut object);
            metadata(&mut object);
            // A list by type: what was written first is first, and what happened first may be chance.
            if let Some(conditions) = object.pointer_mut("/status/conditions").and_then(Value::as_array_mut) {
                conditions.sort_by_cached_key(|condition| condition["type"].to_string());
            }
            match resource {
                "pods" => pod(&mut object),
                "replicasets" => replica_set(&mut object),
                "persistentvolumes" => volume(&mut object),
                // The server itself counts evictions; whether it or the controllers were last is by chance.
                "poddisruptionbudgets" => drop(object::remove_metadata(&mut object, "managedFields")),
                "nodes" => node(&mut object),
                "endpoints" => addresses(&mut object),
                "endpointslices" => {
                    addresses(&mut object);
                    // Several pods that become ready together may be one change or several.
                    mask(&mut object, "/metadata/generation");
                }
                _ => {}
            }
            (resource, object)
        })
        .collect()
}

/// Words that each cluster makes up for itself, and what they stand for. They may be anywhere, also within others and in
/// the keys of managed fields; longer ones come first.
fn words(found: &[(&'static str, Value)]) -> Vec<(String, String)> {
    let mut words = Vec::new();
    // Hashes of templates: every implementation has its own, as upstream's depends on how Go prints structures.
    for (resource, object) in found {
        let owner = object::controller_of(object).map(|owner| owner.name).unwrap_or_default();
        match *resource {
            "replicasets" => {
                let revision =
                    object::annotation(object, "deployment.kubernetes.io/revision").unwrap_or_default();
                if let Some(hash) = object::label(object, "pod-template-hash") {
                    words.push((hash.to_owned(), format!("<template {revision} of {owner}>")));
                }
            }
            "controllerrevisions" => {
                let hash = object::name(object).rsplit('-').next().unwrap_or_default();
                words.push((hash.to_owned(), format!("<revision {} of {owner}>", object["revision"])));
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
            // Drawn by lot.
            shown = format!("{prefix}?");
            named.push((name.to_owned(), shown.clone()));
        }
        for (word, meaning) in &words {
            shown = shown.replace(word, meaning);
        }
        // So are the names of volumes with tokens.
        let volumes = object["spec"]["volumes"].as_array().into_iter().flatten();
        for volume in volumes.filter_map(|volume| volume["name"].as_str()) {
            if volume.starts_with(TOKENS) {
                named.push((volume.to_owned(), format!("{TOKENS}?")));
            }
        }
        named.push((object::uid(object).to_owned(), format!("<uid of {resource}/{shown}>")));
    }
    named.extend(words);
    named.sort_by_key(|(word, _)| std::cmp::Reverse(word.len()));
    named
}

/// All times: clusters are not in step.
fn times(value: &mut Value) {
    match value {
        Value::String(text) if text.len() >= 20 && time::parse(text).is_ok() => *text = "<time>".into(),
        Value::Array(items) => items.iter_mut().for_each(times),
        Value::Object(fields) => fields.values_mut().for_each(times),
        _ => {}
    }
}

fn metadata(object: &mut Value) {
    let Some(metadata) = object["metadata"].as_object_mut() else { return };
    // Each server counts its own writes.
    metadata.remove("resourceVersion");
    // Where pods are made is settled by a namespace of a control plane; elsewhere there is nothing to settle.
    if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
        annotations.remove(GRAIN);
        if annotations.is_empty() {
            metadata.remove("annotations");
        }
    }
    let Some(managers) = metadata.get_mut("managedFields").and_then(Value::as_array_mut) else { return };
    for entry in &mut *managers {
        let name = entry["manager"].as_str().unwrap_or_default();
        // The same part is played by programs of other names.
        if let Some((_, part)) = PARTS.iter().find(|(names, _)| names.contains(&name)) {
            entry["manager"] = (*part).into();
        }
        without_grain(entry);
        without_times(entry);
    }
    // They are in the order of their times, which are only known to the second.
    managers.sort_by_cached_key(Value::to_string);
}

/// Nobody manages an annotation that is not there.
fn without_grain(entry: &mut Value) {
    let Some(metadata) = entry.pointer_mut("/fieldsV1/f:metadata").and_then(Value::as_object_mut) else {
        return;
    };
    let Some(annotations) = metadata.get_mut("f:annotations").and_then(Value::as_object_mut) else { return };
    annotations.remove(&format!("f:{GRAIN}"));
    // Whoever writes the first one has the map, too.
    annotations.remove(".");
    if annotations.is_empty() {
        metadata.remove("f:annotations");
    }
    if metadata.is_empty() {
        entry["fieldsV1"].as_object_mut().unwrap().remove("f:metadata");
    }
}

/// Who was the last to write a time depends on whether a second had passed.
fn without_times(fields: &mut Value) {
    let Some(fields) = fields.as_object_mut() else { return };
    fields.retain(|name, _| !TIMES.contains(&name.as_str()));
    fields.values_mut().for_each(without_times);
}

fn pod(pod: &mut Value) {
    // Of what is said of it before it is bound, and who says it, the scheduler's luck decides.
    if let Some(managers) = pod["metadata"]["managedFields"].as_array_mut() {
        managers.retain(|entry| entry.get("subresource").is_none());
    }
    // Of equally good nodes schedulers draw one by lot. Those of a DaemonSet are bound to one.
    if object::controller_of(pod).is_none_or(|owner| owner.kind != "DaemonSet") {
        mask(pod, "/spec/nodeName");
    }
    // Each cluster has its own network.
    for field in ["/status/podIP", "/status/hostIP", "/status/podIPs", "/status/hostIPs"] {
        mask(pod, field);
    }
    for field in ["containerStatuses", "initContainerStatuses"] {
        for status in pod["status"][field].as_array_mut().into_iter().flatten() {
            // There are no images and no containers: whoever plays the kubelet makes them up.
            for field in ["/imageID", "/containerID", "/state/terminated/containerID"] {
                mask(status, field);
            }
        }
    }
}

/// In how many steps a rollout gets there depends on who is how fast; that the last one was seen does not.
fn replica_set(set: &mut Value) {
    let is_seen = set["metadata"]["generation"] == set["status"]["observedGeneration"];
    set["metadata"]["generation"] = "<steps>".into();
    set["status"]["observedGeneration"] = if is_seen { "<steps>" } else { "<not all steps>" }.into();
}

/// What the claim was when it was bound; it may be gone since, and then nobody knows what its uid stands for.
fn volume(volume: &mut Value) {
    mask(volume, "/spec/claimRef/resourceVersion");
    mask(volume, "/spec/claimRef/uid");
}

/// Machines are described by whoever plays them, in words of their own.
fn node(node: &mut Value) {
    node.as_object_mut().unwrap().remove("status");
    object::remove_metadata(node, "managedFields");
    // For how long kubelets may keep what they have read; simulated ones read nothing.
    object::remove_annotation(node, "node.alpha.kubernetes.io/ttl");
}

fn addresses(object: &mut Value) {
    match object {
        Value::Array(items) => items.iter_mut().for_each(addresses),
        Value::Object(fields) => {
            for (name, value) in fields {
                match name.as_str() {
                    "ip" => *value = "<address>".into(),
                    "nodeName" => *value = "<node>".into(),
                    "addresses" if value[0].is_string() => *value = "<addresses>".into(),
                    // In the order of addresses, or of who was there first.
                    "addresses" | "endpoints" => {
                        addresses(value);
                        value.as_array_mut().unwrap().sort_by_cached_key(Value::to_string);
                    }
                    _ => addresses(value),
                }
            }
        }
        _ => {}
    }
}

/// Only that there is something counts.
fn mask(object: &mut Value, pointer: &str) {
    if let Some(value) = object.pointer_mut(pointer)
        && *value != ""
    {
        *value = "<masked>".into();
    }
}
