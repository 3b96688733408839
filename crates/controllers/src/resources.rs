//! Which resources can be listed and deleted, from discovery.

use std::sync::Arc;

use atoll_client::Client;
use atoll_meta::Status;
use serde_json::Value;
use tokio::sync::OnceCell;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    /// `/api/v1` or `/apis/group/version`.
    pub base: String,
    /// Empty for the core group.
    pub group: String,
    /// Plural, as in URLs.
    pub name: String,
    pub namespaced: bool,
}

impl Resource {
    /// As people and messages name it.
    pub fn full_name(&self) -> String {
        if self.group.is_empty() { self.name.clone() } else { format!("{}.{}", self.name, self.group) }
    }
}

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// What there is to delete in workspaces. Those without definitions of their own all serve the same.
#[derive(Default)]
pub struct Served {
    shared: OnceCell<Arc<[Resource]>>,
}

impl Served {
    /// Every deletable resource of a workspace.
    pub async fn of(&self, client: &Client, workspace: &str) -> Result<Arc<[Resource]>, Status> {
        let definitions = client.get(&format!("/clusters/{workspace}{DEFINITIONS}?limit=1")).await?;
        match definitions["items"].as_array().is_none_or(Vec::is_empty) {
            true => self.shared.get_or_try_init(|| discover(client, workspace)).await.cloned(),
            false => discover(client, workspace).await,
        }
    }
}

/// Every deletable resource in its group's preferred version.
async fn discover(client: &Client, workspace: &str) -> Result<Arc<[Resource]>, Status> {
    let root = format!("/clusters/{workspace}");
    let groups = client.get(&format!("{root}/apis")).await?;
    let preferred = groups["groups"].as_array().into_iter().flatten().filter_map(|group| {
        let version = group["preferredVersion"]["groupVersion"].as_str()?;
        Some((group["name"].as_str()?.to_string(), format!("/apis/{version}")))
    });
    let mut bases = vec![(String::new(), "/api/v1".to_string())];
    bases.extend(preferred);
    let mut found = Vec::new();
    for (group, base) in bases {
        let list = client.get(&format!("{root}{base}")).await?;
        found.extend(
            list["resources"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|entry| deletable(&group, &base, entry)),
        );
    }
    Ok(found.into())
}

fn deletable(group: &str, base: &str, entry: &Value) -> Option<Resource> {
    let name = entry["name"].as_str().filter(|name| !name.contains('/'))?;
    let has = |verb: &str| entry["verbs"].as_array().is_some_and(|verbs| verbs.iter().any(|own| own == verb));
    (has("list") && has("delete")).then(|| Resource {
        base: base.into(),
        group: group.into(),
        name: name.into(),
        namespaced: entry["namespaced"].as_bool().unwrap_or(false),
    })
}
