//! API access to one server or to all workspaces: maps keys to paths, and writes objects.

use std::sync::Arc;

use atoll_client::{Client, PatchType};
use atoll_meta::{Status, object};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use crate::{Key, Pages, Resource, Tree, WORKSPACE};

/// Cause of a transient error: an object may be observed before its workspace.
pub(crate) const UNKNOWN: &str = "UnknownWorkspace";
/// The status subresource.
const STATUS: &str = "status";

#[derive(Clone)]
pub struct ApiScope {
    client: Client,
    /// `None` for a single API server.
    tree: Option<Arc<Tree>>,
}

/// Options of a delete request.
#[derive(Clone, Copy, Debug, Default)]
pub struct DeleteOptions<'a> {
    pub grace_period_seconds: Option<i64>,
    /// `Background`, `Foreground` or `Orphan`.
    pub propagation: Option<&'a str>,
    /// Precondition: the object has this uid.
    pub uid: Option<&'a str>,
    /// Precondition: the object has this resource version.
    pub resource_version: Option<&'a str>,
}

impl DeleteOptions<'_> {
    fn to_value(self) -> Value {
        let mut options = json!({"apiVersion": "v1", "kind": "DeleteOptions"});
        if let Some(seconds) = self.grace_period_seconds {
            options["gracePeriodSeconds"] = seconds.into();
        }
        if let Some(propagation) = self.propagation {
            options["propagationPolicy"] = propagation.into();
        }
        for (field, value) in [("uid", self.uid), ("resourceVersion", self.resource_version)] {
            if let Some(value) = value {
                options["preconditions"][field] = value.into();
            }
        }
        options
    }
}

impl ApiScope {
    /// Access to one API server: a workspace's or another one's.
    pub fn single(client: Client) -> ApiScope {
        ApiScope { client, tree: None }
    }

    /// Access to all workspaces. The caller keeps `tree` up to date.
    pub fn all_workspaces(client: Client, tree: Arc<Tree>) -> ApiScope {
        ApiScope { client, tree: Some(tree) }
    }

    /// Whether this covers all workspaces instead of one API server.
    pub fn has_workspaces(&self) -> bool {
        self.tree.is_some()
    }

    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Returns the path to list and watch all objects of a resource.
    pub fn everywhere(&self, resource: &Resource) -> String {
        let all = if self.tree.is_some() { "/clusters/*" } else { "" };
        format!("{all}{}/{}", resource.base(), resource.plural)
    }

    /// Returns the path prefix of a workspace. A workspace that is not known is a transient error: either it
    /// becomes known, or its objects are deleted soon.
    pub fn root(&self, workspace: &str) -> Result<String, Status> {
        match &self.tree {
            None => Ok(String::new()),
            Some(tree) => match tree.path(workspace) {
                Some(path) => Ok(format!("/clusters/{path}")),
                None => {
                    let message = format!("workspace {workspace} is not known yet");
                    Err(Status::service_unavailable(message).with_cause(UNKNOWN, "", ""))
                }
            },
        }
    }

    /// Returns the ids of a workspace and its known ancestors, nearest first, each with the path from there
    /// to the workspace, such as `org:team`.
    pub fn ancestry(&self, workspace: &str) -> Vec<(String, String)> {
        match &self.tree {
            None => vec![(workspace.to_string(), String::new())],
            Some(tree) => tree.ancestry(workspace),
        }
    }

    /// Returns the path of a resource in a namespace; with an empty namespace, of all namespaces or of a
    /// cluster-scoped resource.
    pub fn collection(
        &self,
        resource: &Resource,
        workspace: &str,
        namespace: &str,
    ) -> Result<String, Status> {
        let root = self.root(workspace)?;
        let (base, plural) = (resource.base(), &resource.plural);
        Ok(match namespace.is_empty() {
            true => format!("{root}{base}/{plural}"),
            false => format!("{root}{base}/namespaces/{namespace}/{plural}"),
        })
    }

    pub fn path(&self, resource: &Resource, key: &Key) -> Result<String, Status> {
        let collection = self.collection(resource, &key.workspace, &key.namespace)?;
        Ok(format!("{collection}/{}", encoded(&key.name)))
    }

    pub async fn get(&self, resource: &Resource, key: &Key) -> Result<Value, Status> {
        let object = self.client.get(&self.path(resource, key)?).await?;
        Ok(self.placed(object, &key.workspace))
    }

    /// Reads only the metadata of an object.
    pub async fn get_metadata(&self, resource: &Resource, key: &Key) -> Result<Value, Status> {
        let object = self.client.get_metadata(&self.path(resource, key)?).await?;
        Ok(self.placed(object, &key.workspace))
    }

    pub async fn create(
        &self,
        resource: &Resource,
        workspace: &str,
        namespace: &str,
        object: &Value,
    ) -> Result<Value, Status> {
        let created = self.client.create(&self.collection(resource, workspace, namespace)?, object).await?;
        Ok(self.placed(created, workspace))
    }

    /// Replaces an object; fails if it has changed since it was read.
    pub async fn update(&self, resource: &Resource, object: &Value) -> Result<Value, Status> {
        self.put(resource, "", object).await
    }

    /// Replaces the status of an object.
    pub async fn update_status(&self, resource: &Resource, object: &Value) -> Result<Value, Status> {
        self.put(resource, STATUS, object).await
    }

    /// Replaces another subresource of an object.
    pub async fn update_subresource(
        &self,
        resource: &Resource,
        subresource: &str,
        object: &Value,
    ) -> Result<Value, Status> {
        self.put(resource, subresource, object).await
    }

    /// Applies a configuration server-side as the field manager `manager`, with force.
    pub async fn apply(
        &self,
        resource: &Resource,
        key: &Key,
        manager: &str,
        configuration: &Value,
    ) -> Result<Value, Status> {
        let path = format!("{}?fieldManager={manager}&force=true", self.path(resource, key)?);
        let applied = self.client.patch(&path, PatchType::Apply, configuration).await?;
        Ok(self.placed(applied, &key.workspace))
    }

    /// Lists all objects of a resource in a namespace or workspace, or only their metadata.
    pub async fn list(
        &self,
        resource: &Resource,
        workspace: &str,
        namespace: &str,
        metadata_only: bool,
    ) -> Result<Vec<Value>, Status> {
        let mut objects = Vec::new();
        let append = |mut page| objects.append(&mut page);
        self.list_pages(resource, workspace, namespace, metadata_only, append).await?;
        Ok(objects)
    }

    /// Lists like `list`, with only one page in memory. An empty list has one empty page.
    pub async fn list_pages(
        &self,
        resource: &Resource,
        workspace: &str,
        namespace: &str,
        metadata_only: bool,
        mut show: impl FnMut(Vec<Value>),
    ) -> Result<(), Status> {
        let collection = self.collection(resource, workspace, namespace)?;
        let (mut token, mut pages) = (String::new(), Pages::default());
        loop {
            let (collection, from) = (&collection, &token);
            let page = pages.next(&self.client, |limit| async move {
                let page = format!("{collection}?limit={limit}&continue={from}");
                match metadata_only {
                    true => self.client.list_metadata(&page).await,
                    false => self.client.get(&page).await,
                }
            });
            let mut page = page.await?;
            show(match page["items"].take() {
                Value::Array(items) => items,
                _ => Vec::new(),
            });
            token = page["metadata"]["continue"].as_str().unwrap_or_default().to_string();
            if token.is_empty() {
                return Ok(());
            }
        }
    }

    /// Sends a merge patch for an object or its subresource.
    pub async fn patch(
        &self,
        resource: &Resource,
        key: &Key,
        subresource: &str,
        patch: &Value,
    ) -> Result<Value, Status> {
        let path = self.subresource(resource, key, subresource)?;
        let patched = self.client.patch(&path, PatchType::Merge, patch).await?;
        Ok(self.placed(patched, &key.workspace))
    }

    /// Sends a strategic merge patch for an object of a built-in kind.
    pub async fn patch_strategic(
        &self,
        resource: &Resource,
        key: &Key,
        patch: &Value,
    ) -> Result<Value, Status> {
        let patched = self.client.patch(&self.path(resource, key)?, PatchType::Strategic, patch).await?;
        Ok(self.placed(patched, &key.workspace))
    }

    /// Sends a strategic merge patch for the status of an object.
    pub async fn patch_status_strategic(
        &self,
        resource: &Resource,
        key: &Key,
        patch: &Value,
    ) -> Result<Value, Status> {
        let path = self.subresource(resource, key, STATUS)?;
        let patched = self.client.patch(&path, PatchType::Strategic, patch).await?;
        Ok(self.placed(patched, &key.workspace))
    }

    /// Creates a subresource such as a binding or an eviction.
    pub async fn post(
        &self,
        resource: &Resource,
        key: &Key,
        subresource: &str,
        object: &Value,
    ) -> Result<Value, Status> {
        self.client.create(&self.subresource(resource, key, subresource)?, object).await
    }

    pub async fn delete(
        &self,
        resource: &Resource,
        key: &Key,
        options: DeleteOptions<'_>,
    ) -> Result<Value, Status> {
        let answer = self.client.delete_with(&self.path(resource, key)?, &options.to_value()).await?;
        Ok(self.placed(answer, &key.workspace))
    }

    async fn put(&self, resource: &Resource, subresource: &str, object: &Value) -> Result<Value, Status> {
        let key = Key::of(object);
        let path = self.subresource(resource, &key, subresource)?;
        // Items of built-in lists have no apiVersion and kind, and the workspace annotation is not part of
        // the object.
        let mut sent = object.clone();
        object::set_type(&mut sent, &resource.api_version(), &resource.kind);
        if self.tree.is_some() {
            object::remove_annotation(&mut sent, WORKSPACE);
        }
        let updated = self.client.update(&path, &sent).await?;
        Ok(self.placed(updated, &key.workspace))
    }

    fn subresource(&self, resource: &Resource, key: &Key, subresource: &str) -> Result<String, Status> {
        let path = self.path(resource, key)?;
        Ok(if subresource.is_empty() { path } else { format!("{path}/{subresource}") })
    }

    /// Annotates a response with its workspace, like the objects in a cache.
    fn placed(&self, mut object: Value, workspace: &str) -> Value {
        if self.tree.is_some()
            && object::metadata(&object).is_some_and(|metadata| metadata.contains_key("name"))
        {
            object::set_annotation(&mut object, WORKSPACE, workspace);
        }
        object
    }
}

/// Percent-encodes a name; names of some kinds may contain reserved characters.
pub fn encoded(name: &str) -> String {
    const ESCAPED: &AsciiSet =
        &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b':');
    utf8_percent_encode(name, ESCAPED).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_percent_encoded() {
        assert_eq!(encoded("system:view"), "system:view");
        assert_eq!(encoded("a b?c#d%\u{e9}"), "a%20b%3Fc%23d%25%C3%A9");
    }

    #[test]
    fn delete_options_contain_only_set_fields() {
        let plain = json!({"apiVersion": "v1", "kind": "DeleteOptions"});
        assert_eq!(DeleteOptions::default().to_value(), plain);
        let options = DeleteOptions {
            grace_period_seconds: Some(0),
            propagation: Some("Orphan"),
            uid: Some("u"),
            resource_version: None,
        };
        let wanted = json!({
            "apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0, "propagationPolicy": "Orphan",
            "preconditions": {"uid": "u"},
        });
        assert_eq!(options.to_value(), wanted);
    }
}
