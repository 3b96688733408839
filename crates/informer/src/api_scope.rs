//! API access to one server or to all workspaces: maps keys to paths, and writes objects.

use std::sync::Arc;

use atoll_client::path::{self, encoded};
use atoll_client::{Client, PatchType};
use atoll_meta::{Status, names, object};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::{Key, Pages, Resource, Tree, WORKSPACE};

/// Cause of a transient error: an object may be observed before its workspace.
pub(crate) const UNKNOWN: &str = "UnknownWorkspace";
/// The status subresource.
const STATUS: &str = "status";
/// Objects of a page of a list whose objects may be large, and the turns of such lists.
const LARGE_PAGE: usize = 16;
static LARGE_LISTS: Semaphore = Semaphore::const_new(1);

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
        format!("{all}{}", resource.collection(""))
    }

    /// Returns the path to list and watch the objects of a resource in a workspace and in those below it that have the
    /// same definition of the resource.
    pub fn below(&self, resource: &Resource, workspace: &str) -> Result<String, Status> {
        let Some(tree) = &self.tree else { return Ok(resource.collection("")) };
        let path = tree.path(workspace).ok_or_else(|| unknown(workspace))?;
        Ok(format!("/clusters/{}{}", encoded(&format!("{path}:*")), resource.collection("")))
    }

    /// Returns the path prefix of a workspace. A workspace that is not known is a transient error: either it
    /// becomes known, or its objects are deleted soon.
    pub fn root(&self, workspace: &str) -> Result<String, Status> {
        match &self.tree {
            None => Ok(String::new()),
            Some(tree) => match tree.path(workspace) {
                Some(path) => Ok(format!("/clusters/{}", encoded(&path))),
                None => Err(unknown(workspace)),
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

    /// Returns the id of the child of root that a workspace is or is below; root is on its own.
    pub fn tenant(&self, workspace: &str) -> String {
        let mut ancestry = self.ancestry(workspace);
        let top = ancestry.len().saturating_sub(2);
        ancestry.get_mut(top).map_or_else(|| workspace.to_string(), |(id, _)| std::mem::take(id))
    }

    /// Returns the path of a resource in a namespace; with an empty namespace, of all namespaces or of a
    /// cluster-scoped resource. A name that no namespace can have is not found: it may come from any field of
    /// an object, such as a reference to another one.
    pub fn collection(
        &self,
        resource: &Resource,
        workspace: &str,
        namespace: &str,
    ) -> Result<String, Status> {
        let root = self.root(workspace)?;
        if !namespace.is_empty() && !names::dns1123_label(namespace).is_empty() {
            return Err(Status::not_found("", "namespaces", namespace));
        }
        Ok(format!("{root}{}", resource.collection(namespace)))
    }

    /// Returns the path of an object. A name that no object can have is not found.
    pub fn path(&self, resource: &Resource, key: &Key) -> Result<String, Status> {
        let collection = self.collection(resource, &key.workspace, &key.namespace)?;
        // Without a name, the path would be that of all objects.
        if key.name.is_empty() || !names::path_segment_name(&key.name).is_empty() {
            return Err(Status::not_found(&resource.group, &resource.plural, &key.name));
        }
        Ok(path::object(&collection, &key.name))
    }

    pub async fn get(&self, resource: &Resource, key: &Key) -> Result<Value, Status> {
        let object = self.client.get(&self.path(resource, key)?).await?;
        self.read(object, key)
    }

    /// Reads only the metadata of an object.
    pub async fn get_metadata(&self, resource: &Resource, key: &Key) -> Result<Value, Status> {
        let object = self.client.get_metadata(&self.path(resource, key)?).await?;
        self.read(object, key)
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
        let path = format!("{}?fieldManager={}&force=true", self.path(resource, key)?, encoded(manager));
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
            let (collection, from) = (&collection, encoded(&token));
            let from = &from;
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

    /// Lists objects that may be large, a few at a time. Such lists of all controllers take turns, because each takes
    /// much memory.
    pub async fn list_large(
        &self,
        resource: &Resource,
        workspace: &str,
        namespace: &str,
        mut show: impl FnMut(Vec<Value>),
    ) -> Result<(), Status> {
        let collection = self.collection(resource, workspace, namespace)?;
        let mut token = String::new();
        loop {
            // The semaphore is never closed.
            let _turn = LARGE_LISTS.acquire().await;
            let page = format!("{collection}?limit={LARGE_PAGE}&continue={}", encoded(&token));
            let mut page = self.client.get(&page).await?;
            if let Value::Array(items) = page["items"].take() {
                show(items);
            }
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

    /// Sends a merge patch for an object under the name of a field manager.
    pub async fn patch_as(
        &self,
        manager: &str,
        resource: &Resource,
        key: &Key,
        patch: &Value,
    ) -> Result<Value, Status> {
        let path = format!("{}?fieldManager={}", self.path(resource, key)?, encoded(manager));
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

    /// Returns the object that was read, if it has the requested name.
    fn read(&self, object: Value, key: &Key) -> Result<Value, Status> {
        if object::name(&object) != &*key.name || object::namespace(&object) != &*key.namespace {
            return Err(Status::internal_error(format!("the response for {key} is another object")));
        }
        Ok(self.placed(object, &key.workspace))
    }

    /// Annotates a response with its workspace, like the objects in a cache. Replaces any other annotation: a
    /// response that is not an object of the workspace, such as one of a proxy, may contain anything.
    fn placed(&self, mut object: Value, workspace: &str) -> Value {
        if self.tree.is_none() {
            return object;
        }
        match object::name(&object).is_empty() {
            true => object::remove_annotation(&mut object, WORKSPACE),
            false => object::set_annotation(&mut object, WORKSPACE, workspace),
        }
        object
    }
}

fn unknown(workspace: &str) -> Status {
    let message = format!("workspace {workspace} is not known yet");
    Status::service_unavailable(message).with_cause(UNKNOWN, "", "")
}

#[cfg(test)]
mod tests {
    use atoll_client::{BoxError, BoxFuture, ResponseBody, Transport};
    use bytes::Bytes;
    use http::{Request, Response};
    use http_body_util::{BodyExt, Full};

    use super::*;
    use crate::resources;

    struct Answer(Value);

    impl Transport for Answer {
        fn send(&self, _: Request<Bytes>) -> BoxFuture<'_, Result<Response<ResponseBody>, BoxError>> {
            let body = Full::from(self.0.to_string()).map_err(|never| match never {}).boxed_unsync();
            Box::pin(async move { Ok(Response::new(body)) })
        }
    }

    fn scope(answer: Value) -> ApiScope {
        ApiScope::all_workspaces(Client::new(Arc::new(Answer(answer))), Arc::default())
    }

    #[test]
    fn names_from_objects_are_single_segments() {
        let api = scope(json!({}));
        let path = |namespace: &str, name: &str| {
            api.path(&resources::PODS, &Key::new("root", namespace, name))
                .map_err(|status| status.reason().to_string())
        };
        let pods = "/clusters/root/api/v1";
        assert_eq!(path("n", "a:b c?d#e"), Ok(format!("{pods}/namespaces/n/pods/a:b%20c%3Fd%23e")));
        assert_eq!(path("", "a"), Ok(format!("{pods}/pods/a")));
        for (namespace, name) in [
            ("n/pods?watch=true", "a"),
            ("n?", "a"),
            ("n#", "a"),
            ("..", "a"),
            ("n%2Fa", "a"),
            ("N", "a"),
            ("n", ""),
            ("n", "."),
            ("n", ".."),
            ("n", "a/log"),
            ("n", "a%2Flog"),
        ] {
            assert_eq!(path(namespace, name), Err("NotFound".into()), "{namespace} {name}");
        }
    }

    #[tokio::test]
    async fn responses_belong_to_the_requested_workspace_and_object() {
        let answer = |name: &str, namespace: &str| {
            let annotations = json!({ WORKSPACE: "root" });
            json!({ "metadata": { "name": name, "namespace": namespace, "annotations": annotations } })
        };
        let workspace = "aaaaaaaaaaaaaaa";
        let key = Key::new(workspace, "n", "a");
        for (answer, is_it) in [
            (answer("a", "n"), true),
            (answer("b", "n"), false),
            (answer("a", "m"), false),
            (answer("", "n"), false),
            (json!([]), false),
            (json!({ "metadata": { "annotations": { WORKSPACE: "root" } } }), false),
        ] {
            let api = scope(answer.clone());
            api.tree.as_ref().unwrap().insert(workspace, "root", "org");
            let found = api.get(&resources::PODS, &key).await;
            assert_eq!(found.as_ref().is_ok_and(|found| Key::of(found) == key), is_it, "{answer}");
            assert_eq!(found.is_ok(), is_it, "{answer}");
            let written = api.patch(&resources::PODS, &key, "", &json!({})).await.unwrap();
            assert_ne!(*Key::of(&written).workspace, *"root", "{answer}");
        }
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
