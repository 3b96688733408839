//! Deletes or releases objects that are no longer desired, and deletes their namespace afterwards.

use atoll_client::PatchType;
use atoll_fleet::view::{RETAINED, State};
use atoll_fleet::{definitions, marks};
use atoll_informer::Next;
use atoll_meta::{Status, object};
use serde_json::{Value, json};

use super::Work;
use crate::below::path;
use crate::ending::SOON;
use crate::reconcile::{Found, Seen, Step, judge};
use crate::retire::{Retired, retire};

impl Work<'_> {
    pub(super) async fn delete(&self, seen: &Seen) -> Result<Next, Status> {
        let target = &self.task.target;
        // Never delete a definition: its custom resources may belong to other users.
        if self.is_definition() {
            return self.let_go(seen).await;
        }
        let Some(namespace) = self.namespace() else { return self.look().await };
        let options = json!({
            "apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background",
            "preconditions": { "uid": seen.uid, "resourceVersion": seen.resource_version },
        });
        let place = path(&target.resource, &namespace, &target.name);
        match self.core.in_turn.delete(&place, &options).await {
            Ok(_) => self.look().await,
            // Changed or deleted meanwhile: read it again.
            Err(status) if matches!(status.code(), 404 | 409) => self.look().await,
            Err(status) => Err(status),
        }
    }

    /// Removes the marks from the object and leaves it, instead of deleting it.
    pub(super) async fn let_go(&self, seen: &Seen) -> Result<Next, Status> {
        let target = &self.task.target;
        let Some(namespace) = self.namespace() else { return self.look().await };
        let place = path(&target.resource, &namespace, &target.name);
        let is_it = |found: &Value| object::uid(found) == seen.uid;
        let Some(found) = self.core.in_turn.get(&place).await?.filter(is_it) else {
            return self.look().await;
        };
        let stays = self.is_definition() || object::annotation(&found, marks::KEEP).is_some();
        if !stays || !matches!(judge(Some(&found), self.control_plane, target), Found::Ours(_)) {
            return self.look().await;
        }
        if !self.may_go_on(&Step::LetGo) {
            return Ok(Next::Again);
        }
        let mut patch = atoll_fleet::release(&found);
        patch["metadata"]["uid"] = seen.uid.as_str().into();
        patch["metadata"]["resourceVersion"] = object::resource_version(&found).into();
        match self.core.in_turn.patch(&place, PatchType::Merge, &patch).await {
            Ok(_) => {
                self.core.table.lost(self.key, &seen.uid);
                self.over(self.why_it_stays(&seen.keep)).await
            }
            // Changed or deleted meanwhile: read it again.
            Err(status) if matches!(status.code(), 404 | 409) => self.look().await,
            Err(status) => Err(status),
        }
    }

    pub(super) fn is_definition(&self) -> bool {
        let resource = &self.task.target.resource;
        definitions::is_definition(&resource.group, &resource.resource)
    }

    /// Returns why an object that is no longer desired stays in the cluster; `keep` are the objects that
    /// refer to it.
    pub(super) fn why_it_stays(&self, keep: &str) -> String {
        match self.is_definition() {
            true => {
                let message = definitions::stays(&self.core.settings.cluster, &self.task.target.name);
                tracing::warn!(cluster = %self.core.settings.cluster, "{message}");
                format!("{RETAINED}{message}")
            }
            false => format!("the object stays in the cluster without Atoll, because {keep} refers to it"),
        }
    }

    /// Finishes the removal after the object is gone.
    pub(super) async fn over(&self, message: String) -> Result<Next, Status> {
        if let Some((why, again)) = self.retire().await? {
            self.settle(Some((State::Applied, why)))?;
            return Ok(again);
        }
        self.gone(message)
    }

    /// Deletes the namespace if it is being deleted above and this was its last object. Returns why that must
    /// wait, if so.
    pub(super) async fn retire(&self) -> Result<Option<(String, Next)>, Status> {
        let (target, locator) = (&self.task.target, self.locator());
        let is_last = target.resource.namespaced
            && self.core.spaces.is_ending(&locator)
            && !self.core.table.has_neighbours(self.key, target);
        let Some(name) = self.core.spaces.get(&locator).filter(|_| is_last) else { return Ok(None) };
        if let Some(why) = self.core.pauses.of(&target.workspace) {
            return Ok(Some((format!("the namespace is not deleted yet: {why}"), Next::Done)));
        }
        let is_still = || self.core.spaces.is_ending(&locator) && self.may_go_on(&Step::Delete);
        match retire(&self.core.in_turn, &locator, &name, is_still).await? {
            Retired::Gone | Retired::NotOurs => self.core.spaces.forget(&locator),
            Retired::NotNow => return Ok(Some((String::new(), Next::Again))),
            Retired::Passing(contents) | Retired::Silent(contents)
                if self.core.spaces.is_patient(&locator) =>
            {
                let why = format!("the namespace waits for its remaining objects: {}", contents.join(", "));
                return Ok(Some((why, Next::After(SOON))));
            }
            // The namespace has its own work item, which waits as long as necessary.
            Retired::Unseen(_) | Retired::Silent(_) => {}
            Retired::Kept(contents) | Retired::Passing(contents) => self.core.tell_kept(&name, &contents),
        }
        Ok(None)
    }
}
