//! The annotation `atoll.dev/clusters` of workloads that a command places or releases, so that the scheduler does
//! not place them elsewhere.

use atoll_client::path;
use atoll_fleet::marks::IMPORTED_FROM;
use atoll_fleet::placed_by;
use atoll_fleet::placed_condition::is_workload;
use atoll_fleet::placement::Share;
use atoll_fleet::scheduled::COMMAND_MANAGER;
use atoll_joining::client::Problem;
use atoll_meta::object;
use atoll_placement::intent::{ANNOTATION, Intent, NONE};
use serde_json::{Value, json};

use super::by_intent;
use super::resources::ApiResource;
use crate::cluster::Api;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Whether the scheduler places objects of a resource without any intent: workloads, and those in namespaces whose kind
/// comes from clusters.
pub async fn is_scheduled(api: &Api, resource: &ApiResource) -> Result<bool, Problem> {
    if is_workload((&resource.group, &resource.name)) {
        return Ok(true);
    }
    if !resource.namespaced || resource.group.is_empty() {
        return Ok(false);
    }
    let name = format!("{}.{}", resource.name, resource.group);
    match api.find(&path::object(DEFINITIONS, &name)).await {
        Ok(definition) => Ok(definition.is_some_and(|it| object::annotation(&it, IMPORTED_FROM).is_some())),
        // The user may not read definitions. Without an intent, the object is placed like any other.
        Err(problem) if problem.is("Forbidden") => Ok(false),
        Err(problem) => Err(problem),
    }
}

/// Adds the intent that an object is placed nowhere.
pub fn set_none(object: &mut Value) {
    object::set_annotation(object, ANNOTATION, NONE);
}

fn shares(placement: &Value) -> Vec<Share> {
    serde_json::from_value(placement["spec"]["clusters"].clone()).unwrap_or_default()
}

/// Takes a workload (of a group and resource) from the scheduler, which otherwise removes it from clusters as
/// soon as the intent says so, and writes the intent of what is left when it is released in some clusters.
/// Call [`give_back`] after the release.
pub async fn take_from_scheduler(
    api: &Api,
    resource: (&str, &str),
    path: &str,
    clusters: &[String],
) -> Result<(), Problem> {
    let placement = format!("{path}/placement");
    let current = api.get(&placement).await?;
    // Other objects have an intent only if their users have written one.
    if !is_workload(resource) && !by_intent::is_scheduled(&current) {
        return Ok(());
    }
    let all = shares(&current);
    let (leaving, rest): (Vec<Share>, Vec<Share>) =
        all.into_iter().partition(|share| clusters.contains(&share.name));
    let is_scheduled = by_intent::is_scheduled(&current);
    // Without a scheduler the others stay as they are.
    if !rest.is_empty() && (leaving.is_empty() || !is_scheduled) {
        return Ok(());
    }
    let object = api.get(path).await?;
    let own = Intent::on(&object).and_then(Result::ok);
    let intent = Intent::of_rest(own.as_ref(), &rest, object["spec"]["replicas"].as_i64());
    let by = current["spec"]["by"].as_str().unwrap_or_default();
    let is_taken = is_scheduled && !leaving.is_empty() && by != placed_by::RELEASE;
    if is_taken {
        api.merge(&placement, &json!({ "spec": { "by": placed_by::RELEASE } })).await?;
    }
    let written = annotate(api, path, Some(&intent.to_string()), false).await;
    if written.is_err() && is_taken {
        // Nothing has happened yet; the reason why the intent is refused is more important than this one.
        let _ = api.merge(&placement, &json!({ "spec": { "by": by } })).await;
    }
    written
}

/// Gives a workload back to the scheduler after it was released in some of its clusters.
pub async fn give_back(api: &Api, path: &str) -> Result<(), Problem> {
    let placement = format!("{path}/placement");
    let current = api.find(&placement).await?.unwrap_or_default();
    if current["spec"]["by"] == placed_by::RELEASE {
        api.merge(&placement, &json!({ "spec": { "by": placed_by::ANNOTATION } })).await?;
    }
    Ok(())
}

/// Records that a workload was released.
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

/// Adds a cluster that runs all of a workload to its intent. Returns whether a scheduler follows it.
pub async fn add_cluster(
    api: &Api,
    resource: &ApiResource,
    path: &str,
    cluster: &str,
) -> Result<bool, Problem> {
    if !is_scheduled(api, resource).await? {
        return Ok(false);
    }
    let current = api.get(&format!("{path}/placement")).await?;
    if !by_intent::is_scheduled(&current) {
        return Ok(false);
    }
    let present = shares(&current);
    if present.iter().any(|share| share.name == cluster) {
        return Ok(true);
    }
    let object = api.get(path).await?;
    let (own, replicas) = (Intent::on(&object).and_then(Result::ok), object["spec"]["replicas"].as_i64());
    let intent = Intent::of_rest(own.as_ref(), &present, replicas).with_copy(cluster, replicas);
    annotate(api, path, Some(&intent.to_string()), false).await?;
    Ok(true)
}

/// Removes the intent of a workload that is placed by hand. A user who may only place it cannot have one removed.
pub async fn remove(api: &Api, resource: &ApiResource, path: &str, dry_run: bool) -> Result<(), Problem> {
    if !is_scheduled(api, resource).await? {
        return Ok(());
    }
    match api.get(path).await {
        Ok(object) if object::annotation(&object, ANNOTATION).is_some() => {
            annotate(api, path, None, dry_run).await
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
    match is_scheduled(api, resource).await? {
        true => annotate(api, path, intent, dry_run).await,
        false => Ok(()),
    }
}

async fn annotate(api: &Api, path: &str, intent: Option<&str>, dry_run: bool) -> Result<(), Problem> {
    let patch = json!({ "metadata": { "annotations": { ANNOTATION: intent } } });
    let dry_run = if dry_run { "&dryRun=All" } else { "" };
    api.merge(&format!("{path}?fieldManager={COMMAND_MANAGER}{dry_run}"), &patch).await.map(drop)
}
