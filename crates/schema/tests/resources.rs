//! Compares the resource rows with the discovery of an API server.

use atoll_schema::{Types, kubernetes_version, resources};

#[test]
fn rows_come_in_the_order_of_discovery() {
    let mut versions: Vec<(&str, &str)> = resources().iter().map(|row| (row.group, row.version)).collect();
    versions.dedup();
    let expected = [
        ("", "v1"),
        ("apiregistration.k8s.io", "v1"),
        ("apps", "v1"),
        ("events.k8s.io", "v1"),
        ("authentication.k8s.io", "v1"),
        ("authorization.k8s.io", "v1"),
        ("autoscaling", "v2"),
        ("autoscaling", "v1"),
        ("batch", "v1"),
        ("certificates.k8s.io", "v1"),
        ("networking.k8s.io", "v1"),
        ("policy", "v1"),
        ("rbac.authorization.k8s.io", "v1"),
        ("storage.k8s.io", "v1"),
        ("admissionregistration.k8s.io", "v1"),
        ("apiextensions.k8s.io", "v1"),
        ("scheduling.k8s.io", "v1"),
        ("coordination.k8s.io", "v1"),
        ("node.k8s.io", "v1"),
        ("discovery.k8s.io", "v1"),
        ("resource.k8s.io", "v1"),
        ("flowcontrol.apiserver.k8s.io", "v1"),
    ];
    assert_eq!(versions, expected);
    assert_eq!(kubernetes_version(), "v1.36.4");
}

#[test]
fn pods_have_their_names_verbs_and_subresources() {
    let pods = resources().iter().find(|row| row.group.is_empty() && row.resource == "pods").unwrap();
    assert_eq!((pods.singular, pods.kind, pods.namespaced), ("pod", "Pod", true));
    assert_eq!(
        pods.verbs,
        ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
    );
    assert_eq!((&pods.short_names[..], &pods.categories[..]), (&["po"][..], &["all"][..]));
    assert_eq!(pods.storage_version_hash, Some("xPOwRZ+Yhw8="));
    let names: Vec<&str> = pods.subresources.iter().map(|subresource| subresource.name).collect();
    let expected = [
        "attach",
        "binding",
        "ephemeralcontainers",
        "eviction",
        "exec",
        "log",
        "portforward",
        "proxy",
        "resize",
        "status",
    ];
    assert_eq!(names, expected);
    let eviction = pods.subresource("eviction").unwrap();
    assert_eq!((eviction.group, eviction.version, eviction.kind), (Some("policy"), Some("v1"), "Eviction"));
    assert_eq!(eviction.verbs, ["create"]);
}

#[test]
fn every_row_and_subresource_has_a_type() {
    let types = Types::get();
    for row in resources() {
        let id = row.type_id.unwrap_or_else(|| panic!("{} {} has no type", row.group, row.resource));
        assert_eq!(types[id].name, row.kind);
        for subresource in &row.subresources {
            assert!(subresource.type_id.is_some(), "{}/{} has no type", row.resource, subresource.name);
        }
        if row.verbs.contains(&"list") {
            let list = format!("{}List", row.kind);
            assert!(types.by_kind(row.group, row.version, &list).is_some(), "{list} has no type");
        }
    }
}
