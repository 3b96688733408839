use serde_json::json;

use super::*;

#[test]
fn pods_of_one_template_share_their_demand() {
    let mut compiler = Compiler::default();
    let pod = |name: &str, cpu: &str| {
        json!({
            "metadata": {"namespace": "default", "name": name, "labels": {"app": "web"}},
            "spec": {"containers": [{"resources": {"requests": {"cpu": cpu}}}]},
        })
    };
    let (one, two, other) = (
        compiler.compile(&pod("a", "1")),
        compiler.compile(&pod("b", "1")),
        compiler.compile(&pod("c", "2")),
    );
    assert!(Arc::ptr_eq(&one.demand, &two.demand) && Arc::ptr_eq(&one.class, &two.class));
    assert!(!Arc::ptr_eq(&one.demand, &other.demand));
}

#[test]
fn unused_values_are_removed() {
    let mut interned = Interned::<u32>::default();
    let kept = interned.share(7);
    for number in 100..10_000 {
        interned.share(number);
    }
    assert!(interned.known.len() <= 64, "{}", interned.known.len());
    assert!(Arc::ptr_eq(&kept, &interned.share(7)));
}

#[test]
fn only_some_changes_affect_scheduling() {
    let before = json!({
        "metadata": {"resourceVersion": "1", "labels": {"a": "b"}},
        "spec": {"nodeName": "n"},
        "status": {"phase": "Pending", "conditions": []},
    });
    let table = [
        ("/metadata/resourceVersion", json!("2"), false),
        ("/metadata/labels/a", json!("c"), true),
        ("/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z"), true),
        ("/spec/nodeName", json!("m"), true),
        ("/status/phase", json!("Running"), false),
        ("/status/phase", json!("Succeeded"), true),
        ("/status/nominatedNodeName", json!("m"), true),
        ("/status/conditions", json!([{"type": "Ready", "status": "True"}]), false),
        (
            "/status/conditions",
            json!([{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]),
            true,
        ),
        ("/status/containerStatuses", json!([{"name": "c", "ready": true}]), false),
        ("/status/containerStatuses", json!([{"name": "c", "resources": {"requests": {"cpu": "1"}}}]), true),
    ];
    for (pointer, value, matters) in table {
        let mut after = before.clone();
        let (parent, field) = pointer.rsplit_once('/').unwrap();
        after.pointer_mut(parent).unwrap()[field] = value.clone();
        assert_eq!(affects_scheduling(&before, &after), matters, "{pointer} {value}");
    }
}
