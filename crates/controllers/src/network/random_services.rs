//! Random Services and pods for property tests.

use std::sync::Arc;

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

/// Returns the number of the pod's port that a Service port refers to, as upstream finds it: one port in one
/// pod.
pub fn find_port(pod: &Value, port: &Value) -> Option<i64> {
    let Some(name) = port["targetPort"].as_str() else { return port["targetPort"].as_i64() };
    let list = |field: &str| pod["spec"][field].as_array().into_iter().flatten();
    let sidecars = list("initContainers").filter(|container| container["restartPolicy"] == "Always");
    let mut ports =
        list("containers").chain(sidecars).flat_map(|it| it["ports"].as_array().into_iter().flatten());
    let found = ports.find(|found| found["name"] == name && found["protocol"] == port["protocol"]);
    found.and_then(|found| found["containerPort"].as_i64())
}

pub fn services() -> impl Strategy<Value = Value> {
    let target = prop_oneof![
        (1u16..5).prop_map(|number| json!(number)),
        select(&["a", "b", "c"][..]).prop_map(|name| json!(name)),
    ];
    let port = (target, select(&["TCP", "UDP"][..]), proptest::option::of(select(&["", "h2"][..])));
    let families = select(vec![json!(["IPv4"]), json!(["IPv6"]), json!(["IPv6", "IPv4"]), Value::Null]);
    let address = select(&["10.0.0.1", "fd00::1", "None"][..]);
    (proptest::collection::vec(port, 0..7), families, address, any::<bool>()).prop_map(
        |(ports, families, address, publishes_all)| {
            let ports = ports.into_iter().enumerate().map(|(place, (target, protocol, application))| {
                let mut port = json!({"name": format!("p{place}"), "port": place + 1, "protocol": protocol,
                    "targetPort": target});
                if let Some(application) = application {
                    port["appProtocol"] = application.into();
                }
                port
            });
            json!({
                "metadata": {"name": "web", "namespace": "n", "uid": "s", "labels": {"team": "a"}},
                "spec": {
                    "selector": {"app": "web"},
                    "clusterIP": address,
                    "ipFamilies": families,
                    "publishNotReadyAddresses": publishes_all,
                    "ports": ports.collect::<Vec<Value>>(),
                },
            })
        },
    )
}

/// Returns pods with different names and uids.
pub fn pods(most: usize) -> impl Strategy<Value = Vec<Arc<Value>>> {
    let port = (select(&["a", "b", "c"][..]), select(&["TCP", "UDP"][..]), 1u16..4);
    let ports = proptest::collection::vec(port, 0..5);
    // Pods on a node's network share its address.
    let ip = (0u8..6, 0u8..3);
    let state = (any::<bool>(), any::<bool>(), any::<bool>(), select(&["Running", "Running", "Failed"][..]));
    let pod = (ports.clone(), ports, ip, state, proptest::option::of(select(&["web", "other"][..])));
    let pods = proptest::collection::vec(pod, 0..=most);
    pods.prop_map(|pods| {
        let pods = pods.into_iter().enumerate();
        pods.map(|(number, (ports, sidecar, ip, (ready, terminating, restarts, phase), subdomain))| {
            let (v4, v6) = (format!("10.1.0.{}", ip.0), format!("fd00::{}", ip.0));
            let ips: Vec<&str> = match ip.1 {
                0 => vec![&v4],
                1 => vec![&v6],
                _ => vec![&v4, &v6],
            };
            let mut pod = json!({
                // The order of names, uids and addresses differs.
                "metadata": {"name": format!("p{number}"), "namespace": "n", "uid": format!("u{}", 99 - number)},
                "spec": {
                    "nodeName": "node",
                    "hostname": format!("h{number}"),
                    "containers": [{"ports": container_ports(ports)}],
                    "initContainers": [{
                        "restartPolicy": if restarts { json!("Always") } else { Value::Null },
                        "ports": container_ports(sidecar),
                    }],
                },
                "status": {
                    "phase": phase,
                    "podIP": ips[0],
                    "podIPs": ips.iter().map(|ip| json!({"ip": ip})).collect::<Vec<Value>>(),
                    "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}],
                },
            });
            if let Some(subdomain) = subdomain {
                pod["spec"]["subdomain"] = subdomain.into();
            }
            if terminating {
                pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
            }
            Arc::new(pod)
        })
        .collect()
    })
}

fn container_ports(ports: Vec<(&str, &str, u16)>) -> Vec<Value> {
    let port =
        |(name, protocol, number)| json!({"name": name, "protocol": protocol, "containerPort": number});
    ports.into_iter().map(port).collect()
}
