//! Compares with endpoints that are computed for each pod separately.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::super::*;
use super::{carried_out, plan};
use crate::network::random_services::{self, find_port};

/// Returns the endpoints with their families and ports.
fn wanted(service: &Value, pods: &[Arc<Value>]) -> BTreeSet<String> {
    let mut wanted = BTreeSet::new();
    for family in families(service) {
        for pod in pods.iter().filter(|pod| service_pods::should_be_in_endpoints(pod, true)) {
            let found = service_pods::ports(service).iter().filter_map(|port| {
                let mut found = json!({
                    "name": port["name"], "port": find_port(pod, port)?, "protocol": port["protocol"],
                });
                if let Some(protocol) = port.get("appProtocol") {
                    found["appProtocol"] = protocol.clone();
                }
                Some(found)
            });
            let mut ports: Vec<Value> = found.collect();
            slice_writes::sort_ports(&mut ports);
            let node = json!({"metadata": {"name": "node", "labels": {"topology.kubernetes.io/zone": "z"}}});
            let endpoint = endpoint(pod, Some(&node), service, family);
            if endpoint["addresses"] != json!([]) {
                wanted.insert(format!("{family} {endpoint} {}", Value::from(ports)));
            }
        }
    }
    wanted
}

fn present(slices: &[Arc<Value>]) -> Vec<String> {
    let of = |slice: &Arc<Value>| -> Vec<String> {
        let family = slice["addressType"].as_str().unwrap();
        let endpoints = slice["endpoints"].as_array().unwrap().iter();
        endpoints.map(|endpoint| format!("{family} {endpoint} {}", slice["ports"])).collect()
    };
    let mut present: Vec<String> = slices.iter().flat_map(of).collect();
    present.sort();
    present
}

proptest! {
    /// Property: whatever the slices contained before, they contain each endpoint once afterwards, and a
    /// second look changes nothing.
    #[test]
    fn slices_contain_each_pod_with_its_ports(
        before in (random_services::services(), random_services::pods(12)),
        after in (random_services::services(), random_services::pods(12)),
    ) {
        let slices = carried_out(plan(&before.0, &before.1, &[]), &[]);
        prop_assert_eq!(present(&slices), wanted(&before.0, &before.1).into_iter().collect::<Vec<String>>());
        let slices = carried_out(plan(&after.0, &after.1, &slices), &slices);
        prop_assert_eq!(present(&slices), wanted(&after.0, &after.1).into_iter().collect::<Vec<String>>());
        let again = plan(&after.0, &after.1, &slices);
        prop_assert!(again.create.is_empty() && again.update.is_empty() && again.delete.is_empty());
    }
}
