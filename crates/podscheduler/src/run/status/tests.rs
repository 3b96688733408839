use super::*;

const NOW: &str = "2026-01-02T00:00:00Z";

fn refused(message: &str) -> Value {
    json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message, "lastProbeTime": null})
}

fn pod(status: Value) -> Value {
    json!({"metadata": {"uid": "u", "resourceVersion": "7"}, "status": status})
}

#[test]
fn patch_contains_only_changes() {
    let since = |mut condition: Value, time: &str| {
        condition["lastTransitionTime"] = time.into();
        condition
    };
    let other = json!({"type": "Ready", "status": "False"});
    let before = since(refused("a"), "2026-01-01T00:00:00Z");
    type Case = (Value, Option<Value>, Option<Option<&'static str>>, Option<Value>);
    let table: [Case; 8] = [
        (json!({}), Some(refused("a")), None, Some(json!({"conditions": [since(refused("a"), NOW)]}))),
        (json!({"conditions": [before]}), Some(refused("a")), None, None),
        (
            json!({"conditions": [before, other]}),
            Some(refused("b")),
            None,
            // The status is unchanged, so the transition time stays.
            Some(json!({"conditions": [since(refused("b"), "2026-01-01T00:00:00Z"), other]})),
        ),
        (
            json!({"conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "x"}]}),
            Some(refused("a")),
            None,
            Some(json!({"conditions": [since(refused("a"), NOW)]})),
        ),
        (json!({}), None, Some(Some("n")), Some(json!({"nominatedNodeName": "n"}))),
        (json!({"nominatedNodeName": "n"}), None, Some(Some("n")), None),
        (json!({"nominatedNodeName": "n"}), None, Some(None), Some(json!({"nominatedNodeName": null}))),
        (json!({}), None, Some(None), None),
    ];
    for (status, condition, nominated, wanted) in table {
        let pod = pod(status);
        let patch = patch(&pod, condition, nominated, NOW);
        assert_eq!(patch.as_ref().map(|patch| &patch["status"]), wanted.as_ref(), "{pod}");
        if let Some(patch) = patch {
            assert_eq!(patch["metadata"], pod["metadata"]);
        }
    }
}

#[test]
fn long_messages_are_truncated() {
    assert_eq!(shortened("short"), "short");
    let long = shortened(&"ä".repeat(2000));
    assert!(long.len() <= NOTE_LIMIT && long.ends_with("ä ..."), "{}", long.len());
}
