//! Lines about namespaces: their labels and names below, and their deletion.

use atoll_fleet::Placement;
use atoll_fleet::pod_security::Labels;
use atoll_fleet::view::{ObjectTarget, SyncLine};
use atoll_meta::{Status, object};
use atoll_registry::run_in_place;
use atoll_store::{Key, key};
use atoll_watch::Object;
use serde_json::Value;

use super::super::dialects;
use super::super::namespaces::TerminatingNamespace;
use super::super::object_facts::is_being_deleted;
use super::{View, ViewEnded};

impl View {
    /// Returns the namespace of an object that is being deleted, if the namespace is being deleted as well
    /// and this was not sent yet.
    pub(super) async fn terminating_namespace(
        &mut self,
        key: &Key,
        object: Option<&Value>,
    ) -> Option<(String, String)> {
        let parts = key.parts().filter(|parts| !parts.namespace.is_empty())?;
        let place = (parts.workspace.to_string(), parts.namespace.to_string());
        if !object.is_some_and(object::is_being_deleted) {
            // The namespace may be a new one of the same name.
            if object.is_some() {
                self.terminating.remove(&place);
            }
            return None;
        }
        if self.terminating.contains(&place) || !self.scope().contains(&self.server.registry, parts.workspace)
        {
            return None;
        }
        if !self.is_namespace_deleted(&place).await? {
            return None;
        }
        self.terminating.insert(place.clone());
        Some(place)
    }

    /// Returns a line with the Pod Security labels of an object's namespace, if it is the first object in it
    /// and the labels are not the defaults.
    pub(super) async fn first_labels(&mut self, key: &Key, object: &Value) -> Option<SyncLine> {
        let parts = key.parts().filter(|parts| !parts.namespace.is_empty())?;
        let place = (parts.workspace.to_string(), parts.namespace.to_string());
        if self.labels.contains_key(&place) {
            return None;
        }
        self.scope().share(&self.server.registry, parts.workspace, &Placement::of(object))?;
        let (labels, below) = self.required(&place).await;
        let is_news = labels != Labels::fallback(place.0 == self.workspace) || below.is_some();
        self.labels.insert(place.clone(), labels.clone());
        let (workspace, namespace) = place;
        is_news.then_some(SyncLine::Namespace { workspace, namespace, labels, below })
    }

    /// Sends changed Pod Security labels of namespaces.
    pub(super) async fn send_labels(&mut self, places: Vec<(String, String)>) -> Result<(), ViewEnded> {
        for place in places {
            let Some(before) = self.labels.get(&place).cloned() else { continue };
            let (labels, below) = self.required(&place).await;
            if labels != before {
                self.labels.insert(place.clone(), labels.clone());
                let (workspace, namespace) = place;
                self.send(&SyncLine::Namespace { workspace, namespace, labels, below }).await?;
            }
        }
        Ok(())
    }

    /// Returns the Pod Security labels of a namespace below, and its prescribed name.
    async fn required(&mut self, (workspace, namespace): &(String, String)) -> (Labels, Option<String>) {
        let key = Key::object("", "namespaces", workspace, "", namespace);
        let found = self.server.registry.snapshot().get(&key);
        let object = self.read(&key, found).await.unwrap_or_default();
        let labels = Labels::of(&self.registered, *workspace == self.workspace, &object);
        let below = dialects::namespace_below(&self.server, workspace, namespace, &object, &self.registered);
        (labels, below)
    }

    /// Sends that namespaces are being deleted or were deleted, so that the syncer deletes what is left in
    /// them.
    pub(super) async fn send_terminating(
        &mut self,
        ended: Vec<TerminatingNamespace>,
    ) -> Result<(), ViewEnded> {
        for TerminatingNamespace { place, seen } in ended {
            let is_ending =
                self.is_deleted(&seen).await && self.is_namespace_deleted(&place).await != Some(false);
            if !is_ending {
                continue;
            }
            let (workspace, namespace) = place;
            self.send(&SyncLine::Ending { workspace, namespace, uid: String::new(), since: 0 }).await?;
        }
        Ok(())
    }

    /// Whether a namespace is being deleted. Returns `None` if it does not exist.
    async fn is_namespace_deleted(&mut self, (workspace, name): &(String, String)) -> Option<bool> {
        let key = Key::object("", "namespaces", workspace, "", name);
        let found = self.server.registry.snapshot().get(&key)?;
        Some(self.is_deleted(&found).await)
    }

    /// Whether an object is being deleted, which is read in a turn of its tenant.
    async fn is_deleted(&mut self, object: &Object) -> bool {
        let _turn = self.begin(&object.key, object.size()).await;
        run_in_place(object.size(), || is_being_deleted(object))
    }

    /// Records on the namespace of an object that the cluster may have a copy of the namespace.
    pub(super) async fn record_namespace(&self, parts: &key::Parts<'_>) -> Result<(), Status> {
        if parts.namespace.is_empty() {
            return Ok(());
        }
        let registry = &self.server.registry;
        match registry.place_namespace(parts.workspace, parts.namespace, &self.cluster, &self.uid).await {
            // The namespace does not exist.
            Err(status) if status.code() == 404 => Ok(()),
            outcome => outcome,
        }
    }

    /// Returns the line about a namespace that the cluster may have, if the namespace is being deleted.
    pub(super) fn namespace_line(
        &mut self,
        key: &Key,
        target: ObjectTarget,
        object: &Value,
    ) -> Option<SyncLine> {
        if !object::is_being_deleted(object) {
            return None;
        }
        self.sent.entry(key.clone()).or_default().target.clone_from(&target);
        let since = self.server.registry.placements.leaving_since(&self.cluster, &self.uid, key)?;
        Some(SyncLine::Ending { workspace: target.workspace, namespace: target.name, uid: target.uid, since })
    }
}
