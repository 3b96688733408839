//! Stores ControllerRevisions in the API.

// upstream: pkg/controller/history/controller_history.go

use std::sync::Arc;

use atoll_informer::{ApiScope, Cache, DeleteOptions, Informers, Key, Resource, resources};
use atoll_meta::{LabelSelector, Status, object};
use serde_json::Value;

use super::{hash, in_order, name, number, same};
use crate::shared::controller_refs::{self, ControllerRefManager};

/// Revisions of one kind of workload.
#[derive(Clone)]
pub(crate) struct History {
    api: ApiScope,
    pub cache: Arc<Cache>,
    orphans: usize,
    kind: &'static Resource,
}

impl History {
    pub fn new(informers: &Informers, kind: &'static Resource) -> History {
        let cache = informers.of(&resources::CONTROLLER_REVISIONS);
        let orphans = cache.index(controller_refs::orphans);
        History { api: informers.api().clone(), cache, orphans, kind }
    }

    /// Returns the owner's revisions after adopting selected orphans, the newest last.
    pub async fn claimed(&self, owner: &Value, selector: &LabelSelector) -> Result<Vec<Arc<Value>>, Status> {
        let mut candidates = controller_refs::candidates(&self.cache, self.orphans, owner);
        candidates.retain(|revision| !object::is_being_deleted(revision));
        let claim = ControllerRefManager {
            api: &self.api,
            cache: &self.cache,
            owners: self.kind,
            owner,
            selector,
            finalizers: &[],
        };
        let mut claimed = claim.claim(candidates).await?;
        claimed.sort_by(|one, other| in_order(one, other));
        Ok(claimed)
    }

    /// Creates a revision, under another name if its name is taken by different data.
    pub async fn create(
        &self,
        owner: &Value,
        mut revision: Value,
        collisions: &mut i64,
    ) -> Result<Arc<Value>, Status> {
        let key = Key::of(owner);
        loop {
            let wanted = name(object::name(owner), &hash(&revision["data"], Some(*collisions)));
            object::set_name(&mut revision, &wanted);
            match self.create_once(&key, &revision).await {
                Err(status) if status.reason() == "AlreadyExists" => {
                    let existing = self.api.get(&self.cache.resource, &key.sibling(&wanted)).await?;
                    if same(&existing["data"], &revision["data"]) {
                        self.cache.wrote(&existing);
                        return Ok(Arc::new(existing));
                    }
                    *collisions += 1;
                }
                answer => return answer,
            }
        }
    }

    /// Creates a revision under its own name, in the namespace of `owner_key`.
    pub async fn create_once(&self, owner_key: &Key, revision: &Value) -> Result<Arc<Value>, Status> {
        let created = self
            .api
            .create(&self.cache.resource, &owner_key.workspace, &owner_key.namespace, revision)
            .await?;
        self.cache.wrote(&created);
        Ok(Arc::new(created))
    }

    /// Reads a revision from the API.
    pub async fn get(&self, key: &Key) -> Result<Value, Status> {
        self.api.get(&self.cache.resource, key).await
    }

    pub async fn update(&self, revision: &Value) -> Result<Arc<Value>, Status> {
        let updated = self.api.update(&self.cache.resource, revision).await?;
        self.cache.wrote(&updated);
        Ok(Arc::new(updated))
    }

    /// Sets the number of a revision.
    pub async fn renumber(&self, revision: &Arc<Value>, to: i64) -> Result<Arc<Value>, Status> {
        if number(revision) == to {
            return Ok(revision.clone());
        }
        let mut changed = revision.as_ref().clone();
        changed["revision"] = to.into();
        self.update(&changed).await
    }

    pub async fn delete(&self, revision: &Value) -> Result<(), Status> {
        let key = Key::of(revision);
        let options = DeleteOptions { uid: Some(object::uid(revision)), ..DeleteOptions::default() };
        match self.api.delete(&self.cache.resource, &key, options).await {
            Err(status) if status.reason() != "NotFound" => Err(status),
            _ => {
                self.cache.deleting(&key, object::uid(revision));
                Ok(())
            }
        }
    }
}
