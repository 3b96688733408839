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

#[test]
fn status_has_capacity_and_usage() {
    let inventory = Inventory::default();
    assert!(inventory.status().is_empty(), "no list is complete yet");
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
    let status = Value::Object(inventory.status());
    let desired = json!({
        "nodes": {"total": 5, "ready": 4},
        "capacity": {"cpu": "40", "memory": "80Gi", "pods": "550"},
        "allocatable": {"cpu": "32", "memory": "64Gi", "pods": "550"},
        "requested": {"cpu": "2750m", "pods": "3"},
        "free": [
            {"cpu": "3", "memory": "8Gi", "pods": 100, "nodes": 1},
            {"cpu": "2", "memory": "8Gi", "pods": 100, "nodes": 1},
        ],
        "region": "north", "zones": ["z1", "z2", "z3"],
    });
    assert_eq!(status, desired);
}

#[test]
fn number_of_rows_is_limited() {
    let gibibytes = |count: i64| count << 30;
    let rows: Vec<Free> = (1..200)
        .map(|each| {
            Free::from([
                ("cpu".to_string(), each * 1000),
                ("memory".to_string(), gibibytes(each * 3 % 64)),
                ("example.com/gpu".to_string(), each % 5),
            ])
        })
        .collect();
    let limited = rounded(&rows);
    assert_eq!(limited.len(), ROWS);
    assert_eq!(limited.iter().map(|(_, nodes)| nodes).sum::<usize>(), rows.len(), "all nodes are counted");
    let total = |rows: &[(Free, usize)], name: &str| -> i64 {
        rows.iter().map(|(row, nodes)| row.get(name).copied().unwrap_or(0) * *nodes as i64).sum()
    };
    let real: i64 = rows.iter().map(|row| row["cpu"]).sum();
    assert!(total(&limited, "cpu") <= real, "never more than the real capacity");
    for (name, amount, fine, coarse) in [
        ("cpu", 7900, 7000, 4000),
        ("cpu", 950, 900, 0),
        ("memory", gibibytes(7) + 5, gibibytes(7), gibibytes(4)),
        ("pods", 109, 100, 80),
        ("pods", 7, 7, 0),
        ("example.com/gpu", 3, 3, 2),
        ("cpu", 0, 0, 0),
    ] {
        assert_eq!((round_fine(name, amount), round_coarse(name, amount)), (fine, coarse), "{name} {amount}");
    }
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
    let status = inventory.status();
    assert_eq!(status["zones"].as_array().map(Vec::len), Some(ZONES));
    assert_eq!(status["capacity"].as_object().map(Map::len), Some(RESOURCES));
    assert!(Value::Object(status).to_string().len() < 16 << 10);
}
