use serde_json::json;

use super::*;

const NOW: &str = "2026-11-15T12:00:00Z";

/// Builds a pod from attributes: `node=`, `phase=`, `ready=` (since when), `cost=`, `restarts=`, `sidecar=`,
/// `created=`.
fn pod(attributes: &str) -> Value {
    let attribute = |name: &str| {
        let mut found = attributes.split(' ').filter_map(|attribute| attribute.split_once('='));
        found.find(|(own, _)| *own == name).map(|(_, value)| value)
    };
    let mut pod = json!({"metadata": {"uid": attribute("uid").unwrap_or("u")}, "spec": {}, "status": {}});
    if let Some(node) = attribute("node") {
        pod["spec"]["nodeName"] = node.into();
    }
    if let Some(phase) = attribute("phase") {
        pod["status"]["phase"] = phase.into();
    }
    if let Some(since) = attribute("ready") {
        let since = if since == "?" { Value::Null } else { since.into() };
        let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": since});
        pod["status"]["conditions"] = json!([ready]);
    }
    if let Some(cost) = attribute("cost") {
        pod["metadata"]["annotations"] = json!({DELETION_COST: cost});
    }
    if let Some(created) = attribute("created") {
        pod["metadata"]["creationTimestamp"] = created.into();
    }
    let count = |name: &str| attribute(name).and_then(|text| text.parse::<i64>().ok());
    if let Some(restarts) = count("restarts") {
        pod["status"]["containerStatuses"] = json!([{"name": "c", "restartCount": restarts}, {"name": "d"}]);
    }
    if let Some(restarts) = count("sidecar") {
        pod["spec"]["initContainers"] = json!([{"name": "s", "restartPolicy": "Always"}, {"name": "i"}]);
        pod["status"]["initContainerStatuses"] =
            json!([{"name": "s", "restartCount": restarts}, {"name": "i", "restartCount": 99}]);
    }
    pod
}

#[test]
fn deletion_order() {
    let long_ago = "2026-11-10T12:00:00Z";
    let ready = "node=a phase=Running ready=2026-11-10T12:00:00Z";
    let older = format!("{ready} created={long_ago}");
    let pairs = [
        ("phase=Running", "node=a phase=Pending"),
        ("phase=Pending", "phase=Unknown"),
        ("node=a phase=Unknown", "node=a phase=Running"),
        ("node=a phase=Running", ready),
        (&format!("{ready} cost=-1"), ready),
        (ready, &format!("{ready} cost=1")),
        (&format!("{ready} cost=9"), &format!("{ready} cost=10")),
        // Crowded nodes take precedence over ages.
        (ready, "node=b phase=Running ready=2026-11-15T11:59:59Z"),
        ("node=a phase=Running ready=?", "node=a phase=Running ready=2026-11-15T11:59:59Z"),
        ("node=a phase=Running ready=2026-11-15T11:59:00Z", ready),
        (&format!("{older} restarts=2"), &format!("{older} restarts=1")),
        (&format!("{older} restarts=1 sidecar=2"), &format!("{older} restarts=1 sidecar=1")),
        (&format!("{older} restarts=1 sidecar=0"), &format!("{older} sidecar=9")),
        (ready, &older),
        (&format!("{ready} created=2026-11-15T11:59:00Z"), &older),
        // Ages of the same magnitude are equal.
        (
            &format!("{ready} uid=a created=2026-11-10T12:00:00Z"),
            &format!("{ready} uid=b created=2026-11-10T12:00:09Z"),
        ),
        (
            &format!("{ready} uid=a created=2026-11-10T12:00:09Z"),
            &format!("{ready} uid=b created=2026-11-10T12:00:00Z"),
        ),
    ];
    let related = RelatedPods(HashMap::from([("a".into(), 2), ("b".into(), 1)]));
    let now = time::parse(NOW).unwrap();
    for (first, second) in pairs {
        let (first, second) = (Arc::new(pod(first)), Arc::new(pod(second)));
        for mut pods in [vec![first.clone(), second.clone()], vec![second.clone(), first.clone()]] {
            sort_for_deletion(&mut pods, &related, now);
            assert_eq!(pods, [first.clone(), second.clone()]);
        }
    }
}

#[test]
fn costs_are_plain_numbers() {
    for (text, wanted) in [
        ("0", 0),
        ("7", 7),
        ("-7", -7),
        ("2147483647", i32::MAX),
        ("+7", 0),
        ("07", 0),
        ("2147483648", 0),
        ("x", 0),
        ("", 0),
    ] {
        let pod = json!({"metadata": {"annotations": {DELETION_COST: text}}});
        assert_eq!(cost(&pod), wanted, "{text:?}");
    }
}

#[test]
fn only_active_pods_are_related() {
    let pods = ["node=a phase=Running", "node=a phase=Failed", "node=b phase=Pending", "phase=Pending"];
    let pods: Vec<Arc<Value>> = pods.into_iter().map(|attributes| Arc::new(pod(attributes))).collect();
    let related = RelatedPods::of(&pods);
    let counts: Vec<usize> = pods.iter().map(|pod| related.on_node_of(pod)).collect();
    assert_eq!(counts, [1, 1, 1, 1]);
}
