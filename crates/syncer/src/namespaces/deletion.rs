//! Deletes a namespace that Atoll created when the namespace above is being deleted, after all managed
//! objects in it, and only if it is otherwise empty.

use std::time::Duration;

use atoll_client::connect_error::Cause;
use atoll_client::{PatchType, path};
use atoll_fleet::view::SyncResource;
use atoll_fleet::{Locator, marks};
use atoll_informer::Pages;
use atoll_meta::{Status, object};
use serde_json::{Value, json};

use super::namespace_path;
use crate::connections::cluster_client::{ClusterClient, collection};

/// Maximum number of objects and resources in a message.
const MAX_NAMED: usize = 5;
/// Attempts for a request that is refused, and the pause between them.
const ATTEMPTS: usize = 3;
const PAUSE: Duration = Duration::from_millis(300);

/// Outcome of the deletion of a namespace.
#[derive(Debug, PartialEq, Eq)]
pub enum NamespaceDeletion {
    /// It does not exist or is terminating.
    Gone,
    /// Atoll did not create it for this namespace.
    NotManaged,
    /// The deletion is no longer desired.
    Superseded,
    /// It contains these objects.
    NotEmpty(Vec<String>),
    /// These resources may not be listed, so their objects are not known.
    Forbidden(Vec<String>),
    /// These resources did not respond, so their objects are not known.
    Unavailable(Vec<String>),
    /// It contains only objects with owners, which the garbage collector will delete.
    OwnedOnly(Vec<String>),
}

/// Deletes a namespace if it is managed and empty and `is_still` confirms it after the check.
pub async fn delete_if_empty(
    below: &ClusterClient,
    locator: &Locator,
    name: &str,
    is_still: impl Fn() -> bool,
) -> Result<NamespaceDeletion, Status> {
    let path = namespace_path(name);
    let Some(found) = below.get(&path).await? else { return Ok(NamespaceDeletion::Gone) };
    if object::is_being_deleted(&found) {
        return Ok(NamespaceDeletion::Gone);
    }
    if !is_made_for(&found, locator) {
        // A namespace that existed before stays, but loses its locator.
        if Locator::of(&found).is_some_and(|said| said.as_ref() == Ok(locator)) && is_still() {
            let mut patch = atoll_fleet::release(&found);
            patch["metadata"]["uid"] = object::uid(&found).into();
            patch["metadata"]["resourceVersion"] = object::resource_version(&found).into();
            below.patch(&path, PatchType::Merge, &patch).await?;
        }
        return Ok(NamespaceDeletion::NotManaged);
    }
    let Contents { kept, forbidden, unavailable, owned } = contents(below, name).await?;
    if !kept.is_empty() {
        return Ok(NamespaceDeletion::NotEmpty(kept));
    }
    if !forbidden.is_empty() {
        return Ok(NamespaceDeletion::Forbidden(forbidden));
    }
    if !unavailable.is_empty() {
        return Ok(NamespaceDeletion::Unavailable(unavailable));
    }
    if !owned.is_empty() {
        return Ok(NamespaceDeletion::OwnedOnly(owned));
    }
    if !is_still() {
        return Ok(NamespaceDeletion::Superseded);
    }
    let options = json!({
        "apiVersion": "v1", "kind": "DeleteOptions",
        "preconditions": { "uid": object::uid(&found), "resourceVersion": object::resource_version(&found) },
    });
    below.delete(&path, &options).await.map(|_| NamespaceDeletion::Gone)
}

/// Whether Atoll created a namespace for a locator.
pub fn is_made_for(found: &Value, locator: &Locator) -> bool {
    object::label(found, marks::CONTROL_PLANE) == Some(&locator.control_plane)
        && Locator::of(found).is_some_and(|said| said.as_ref() == Ok(locator))
}

/// Content of a namespace.
#[derive(Default)]
struct Contents {
    /// Objects without an owner.
    kept: Vec<String>,
    /// Resources that the syncer may not list.
    forbidden: Vec<String>,
    /// Resources that do not respond.
    unavailable: Vec<String>,
    /// Objects with an owner.
    owned: Vec<String>,
}

impl Contents {
    fn add(&mut self, resource: &SyncResource, items: &Value, name: &str) {
        let items = items.as_array().into_iter().flatten();
        for item in items.filter(|item| !is_ignored(resource, item)) {
            let list = if has_owner(resource, item) { &mut self.owned } else { &mut self.kept };
            if list.len() <= MAX_NAMED {
                list.push(format!("{name}/{}", object::name(item)));
            }
        }
    }

    fn shortened(mut self) -> Contents {
        for list in [&mut self.kept, &mut self.forbidden, &mut self.unavailable, &mut self.owned] {
            if list.len() > MAX_NAMED {
                list.truncate(MAX_NAMED);
                list.push("and more".into());
            }
        }
        self
    }
}

async fn contents(below: &ClusterClient, namespace: &str) -> Result<Contents, Status> {
    let mut found = Contents::default();
    let (resources, unavailable) = served(below).await?;
    found.unavailable.extend(unavailable.iter().map(|group| format!("{group} (does not respond)")));
    for resource in resources {
        let name = match resource.group.as_str() {
            "" => resource.resource.clone(),
            group => format!("{}.{group}", resource.resource),
        };
        let (mut next, mut pages) = (String::new(), Pages::default());
        // Stop listing when enough objects have been found.
        while found.kept.len() <= MAX_NAMED {
            let (at, from) = (&collection(&resource, namespace), &next);
            let page = pages.next(&below.client, |limit| async move {
                retry_refused(|| async { below.list_metadata(&format!("{at}?limit={limit}{from}")).await })
                    .await
            });
            match page.await {
                Ok(list) => {
                    found.add(&resource, &list["items"], &name);
                    match object::continuation(&list) {
                        Some(token) => next = format!("&continue={}", path::encoded(token)),
                        None => break,
                    }
                }
                Err(status) if status.code() == 403 => {
                    found.forbidden.push(format!("{name} (forbidden)"));
                    break;
                }
                Err(status) if matches!(status.code(), 404 | 405) => break,
                Err(status) if is_unavailable(&status, &resource.group) => {
                    found.unavailable.push(format!("{name} (does not respond)"));
                    break;
                }
                Err(status) => return Err(status),
            }
        }
    }
    Ok(found.shortened())
}

/// Repeats a request that was refused, because a refusal may be temporary.
async fn retry_refused<T, F>(ask: impl Fn() -> F) -> Result<T, Status>
where
    F: Future<Output = Result<T, Status>>,
{
    for _ in 1..ATTEMPTS {
        match ask().await {
            Err(status) if status.code() == 403 || status.code() >= 500 && Cause::of(&status).is_none() => {
                tokio::time::sleep(PAUSE).await;
            }
            outcome => return outcome,
        }
    }
    ask().await
}

/// Whether an aggregated API server does not respond, as opposed to the cluster itself or one of its own
/// groups.
fn is_unavailable(status: &Status, group: &str) -> bool {
    status.code() >= 500
        && !atoll_fleet::api_groups::is_built_in(group)
        && matches!(Cause::of(status), None | Some(Cause::TimedOut))
}

/// Whether an object will be deleted with its owner.
fn has_owner(resource: &SyncResource, item: &Value) -> bool {
    let is_owned = item["metadata"]["ownerReferences"].as_array().is_some_and(|owners| !owners.is_empty());
    is_owned || resource.group.is_empty() && resource.resource == "endpoints"
}

/// Whether an object exists in every namespace or is being deleted.
fn is_ignored(resource: &SyncResource, item: &Value) -> bool {
    const EVERYWHERE: [(&str, &str); 2] =
        [("serviceaccounts", "default"), ("configmaps", "kube-root-ca.crt")];
    object::is_being_deleted(item)
        || resource.group.is_empty() && EVERYWHERE.contains(&(&resource.resource, object::name(item)))
}

/// Returns every namespaced resource that can be listed, each in one version, and the aggregated groups that
/// do not respond.
async fn served(below: &ClusterClient) -> Result<(Vec<SyncResource>, Vec<String>), Status> {
    let (mut all, mut unavailable) = (Vec::<SyncResource>::new(), Vec::new());
    let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
    let groups = below.get("/apis").await?.unwrap_or_default();
    let mut versions = vec![("/api/v1".to_string(), String::new(), "v1".to_string())];
    for group in groups["groups"].as_array().into_iter().flatten() {
        for version in group["versions"].as_array().into_iter().flatten() {
            let (name, version) = (text(&group["name"]), text(&version["version"]));
            versions.push((path::group_version(&name, &version), name, version));
        }
    }
    for (path, group, version) in versions {
        let list = match retry_refused(|| below.get(&path)).await {
            Ok(Some(list)) => list,
            Ok(None) => continue,
            // Metrics are not objects.
            Err(_) if group.ends_with("metrics.k8s.io") => continue,
            Err(status) if is_unavailable(&status, &group) => {
                if !unavailable.contains(&group) {
                    unavailable.push(group);
                }
                continue;
            }
            Err(status) => return Err(status),
        };
        for resource in listed(&list, &group, &version) {
            let is_same =
                |other: &SyncResource| (&other.group, &other.resource) == (&group, &resource.resource);
            if !all.iter().any(is_same) {
                all.push(resource);
            }
        }
    }
    Ok((all, unavailable))
}

fn listed(list: &Value, group: &str, version: &str) -> Vec<SyncResource> {
    let resources = list["resources"].as_array().into_iter().flatten();
    let is_listed = |resource: &&Value| {
        let has_list = resource["verbs"].as_array().into_iter().flatten().any(|verb| verb == "list");
        let name = resource["name"].as_str().unwrap_or_default();
        let is_passing = matches!(
            (group, name),
            ("" | "events.k8s.io", "events") | ("metrics.k8s.io", _) | ("atoll.dev", "objectstatuses")
        );
        resource["namespaced"] == true && has_list && !name.contains('/') && !is_passing
    };
    resources
        .filter(is_listed)
        .map(|resource| SyncResource {
            group: group.to_string(),
            version: version.to_string(),
            resource: resource["name"].as_str().unwrap_or_default().to_string(),
            kind: resource["kind"].as_str().unwrap_or_default().to_string(),
            namespaced: true,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_namespaces_created_for_the_locator_are_deleted() {
        let locator = Locator { control_plane: "c".into(), workspace: "w".into(), namespace: "shop".into() };
        let other = Locator { workspace: "v".into(), ..locator.clone() };
        let namespace = |plane: Option<&str>, said: Option<&Locator>| {
            let mut found = json!({ "metadata": { "name": "shop" } });
            if let Some(plane) = plane {
                object::set_label(&mut found, marks::CONTROL_PLANE, plane);
            }
            if let Some(said) = said {
                object::set_annotation(&mut found, marks::NAMESPACE, &said.text());
            }
            found
        };
        for (found, expected) in [
            (namespace(Some("c"), Some(&locator)), true),
            (namespace(None, Some(&locator)), false),
            (namespace(Some("x"), Some(&locator)), false),
            (namespace(Some("c"), Some(&other)), false),
            (namespace(Some("c"), None), false),
        ] {
            assert_eq!(is_made_for(&found, &locator), expected, "{found}");
        }
    }

    #[test]
    fn listable_resources_count_except_transient_ones() {
        let resource = |name: &str, verbs: &[&str], namespaced: bool| json!({ "name": name, "verbs": verbs, "namespaced": namespaced, "kind": "K" });
        let list = json!({ "resources": [
            resource("configmaps", &["get", "list"], true), resource("events", &["list"], true),
            resource("nodes", &["list"], false), resource("pods/log", &["get"], true), resource("bindings", &["create"], true),
        ] });
        let names = |group: &str| -> Vec<String> {
            listed(&list, group, "v1").into_iter().map(|resource| resource.resource).collect()
        };
        assert_eq!(names(""), ["configmaps"]);
        assert_eq!(names("example.com"), ["configmaps", "events"]);
        assert_eq!(names("metrics.k8s.io"), Vec::<String>::new());
        let maps = SyncResource { resource: "configmaps".into(), ..SyncResource::default() };
        assert!(is_ignored(&maps, &json!({ "metadata": { "name": "kube-root-ca.crt" } })));
        assert!(!is_ignored(&maps, &json!({ "metadata": { "name": "mine" } })));
        assert!(!has_owner(&maps, &json!({ "metadata": { "name": "mine" } })));
        assert!(has_owner(&maps, &json!({ "metadata": { "ownerReferences": [{ "uid": "u" }] } })));
    }
}
