//! Discovery: maps the kinds in owner references to resources.

// upstream: pkg/controller/garbagecollector/garbagecollector.go

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, PoisonError, RwLock};

use atoll_client::path;
use atoll_informer::{ApiScope, Resource};
use atoll_meta::Status;
use serde_json::Value;

/// Resources that are not collected.
const NOT_COLLECTED: [(&str, &str); 2] = [("", "events"), ("events.k8s.io", "events")];

/// Resources that an API server, or a workspace, serves.
#[derive(Clone, Debug, Default)]
pub struct ResourceTable {
    /// Resources by apiVersion and kind.
    kinds: HashMap<(String, String), Arc<Resource>>,
    /// Resources that can be collected, each in the preferred version of its group.
    pub collected: Vec<Arc<Resource>>,
}

#[derive(Default)]
pub struct RestMapper {
    /// Resources of all workspaces.
    shared: RwLock<Arc<ResourceTable>>,
    /// Additional resources by workspace.
    own: RwLock<HashMap<String, Arc<ResourceTable>>>,
}

impl RestMapper {
    pub fn resource(&self, workspace: &str, api_version: &str, kind: &str) -> Option<Arc<Resource>> {
        let asked = (api_version.to_string(), kind.to_string());
        let shared = self.shared.read().unwrap_or_else(PoisonError::into_inner).clone();
        let own = || self.own.read().unwrap_or_else(PoisonError::into_inner).get(workspace).cloned();
        let found = shared.kinds.get(&asked).cloned();
        found.or_else(|| own()?.kinds.get(&asked).cloned())
    }

    pub fn set_shared(&self, table: ResourceTable) -> Arc<ResourceTable> {
        let table = Arc::new(table);
        *self.shared.write().unwrap_or_else(PoisonError::into_inner) = table.clone();
        table
    }

    pub fn set_own(&self, workspace: &str, table: ResourceTable) -> Arc<ResourceTable> {
        let table = Arc::new(table);
        let mut own = self.own.write().unwrap_or_else(PoisonError::into_inner);
        match table.kinds.is_empty() {
            true => drop(own.remove(workspace)),
            false => drop(own.insert(workspace.into(), table.clone())),
        }
        table
    }
}

/// Discovers the resources under `root`. `counts` filters by resource and group.
pub async fn discover(
    api: &ApiScope,
    root: &str,
    groups: Option<&HashSet<String>>,
    counts: impl Fn(&str, &str) -> bool,
) -> Result<ResourceTable, Status> {
    let client = api.client();
    // Versions in the order of preference.
    let mut found: Vec<(String, Vec<String>)> = Vec::new();
    if groups.is_none() {
        found.push((String::new(), vec!["v1".into()]));
    }
    let list = client.get(&format!("{root}/apis")).await?;
    for group in list["groups"].as_array().into_iter().flatten() {
        let name = group["name"].as_str().unwrap_or_default();
        if groups.is_some_and(|groups| !groups.contains(name)) {
            continue;
        }
        let preferred = group["preferredVersion"]["version"].as_str().unwrap_or_default();
        let all = group["versions"].as_array().into_iter().flatten();
        let all = all.filter_map(|version| version["version"].as_str());
        let others = all.filter(|version| *version != preferred).map(String::from);
        found.push((name.into(), std::iter::once(preferred.to_string()).chain(others).collect()));
    }
    let mut table = ResourceTable::default();
    for (group, versions) in found {
        let mut known = HashSet::new();
        for version in versions {
            let base = path::group_version(&group, &version);
            // A version that cannot be discovered, such as an unavailable extension, does not hide the
            // others.
            let list = match client.get(&format!("{root}{base}")).await {
                Ok(list) => list,
                Err(status) => {
                    tracing::debug!(%status, base, "API group version could not be discovered; continuing without it");
                    continue;
                }
            };
            for entry in list["resources"].as_array().into_iter().flatten() {
                let Some(resource) = resource(&group, &version, entry) else { continue };
                if !counts(&resource.plural, &group) {
                    continue;
                }
                let resource = Arc::new(resource);
                let kind = (resource.api_version(), resource.kind.to_string());
                table.kinds.insert(kind, resource.clone());
                let is_excluded = NOT_COLLECTED.contains(&(&group, &resource.plural));
                if can_be_collected(entry) && !is_excluded && known.insert(resource.plural.to_string()) {
                    table.collected.push(resource);
                }
            }
        }
    }
    Ok(table)
}

fn resource(group: &str, version: &str, entry: &Value) -> Option<Resource> {
    let plural = entry["name"].as_str().filter(|name| !name.contains('/'))?;
    Some(Resource {
        group: Cow::Owned(group.into()),
        version: Cow::Owned(version.into()),
        plural: Cow::Owned(plural.into()),
        kind: Cow::Owned(entry["kind"].as_str()?.into()),
        namespaced: entry["namespaced"].as_bool().unwrap_or(false),
    })
}

fn can_be_collected(entry: &Value) -> bool {
    let has = |verb: &str| entry["verbs"].as_array().is_some_and(|verbs| verbs.iter().any(|own| own == verb));
    ["delete", "list", "watch"].into_iter().all(has)
}
