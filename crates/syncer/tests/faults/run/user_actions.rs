//! Actions of users above.

use std::collections::BTreeSet;

use atoll_client::PatchType;
use atoll_fleet::{Placement, marks};
use atoll_meta::object;
use serde_json::{Value, json};

use super::{Simulation, WORKSPACE, named_object};
use crate::kinds::{KINDS, NAMES};
use crate::objects::{AboveState, CLUSTER_NAMES, NAMESPACES, NamespaceRef, ObjectRef, WORKSPACES};

impl Simulation {
    pub(super) fn random_object(&mut self) -> ObjectRef {
        let workspace = if self.random.chance(60) { &WORKSPACES[0] } else { &WORKSPACES[1] };
        let namespace = *self.random.pick(&NAMESPACES);
        let kind = self.random.pick(&KINDS);
        let name = *self.random.pick(&NAMES);
        ObjectRef { namespace_ref: NamespaceRef { workspace, namespace }, kind, name }
    }

    /// Returns a random existing object that matches.
    pub(super) async fn random_existing(&mut self, matches: impl Fn(&Value) -> bool) -> Option<ObjectRef> {
        let objects = AboveState::read(&self.above).await.objects;
        let candidates: Vec<ObjectRef> =
            objects.iter().filter(|(_, object)| matches(object)).map(|(object_ref, _)| *object_ref).collect();
        (!candidates.is_empty()).then(|| *self.random.pick(&candidates))
    }

    /// Performs an action that may remove objects from clusters, and records the requested deletions if the
    /// action succeeds. An additional object leaves all clusters but those in a list.
    async fn with_requested_deletions(
        &mut self,
        additional: Option<(&ObjectRef, &[&str])>,
        action: impl AsyncFnOnce(&Simulation) -> bool,
    ) {
        let (now, before) = (self.now(), AboveState::read(&self.above).await);
        if !action(self).await {
            return;
        }
        let after = AboveState::read(&self.above).await;
        for site in &mut self.sites {
            let wanted = after.wanted(site.name);
            let leaves = additional.filter(|(_, stays)| !stays.contains(&site.name));
            let leaves = leaves.map(|(object_ref, _)| *object_ref);
            let removed: BTreeSet<ObjectRef> =
                before.wanted(site.name).difference(&wanted).copied().chain(leaves).collect();
            for object in removed.iter().filter_map(|object_ref| before.objects.get(object_ref)) {
                site.expectations.requested_deletions.entry(object::uid(object).to_string()).or_insert(now);
            }
        }
    }

    /// Records that the deletion of an object, or of a namespace, was requested everywhere.
    fn deletion_requested(&mut self, uid_or_locator: &str) {
        let now = self.now();
        for site in &mut self.sites {
            site.expectations.requested_deletions.entry(uid_or_locator.to_string()).or_insert(now);
        }
    }

    pub async fn place(&mut self, object_ref: &ObjectRef, clusters: Value) {
        let all = clusters.as_array().into_iter().flatten();
        let stays: Vec<&str> = all.filter_map(|share| share["name"].as_str()).collect();
        let patch = json!({ "spec": { "clusters": clusters, "by": "hand" } });
        let path = format!("{}/placement", object_ref.path());
        self.with_requested_deletions(Some((object_ref, &stays[..])), async |run| {
            // Objects that are being deleted cannot be placed, and nothing can be placed while paused.
            run.above.client.patch(&path, PatchType::Merge, &patch).await.is_ok()
        })
        .await;
    }

    pub async fn create_object(&self, object_ref: &ObjectRef, number: u64, drift: Option<&str>) {
        let namespaces = format!("{}/api/v1/namespaces", object_ref.namespace_ref.workspace.prefix);
        let mut content = object_ref.kind.content(object_ref.name, number);
        if let Some(drift) = drift {
            object::set_annotation(&mut content, marks::DRIFT, drift);
        }
        // The namespace may exist, or may be being deleted.
        let _ =
            self.above.client.create(&namespaces, &named_object(object_ref.namespace_ref.namespace)).await;
        let _ = self.above.client.create(&object_ref.collection(), &content).await;
    }

    pub(super) async fn create(&mut self) {
        let object_ref = self.random_object();
        let number = self.random.below(1000);
        let drift = self.random.chance(15).then_some("report");
        self.create_object(&object_ref, number, drift).await;
        // Some dependents exist before their referrer, some are created later, some never.
        for dependent in AboveState::read(&self.above).await.dependents(&object_ref) {
            if self.random.chance(60) {
                let number = self.random.below(1000);
                self.create_object(&dependent, number, None).await;
            }
        }
        if object_ref.kind.is_dependent_kind() && self.random.chance(40) {
            return;
        }
        let cluster = *self.random.pick(&CLUSTER_NAMES);
        let share = self.random_share(&object_ref, cluster);
        self.place(&object_ref, json!([share])).await;
    }

    pub(super) async fn change(&mut self) {
        let Some(object_ref) = self.random_existing(|_| true).await else { return };
        let number = self.random.below(1000);
        let patch = object_ref.kind.change(number, &mut self.random);
        self.with_requested_deletions(None, async |run| {
            run.above.client.patch(&object_ref.path(), PatchType::Merge, &patch).await.is_ok()
        })
        .await;
    }

    pub(super) async fn delete(&mut self) {
        let Some(object_ref) = self.random_existing(|_| true).await else { return };
        let path = format!("{}?propagationPolicy=Background", object_ref.path());
        self.with_requested_deletions(Some((&object_ref, &[][..])), async |run| {
            run.above.client.delete(&path).await.is_ok()
        })
        .await;
    }

    /// Deletes a random namespace.
    pub(super) async fn delete_random_namespace(&mut self) {
        let namespaces: Vec<NamespaceRef> =
            AboveState::read(&self.above).await.namespaces.into_keys().collect();
        if namespaces.is_empty() {
            return;
        }
        let namespace_ref = *self.random.pick(&namespaces);
        self.delete_namespace_of(namespace_ref).await;
    }

    pub async fn delete_namespace_of(&mut self, namespace_ref: NamespaceRef) {
        let before = AboveState::read(&self.above).await;
        let is_in = |object_ref: &ObjectRef| object_ref.namespace_ref == namespace_ref;
        for site in &mut self.sites {
            let is_there = |(object_ref, object): (&ObjectRef, &Value)| {
                let is_placed = Placement::of(object).share(site.name).is_some();
                is_in(object_ref) && is_placed && !object::is_being_deleted(object)
            };
            // A restored control plane knows the namespace now.
            if before.objects.iter().any(is_there) {
                site.forgotten.remove(&namespace_ref);
            }
        }
        for (_, object) in before.objects.iter().filter(|(object_ref, _)| is_in(object_ref)) {
            self.deletion_requested(object::uid(object));
        }
        self.deletion_requested(&namespace_ref.locator(&self.control_plane).text());
        let _ = self.above.client.delete(&namespace_ref.path()).await;
    }

    /// Deletes a workspace with all its namespaces. Its id is never used again.
    pub(super) async fn delete_workspace(&mut self) {
        let workspace = &WORKSPACES[1];
        let before = AboveState::read(&self.above).await;
        for (_, object) in
            before.objects.iter().filter(|(object_ref, _)| object_ref.namespace_ref.workspace == workspace)
        {
            self.deletion_requested(object::uid(object));
        }
        for namespace_ref in NamespaceRef::all().filter(|namespace_ref| namespace_ref.workspace == workspace)
        {
            self.deletion_requested(&namespace_ref.locator(&self.control_plane).text());
        }
        if self.above.client.delete(WORKSPACE).await.is_ok() {
            self.done.deleted_workspaces += 1;
        }
    }
}
