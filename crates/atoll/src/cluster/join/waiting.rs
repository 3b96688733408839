//! The workloads of a workspace that wait for a cluster.

use atoll_fleet::Placement;
use atoll_fleet::scheduled::is_left_to_scheduler;
use atoll_joining::api::Api;
use atoll_joining::client::Problem;
use atoll_meta::object;
use atoll_placement::intent::Intent;
use http::Method;
use serde_json::Value;

use crate::workspace::session::encoded;

/// Objects of a page.
const PAGE: usize = 500;
/// Most pages of one resource; the count is not exact beyond them.
const MAX_PAGES: usize = 200;
/// Only metadata is needed.
const METADATA: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
/// Group, resource and path of workloads.
const WORKLOADS: [(&str, &str, &str); 7] = [
    ("apps", "daemonsets", "/apis/apps/v1/daemonsets"),
    ("apps", "deployments", "/apis/apps/v1/deployments"),
    ("apps", "replicasets", "/apis/apps/v1/replicasets"),
    ("apps", "statefulsets", "/apis/apps/v1/statefulsets"),
    ("batch", "cronjobs", "/apis/batch/v1/cronjobs"),
    ("batch", "jobs", "/apis/batch/v1/jobs"),
    ("", "replicationcontrollers", "/api/v1/replicationcontrollers"),
];

/// Counts the workloads of the workspace that are placed nowhere, and not on purpose.
pub async fn count(api: &Api) -> Result<u64, Problem> {
    let mut found = 0;
    for (group, resource, path) in WORKLOADS {
        let mut next = String::new();
        for _ in 0..MAX_PAGES {
            let page = format!("{path}?limit={PAGE}&continue={}", encoded(&next));
            let list = api.call_as(Method::GET, &page, METADATA, None).await?;
            let items = list["items"].as_array().into_iter().flatten();
            let waiting = items.filter(|object| waits((group, resource), object));
            found += u64::try_from(waiting.count()).unwrap_or(u64::MAX);
            next = list["metadata"]["continue"].as_str().unwrap_or_default().to_string();
            if next.is_empty() {
                break;
            }
        }
    }
    Ok(found)
}

fn waits(resource: (&str, &str), object: &Value) -> bool {
    let stays_above = matches!(Intent::on(object), Some(Ok(intent)) if intent.is_none());
    is_left_to_scheduler(resource, object)
        && !stays_above
        && !object::is_being_deleted(object)
        && Placement::of(object).clusters.is_empty()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_unplaced_workloads_wait() {
        let placed = json!({ "clusters": [{ "name": "east" }], "by": "default" }).to_string();
        for (metadata, expected) in [
            (json!({ "name": "web", "namespace": "default" }), true),
            (json!({ "namespace": "default", "annotations": { "atoll.dev/clusters": "none" } }), false),
            (json!({ "namespace": "default", "annotations": { "atoll.dev/clusters": "east" } }), true),
            (json!({ "namespace": "default", "annotations": { "atoll.dev/placement": placed } }), false),
            (json!({ "namespace": "kube-system" }), false),
        ] {
            assert_eq!(
                waits(("apps", "deployments"), &json!({ "metadata": metadata })),
                expected,
                "{metadata}"
            );
        }
    }
}
