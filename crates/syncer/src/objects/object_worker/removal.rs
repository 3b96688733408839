//! Deletes or releases objects that are no longer desired, and deletes their namespace afterwards.

use atoll_client::PatchType;
use atoll_fleet::view::{RETAINED_PREFIX, State};
use atoll_fleet::{definitions, marks};
use atoll_informer::Next;
use atoll_meta::{Status, object};
use serde_json::{Value, json};

use super::ObjectWork;
use crate::connections::cluster_client::path;
use crate::namespaces::deletion::{NamespaceDeletion, delete_if_empty};
use crate::namespaces::namespace_worker::SHORT_PAUSE;
use crate::objects::reconcile::{Action, Lookup, ObservedObject, classify};

impl ObjectWork<'_> {
    pub(super) async fn delete(&self, seen: &ObservedObject) -> Result<Next, Status> {
        let target = &self.task.target;
        // Never delete a definition: its custom resources may belong to other users.
        if self.is_definition() {
            return self.release(seen).await;
        }
        let Some(namespace) = self.namespace() else { return self.read_again().await };
        let options = json!({
            "apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background",
            "preconditions": { "uid": seen.uid, "resourceVersion": seen.resource_version },
        });
        let place = path(&target.resource, &namespace, &target.name);
        match self.syncer.with_permit.delete(&place, &options).await {
            Ok(_) => self.read_again().await,
            // Changed or deleted meanwhile: read it again.
            Err(status) if matches!(status.code(), 404 | 409) => self.read_again().await,
            Err(status) => Err(status),
        }
    }

    /// Removes the marks from the object and leaves it, instead of deleting it.
    pub(super) async fn release(&self, seen: &ObservedObject) -> Result<Next, Status> {
        let target = &self.task.target;
        let Some(namespace) = self.namespace() else { return self.read_again().await };
        let place = path(&target.resource, &namespace, &target.name);
        let is_it = |found: &Value| object::uid(found) == seen.uid;
        let Some(found) = self.syncer.with_permit.get(&place).await?.filter(is_it) else {
            return self.read_again().await;
        };
        let stays = self.is_definition() || object::annotation(&found, marks::KEEP).is_some();
        if !stays || !matches!(classify(Some(&found), self.control_plane, target), Lookup::Managed(_)) {
            return self.read_again().await;
        }
        if !self.is_still_valid(&Action::Release) {
            return Ok(Next::Again);
        }
        let mut patch = atoll_fleet::release(&found);
        patch["metadata"]["uid"] = seen.uid.as_str().into();
        patch["metadata"]["resourceVersion"] = object::resource_version(&found).into();
        match self.syncer.with_permit.patch(&place, PatchType::Merge, &patch).await {
            Ok(_) => {
                self.syncer.table.record_deleted(self.key, &seen.uid);
                self.finish_removal(self.kept_reason(&seen.keep)).await
            }
            // Changed or deleted meanwhile: read it again.
            Err(status) if matches!(status.code(), 404 | 409) => self.read_again().await,
            Err(status) => Err(status),
        }
    }

    pub(super) fn is_definition(&self) -> bool {
        let resource = &self.task.target.resource;
        definitions::is_definition(&resource.group, &resource.resource)
    }

    /// Returns why an object that is no longer desired stays in the cluster; `keep` are the objects that
    /// refer to it.
    pub(super) fn kept_reason(&self, keep: &str) -> String {
        match self.is_definition() {
            true => {
                let message = definitions::stays(&self.syncer.settings.cluster, &self.task.target.name);
                tracing::warn!(cluster = %self.syncer.settings.cluster, "{message}");
                format!("{RETAINED_PREFIX}{message}")
            }
            false => format!("the object stays in the cluster without Atoll, because {keep} refers to it"),
        }
    }

    /// Finishes the removal after the object is gone.
    pub(super) async fn finish_removal(&self, message: String) -> Result<Next, Status> {
        if let Some((why, again)) = self.delete_namespace().await? {
            self.record_state(Some((State::Applied, why)))?;
            return Ok(again);
        }
        self.gone(message)
    }

    /// Deletes the namespace if it is being deleted above and this was its last object. Returns why that must
    /// wait, if so.
    pub(super) async fn delete_namespace(&self) -> Result<Option<(String, Next)>, Status> {
        let (target, locator) = (&self.task.target, self.locator());
        let is_last = target.resource.namespaced
            && self.syncer.namespaces.is_terminating_above(&locator)
            && !self.syncer.table.has_others_in_namespace(self.key, target);
        let Some(name) = self.syncer.namespaces.get(&locator).filter(|_| is_last) else { return Ok(None) };
        if let Some(why) = self.syncer.pauses.reason_for(&target.workspace) {
            return Ok(Some((format!("the namespace is not deleted yet: {why}"), Next::Done)));
        }
        let is_still =
            || self.syncer.namespaces.is_terminating_above(&locator) && self.is_still_valid(&Action::Delete);
        match delete_if_empty(&self.syncer.with_permit, &locator, &name, is_still).await? {
            NamespaceDeletion::Gone | NamespaceDeletion::NotManaged => {
                self.syncer.namespaces.forget(&locator)
            }
            NamespaceDeletion::Superseded => return Ok(Some((String::new(), Next::Again))),
            NamespaceDeletion::OwnedOnly(contents) | NamespaceDeletion::Unavailable(contents)
                if self.syncer.namespaces.is_within_grace(&locator) =>
            {
                let why = format!("the namespace waits for its remaining objects: {}", contents.join(", "));
                return Ok(Some((why, Next::After(SHORT_PAUSE))));
            }
            // The namespace has its own work item, which waits as long as necessary.
            NamespaceDeletion::Forbidden(_) | NamespaceDeletion::Unavailable(_) => {}
            NamespaceDeletion::NotEmpty(contents) | NamespaceDeletion::OwnedOnly(contents) => {
                self.syncer.log_kept(&name, &contents)
            }
        }
        Ok(None)
    }
}
