//! The objects on a cluster, and their removal from it.

use atoll_fleet::pause::CAUSE;
use atoll_fleet::placed_by;
use atoll_fleet::placement::Share;
use atoll_fleet::view::ObjectTarget;
use atoll_informer::{ApiScope, Key, Resource, encoded};
use atoll_meta::{Status, object};
use serde_json::{Value, json};

/// Dependents are removed by the controller that placed them, and the scheduler moves its workloads.
const DEPENDENT: &str = placed_by::REFERENCE;
const PLACEMENT: &str = "placement";

/// The objects that are placed on a cluster or still leave it. The key is that of the Cluster.
pub async fn list(api: &ApiScope, cluster: &Key) -> Result<Vec<ObjectTarget>, Status> {
    let path = format!("{}/services/placed/{}", api.root(&cluster.workspace)?, encoded(&cluster.name));
    let answer = api.client().get(&path).await?;
    serde_json::from_value(answer["items"].clone()).map_err(|error| {
        Status::internal_error(format!("the list of placed objects cannot be read: {error}"))
    })
}

/// Removes a cluster from the placements of all objects on it. Paused objects keep their placement, and failed
/// writes return an error; both are retried by the next call.
pub async fn remove_all(api: &ApiScope, cluster: &Key, uid: &str) -> Result<(), Status> {
    let mut outcome = Ok(());
    for target in list(api, cluster).await? {
        match remove(api, &target, &cluster.name, uid).await {
            // The object was deleted or changed concurrently, or is paused.
            Err(status) if matches!(status.code(), 404 | 409) || status.has_cause(CAUSE) => {}
            written => outcome = outcome.and(written),
        }
    }
    outcome
}

async fn remove(api: &ApiScope, target: &ObjectTarget, cluster: &str, uid: &str) -> Result<(), Status> {
    let resource = resource(target);
    let at = Key::new(&target.workspace, &target.namespace, &target.name);
    let path = format!("{}/{PLACEMENT}", api.path(&resource, &at)?);
    let current = api.client().get(&path).await?;
    let Some(rest) = without(&current, cluster, uid).filter(|_| object::uid(&current) == target.uid) else {
        return Ok(());
    };
    let patch = json!({
        "metadata": { "uid": target.uid, "resourceVersion": object::resource_version(&current) },
        "spec": { "clusters": rest },
    });
    api.patch(&resource, &at, PLACEMENT, &patch).await.map(drop)
}

fn resource(target: &ObjectTarget) -> Resource {
    let resource = &target.resource;
    Resource {
        group: resource.group.clone().into(),
        version: resource.version.clone().into(),
        plural: resource.resource.clone().into(),
        kind: resource.kind.clone().into(),
        namespaced: resource.namespaced,
    }
}

/// The shares of a placement without a cluster, if the cluster is in it and is to be removed here.
fn without(placement: &Value, cluster: &str, uid: &str) -> Option<Vec<Share>> {
    let shares: Vec<Share> = serde_json::from_value(placement["spec"]["clusters"].clone()).ok()?;
    let is_there = |share: &Share| share.name == cluster && (share.uid.is_empty() || share.uid == uid);
    let by = placement["spec"]["by"].as_str().unwrap_or_default();
    if by == DEPENDENT || placed_by::is_scheduled(by) || !shares.iter().any(is_there) {
        return None;
    }
    Some(shares.into_iter().filter(|share| !is_there(share)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_is_removed_from_placements_and_others_stay() {
        for (by, clusters, expected) in [
            ("label", json!([{ "name": "east", "uid": "1" }]), Some(json!([]))),
            ("label", json!([{ "name": "east" }]), Some(json!([]))),
            (
                "hand",
                json!([{ "name": "east", "uid": "1", "replicas": 2 }, { "name": "west", "replicas": 1 }]),
                Some(json!([{ "name": "west", "replicas": 1 }])),
            ),
            ("hand", json!([{ "name": "west" }]), None),
            ("hand", json!([{ "name": "east", "uid": "2" }]), None),
            ("reference", json!([{ "name": "east", "uid": "1" }]), None),
            ("default", json!([{ "name": "east", "uid": "1" }]), None),
            ("clusterplacementpolicy/kcp", json!([{ "name": "east", "uid": "1" }]), None),
        ] {
            let rest = without(&json!({ "spec": { "clusters": clusters, "by": by } }), "east", "1");
            assert_eq!(rest.map(|rest| json!(rest)), expected, "{by} {clusters}");
        }
    }
}
