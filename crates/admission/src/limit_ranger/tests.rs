use serde_json::json;

use super::*;

fn range(kind: &str, bounds: Value) -> Value {
    let mut item = bounds;
    item["type"] = kind.into();
    json!({ "spec": { "limits": [item] } })
}

fn pod(requests: Value, limits: Value) -> Value {
    let container =
        |name: &str| json!({ "name": name, "resources": { "requests": requests, "limits": limits } });
    json!({ "metadata": {}, "spec": { "containers": [container("a"), container("b")] } })
}

#[test]
fn containers_get_defaults() {
    let range = range(
        "Container",
        json!({ "default": { "cpu": "1", "memory": "1Gi" }, "defaultRequest": { "cpu": "500m" } }),
    );
    let mut pod = json!({ "metadata": {}, "spec": {
        "containers": [{ "name": "a", "resources": { "limits": { "cpu": "2" }, "requests": { "cpu": "2" } } }],
        "initContainers": [{ "name": "b", "resources": {} }],
    } });
    complete(&mut pod, &range);
    assert_eq!(pod["spec"]["containers"][0]["resources"]["limits"], json!({ "cpu": "2", "memory": "1Gi" }));
    assert_eq!(
        pod["spec"]["initContainers"][0]["resources"],
        json!({ "limits": { "cpu": "1", "memory": "1Gi" }, "requests": { "cpu": "500m" } })
    );
    assert_eq!(
        pod["metadata"]["annotations"][ANNOTATION],
        "LimitRanger plugin set: memory limit for container a; cpu request for init container b; cpu, memory limit \
         for init container b"
    );
    let mut complete_already = pod.clone();
    complete(&mut complete_already, &range);
    assert_eq!(complete_already, pod);
}

#[test]
fn bounds_are_worded_as_upstream() {
    let (one, two) = (json!({ "cpu": "1" }), json!({ "cpu": "2" }));
    let cases = [
        (
            "Container",
            json!({ "min": two }),
            &one,
            &one,
            vec!["minimum cpu usage per Container is 2, but request is 1"],
        ),
        (
            "Container",
            json!({ "max": one }),
            &one,
            &two,
            vec!["maximum cpu usage per Container is 1, but limit is 2"],
        ),
        (
            "Container",
            json!({ "max": { "memory": "1Gi" } }),
            &one,
            &one,
            vec!["maximum memory usage per Container is 1Gi.  No limit is specified"],
        ),
        (
            "Container",
            json!({ "min": { "memory": "1Gi" } }),
            &one,
            &one,
            vec!["minimum memory usage per Container is 1Gi.  No request is specified"],
        ),
        (
            "Container",
            json!({ "maxLimitRequestRatio": { "cpu": "1500m" } }),
            &one,
            &two,
            vec!["cpu max limit to request ratio per Container is 1500m, but provided ratio is 2.000000"],
        ),
        (
            "Container",
            json!({ "maxLimitRequestRatio": { "memory": "2" } }),
            &one,
            &two,
            vec![
                "memory max limit to request ratio per Container is 2, but no request is specified or request is 0",
            ],
        ),
        (
            "Pod",
            json!({ "max": { "cpu": "3" } }),
            &one,
            &two,
            vec!["maximum cpu usage per Pod is 3, but limit is 4"],
        ),
        ("Pod", json!({ "max": { "cpu": "4" }, "min": { "cpu": "2" } }), &one, &two, vec![]),
        ("PersistentVolumeClaim", json!({ "max": { "storage": "1" } }), &one, &two, vec![]),
    ];
    for (kind, bounds, requests, limits, expected) in cases {
        let mut problems = pod_problems(&pod(requests.clone(), limits.clone()), &range(kind, bounds.clone()));
        problems.dedup();
        assert_eq!(problems, expected, "{kind} {bounds}");
    }
}

#[test]
fn claims_are_checked_by_their_requests() {
    let claim = |size: &str| json!({ "spec": { "resources": { "requests": { "storage": size } } } });
    let bounds = json!({ "min": { "storage": "2Gi" }, "max": { "storage": "4Gi" } });
    let range = range("PersistentVolumeClaim", bounds);
    let cases = [
        ("3Gi", vec![]),
        ("1Gi", vec!["minimum storage usage per PersistentVolumeClaim is 2Gi, but request is 1Gi"]),
        ("5Gi", vec!["maximum storage usage per PersistentVolumeClaim is 4Gi, but request is 5Gi"]),
    ];
    for (size, expected) in cases {
        assert_eq!(claim_problems(&claim(size), &range), expected, "{size}");
    }
}
