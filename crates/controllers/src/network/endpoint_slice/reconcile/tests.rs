mod reference;

use super::*;

fn service(changes: &Value) -> Value {
    let mut service = json!({
        "metadata": {"name": "web", "namespace": "n", "uid": "s", "labels": {"team": "a"}},
        "spec": {
            "selector": {"app": "web"},
            "clusterIP": "10.0.0.10",
            "ipFamilies": ["IPv4"],
            "ports": [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": "web"}],
        },
    });
    for (field, value) in changes.as_object().into_iter().flatten() {
        service["spec"][field] = value.clone();
    }
    service
}

fn pod(number: usize) -> Arc<Value> {
    pod_with(number, &json!({}))
}

/// Changes are by JSON pointer.
fn pod_with(number: usize, changes: &Value) -> Arc<Value> {
    let mut pod = json!({
        "metadata": {"name": format!("p{number}"), "namespace": "n", "uid": format!("u{number}")},
        "spec": {
            "nodeName": "node",
            "containers": [{"ports": [{"name": "web", "containerPort": 8080, "protocol": "TCP"}]}],
        },
        "status": {
            "podIP": "set",
            "podIPs": [{"ip": format!("10.1.{}.{}", number / 250, number % 250)}, {"ip": format!("fd00::{number:x}")}],
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    });
    for (path, value) in changes.as_object().into_iter().flatten() {
        match pod.pointer_mut(path) {
            Some(place) => *place = value.clone(),
            None => pod["metadata"]["deletionTimestamp"] = value.clone(),
        }
    }
    Arc::new(pod)
}

fn plan(service: &Value, pods: &[Arc<Value>], slices: &[Arc<Value>]) -> Writes {
    whole_plan(service, pods, slices).writes
}

fn whole_plan(service: &Value, pods: &[Arc<Value>], slices: &[Arc<Value>]) -> Plan {
    let node =
        Arc::new(json!({"metadata": {"name": "node", "labels": {"topology.kubernetes.io/zone": "z"}}}));
    let trigger = Some("2026-01-01T00:00:00Z");
    let find = |name: &str| (name == "node").then(|| node.clone());
    reconcile(&Observed { service, pods, slices, node: &find, knows_nodes: true, shares: &|| None, trigger })
}

/// Returns the slices after the plan was executed.
fn carried_out(plan: Writes, slices: &[Arc<Value>]) -> Vec<Arc<Value>> {
    let gone = |slice: &&Arc<Value>| {
        plan.delete.iter().chain(&[]).any(|other| object::name(other) == object::name(slice))
            || plan.update.iter().any(|other| object::name(other) == object::name(slice))
    };
    let mut after: Vec<Arc<Value>> = slices.iter().filter(|slice| !gone(slice)).cloned().collect();
    after.extend(plan.update.into_iter().map(Arc::new));
    for (number, mut slice) in plan.create.into_iter().enumerate() {
        let name = format!("web-{}-{number}", slices.len());
        object::set_name(&mut slice, &name);
        after.push(Arc::new(slice));
    }
    after
}

fn sizes(slices: &[Arc<Value>]) -> Vec<usize> {
    let mut sizes: Vec<usize> =
        slices.iter().map(|slice| slice["endpoints"].as_array().map_or(0, Vec::len)).collect();
    sizes.sort_unstable();
    sizes
}

#[test]
fn a_slice_contains_all_properties_of_a_pod() {
    let plan = plan(&service(&json!({})), &[pod(1)], &[]);
    assert!(plan.update.is_empty() && plan.delete.is_empty());
    assert_eq!(
        plan.create,
        [json!({
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                "generateName": "web-",
                "namespace": "n",
                "labels": {
                    "team": "a",
                    "kubernetes.io/service-name": "web",
                    "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
                },
                "annotations": {"endpoints.kubernetes.io/last-change-trigger-time": "2026-01-01T00:00:00Z"},
                "ownerReferences": [{
                    "apiVersion": "v1", "kind": "Service", "name": "web", "uid": "s",
                    "controller": true, "blockOwnerDeletion": true,
                }],
            },
            "addressType": "IPv4",
            "endpoints": [{
                "addresses": ["10.1.0.1"],
                "conditions": {"ready": true, "serving": true, "terminating": false},
                "nodeName": "node",
                "zone": "z",
                "targetRef": {"kind": "Pod", "namespace": "n", "name": "p1", "uid": "u1"},
            }],
            "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
        })]
    );
}

#[test]
fn conditions_follow_the_pod_and_what_the_service_publishes() {
    let unready = json!({"/status/conditions/0/status": "False"});
    let going = json!({"/metadata/deletionTimestamp": "2026-01-01T00:00:00Z"});
    for (what, all, changes, expected) in [
        ("ready", false, json!({}), (true, true, false)),
        ("not ready", false, unready.clone(), (false, false, false)),
        ("going", false, going.clone(), (false, true, true)),
        ("not ready, published", true, unready, (true, false, false)),
        ("going, published", true, going, (true, true, true)),
    ] {
        let service = service(&json!({"publishNotReadyAddresses": all}));
        let plan = plan(&service, &[pod_with(1, &changes)], &[]);
        let conditions = &plan.create[0]["endpoints"][0]["conditions"];
        let is = |name: &str| conditions[name] == true;
        assert_eq!((is("ready"), is("serving"), is("terminating")), expected, "{what}");
    }
}

#[test]
fn a_service_without_endpoints_has_one_empty_slice() {
    let service = service(&json!({}));
    let over = pod_with(1, &json!({"/status": {"phase": "Succeeded", "podIP": "10.1.0.1"}}));
    let slices = carried_out(plan(&service, &[over], &[]), &[]);
    assert_eq!(sizes(&slices), [0]);
    let again = plan(&service, &[], &slices);
    assert!(again.create.is_empty() && again.update.is_empty() && again.delete.is_empty(), "{again:?}");
    let filled = plan(&service, &[pod(1)], &slices);
    assert!(filled.create.is_empty() && filled.delete.is_empty());
    assert_eq!(object::name(&filled.update[0]), object::name(&slices[0]), "the empty slice is reused");
    let emptied = plan(&service, &[], &carried_out(filled, &slices));
    assert!(emptied.create.is_empty() && emptied.delete.is_empty(), "{emptied:?}");
    assert_eq!(emptied.update[0]["endpoints"], json!([]));
}

#[test]
fn slices_are_filled_before_new_ones_are_created() {
    let service = service(&json!({}));
    let pods: Vec<_> = (0..250).map(pod).collect();
    let slices = carried_out(plan(&service, &pods, &[]), &[]);
    assert_eq!(sizes(&slices), [50, 100, 100]);
    let again = plan(&service, &pods, &slices);
    assert!(again.create.is_empty() && again.update.is_empty(), "no change");
    let more: Vec<_> = (0..260).map(pod).collect();
    let grown = plan(&service, &more, &slices);
    assert_eq!((grown.create.len(), grown.update.len()), (0, 1), "the rest fits into one slice");
    assert_eq!(sizes(&carried_out(grown, &slices)), [60, 100, 100]);
    let many: Vec<_> = (0..320).map(pod).collect();
    let grown = plan(&service, &many, &slices);
    assert_eq!((grown.create.len(), grown.update.len()), (1, 0), "otherwise a new slice is created");
    let other: Vec<_> = (5..255).map(pod).collect();
    let moved = plan(&service, &other, &slices);
    assert_eq!(
        (moved.create.len(), moved.update.len(), moved.delete.len()),
        (0, 1, 0),
        "places that are free"
    );
    let fewer: Vec<_> = (0..100).map(pod).collect();
    let shrunk = plan(&service, &fewer, &slices);
    assert_eq!((shrunk.create.len(), shrunk.update.len(), shrunk.delete.len()), (0, 0, 2));
}

#[test]
fn pods_with_other_ports_are_in_other_slices() {
    let service = service(&json!({}));
    let other = pod_with(2, &json!({"/spec/containers/0/ports/0/containerPort": 9090}));
    let slices = carried_out(plan(&service, &[pod(1), other], &[]), &[]);
    let ports: Vec<_> = slices.iter().map(|slice| slice["ports"][0]["port"].as_i64()).collect();
    assert_eq!((ports.len(), ports.contains(&Some(8080)), ports.contains(&Some(9090))), (2, true, true));
}

#[test]
fn each_family_has_its_own_slices() {
    let both = service(&json!({"ipFamilies": ["IPv6", "IPv4"]}));
    let slices = carried_out(plan(&both, &[pod(1)], &[]), &[]);
    let addresses: Vec<_> =
        slices.iter().map(|slice| slice["endpoints"][0]["addresses"][0].clone()).collect();
    assert_eq!(addresses, ["fd00::1", "10.1.0.1"]);
    let single = plan(&service(&json!({})), &[pod(1)], &slices);
    assert_eq!(single.delete.len(), 1);
    assert_eq!(single.delete[0]["addressType"], "IPv6");
}

#[test]
fn headless_services_are_labelled_and_need_no_ports() {
    let headless = service(&json!({"clusterIP": "None", "ports": []}));
    let named = pod_with(1, &json!({"/spec": {"nodeName": "node", "hostname": "first", "subdomain": "web"}}));
    let plan = plan(&headless, &[named], &[]);
    assert_eq!(plan.create[0]["ports"], json!([]));
    assert_eq!(plan.create[0]["endpoints"][0]["hostname"], "first");
    assert_eq!(object::label(&plan.create[0], HEADLESS), Some(""));
}

#[test]
fn labels_of_the_service_are_copied() {
    let mut service = service(&json!({}));
    let slices = carried_out(plan(&service, &[pod(1)], &[]), &[]);
    object::set_label(&mut service, "team", "b");
    object::set_label(&mut service, MANAGED_BY, "somebody");
    let plan = plan(&service, &[pod(1)], &slices);
    assert_eq!(object::label(&plan.update[0], "team"), Some("b"));
    assert_eq!(object::label(&plan.update[0], MANAGED_BY), Some(MANAGER));
}

#[test]
fn slices_of_a_deleted_service_are_deleted() {
    let slices = carried_out(plan(&service(&json!({})), &[pod(1)], &[]), &[]);
    let mut newer = service(&json!({}));
    object::set_uid(&mut newer, "t");
    let plan = plan(&newer, &[pod(1)], &slices);
    assert_eq!((plan.create.len(), plan.update.len(), plan.delete.len()), (1, 0, 1));
}

#[test]
fn pods_on_missing_nodes_are_left_out() {
    let lost = pod_with(1, &json!({"/spec/nodeName": "gone"}));
    let own = service(&json!({}));
    let left_out = whole_plan(&own, std::slice::from_ref(&lost), &[]);
    assert_eq!(left_out.writes.create[0]["endpoints"], json!([]));
    assert_eq!(
        missing_nodes_error(&left_out.pods_without_node, &own).as_deref(),
        Some("skipping Pod p1 for Service n/web: Node gone Not Found")
    );
    let published = whole_plan(&service(&json!({"publishNotReadyAddresses": true})), &[lost], &[]);
    assert_eq!(published.writes.create[0]["endpoints"][0]["nodeName"], "gone");
    assert!(published.pods_without_node.is_empty());
}
