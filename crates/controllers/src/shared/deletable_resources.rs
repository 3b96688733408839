//! Discovers resources that can be listed and deleted.

// upstream: staging/src/k8s.io/client-go/discovery/discovery_client.go
// upstream: pkg/controller/garbagecollector/garbagecollector.go

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use atoll_client::path;
use atoll_informer::{ApiScope, Resource, resources};
use atoll_meta::Status;
use serde_json::Value;
use tokio::sync::OnceCell;

/// Deletable resources of an API server or workspace.
#[derive(Debug, Default)]
pub struct DiscoveredResources {
    /// Each resource in the preferred version of its group, or in the first that has it.
    pub resources: Vec<Resource>,
    /// Versions that could not be discovered, such as those of an unavailable extension.
    pub failures: Vec<(String, Status)>,
}

/// Cache of deletable resources. Workspaces without definitions share one entry.
#[derive(Default)]
pub struct DeletableResources {
    shared: OnceCell<Arc<DiscoveredResources>>,
}

impl DeletableResources {
    /// Returns the deletable resources of a workspace.
    pub async fn of(&self, api: &ApiScope, workspace: &str) -> Result<Arc<DiscoveredResources>, Status> {
        let root = api.root(workspace)?;
        // A foreign API server may change its resources at any time.
        if !api.has_workspaces() {
            return discover(api, &root).await;
        }
        let definitions = api.collection(&resources::CUSTOM_RESOURCE_DEFINITIONS, workspace, "")?;
        let definitions = api.client().get(&format!("{definitions}?limit=1")).await?;
        match definitions["items"].as_array().is_none_or(Vec::is_empty) {
            true => {
                let first = async || {
                    let found = discover(api, &root).await?;
                    match found.failures.first() {
                        Some((_, status)) => Err(status.clone()),
                        None => Ok(found),
                    }
                };
                self.shared.get_or_try_init(first).await.cloned()
            }
            false => discover(api, &root).await,
        }
    }
}

async fn discover(api: &ApiScope, root: &str) -> Result<Arc<DiscoveredResources>, Status> {
    let groups = api.client().get(&format!("{root}/apis")).await?;
    let mut versions = vec![(String::new(), "v1".to_string())];
    for group in groups["groups"].as_array().into_iter().flatten() {
        let name = group["name"].as_str().unwrap_or_default();
        let preferred = group["preferredVersion"]["version"].as_str().unwrap_or_default();
        let all = group["versions"].as_array().into_iter().flatten();
        let others = all.filter_map(|version| version["version"].as_str()).filter(|own| *own != preferred);
        let ordered = std::iter::once(preferred).chain(others);
        versions.extend(ordered.map(|version| (name.to_string(), version.to_string())));
    }
    let (mut found, mut known) = (DiscoveredResources::default(), HashSet::new());
    for (group, version) in versions {
        let base = format!("{root}{}", path::group_version(&group, &version));
        let shown = if group.is_empty() { version.clone() } else { format!("{group}/{version}") };
        match api.client().get(&base).await {
            Ok(list) => {
                let entries = list["resources"].as_array().into_iter().flatten();
                let all = entries.filter_map(|entry| deletable(&group, &version, entry));
                found.resources.extend(all.filter(|own| known.insert((group.clone(), own.plural.clone()))));
            }
            Err(status) => found.failures.push((shown, status)),
        }
    }
    Ok(Arc::new(found))
}

fn deletable(group: &str, version: &str, entry: &Value) -> Option<Resource> {
    let plural = entry["name"].as_str().filter(|name| !name.contains('/'))?;
    let has = |verb: &str| entry["verbs"].as_array().is_some_and(|verbs| verbs.iter().any(|own| own == verb));
    (has("list") && has("delete")).then(|| Resource {
        group: Cow::Owned(group.into()),
        version: Cow::Owned(version.into()),
        plural: Cow::Owned(plural.into()),
        kind: Cow::Owned(entry["kind"].as_str().unwrap_or_default().into()),
        namespaced: entry["namespaced"].as_bool().unwrap_or(false),
    })
}
