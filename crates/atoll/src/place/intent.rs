//! The annotation `atoll.dev/clusters` of workloads that a command places or lets go, so that the scheduler does
//! not place them elsewhere.

use atoll_fleet::placed_by;
use atoll_fleet::placed_condition::is_workload;
use atoll_joining::client::Problem;
use atoll_meta::object;
use atoll_placement::intent::{ANNOTATION, NONE};
use serde_json::{Value, json};

use super::resources::ApiResource;
use crate::cluster::Api;

/// Whether the scheduler places objects of a resource.
pub fn is_scheduled(resource: &ApiResource) -> bool {
    is_workload((&resource.group, &resource.name))
}

/// Adds the intent that an object is placed nowhere.
pub fn set_none(object: &mut Value) {
    object::set_annotation(object, ANNOTATION, NONE);
}

/// Takes a workload from the scheduler, which otherwise removes it from its clusters as soon as the intent says
/// so, and records that it was let go.
pub async fn let_go(api: &Api, resource: &ApiResource, path: &str) -> Result<(), Problem> {
    if !is_scheduled(resource) {
        return Ok(());
    }
    let placement = format!("{path}/placement");
    let current = api.get(&placement).await?;
    if current["spec"]["by"].as_str().is_some_and(placed_by::is_scheduled) {
        api.merge(&placement, &json!({ "spec": { "by": "hand" } })).await?;
    }
    write_none(api, resource, path, false).await
}

/// Records that a workload was let go.
pub async fn write_none(api: &Api, resource: &ApiResource, path: &str, dry_run: bool) -> Result<(), Problem> {
    write(api, resource, path, Some(NONE), dry_run).await
}

/// Records that a workload is on a cluster.
pub async fn write_cluster(
    api: &Api,
    resource: &ApiResource,
    path: &str,
    cluster: &str,
) -> Result<(), Problem> {
    write(api, resource, path, Some(cluster), false).await
}

/// Removes the intent of a workload that is placed by hand. A user who may only place it cannot have one removed.
pub async fn remove(api: &Api, resource: &ApiResource, path: &str, dry_run: bool) -> Result<(), Problem> {
    if !is_scheduled(resource) {
        return Ok(());
    }
    match api.get(path).await {
        Ok(object) if object::annotation(&object, ANNOTATION).is_some() => {
            write(api, resource, path, None, dry_run).await
        }
        _ => Ok(()),
    }
}

async fn write(
    api: &Api,
    resource: &ApiResource,
    path: &str,
    intent: Option<&str>,
    dry_run: bool,
) -> Result<(), Problem> {
    if !is_scheduled(resource) {
        return Ok(());
    }
    let patch = json!({ "metadata": { "annotations": { ANNOTATION: intent } } });
    let query = if dry_run { "?dryRun=All" } else { "" };
    api.merge(&format!("{path}{query}"), &patch).await.map(drop)
}
