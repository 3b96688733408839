//! What a cluster has from the beginning because somebody has put it there: the class of storage that claims get by default, and
//! who may see what is used. It is put there when the cluster begins, and belongs to whoever looks after it from then on.

use atoll_client::Client;
use serde_json::{Value, json};

use crate::storage::PROVISIONER;

/// What of it a cluster has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Furniture {
    /// A class of storage, for claims that name none.
    pub storage: bool,
    /// What says that usage is measured, and lets people see it.
    pub metrics: bool,
}

impl Furniture {
    pub const ALL: Furniture = Furniture { storage: true, metrics: true };
}

/// Puts it there, unless something of the same name is.
pub async fn furnish(client: &Client, furniture: Furniture) {
    let wanted =
        [(furniture.storage, storage()), (furniture.metrics, role()), (furniture.metrics, service())];
    for (_, (collection, object)) in wanted.iter().filter(|(wanted, _)| *wanted) {
        match client.create(collection, object).await {
            Err(status) if status.reason() != "AlreadyExists" => {
                tracing::warn!(%status, collection, "the cluster is not furnished");
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

/// It is served by the cluster's own server.
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
