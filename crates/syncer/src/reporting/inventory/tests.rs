use super::node::{REGION, RESOURCES, ZONE};
use super::*;

fn node(name: &str, cpu: &str, memory: &str, zone: &str) -> Value {
    json!({
        "metadata": {"name": name, "uid": name, "labels": {REGION: "north", ZONE: zone}},
        "status": {
            "capacity": {"cpu": "8", "memory": "16Gi", "pods": "110"},
            "allocatable": {"cpu": cpu, "memory": memory, "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    })
}

fn pod(name: &str, node: &str, cpu: &str) -> Value {
    json!({
        "metadata": {"name": name, "uid": name},
        "spec": {"nodeName": node, "containers": [{"name": "a", "resources": {"requests": {"cpu": cpu}}}]},
    })
}

fn unmapped() -> MappedQuotas {
    MappedQuotas::default()
}

#[test]
fn status_has_capacity_and_usage() {
    let inventory = Inventory::default();
    assert!(inventory.status(&[], &unmapped()).is_empty(), "no list is complete yet");
    let mut closed = node("c", "8", "16Gi", "z2");
    closed["spec"]["unschedulable"] = true.into();
    let mut tainted = node("d", "8", "16Gi", "z2");
    tainted["spec"]["taints"] = json!([{"key": "a", "effect": "NoSchedule"}]);
    let mut broken = node("e", "8", "16Gi", "z3");
    broken["status"]["conditions"][0]["status"] = "False".into();
    for node in [node("a", "4", "8Gi", "z1"), node("b", "4", "8Gi", "z2"), closed, tainted, broken] {
        inventory.node(ListWatchEvent::Upserted(node));
    }
    inventory.node(ListWatchEvent::Upserted(node("gone", "4", "8Gi", "z1")));
    inventory.node(ListWatchEvent::Deleted(node("gone", "4", "8Gi", "z1")));
    let present = ["a", "b", "c", "d", "e"].map(str::to_string).into();
    inventory.node(ListWatchEvent::Listed(&present, 1));
    for pod in [pod("p", "a", "1500m"), pod("q", "b", "1"), pod("r", "", "250m"), pod("s", "a", "1")] {
        inventory.pod(ListWatchEvent::Upserted(pod));
    }
    inventory.pod(ListWatchEvent::Listed(&["p", "q", "r"].map(str::to_string).into(), 1));
    let status = Value::Object(inventory.status(&[], &unmapped()));
    let desired = json!({
        "nodes": {"total": 5, "ready": 4},
        "capacity": {"cpu": "40", "memory": "80Gi", "pods": "550"},
        "allocatable": {"cpu": "32", "memory": "64Gi", "pods": "550"},
        "requested": {"cpu": "2750m", "pods": "3"},
        "free": [
            {"cpu": "8", "memory": "16Gi", "pods": "110", "nodes": 1},
            {"cpu": "3", "memory": "8Gi", "pods": "109", "nodes": 1},
            {"cpu": "2500m", "memory": "8Gi", "pods": "109", "nodes": 1},
        ],
        "freeNodes": [
            {"labels": {REGION: "north", ZONE: "z2"}, "taints": [{"key": "a", "effect": "NoSchedule"}]},
            {"labels": {REGION: "north", ZONE: "z2"}, "taints": []},
            {"labels": {REGION: "north", ZONE: "z1"}, "taints": []},
        ],
        "bound": {},
        "region": "north", "zones": ["z1", "z2", "z3"],
    });
    assert_eq!(status, desired);
}

#[test]
fn bound_pods_are_counted_for_placed_objects() {
    let inventory = Inventory::default();
    inventory.node(ListWatchEvent::Listed(&HashSet::new(), 1));
    let owner = |kind: &str, name: &str| json!([{"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": name, "controller": true}]);
    for (name, node, of) in
        [("p", "a", "web-1"), ("q", "", "web-1"), ("r", "b", "web-2"), ("s", "b", "other")]
    {
        let mut made = pod(name, node, "1");
        made["metadata"]["ownerReferences"] = owner("ReplicaSet", of);
        inventory.pod(ListWatchEvent::Upserted(made));
    }
    inventory.pod(ListWatchEvent::Listed(&["p", "q", "r", "s"].map(str::to_string).into(), 1));
    for name in ["web-1", "web-2"] {
        let metadata = json!({"name": name, "uid": name, "ownerReferences": owner("Deployment", "web")});
        inventory.parent(ListWatchEvent::Upserted(json!({ "metadata": metadata })), OwnedKind::ReplicaSet);
    }
    let placed =
        |above: &str, below: &str| PlacedWorkload { uid_above: above.into(), uid_below: below.into() };
    let status = inventory.status(&[placed("above", "web"), placed("idle", "idle")], &unmapped());
    assert_eq!(status["bound"], json!({"above": 2}));
    assert_eq!(inventory.pods_of("web").map(|pods| (pods.total, pods.pending)), Some((3, 3)));
    let changed: Vec<String> = inventory.take_changed().into_iter().map(|owner| owner.name).collect();
    assert_eq!(changed, ["web", "other", "web-1", "web-2"], "owners by group, kind and name");

    inventory.pod(ListWatchEvent::Listed(&["q".to_string()].into(), 2));
    inventory.parent(ListWatchEvent::Listed(&["web-1".to_string()].into(), 2), OwnedKind::ReplicaSet);
    assert_eq!(inventory.status(&[placed("above", "web")], &unmapped())["bound"], json!({}));
    let measured = || {
        inventory.set_usage(&[("/q".to_string(), (20, 1 << 20))].into());
        inventory.pods_of("web").and_then(|pods| pods.usage)
    };
    assert_eq!(measured(), None, "a pod that is not ready does not count");
    let mut ready = pod("q", "a", "1");
    ready["metadata"]["ownerReferences"] = owner("ReplicaSet", "web-1");
    ready["status"]["conditions"] = json!([{ "type": "Ready", "status": "True" }]);
    inventory.pod(ListWatchEvent::Upserted(ready));
    let usage = measured().unwrap();
    assert_eq!((usage.cpu.as_str(), usage.memory.as_str(), usage.pods), ("20m", "1Mi", 1));
    assert_eq!((usage.requests.cpu.as_deref(), usage.requests.memory.as_deref()), (Some("1"), None));
}

#[test]
fn status_size_is_limited() {
    let inventory = Inventory::default();
    for number in 0..200 {
        let mut made = node(&number.to_string(), "4", "8Gi", &format!("z{number}"));
        for other in 0..100 {
            made["status"]["capacity"][format!("example.com/r{number}-{other}")] = "1".into();
        }
        inventory.node(ListWatchEvent::Upserted(made));
    }
    let mut long = node("long", "4", "8Gi", &"z".repeat(1 << 20));
    long["status"]["capacity"]["x".repeat(1 << 20)] = "1".into();
    inventory.node(ListWatchEvent::Upserted(long));
    inventory
        .node(ListWatchEvent::Listed(&(0..200).map(|n| n.to_string()).chain(["long".into()]).collect(), 1));
    let status = inventory.status(&[], &unmapped());
    assert_eq!(status["zones"].as_array().map(Vec::len), Some(ZONES));
    assert_eq!(status["capacity"].as_object().map(Map::len), Some(RESOURCES));
    assert!(Value::Object(status).to_string().len() < 16 << 10);
}

#[test]
fn quotas_leave_what_bound_pods_do_not_use() {
    let inventory = Inventory::default();
    inventory.node(ListWatchEvent::Listed(&HashSet::new(), 1));
    for (name, node) in [("bound", "a"), ("waiting", "")] {
        let mut made = pod(name, node, "250m");
        made["metadata"]["namespace"] = "shop".into();
        inventory.pod(ListWatchEvent::Upserted(made));
    }
    inventory.pod(ListWatchEvent::Listed(&["bound", "waiting"].map(str::to_string).into(), 1));
    let quota = |name: &str, namespace: &str, hard: Value, used: Value| {
        inventory.quota(ListWatchEvent::Upserted(json!({
            "metadata": { "name": name, "uid": name, "namespace": namespace },
            "status": { "hard": hard, "used": used },
        })));
    };
    quota("cpu", "shop", json!({ "requests.cpu": "1" }), json!({ "requests.cpu": "500m" }));
    quota("pods", "shop", json!({ "pods": "2", "cpu": "4" }), json!({ "pods": "2", "cpu": "500m" }));
    quota("other", "other", json!({ "pods": "2" }), json!({}));
    let mapped: MappedQuotas =
        [("shop".to_string(), ("root".to_string(), "store".to_string()))].into_iter().collect();
    assert_eq!(inventory.status(&[], &mapped).get("quotas"), None, "the list is not complete yet");
    inventory.quota(ListWatchEvent::Listed(&["cpu", "pods", "other"].map(str::to_string).into(), 1));
    let expected =
        json!([{ "workspace": "root", "namespace": "store", "left": { "cpu": "750m", "pods": "1" } }]);
    assert_eq!(inventory.status(&[], &mapped)["quotas"], expected);
    assert_eq!(inventory.namespaces_with_quotas().into_iter().collect::<Vec<_>>(), ["other", "shop"]);
    inventory.quota(ListWatchEvent::Listed(&HashSet::new(), 2));
    assert_eq!(inventory.status(&[], &mapped).get("quotas"), None);
}
