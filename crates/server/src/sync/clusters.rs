//! The clusters that serve a workspace, wherever they are registered: `/services/clusters`.
//!
//! Clusters of ancestors serve a workspace as well, and tenants without rights there need their names to
//! place objects. A user with the right to list clusters in a workspace sees the part of inherited ones that
//! [`public_fields`] returns.

use std::sync::Arc;

use atoll_fleet::marks::REGISTERED_IN;
use atoll_meta::{Status, json, object};
use atoll_registry::catalog::ATOLL;
use atoll_registry::{Listing, Stage};
use atoll_store::Key;
use atoll_watch::Object;
use bytes::Bytes;
use http::{Method, Response};
use serde_json::{Value, json};

use super::{heartbeat_times, parse};
use crate::Server;
use crate::body::Body;
use crate::chain::Call;
use crate::negotiate::Form;
use crate::respond;

/// The path of the list.
pub const PATH: &str = "/services/clusters";
/// Maximum number of bytes of the list, which is not divided into pages.
const MAX_BYTES: usize = 64 << 20;
/// The resource that is listed. The right to list it gives access to this path.
pub const RESOURCE: &str = "clusters";

pub async fn handle(server: &Arc<Server>, call: &Call) -> Result<Response<Body>, Status> {
    if call.method != Method::GET {
        return Err(Status::method_not_supported_generic());
    }
    let registry = &server.registry;
    let here = call.workspace.id()?;
    let row = registry.catalog.stored(ATOLL, RESOURCE).ok_or_else(Status::not_found_generic)?;
    let snapshot = registry.snapshot();
    let is_table = matches!(call.output.form, Form::Table(..));
    let served = registry.reachable_clusters(here, usize::MAX).into_iter();
    let served = served.filter(|found| registry.cluster_serves(here, found)).filter_map(|found| {
        let key = Key::object(ATOLL, RESOURCE, &found.workspace, "", object::name(&found.cluster));
        Some((found.workspace, snapshot.get(&key)?))
    });
    let served: Vec<(String, Arc<Object>)> = served.collect();
    let size = served.iter().map(|(_, cluster)| cluster.size()).sum();
    let shown = || {
        let mut total = 0;
        let mut objects: Vec<Arc<Object>> = Vec::new();
        for (workspace, stored) in &served {
            let Ok(whole) = parse(&stored.json()) else { continue };
            let is_own = workspace == here;
            let mut cluster = if is_own { whole } else { public_fields(&whole) };
            object::set_annotation(&mut cluster, REGISTERED_IN, &registry.workspace_path(workspace));
            let mut text = Bytes::from(json::to_vec(&cluster));
            if is_table && is_own {
                text = heartbeat_times::with_heartbeat_time(&text, here, stored.name(), &snapshot)
                    .unwrap_or(text);
            }
            total += text.len();
            if total > MAX_BYTES {
                return Err(Status::request_entity_too_large(format!(
                    "the clusters of this workspace have more than {} MiB; list those of the workspace itself in pages \
                     instead",
                    MAX_BYTES >> 20
                )));
            }
            objects.push(Arc::new(Object::complete(
                stored.key.clone(),
                snapshot.revision,
                text,
                Arc::default(),
            )));
        }
        Ok(objects)
    };
    let objects = registry.run_sized(here, size, Stage::New, shown).await??;
    let listing =
        Listing { objects: objects.into(), revision: snapshot.revision, next: None, remaining: None };
    respond::list::render(row, listing, None, call).await
}

/// Returns the part of an inherited Cluster that tenants may see. All other fields are omitted: credentials,
/// addresses, IDs, sizes, and messages, which may contain any of these.
fn public_fields(cluster: &Value) -> Value {
    const CONDITIONS: [&str; 2] = ["Ready", "Schedulable"];
    let conditions = cluster["status"]["conditions"].as_array().into_iter().flatten();
    let conditions: Vec<Value> = conditions
        .filter(|one| CONDITIONS.iter().any(|kind| one["type"] == *kind))
        .map(|one| pick(one, &["type", "status", "reason", "lastTransitionTime"]))
        .collect();
    let mut status = pick(&cluster["status"], &["kubernetesVersion", "region", "zones"]);
    if let Some(nodes) = cluster["status"].get("nodes") {
        status["nodes"] = pick(nodes, &["total", "ready"]);
    }
    if !conditions.is_empty() {
        status["conditions"] = conditions.into();
    }
    json!({
        "apiVersion": cluster["apiVersion"],
        "kind": cluster["kind"],
        "metadata": pick(&cluster["metadata"], &["name", "labels", "creationTimestamp"]),
        "spec": pick(&cluster["spec"], &["unschedulable", "taints", "access", "podSecurity"]),
        "status": status,
    })
}

/// Returns an object with only the named fields.
fn pick(from: &Value, names: &[&str]) -> Value {
    let fields = names.iter().filter_map(|name| Some((name.to_string(), from.get(name)?.clone())));
    Value::Object(fields.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inherited_clusters_are_reduced_to_public_fields() {
        let since = "2026-11-17T08:00:00Z";
        let condition = |kind: &str| json!({ "type": kind, "status": "False", "reason": "R", "lastTransitionTime": since });
        let with_message = |kind: &str| {
            let mut condition = condition(kind);
            condition["message"] = "https://secret:6443".into();
            condition
        };
        let metadata = json!({ "name": "east", "labels": { "tier": "gold" }, "creationTimestamp": since });
        let spec =
            json!({ "unschedulable": true, "taints": [], "access": "manage", "podSecurity": "baseline" });
        let mut whole = json!({
            "apiVersion": "atoll.dev/v1alpha1", "kind": "Cluster", "metadata": metadata, "spec": spec,
            "status": {
                "conditions": [with_message("Ready"), with_message("Reachable"), with_message("Schedulable")], "kubernetesVersion": "v1",
                "region": "lab", "zones": ["a"], "nodes": { "total": 3, "ready": 2, "names": ["secret"] },
                "id": "secret", "capacity": { "cpu": "secret" }, "problem": { "message": "secret" },
            },
        });
        for secret in ["uid", "annotations", "managedFields", "resourceVersion"] {
            whole["metadata"][secret] = "secret".into();
        }
        for secret in ["credentials", "workspaces", "overrides", "mode", "limits", "server"] {
            whole["spec"][secret] = "secret".into();
        }
        let expected = json!({
            "apiVersion": "atoll.dev/v1alpha1", "kind": "Cluster", "metadata": metadata, "spec": spec,
            "status": {
                "conditions": [condition("Ready"), condition("Schedulable")], "kubernetesVersion": "v1",
                "region": "lab", "zones": ["a"], "nodes": { "total": 3, "ready": 2 },
            },
        });
        assert_eq!(public_fields(&whole), expected);
        assert_eq!(public_fields(&json!({ "metadata": { "name": "new" } }))["status"], json!({}));
    }
}
