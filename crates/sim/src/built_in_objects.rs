//! Built-in objects of a simulated cluster: the default StorageClass, and the objects of the metrics API.
//! They are created when the cluster starts, and not changed afterwards.

use atoll_client::Client;
use serde_json::{Value, json};

use crate::storage::PROVISIONER;

/// Selection of built-in objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BuiltInObjects {
    /// The default StorageClass.
    pub storage: bool,
    /// The APIService and the ClusterRole of the metrics API.
    pub metrics: bool,
}

impl BuiltInObjects {
    pub const ALL: BuiltInObjects = BuiltInObjects { storage: true, metrics: true };
}

/// Creates the objects, unless objects with their names exist.
pub async fn create_built_in_objects(client: &Client, objects: BuiltInObjects) {
    let wanted = [(objects.storage, storage()), (objects.metrics, role()), (objects.metrics, service())];
    for (_, (collection, object)) in wanted.iter().filter(|(wanted, _)| *wanted) {
        match client.create(collection, object).await {
            Err(status) if status.reason() != "AlreadyExists" => {
                tracing::warn!(%status, collection, "creating a built-in object of the simulated cluster failed");
            }
            _ => {}
        }
    }
}

fn storage() -> (&'static str, Value) {
    let class = json!({
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {
            "name": "standard",
            "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
        },
        "provisioner": PROVISIONER,
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "WaitForFirstConsumer",
    });
    ("/apis/storage.k8s.io/v1/storageclasses", class)
}

fn role() -> (&'static str, Value) {
    let aggregated = |to: &str| format!("rbac.authorization.k8s.io/aggregate-to-{to}");
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {
            "name": "system:aggregated-metrics-reader",
            "labels": {aggregated("view"): "true", aggregated("edit"): "true", aggregated("admin"): "true"},
        },
        "rules": [{
            "apiGroups": ["metrics.k8s.io"], "resources": ["pods", "nodes"], "verbs": ["get", "list", "watch"],
        }],
    });
    ("/apis/rbac.authorization.k8s.io/v1/clusterroles", role)
}

/// The APIService is served by the cluster's own API server.
fn service() -> (&'static str, Value) {
    let service = json!({
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": "v1beta1.metrics.k8s.io"},
        "spec": {
            "group": "metrics.k8s.io",
            "version": "v1beta1",
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
        },
    });
    ("/apis/apiregistration.k8s.io/v1/apiservices", service)
}
