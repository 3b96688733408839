//! One API server, or all workspaces of an Atoll: from keys to paths, and writes.

use std::sync::Arc;

use atoll_client::{Client, PatchType};
use atoll_meta::{Status, object};
use serde_json::{Value, json};

use crate::{Key, Pages, Resource, Tree, WORKSPACE};

/// The cause of an error that passes by itself: what is in a workspace may be heard of before the workspace is.
pub(crate) const UNKNOWN: &str = "UnknownWorkspace";
/// How a write is told that it is not for an object as such.
const STATUS: &str = "status";

#[derive(Clone)]
pub struct World {
    client: Client,
    /// None where there is but one API server.
    tree: Option<Arc<Tree>>,
}

/// What a deletion asks for besides.
#[derive(Clone, Copy, Debug, Default)]
pub struct DeleteOptions<'a> {
    pub grace_period_seconds: Option<i64>,
    /// `Background`, `Foreground` or `Orphan`.
    pub propagation: Option<&'a str>,
    /// Only if it is still this one.
    pub uid: Option<&'a str>,
    /// Only if it has not changed since.
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

impl World {
    /// What one API server has, an Atoll workspace's or another's.
    pub fn one(client: Client) -> World {
        World { client, tree: None }
    }

    /// All workspaces; somebody keeps `tree` up to date.
    pub fn all(client: Client, tree: Arc<Tree>) -> World {
        World { client, tree: Some(tree) }
    }

    /// Whether there are many workspaces, or but one API server.
    pub fn has_workspaces(&self) -> bool {
        self.tree.is_some()
    }

    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Where all objects of a resource are listed and watched.
    pub fn everywhere(&self, resource: &Resource) -> String {
        let all = if self.tree.is_some() { "/clusters/*" } else { "" };
        format!("{all}{}/{}", resource.base(), resource.plural)
    }

    /// What paths into a workspace begin with. A workspace that is not known (yet, or any longer) is an error that
    /// passes, or its objects are soon gone.
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

    /// The ids of a workspace and of all its ancestors, nearest first, as far as they are known; each with the path that leads
    /// from there to the workspace, such as `org:team`.
    pub fn ancestry(&self, workspace: &str) -> Vec<(String, String)> {
        match &self.tree {
            None => vec![(workspace.to_string(), String::new())],
            Some(tree) => tree.ancestry(workspace),
        }
    }

    /// The objects of a resource in a namespace; an empty one for all, and for what is in none.
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

    /// What all objects have, of one.
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

    /// Replaces an object, on condition that it has not changed since it was read.
    pub async fn update(&self, resource: &Resource, object: &Value) -> Result<Value, Status> {
        self.put(resource, "", object).await
    }

    /// The same for its status alone.
    pub async fn update_status(&self, resource: &Resource, object: &Value) -> Result<Value, Status> {
        self.put(resource, STATUS, object).await
    }

    /// The same for another subresource that is replaced.
    pub async fn update_subresource(
        &self,
        resource: &Resource,
        subresource: &str,
        object: &Value,
    ) -> Result<Value, Status> {
        self.put(resource, subresource, object).await
    }

    /// Sets what a configuration says, in the name of a manager and whoever else owns it.
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

    /// All objects of a resource in a namespace, or a workspace, as they are now; of which `metadata_only` is asked for.
    pub async fn list(
        &self,
        resource: &Resource,
        workspace: &str,
        namespace: &str,
        metadata_only: bool,
    ) -> Result<Vec<Value>, Status> {
        let collection = self.collection(resource, workspace, namespace)?;
        let (mut objects, mut token, mut pages) = (Vec::new(), String::new(), Pages::default());
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
            if let Some(items) = page["items"].as_array_mut() {
                objects.append(items);
            }
            token = page["metadata"]["continue"].as_str().unwrap_or_default().to_string();
            if token.is_empty() {
                return Ok(objects);
            }
        }
    }

    /// A merge patch of an object or, if there is one, of its subresource.
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

    /// A strategic merge patch of an object of a built-in kind.
    pub async fn patch_strategic(
        &self,
        resource: &Resource,
        key: &Key,
        patch: &Value,
    ) -> Result<Value, Status> {
        let patched = self.client.patch(&self.path(resource, key)?, PatchType::Strategic, patch).await?;
        Ok(self.placed(patched, &key.workspace))
    }

    /// The same for its status alone.
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

    /// Asks a subresource that is created (a binding, an eviction) for something.
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
        // Lists of built-in kinds do not say what their items are, and where an object is from is not part of it.
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

    /// An answer as a cache holds it: it says which workspace it is from.
    fn placed(&self, mut object: Value, workspace: &str) -> Value {
        if self.tree.is_some()
            && object::metadata(&object).is_some_and(|metadata| metadata.contains_key("name"))
        {
            object::set_annotation(&mut object, WORKSPACE, workspace);
        }
        object
    }
}

/// Names of some kinds may have characters that mean something in a URL.
pub fn encoded(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:".contains(&byte);
    let mut out = String::with_capacity(name.len());
    for byte in name.bytes() {
        match plain(byte) {
            true => out.push(char::from(byte)),
            false => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_parts_of_urls() {
        assert_eq!(encoded("system:view"), "system:view");
        assert_eq!(encoded("a b?c#d%\u{e9}"), "a%20b%3Fc%23d%25%C3%A9");
    }

    #[test]
    fn deletions_say_only_what_they_mean() {
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
