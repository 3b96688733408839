//! Resources that a cluster does not serve: detection, messages, and waiting until they are served.

use std::time::Duration;

use atoll_client::path::{encoded, group_version};
use atoll_fleet::view::SyncResource;
use atoll_meta::Status;
use serde_json::Value;

use crate::connections::cluster_client::{ClusterClient, path};
use crate::settings::Settings;

/// First and longest pause between checks whether a resource is served.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LAST_PAUSE: Duration = Duration::from_secs(15);
/// Maximum number of versions of a group that are checked for the resource.
const VERSIONS: usize = 8;

/// Returns the resource name as kubectl shows it.
pub fn name(resource: &SyncResource) -> String {
    match resource.group.is_empty() {
        true => resource.resource.clone(),
        false => format!("{}.{}", resource.resource, resource.group),
    }
}

/// Whether a group belongs to Kubernetes; others come from a CustomResourceDefinition or an aggregated API.
fn is_kubernetes_group(group: &str) -> bool {
    !group.contains('.') || group.ends_with(".k8s.io")
}

fn group_path(group: &str) -> String {
    if group.is_empty() { "/api".into() } else { format!("/apis/{}", encoded(group)) }
}

async fn serves(below: &ClusterClient, resource: &SyncResource, version: &str) -> Result<bool, Status> {
    let found = below.get(&group_version(&resource.group, version)).await?;
    Ok(found.is_some_and(|found| lists(&found, resource)))
}

fn lists(document: &Value, resource: &SyncResource) -> bool {
    let mut resources = document["resources"].as_array().into_iter().flatten();
    resources.any(|served| served["name"] == *resource.resource)
}

/// Whether the cluster serves a resource; true if that cannot be determined.
pub async fn is_served(below: &ClusterClient, resource: &SyncResource) -> bool {
    serves(below, resource, &resource.version).await.unwrap_or(true)
}

/// Waits until the cluster serves a resource.
pub async fn until_served(below: &ClusterClient, settings: &Settings, resource: &SyncResource) {
    let mut pause = FIRST_PAUSE;
    loop {
        tokio::time::sleep(settings.jitter(pause)).await;
        if matches!(serves(below, resource, &resource.version).await, Ok(true)) {
            return;
        }
        pause = (pause * 2).min(LAST_PAUSE);
    }
}

/// Returns the message for an object whose resource is not served, with advice.
pub async fn message(below: &ClusterClient, resource: &SyncResource) -> String {
    let others = other_versions(below, resource).await;
    let (name, version) = (name(resource), &resource.version);
    let what = format!("the cluster does not serve {name} in version {version}");
    let end = "it will be applied as soon as the cluster serves that version";
    match (others.is_empty(), is_kubernetes_group(&resource.group)) {
        (false, _) => format!(
            "{what}, only in {}; make the cluster serve {version} as well, or place it elsewhere; {end}",
            others.join(", ")
        ),
        (true, true) => format!(
            "{what}: its Kubernetes version does not have it, or it is disabled; place it elsewhere; {end}"
        ),
        (true, false) => format!(
            "{what}: install the CustomResourceDefinition {name} there, or place it on that cluster too, or place this object elsewhere; {end}"
        ),
    }
}

/// Returns the versions in which the resource is served, if the cluster has the group.
async fn other_versions(below: &ClusterClient, resource: &SyncResource) -> Vec<String> {
    let Ok(Some(group)) = below.get(&group_path(&resource.group)).await else { return Vec::new() };
    let mut found = Vec::new();
    for version in group["versions"].as_array().into_iter().flatten().take(VERSIONS) {
        let Some(version) = version["version"].as_str().or(version.as_str()) else { continue };
        if version != resource.version && matches!(serves(below, resource, version).await, Ok(true)) {
            found.push(version.to_string());
        }
    }
    found
}

/// Whether objects that can no longer be read are certainly gone, because their definition was deleted.
pub async fn is_gone_with_definition(below: &ClusterClient, resource: &SyncResource) -> Result<bool, Status> {
    if is_kubernetes_group(&resource.group) {
        return Ok(false);
    }
    let definitions = SyncResource {
        group: "apiextensions.k8s.io".into(),
        version: "v1".into(),
        resource: "customresourcedefinitions".into(),
        ..SyncResource::default()
    };
    Ok(below.get(&path(&definitions, "", &name(resource))).await?.is_none())
}

/// Returns advice for a write that was forbidden for lack of permission on a custom resource.
pub fn advice(status: &Status, resource: &SyncResource, cluster: &str) -> Option<String> {
    let is_about_rights = status.code() == 403 && status.message().contains(" cannot ");
    (is_about_rights && !is_kubernetes_group(&resource.group)).then(|| {
        format!(
            "; grant the syncer this permission: atoll cluster join {cluster} --kubeconfig FILE --groups {}",
            resource.group
        )
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn groups_of_kubernetes_are_recognized() {
        for (group, expected) in [
            ("", true),
            ("apps", true),
            ("batch", true),
            ("networking.k8s.io", true),
            ("example.com", false),
            ("snapshot.storage.k8s.io.example.com", false),
        ] {
            assert_eq!(is_kubernetes_group(group), expected, "{group}");
        }
    }

    #[test]
    fn missing_permission_comes_with_advice() {
        let resource = SyncResource {
            group: "example.com".into(),
            resource: "widgets".into(),
            ..SyncResource::default()
        };
        let user = r#"widgets.example.com is forbidden: User "a" cannot create resource "widgets""#;
        let status = Status::forbidden("example.com", "widgets", "a", user);
        let advice_for = |resource: &SyncResource| advice(&status, resource, "east");
        assert!(advice_for(&resource).is_some_and(|advice| advice.contains("--groups example.com")));
        assert_eq!(advice_for(&SyncResource { group: "apps".into(), ..resource.clone() }), None);
        let quota = Status::forbidden("example.com", "widgets", "a", "exceeded quota");
        assert_eq!(advice(&quota, &resource, "east"), None);
        assert!(lists(&json!({ "resources": [{ "name": "widgets" }] }), &resource));
        assert!(!lists(&json!({ "resources": [{ "name": "widgets/status" }] }), &resource));
    }
}
