//! All objects of a scenario at the end.

use std::collections::BTreeMap;

use atoll_meta::object;
use serde_json::Value;

use crate::cluster::Cluster;
use crate::masks;
use crate::player::items;

/// Namespaced resources.
const LISTED: &[&str] = &[
    "/api/v1 configmaps",
    "/api/v1 endpoints",
    "/api/v1 persistentvolumeclaims",
    "/api/v1 pods",
    "/api/v1 serviceaccounts",
    "/api/v1 services",
    "/apis/apps/v1 controllerrevisions",
    "/apis/apps/v1 daemonsets",
    "/apis/apps/v1 deployments",
    "/apis/apps/v1 replicasets",
    "/apis/apps/v1 statefulsets",
    "/apis/autoscaling/v2 horizontalpodautoscalers",
    "/apis/batch/v1 cronjobs",
    "/apis/batch/v1 jobs",
    "/apis/discovery.k8s.io/v1 endpointslices",
    "/apis/policy/v1 poddisruptionbudgets",
];

/// Cluster-scoped resources, whose objects belong to a scenario by a label.
const LABELLED: &[&str] = &["/api/v1 nodes", "/api/v1 persistentvolumes"];

/// Masked objects by resource and name. Names may occur several times after masking.
pub type Objects = BTreeMap<String, Vec<Value>>;

pub async fn list_objects(cluster: &Cluster, namespace: &str) -> Objects {
    let client = cluster.admin.keep_alive();
    let mut found = Vec::new();
    let within = LISTED.iter().map(|entry| (entry, format!("/namespaces/{namespace}"), ""));
    let labelled = LABELLED.iter().map(|entry| (entry, String::new(), "?labelSelector=scenario%3D"));
    for (entry, place, query) in within.chain(labelled) {
        let (prefix, resource) = entry.split_once(' ').unwrap();
        let namespace = if query.is_empty() { "" } else { namespace };
        let path = format!("{prefix}{place}/{resource}{query}{namespace}");
        let listed = client.get(&path).await.expect(200);
        // Exists in every namespace, with the cluster's own certificate.
        let of_manifests = items(&listed).filter(|item| object::name(item) != "kube-root-ca.crt");
        found.extend(of_manifests.map(|item| (resource, item.clone())));
    }
    let mut objects = Objects::new();
    for (resource, object) in masks::masked(found) {
        objects.entry(format!("{resource}/{}", object::name(&object))).or_default().push(object);
    }
    for same_name in objects.values_mut() {
        same_name.sort_by_cached_key(Value::to_string);
    }
    objects
}
