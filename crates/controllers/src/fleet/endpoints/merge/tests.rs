use atoll_fleet::view::EndpointPort;

use super::*;

fn service() -> Value {
    json!({
        "metadata": { "name": "web", "namespace": "shop", "uid": "u", "labels": { "app": "web" } },
        "spec": { "clusterIP": "10.0.0.9" },
    })
}

fn on(cluster: &str, is_reachable: bool, addresses: &[String]) -> ClusterEndpoints {
    let port =
        EndpointPort { name: "http".into(), port: 8080, protocol: "TCP".into(), ..EndpointPort::default() };
    let endpoint = |address: &String| Endpoint {
        address: address.clone(),
        ready: true,
        serving: true,
        zone: "a".into(),
        ..Endpoint::default()
    };
    let group = EndpointGroup {
        address_type: "IPv4".into(),
        ports: vec![port],
        endpoints: addresses.iter().map(endpoint).collect(),
    };
    let endpoints = ServiceEndpoints { slices: vec![group], ..ServiceEndpoints::default() }.bounded();
    ClusterEndpoints { cluster: cluster.into(), is_reachable, endpoints }
}

fn addresses(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("10.1.{}.{}", number / 200, number % 200 + 1)).collect()
}

/// Applies writes, as the server would.
fn applied(mut existing: Vec<Arc<Value>>, writes: Writes) -> Vec<Arc<Value>> {
    let changed = |slice: &Value| {
        let same = |other: &Value| object::name(slice) == object::name(other);
        writes.delete.iter().any(|deleted| same(deleted)) || writes.update.iter().any(same)
    };
    existing.retain(|slice| !changed(slice));
    existing.extend(writes.create.into_iter().chain(writes.update).map(Arc::new));
    existing
}

#[test]
fn every_cluster_has_slices_of_its_own() {
    let clusters = [on("east", true, &addresses(2)), on("west", false, &addresses(1))];
    let writes = merge(&service(), &clusters, &[]);
    assert_eq!((writes.create.len(), writes.update.len(), writes.delete.len()), (2, 0, 0));
    let east = &writes.create[0];
    let expected = json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": "web-east-a1d9a197",
            "namespace": "shop",
            "labels": {
                "app": "web", "kubernetes.io/service-name": "web", "atoll.dev/cluster": "east",
                "endpointslice.kubernetes.io/managed-by": "endpointslicemerging-controller.atoll.dev",
            },
            "ownerReferences": [{
                "apiVersion": "v1", "kind": "Service", "name": "web", "uid": "u", "controller": true,
                "blockOwnerDeletion": true,
            }],
        },
        "addressType": "IPv4",
        "endpoints": [
            { "addresses": ["10.1.0.1"], "conditions": { "ready": true, "serving": true, "terminating": false }, "zone": "a" },
            { "addresses": ["10.1.0.2"], "conditions": { "ready": true, "serving": true, "terminating": false }, "zone": "a" },
        ],
        "ports": [{ "name": "http", "port": 8080, "protocol": "TCP" }],
    });
    assert_eq!(*east, expected);
    // Clients must not be sent to a cluster that cannot be reached.
    let unknown = json!({ "ready": false, "serving": false, "terminating": false });
    assert_eq!(writes.create[1]["endpoints"][0]["conditions"], unknown);

    let existing = applied(Vec::new(), writes);
    let same = merge(&service(), &clusters, &existing);
    assert_eq!((same.create.len(), same.update.len(), same.delete.len()), (0, 0, 0));
    // West has left, and the Service has other labels.
    let mut service = service();
    service["metadata"]["labels"] = json!({ "app": "shop", "atoll.dev/cluster": "north" });
    service["spec"]["clusterIP"] = "None".into();
    let writes = merge(&service, &clusters[..1], &existing);
    assert_eq!((writes.create.len(), writes.update.len(), writes.delete.len()), (0, 1, 1));
    let labels = &writes.update[0]["metadata"]["labels"];
    assert_eq!((&labels["app"], &labels["atoll.dev/cluster"]), (&json!("shop"), &json!("east")));
    assert_eq!(labels["service.kubernetes.io/headless"], "");
    service["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    assert!(merge(&service, &clusters, &[]).create.is_empty());
}

#[test]
fn endpoints_stay_in_their_slice() {
    let all = addresses(250);
    let existing = applied(Vec::new(), merge(&service(), &[on("east", true, &all)], &[]));
    let sizes = |slices: &[Arc<Value>]| {
        let mut sizes: Vec<usize> =
            slices.iter().map(|one| one["endpoints"].as_array().unwrap().len()).collect();
        sizes.sort_unstable();
        sizes
    };
    assert_eq!(sizes(&existing), [50, 100, 100]);
    // One Pod is replaced: the slice with its address and the slice with room change.
    let mut changed = all.clone();
    changed[0] = "10.9.9.9".into();
    let writes = merge(&service(), &[on("east", true, &changed)], &existing);
    assert_eq!((writes.create.len(), writes.delete.len()), (0, 0));
    assert_eq!(writes.update.len(), 1);
    let existing = applied(existing, writes);
    let writes = merge(&service(), &[on("east", true, &changed[..210])], &existing);
    assert!(writes.update.len() + writes.delete.len() <= 2, "{writes:?}");
    let existing = applied(existing, writes);
    assert_eq!(sizes(&existing).iter().sum::<usize>(), 210);
    let writes = merge(&service(), &[on("east", true, &[])], &existing);
    assert_eq!((writes.update.len(), writes.delete.len()), (0, existing.len()));
}

#[test]
fn names_are_valid_and_differ() {
    let one = on("b-c", true, &addresses(1));
    let other = on("c", true, &addresses(1));
    let named = |name: &str| json!({ "metadata": { "name": name } });
    let of = |service: &str, on: &ClusterEndpoints| name(&named(service), on, &on.endpoints.slices[0], 0);
    assert_ne!(of("a", &one), of("a-b", &other));
    let long = on(&"x".repeat(253), true, &addresses(1));
    let name = of(&"s".repeat(63), &long);
    assert!(atoll_meta::names::name_is_dns_subdomain(&name, false).is_empty(), "{name}");
}
