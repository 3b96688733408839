use serde_json::json;

use super::*;

#[test]
fn empty_texts_are_unset() {
    for (pod, node, phase, ip) in [
        (json!({}), None, "", None),
        (json!({"spec": {"nodeName": ""}, "status": {"phase": "", "podIP": ""}}), None, "", None),
        (json!({"spec": {"nodeName": 1}, "status": {"phase": null}}), None, "", None),
        (
            json!({"spec": {"nodeName": "n"}, "status": {"phase": "Running", "podIP": "10.0.0.1"}}),
            Some("n"),
            "Running",
            Some("10.0.0.1"),
        ),
    ] {
        let view = PodView::of(&pod);
        assert_eq!((view.node_name(), view.phase(), view.pod_ip()), (node, phase, ip), "{pod}");
    }
}

#[test]
fn pods_finish_and_become_ready() {
    // Phase and status of the condition; finished, ready.
    for (phase, ready, expected) in [
        ("Pending", "False", (false, false)),
        ("Running", "True", (false, true)),
        ("Running", "Unknown", (false, false)),
        ("Succeeded", "False", (true, false)),
        ("Failed", "False", (true, false)),
    ] {
        let pod = json!({"status": {"phase": phase, "conditions": [{"type": "Ready", "status": ready}]}});
        let view = PodView::of(&pod);
        assert_eq!((view.is_finished(), view.is_ready()), expected, "{pod}");
        assert_eq!(view.conditions().count(), 1);
    }
    assert!(!PodView::of(&json!({})).is_ready());
}

#[test]
fn status_fields_are_read() {
    let pod = json!({"status": {
        "reason": "Evicted", "startTime": "t", "nominatedNodeName": "n",
        "podIPs": [{"ip": "10.0.0.1"}, {}, {"ip": "fd00::1"}],
    }});
    let view = PodView::of(&pod);
    assert_eq!(
        (view.reason(), view.start_time(), view.nominated_node_name()),
        (Some("Evicted"), Some("t"), Some("n"))
    );
    assert_eq!(view.pod_ips().collect::<Vec<_>>(), ["10.0.0.1", "fd00::1"]);
    for (status, expected) in [
        (json!({}), false),
        (json!({"podIP": "", "podIPs": []}), false),
        (json!({"podIP": "10.0.0.1"}), true),
        (json!({"podIPs": [{"ip": "10.0.0.1"}]}), true),
    ] {
        let pod = json!({ "status": status });
        assert_eq!(PodView::of(&pod).has_pod_ip(), expected, "{pod}");
    }
}

#[test]
fn specs_have_the_defaults_of_kubernetes() {
    let empty = PodSpecView::of(&Value::Null);
    assert_eq!((empty.hostname(), empty.subdomain(), empty.restart_policy()), (None, None, "Always"));
    assert_eq!((empty.uses_host_network(), empty.node_selector(), empty.requests()), (false, None, None));
    assert_eq!((empty.required_node_terms(), empty.tolerations().count()), (None, 0));
    assert_eq!((empty.containers().count(), empty.volumes().count()), (0, 0));
    let spec = json!({
        "hostname": "h", "subdomain": "s", "restartPolicy": "Never", "hostNetwork": true,
        "nodeSelector": {"a": "b"}, "tolerations": [{}], "resources": {"requests": {"cpu": "1"}},
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{}]}}},
    });
    let full = PodSpecView::of(&spec);
    assert_eq!((full.hostname(), full.subdomain(), full.restart_policy()), (Some("h"), Some("s"), "Never"));
    assert!(full.uses_host_network() && full.node_selector().is_some() && full.requests().is_some());
    assert_eq!((full.required_node_terms().map(<[_]>::len), full.tolerations().count()), (Some(1), 1));
}

#[test]
fn sidecars_are_init_containers_that_restart() {
    let pod = json!({
        "spec": {
            "containers": [{"name": "c", "restartPolicy": "Always", "ports": [{}]}],
            "initContainers": [{"name": "i"}, {"name": "s", "restartPolicy": "Always"}],
        },
        "status": {
            "containerStatuses": [{"name": "c", "restartCount": 2}],
            "initContainerStatuses": [
                {"name": "i", "state": {"terminated": {"exitCode": 3, "finishedAt": "t"}}},
                {"name": "s", "restartCount": 7},
            ],
        },
    });
    let view = PodView::of(&pod);
    assert_eq!(view.spec().sidecars().map(ContainerView::name).collect::<Vec<_>>(), ["s"]);
    assert_eq!(view.spec().init_containers().count(), 2);
    assert_eq!(view.spec().containers().map(|container| container.ports().len()).sum::<usize>(), 1);
    assert_eq!(view.container_statuses().map(ContainerStatusView::restart_count).sum::<i64>(), 2);
    assert_eq!(view.sidecar_statuses().map(ContainerStatusView::restart_count).collect::<Vec<_>>(), [7]);
    let ended = view.init_container_statuses().next().expect("a status");
    assert_eq!((ended.exit_code(), ended.finished_at(), ended.restart_count()), (Some(3), Some("t"), 0));
    assert!(view.spec().containers().all(|container| container.requests().is_null()));
}

#[test]
fn claims_of_ephemeral_volumes_are_named_after_the_pod() {
    let pod = json!({
        "metadata": {"name": "web-0"},
        "spec": {"volumes": [
            {"name": "data", "persistentVolumeClaim": {"claimName": "disk"}},
            {"name": "scratch", "ephemeral": {}},
            {"name": "settings", "configMap": {}},
        ]},
    });
    let view = PodView::of(&pod);
    assert_eq!(view.claim_names().collect::<Vec<_>>(), ["disk", "web-0-scratch"]);
    let volumes: Vec<_> = view
        .spec()
        .volumes()
        .map(|volume| (volume.name(), volume.is_ephemeral(), volume.named_claim()))
        .collect();
    assert_eq!(volumes, [("data", false, Some("disk")), ("scratch", true, None), ("settings", false, None)]);
}
