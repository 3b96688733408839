mod reference;

use super::*;

fn service(changes: &Value) -> Value {
    let mut service = json!({
        "metadata": {"name": "web", "namespace": "n", "labels": {"team": "a"}},
        "spec": {
            "selector": {"app": "web"},
            "clusterIP": "10.0.0.10",
            "ipFamilies": ["IPv4"],
            "ports": [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": 8080}],
        },
    });
    for (field, value) in changes.as_object().into_iter().flatten() {
        service["spec"][field] = value.clone();
    }
    service
}

fn pod(number: usize, ready: bool) -> Arc<Value> {
    let address = format!("10.1.{}.{}", number / 250, number % 250);
    Arc::new(json!({
        "metadata": {"name": format!("p{number}"), "namespace": "n", "uid": format!("u{number}")},
        "spec": {"nodeName": "node", "hostname": "h", "subdomain": "web"},
        "status": {
            "podIP": address,
            "podIPs": [{"ip": address}, {"ip": format!("fd00::{number:x}")}],
            "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}],
        },
    }))
}

fn address(number: usize) -> Value {
    json!({
        "ip": format!("10.1.0.{number}"),
        "hostname": "h",
        "nodeName": "node",
        "targetRef": {"kind": "Pod", "namespace": "n", "name": format!("p{number}"), "uid": format!("u{number}")},
    })
}

#[test]
fn ready_and_unready_addresses_are_separate() {
    let trigger = Some("2026-01-01T00:00:00Z");
    let wanted = reconcile(&service(&json!({})), &[pod(2, true), pod(1, true), pod(3, false)], None, trigger);
    assert_eq!(
        wanted.unwrap(),
        json!({
            "apiVersion": "v1",
            "kind": "Endpoints",
            "metadata": {
                "name": "web",
                "namespace": "n",
                "labels": {"team": "a", "endpoints.kubernetes.io/managed-by": "endpoint-controller"},
                "annotations": {"endpoints.kubernetes.io/last-change-trigger-time": "2026-01-01T00:00:00Z"},
            },
            "subsets": [{
                "addresses": [address(1), address(2)],
                "notReadyAddresses": [address(3)],
                "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
            }],
        })
    );
}

#[test]
fn unchanged_endpoints_are_not_written() {
    let service = service(&json!({}));
    let pods = [pod(1, true), pod(2, false)];
    let mut current = reconcile(&service, &pods, None, None).unwrap();
    assert_eq!(reconcile(&service, &pods, Some(&current), None), None);
    current["subsets"][0]["addresses"][0]["targetRef"]["resourceVersion"] = "7".into();
    assert_eq!(reconcile(&service, &pods, Some(&current), None), None, "the resource version is ignored");
    assert!(reconcile(&service, &[pod(1, true)], Some(&current), None).is_some());
    object::set_label(&mut current, "team", "b");
    assert!(reconcile(&service, &pods, Some(&current), None).is_some());
}

#[test]
fn service_options_apply() {
    let unready = [pod(1, false)];
    for (what, changes, expected) in [
        (
            "all",
            json!({"publishNotReadyAddresses": true}),
            json!([{"addresses": [address(1)],
            "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}]}]),
        ),
        ("no ports", json!({"ports": []}), json!([])),
        ("headless", json!({"ports": [], "clusterIP": "None"}), json!([{"notReadyAddresses": [address(1)]}])),
        (
            "a name that no port has",
            json!({"ports": [{"port": 80, "protocol": "TCP", "targetPort": "web"}]}),
            json!([]),
        ),
    ] {
        let wanted = reconcile(&service(&changes), &unready, None, None).unwrap();
        assert_eq!(wanted["subsets"], expected, "{what}");
        let is_headless = object::label(&wanted, HEADLESS) == Some("");
        assert_eq!(is_headless, changes["clusterIP"] == "None", "{what}");
    }
    let newer = service(&json!({"ipFamilies": ["IPv6", "IPv4"]}));
    let wanted = reconcile(&newer, &[pod(1, true)], None, None).unwrap();
    assert_eq!(wanted["subsets"][0]["addresses"][0]["ip"], "fd00::1");
}

#[test]
fn terminating_pods_are_left_out_unless_published() {
    let mut terminating = pod(1, true).as_ref().clone();
    object::set_deletion_timestamp(&mut terminating, "2026-01-01T00:00:00Z");
    let terminating = [Arc::new(terminating)];
    let left_out = reconcile(&service(&json!({})), &terminating, None, None).unwrap();
    assert_eq!(left_out["subsets"], json!([]));
    let published =
        reconcile(&service(&json!({"publishNotReadyAddresses": true})), &terminating, None, None).unwrap();
    assert_eq!(published["subsets"][0]["addresses"][0], address(1));
}

#[test]
fn addresses_are_truncated() {
    let service = service(&json!({}));
    let pods = |ready: usize, waiting: usize| -> Vec<_> {
        (0..ready + waiting).map(|number| pod(number, number < ready)).collect()
    };
    for (ready, waiting, kept_ready, kept_waiting, is_truncated) in [
        (1000, 0, 1000, 0, false),
        (1001, 5, 1000, 0, true),
        (900, 200, 900, 100, true),
        (0, 1001, 0, 1000, true),
    ] {
        let wanted = reconcile(&service, &pods(ready, waiting), None, None).unwrap();
        let subsets = wanted["subsets"].as_array().unwrap();
        let kept = (count(subsets, "addresses"), count(subsets, "notReadyAddresses"));
        assert_eq!(kept, (kept_ready, kept_waiting));
        assert_eq!(object::annotation(&wanted, OVER_CAPACITY).is_some(), is_truncated, "{ready} {waiting}");
    }
}

#[test]
fn addresses_with_the_same_ports_share_a_subset() {
    let port = |number: u16| json!({"port": number, "protocol": "TCP"});
    let single = |ip: &str, port: &Value| json!({"addresses": [{"ip": ip}], "ports": [port]});
    let packed = repack(&[
        single("10.0.0.1", &port(1)),
        single("10.0.0.1", &port(2)),
        single("10.0.0.2", &port(1)),
        single("10.0.0.2", &port(2)),
        single("10.0.0.3", &port(1)),
    ])
    .unwrap();
    let all = packed
        .iter()
        .map(|subset| (count(std::slice::from_ref(subset), "addresses"), subset["ports"].clone()));
    let mut all: Vec<_> = all.map(|(addresses, ports)| (addresses, ports.to_string())).collect();
    all.sort();
    let (one, two) = (port(1).to_string(), port(2).to_string());
    assert_eq!(all, [(2, format!("[{two}]")), (3, format!("[{one}]"))]);
}
