//! Discovery: maps the kinds in owner references to resources.

// upstream: pkg/controller/garbagecollector/garbagecollector.go

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, PoisonError, RwLock};

use atoll_client::path;
use atoll_informer::{ApiScope, Resource, Scope};
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
    /// Additional resources by the workspaces that have them.
    additional: RwLock<HashMap<Scope, Arc<ResourceTable>>>,
}

impl ResourceTable {
    /// Whether it has a resource, in whatever version.
    fn has(&self, resource: &Resource) -> bool {
        self.collected.iter().any(|own| own.group == resource.group && own.plural == resource.plural)
    }
}

impl RestMapper {
    /// The resource of a kind in a workspace. It may be defined there, or given by a workspace above.
    pub fn resource(
        &self,
        api: &ApiScope,
        workspace: &str,
        api_version: &str,
        kind: &str,
    ) -> Option<Arc<Resource>> {
        let asked = (api_version.to_string(), kind.to_string());
        let shared = self.shared.read().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(found) = shared.kinds.get(&asked) {
            return Some(found.clone());
        }
        let above = api.ancestry(workspace).into_iter().map(|(id, _)| Scope::Below(id));
        let additional = self.additional.read().unwrap_or_else(PoisonError::into_inner);
        let mut nearer: Vec<&ResourceTable> = Vec::new();
        for scope in std::iter::once(Scope::Workspace(workspace.to_string())).chain(above) {
            let Some(table) = additional.get(&scope) else { continue };
            if let Some(found) = table.kinds.get(&asked) {
                // A nearer definition hides it, even if that has other versions.
                return Some(found.clone()).filter(|found| !nearer.iter().any(|nearer| nearer.has(found)));
            }
            nearer.push(table);
        }
        None
    }

    pub fn set_shared(&self, table: ResourceTable) -> Arc<ResourceTable> {
        let table = Arc::new(table);
        *self.shared.write().unwrap_or_else(PoisonError::into_inner) = table.clone();
        table
    }

    pub fn set_additional(&self, scope: &Scope, table: ResourceTable) -> Arc<ResourceTable> {
        let table = Arc::new(table);
        let mut additional = self.additional.write().unwrap_or_else(PoisonError::into_inner);
        match table.kinds.is_empty() {
            true => drop(additional.remove(scope)),
            false => drop(additional.insert(scope.clone(), table.clone())),
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
