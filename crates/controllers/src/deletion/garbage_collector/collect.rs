//! Processes one object: deletes it, or releases the objects that wait for it.

// upstream: pkg/controller/garbagecollector/garbagecollector.go
// upstream: pkg/controller/garbagecollector/operations.go

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use atoll_client::PatchType;
use atoll_informer::{ApiScope, DeleteOptions, Key, Next, Queue, Recorder, Resource, encoded};
use atoll_meta::{Status, object};
use serde_json::{Value, json};

use super::decide::{self, Decision, OwnerState, decide};
use super::graph::{FOREGROUND, Graph, GraphNode, Item, ORPHAN, Owner};
use super::monitors::add;
use super::rest_mapper::RestMapper;

/// Delay before an object with an owner of an unknown kind is retried, because the kind may be defined later.
const UNKNOWN_KIND: Duration = Duration::from_secs(30);

pub struct Collector {
    pub api: ApiScope,
    pub graph: Arc<Mutex<Graph>>,
    pub rest_mapper: Arc<RestMapper>,
    pub queue: Queue,
    pub recorder: Recorder,
}

/// Result of looking up an owner.
enum OwnerLookup {
    Found(OwnerState),
    /// The owner's kind is not served.
    UnknownKind,
    /// A cluster-scoped object cannot be owned by a namespaced one.
    Impossible,
}

impl Collector {
    pub async fn process(&self, key: &Key) -> Result<Next, Status> {
        let node = GraphNode { workspace: key.workspace.clone(), uid: key.name.clone() };
        let Some(item) = self.graph().get(&node) else { return Ok(Next::Done) };
        if item.orphans {
            self.orphan(&item).await?;
        } else if item.waits {
            self.release(&item).await?;
        } else if !item.is_being_deleted {
            return self.attempt_to_delete(&item).await;
        }
        Ok(Next::Done)
    }

    fn graph(&self) -> MutexGuard<'_, Graph> {
        self.graph.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes an object that a live read did not find, even if the watch event has not arrived yet.
    fn remove_from_graph(&self, item: &Item) {
        let work = self.graph().remove(&item.node());
        add(&self.queue, work);
    }

    /// Reads the object; `None` if it is gone.
    async fn live(&self, item: &Item) -> Result<Option<Value>, Status> {
        match self.api.get_metadata(&item.resource, &item.key).await {
            Ok(live) if object::uid(&live) == &*item.uid => Ok(Some(live)),
            Err(status) if status.reason() != "NotFound" => Err(status),
            _ => {
                self.remove_from_graph(item);
                Ok(None)
            }
        }
    }

    /// Decides whether an object with owners may stay.
    async fn attempt_to_delete(&self, item: &Item) -> Result<Next, Status> {
        let mut owners = Vec::with_capacity(item.owners.len());
        for owner in &item.owners {
            owners.push(match self.look_up_owner(item, owner).await? {
                OwnerLookup::Found(state) => (owner.clone(), state),
                OwnerLookup::UnknownKind => return Ok(Next::After(UNKNOWN_KIND)),
                OwnerLookup::Impossible => return Ok(Next::Done),
            });
        }
        if owners.iter().all(|(_, state)| *state == OwnerState::Solid) {
            return Ok(Next::Done);
        }
        let Some(live) = self.live(item).await? else { return Ok(Next::Done) };
        // The owners have changed, so the graph is outdated: update it and wait for the watch event.
        let uids: Vec<&str> = object::owner_references(&live).map(|owner| owner.uid).collect();
        if !uids.iter().copied().eq(item.owners.iter().map(|owner| &*owner.uid)) {
            let work = self.graph().update(&item.resource, item.key.clone(), &live);
            add(&self.queue, work);
            return Ok(Next::Done);
        }
        let dependents = self.graph().dependents(&item.node());
        match decide(&live, &owners, &dependents) {
            Decision::Keep => {}
            Decision::RemoveReferences(uids) => self.remove_references(item, &uids).await?,
            Decision::DeleteForeground { unblock } => {
                let live = match unblock {
                    true => self.unblock(item, &live).await?,
                    false => live,
                };
                self.delete(item, &live, "Foreground").await?;
            }
            Decision::Delete(propagation) => self.delete(item, &live, propagation).await?,
        }
        Ok(Next::Done)
    }

    async fn look_up_owner(&self, item: &Item, owner: &Owner) -> Result<OwnerLookup, Status> {
        if self.graph().is_known_owner(item, owner) {
            return Ok(OwnerLookup::Found(OwnerState::Solid));
        }
        let workspace = &item.key.workspace;
        let found = self.rest_mapper.resource(&self.api, workspace, &owner.api_version, &owner.kind);
        let Some(resource) = found else {
            return Ok(OwnerLookup::UnknownKind);
        };
        if resource.namespaced && item.key.namespace.is_empty() {
            self.record_invalid_namespace(item, owner, &resource).await;
            return Ok(OwnerLookup::Impossible);
        }
        let namespace = if resource.namespaced { &*item.key.namespace } else { "" };
        let key = Key::new(workspace, namespace, &owner.name);
        let state = match self.api.get_metadata(&resource, &key).await {
            Ok(live) => decide::state(owner, &live),
            Err(status) if status.reason() == "NotFound" => OwnerState::Dangling,
            Err(status) => return Err(status),
        };
        match state {
            OwnerState::Solid => self.graph().add_known_owner(item, owner, &resource),
            OwnerState::Dangling if resource.namespaced => {
                self.record_invalid_namespace(item, owner, &resource).await
            }
            _ => {}
        }
        Ok(OwnerLookup::Found(state))
    }

    /// Records an event if the owner exists in another namespace, where it does not count.
    async fn record_invalid_namespace(&self, item: &Item, owner: &Owner, resource: &Resource) {
        let Ok(path) = self.api.collection(resource, &item.key.workspace, "") else { return };
        let path = format!("{path}?fieldSelector=metadata.name%3D{}", encoded(&owner.name));
        let Ok(list) = self.api.client().list_metadata(&path).await else { return };
        let mut others = list["items"].as_array().into_iter().flatten();
        if others.any(|other| object::uid(other) == &*owner.uid) {
            let namespace = &item.key.namespace;
            let (version, kind, name, uid) = (&owner.api_version, &owner.kind, &owner.name, &owner.uid);
            let message = format!(
                "ownerRef [{version}/{kind}, namespace: {namespace}, name: {name}, uid: {uid}] does not exist in namespace {namespace:?}"
            );
            let mut about = json!({"metadata": {
                "name": *item.key.name, "namespace": *item.key.namespace, "uid": *item.uid,
            }});
            if self.api.has_workspaces() {
                object::set_annotation(&mut about, atoll_informer::WORKSPACE, &item.key.workspace);
            }
            self.recorder.warning(&item.resource, &about, "OwnerRefInvalidNamespace", message);
        }
    }

    async fn delete(&self, item: &Item, live: &Value, propagation: &str) -> Result<(), Status> {
        let options = DeleteOptions {
            propagation: Some(propagation),
            uid: Some(&item.uid),
            resource_version: Some(object::resource_version(live)),
            ..DeleteOptions::default()
        };
        let mut outcome = self.api.delete(&item.resource, &item.key, options).await;
        if outcome.as_ref().is_err_and(|status| status.reason() == "Conflict") {
            let Some(now) = self.live(item).await? else { return Ok(()) };
            // Retry without the resource version, if the owners are unchanged.
            if now["metadata"]["ownerReferences"] == live["metadata"]["ownerReferences"] {
                let options = DeleteOptions { resource_version: None, ..options };
                outcome = self.api.delete(&item.resource, &item.key, options).await;
            }
        }
        match outcome {
            Err(status) if status.reason() == "NotFound" => self.remove_from_graph(item),
            outcome => drop(outcome?),
        }
        Ok(())
    }

    /// Removes owner references from an object.
    async fn remove_references(&self, item: &Item, uids: &[String]) -> Result<(), Status> {
        let gone: Vec<Value> = uids.iter().map(|uid| json!({"$patch": "delete", "uid": uid})).collect();
        let patch = json!({"metadata": {"uid": *item.uid, "ownerReferences": gone}});
        match self.api.patch_strategic(&item.resource, &item.key, &patch).await {
            Ok(_) => Ok(()),
            Err(status) if status.reason() == "NotFound" => Ok(()),
            // Custom resources do not support strategic merge patches.
            Err(status) if status.code() == 415 => {
                let Some(live) = self.live(item).await? else { return Ok(()) };
                self.set_owners(item, &live, decide::references_without(&live, uids)).await.map(drop)
            }
            Err(status) => Err(status),
        }
    }

    /// Clears `blockOwnerDeletion` in the owner references of an object. Returns the updated object.
    async fn unblock(&self, item: &Item, live: &Value) -> Result<Value, Status> {
        self.set_owners(item, live, decide::unblocked_references(live)).await
    }

    async fn set_owners(&self, item: &Item, live: &Value, owners: Vec<Value>) -> Result<Value, Status> {
        let patch = json!({"metadata": {
            "resourceVersion": object::resource_version(live),
            "ownerReferences": owners,
        }});
        self.api.patch(&item.resource, &item.key, "", &patch).await
    }

    /// Removes the object from the owner references of all objects that it owns.
    async fn orphan(&self, item: &Item) -> Result<(), Status> {
        let dependents = self.graph().dependents(&item.node());
        let owner = [item.uid.to_string()];
        for dependent in &dependents {
            self.remove_references(dependent, &owner).await?;
        }
        self.remove_finalizer(item, ORPHAN).await
    }

    /// Removes the foreground finalizer when no blocking owned object is left.
    async fn release(&self, item: &Item) -> Result<(), Status> {
        if self.live(item).await?.is_none() {
            return Ok(());
        }
        let blocks = |owner: &Owner| owner.uid == item.uid && owner.blocks;
        let mut blocking = self.graph().dependents(&item.node());
        blocking.retain(|dependent| dependent.owners.iter().any(blocks));
        if blocking.is_empty() {
            return self.remove_finalizer(item, FOREGROUND).await;
        }
        let work = blocking.iter().filter(|dependent| !dependent.waits).map(Item::node);
        add(&self.queue, work.collect());
        Ok(())
    }

    async fn remove_finalizer(&self, item: &Item, finalizer: &str) -> Result<(), Status> {
        let Some(live) = self.live(item).await? else { return Ok(()) };
        let kept: Vec<&str> = object::finalizers(&live).filter(|own| *own != finalizer).collect();
        if kept.len() == object::finalizers(&live).count() {
            return Ok(());
        }
        let patch = json!({"metadata": {
            "resourceVersion": object::resource_version(&live),
            "finalizers": kept,
        }});
        let path = self.api.path(&item.resource, &item.key)?;
        match self.api.client().patch(&path, PatchType::Merge, &patch).await {
            Err(status) if status.reason() == "NotFound" => Ok(()),
            outcome => outcome.map(drop),
        }
    }
}
