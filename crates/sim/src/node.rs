//! Node and Lease objects of simulated nodes.

// upstream: pkg/kubelet/nodestatus/setters.go

use atoll_meta::{object, time};
use serde_json::{Value, json};

use crate::Settings;
use crate::pod::SimTime;

/// Annotation of simulated nodes, with the name of their simulator.
pub const SIMULATED: &str = "sim.atoll.dev/node";
/// Duration of a node's lease in seconds.
pub const LEASE_SECONDS: i64 = 40;
/// The reported kubelet version.
const KUBELET: &str = "v1.36.4";
/// Ephemeral storage of each node.
const STORAGE: &str = "200Gi";

/// Returns a new node, without its status.
pub fn object(settings: &Settings, position: usize) -> Value {
    let name = settings.node(position);
    let mut labels = json!({
        "beta.kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
    });
    if !settings.region.is_empty() {
        labels["topology.kubernetes.io/region"] = settings.region.as_str().into();
    }
    if let Some(zone) = settings.zone(position) {
        labels["topology.kubernetes.io/zone"] = zone.into();
    }
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels, "annotations": {SIMULATED: settings.mark}},
        "spec": {"providerID": format!("sim://{name}")},
    })
}

/// Variable state of a node.
#[derive(Clone, Copy, Debug)]
pub struct Health {
    /// Whether the node has disk pressure.
    pub is_full: bool,
    /// Port at which its kubelet listens.
    pub kubelet_port: Option<u16>,
}

/// Returns the new status of a node, if it differs.
pub fn status(node: &Value, settings: &Settings, health: Health, now: SimTime) -> Option<Value> {
    let old = &node["status"];
    let mut new = if old.is_object() { old.clone() } else { json!({}) };
    let name = object::name(node);
    // A node that a user created may have its own capacity.
    if new["capacity"].get("cpu").is_none() {
        let room = json!({
            "cpu": settings.cpu,
            "memory": settings.memory,
            "pods": settings.pods.to_string(),
            "ephemeral-storage": STORAGE,
        });
        new["allocatable"] = room.clone();
        new["capacity"] = room;
    }
    if new["allocatable"].get("cpu").is_none() {
        new["allocatable"] = new["capacity"].clone();
    }
    let host = if settings.host.is_empty() { name } else { &settings.host };
    new["addresses"] =
        json!([{"type": "InternalIP", "address": "127.0.0.1"}, {"type": "Hostname", "address": host}]);
    if let Some(port) = health.kubelet_port {
        new["daemonEndpoints"] = json!({"kubeletEndpoint": {"Port": port}});
    }
    new["nodeInfo"] = json!({
        "architecture": "amd64",
        "bootID": "",
        "containerRuntimeVersion": "sim://1",
        "kernelVersion": "",
        "kubeProxyVersion": "",
        "kubeletVersion": KUBELET,
        "machineID": object::uid(node),
        "operatingSystem": "linux",
        "osImage": "simulated",
        "systemUUID": object::uid(node),
    });
    let disk = match health.is_full {
        true => ("True", "KubeletHasDiskPressure", "kubelet has disk pressure"),
        false => ("False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    };
    let memory = ("False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available");
    let processes = ("False", "KubeletHasSufficientPID", "kubelet has sufficient PID available");
    let ready = ("True", "KubeletReady", "kubelet is posting ready status");
    for (r#type, (status, reason, message)) in
        [("MemoryPressure", memory), ("DiskPressure", disk), ("PIDPressure", processes), ("Ready", ready)]
    {
        set_condition(&mut new, r#type, status, reason, message, now);
    }
    (new != *old).then_some(new)
}

fn set_condition(status: &mut Value, r#type: &str, value: &str, reason: &str, message: &str, now: SimTime) {
    if !status["conditions"].is_array() {
        status["conditions"] = json!([]);
    }
    let Some(all) = status["conditions"].as_array_mut() else { return };
    let position = all.iter().position(|condition| condition["type"] == r#type);
    let old = position.map(|position| &all[position]);
    if old.is_some_and(|old| old["status"] == value && old["reason"] == reason) {
        return;
    }
    let since = match old.filter(|old| old["status"] == value) {
        Some(old) => old["lastTransitionTime"].clone(),
        None => time::format(now.seconds).into(),
    };
    let new = json!({
        "type": r#type,
        "status": value,
        "reason": reason,
        "message": message,
        "lastHeartbeatTime": time::format(now.seconds),
        "lastTransitionTime": since,
    });
    match position {
        Some(position) => all[position] = new,
        None => all.push(new),
    }
}

/// Returns the lease of a node.
pub fn lease(node: &Value, now: SimTime) -> Value {
    let name = object::name(node);
    let owner = json!({"apiVersion": "v1", "kind": "Node", "name": name, "uid": object::uid(node)});
    json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": "kube-node-lease", "ownerReferences": [owner]},
        "spec": {
            "holderIdentity": name,
            "leaseDurationSeconds": LEASE_SECONDS,
            "renewTime": time::format_micro(now.seconds, 0),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: SimTime = SimTime { millis: 0, seconds: 1_700_000_000 };
    const WELL: Health = Health { is_full: false, kubelet_port: Some(10250) };

    fn condition<'a>(status: &'a Value, r#type: &str) -> &'a str {
        let all = status["conditions"].as_array().unwrap();
        all.iter().find(|condition| condition["type"] == r#type).unwrap()["status"].as_str().unwrap()
    }

    #[test]
    fn nodes_have_topology_labels_and_capacity() {
        let settings = Settings {
            name: "east".into(),
            region: "eu".into(),
            zones: vec!["a".into(), "b".into()],
            ..Settings::default()
        };
        let mut node = object(&settings, 1);
        assert_eq!(node["metadata"]["labels"]["topology.kubernetes.io/zone"], "b");
        assert_eq!(node["metadata"]["labels"]["topology.kubernetes.io/region"], "eu");
        let status_now = status(&node, &settings, WELL, NOW).unwrap();
        assert_eq!(status_now["allocatable"]["pods"], "110");
        assert_eq!(condition(&status_now, "Ready"), "True");
        node["status"] = status_now;
        let later = SimTime { millis: 9, seconds: NOW.seconds + 60 };
        assert_eq!(status(&node, &settings, WELL, later), None, "an unchanged status is not written");
    }

    #[test]
    fn user_created_nodes_keep_their_size_and_full_ones_have_disk_pressure() {
        let settings = Settings::default();
        let mut node = json!({"metadata": {"name": "mine"}, "status": {"capacity": {"cpu": "2"}}});
        let first = status(&node, &settings, WELL, NOW).unwrap();
        assert_eq!((&first["capacity"], &first["allocatable"]), (&json!({"cpu": "2"}), &json!({"cpu": "2"})));
        node["status"] = first;
        let full = Health { is_full: true, ..WELL };
        let updated = status(&node, &settings, full, NOW).unwrap();
        assert_eq!((condition(&updated, "DiskPressure"), condition(&updated, "Ready")), ("True", "True"));
        node["status"] = updated;
        node["status"]["conditions"][3]["status"] = "Unknown".into();
        let back = status(&node, &settings, WELL, NOW).unwrap();
        assert_eq!((condition(&back, "DiskPressure"), condition(&back, "Ready")), ("False", "True"));
    }
}
