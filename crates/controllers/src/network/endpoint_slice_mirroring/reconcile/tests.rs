use super::*;

fn planned(endpoints: &Value, existing: &[Arc<Value>]) -> Plan {
    reconcile(endpoints, existing).unwrap()
}

fn endpoints(subsets: &Value) -> Value {
    json!({
        "metadata": {
            "name": "db", "namespace": "n", "uid": "e", "labels": {"a": "b"},
            "annotations": {"mine": "x", LAST_APPLIED: "{}", LAST_CHANGE: "t"},
        },
        "subsets": subsets,
    })
}

fn carried_out(writes: Writes) -> Vec<Arc<Value>> {
    let named = |(number, mut slice): (usize, Value)| {
        if object::name(&slice).is_empty() {
            object::set_name(&mut slice, &format!("db-{number}"));
        }
        Arc::new(slice)
    };
    writes.create.into_iter().chain(writes.update).enumerate().map(named).collect()
}

#[test]
fn slices_mirror_endpoints() {
    let both = endpoints(&json!([{
        "addresses": [{"ip": "10.0.0.1", "hostname": "h", "nodeName": "n1"}, {"ip": "fd00::1"}],
        "notReadyAddresses": [{"ip": "10.0.0.2"}],
        "ports": [{"name": "p", "port": 80, "protocol": "TCP"}],
    }]));
    let plan = planned(&both, &[]);
    assert_eq!((plan.invalid, plan.too_many, plan.writes.create.len()), (0, 0, 2));
    let first = &plan.writes.create[0];
    assert_eq!(
        *first,
        json!({
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                "generateName": "db-",
                "namespace": "n",
                "labels": {"a": "b", SERVICE_NAME: "db", MANAGED_BY: MANAGER},
                "annotations": {"mine": "x"},
                "ownerReferences": [{"apiVersion": "v1", "kind": "Endpoints", "name": "db", "uid": "e",
                    "controller": true, "blockOwnerDeletion": true}],
            },
            "addressType": "IPv4",
            "endpoints": [
                {"addresses": ["10.0.0.1"], "conditions": {"ready": true}, "hostname": "h", "nodeName": "n1"},
                {"addresses": ["10.0.0.2"], "conditions": {"ready": false}},
            ],
            "ports": [{"name": "p", "port": 80, "protocol": "TCP"}],
        })
    );
    let slices = carried_out(plan.writes);
    let again = planned(&both, &slices).writes;
    assert!(again.create.is_empty() && again.update.is_empty() && again.delete.is_empty(), "{again:?}");
}

#[test]
fn changes_are_mirrored() {
    let one = |ip: &str, port: u16| {
        endpoints(&json!([{"addresses": [{"ip": ip}], "ports": [{"port": port, "protocol": "TCP"}]}]))
    };
    let slices = carried_out(planned(&one("10.0.0.1", 80), &[]).writes);
    for (what, changed, counts) in [
        ("another address", one("10.0.0.2", 80), (0, 1, 0)),
        ("another port", one("10.0.0.1", 81), (0, 1, 0)),
        ("another family", one("fd00::1", 80), (1, 0, 1)),
        ("nothing left", endpoints(&json!([])), (0, 0, 1)),
    ] {
        let writes = planned(&changed, &slices).writes;
        assert_eq!((writes.create.len(), writes.update.len(), writes.delete.len()), counts, "{what}");
    }
    let mut relabelled = one("10.0.0.1", 80);
    object::set_label(&mut relabelled, "a", "c");
    assert_eq!(object::label(&planned(&relabelled, &slices).writes.update[0], "a"), Some("c"));
    let mut newer = one("10.0.0.1", 80);
    object::set_uid(&mut newer, "f");
    assert_eq!(planned(&newer, &slices).writes.update.len(), 1, "Endpoints of the same name came again");
}

#[test]
fn too_many_addresses_are_left_out() {
    let addresses: Vec<Value> =
        (0..1005).map(|number| json!({"ip": format!("10.0.{}.{}", number / 250, number % 250)})).collect();
    let plan = planned(
        &endpoints(&json!([{"addresses": addresses, "ports": [{"port": 1, "protocol": "TCP"}]}])),
        &[],
    );
    assert_eq!((plan.too_many, list(&plan.writes.create[0], "endpoints").len()), (5, 1000));
}
