//! Lines about objects: their shapes, their removal, and why the cluster does not get some of them.

use std::hash::BuildHasher;
use std::sync::Arc;

use atoll_fleet::placement::Share;
use atoll_fleet::view::{Drift, ObjectTarget, SyncLine};
use atoll_fleet::{Placement, api_access, placement, shape};
use atoll_meta::object;
use atoll_registry::placement::RegisteredCluster;
use atoll_registry::{run_in_place, size_of};
use atoll_store::{Key, key};
use serde_json::{Map, Value};

use super::super::{dialects, exclusions, records};
use super::{SentObject, View, target};

impl View {
    /// Returns the line about an object, unless it is equal to the last one.
    pub(super) async fn changed_line(&mut self, key: &Key, object: Option<Arc<Value>>) -> Option<Vec<u8>> {
        let size = object.as_deref().map_or(0, size_of);
        let line = self.line(key, object).await?;
        let _turn = self.begin(key, size).await;
        let line = run_in_place(size, || line.bytes());
        let Some(sent) = self.sent.get_mut(key) else { return Some(line) };
        let hash = Some(self.hashes.hash_one(&line));
        (std::mem::replace(&mut sent.hash, hash) != hash).then_some(line)
    }

    /// Returns the line about an object, if it concerns this cluster.
    async fn line(&mut self, key: &Key, object: Option<Arc<Value>>) -> Option<SyncLine> {
        let Some(object) = object else {
            self.access.forget(key);
            return self.sent.remove(key).map(|SentObject { target, .. }| SyncLine::Forget { target });
        };
        let parts = key.parts()?;
        let (scope, registry) = (self.scope(), &self.server.registry);
        let placement = Placement::of(&object);
        let share = scope.share(registry, parts.workspace, &placement);
        if share.is_none() && !scope.is_leaving(registry, parts.workspace, &placement) {
            self.access.forget(key);
            return self.sent.remove(key).map(|SentObject { target, .. }| SyncLine::Forget { target });
        }
        let target = target(&parts, &object);
        if target.is_namespace() {
            return self.namespace_line(key, target, &object);
        }
        // An object is sent only after the placement of its namespace is recorded.
        if let Err(status) = self.record_namespace(&parts).await {
            tracing::warn!(%status, cluster = self.cluster, object = %key, "cannot record the placement on the object's namespace; retrying");
            self.sent.entry(key.clone()).or_insert_with(|| SentObject { target, hash: None }).hash = None;
            return None;
        }
        if let Some(message) = share.and_then(|_| self.waits_for_deletion(&target, &placement)) {
            self.refuse(key, target, message).await;
            return None;
        }
        self.sent.entry(key.clone()).or_default().target.clone_from(&target);
        Some(match share {
            Some(share) if !object::is_being_deleted(&object) => {
                let size = size_of(&object);
                let turn = self.begin(key, size).await;
                let shaped = run_in_place(size, || {
                    let (mut shaped, stays) = self.shape((key, &parts), &object, share)?;
                    self.give_access(key, &parts, &mut shaped, stays);
                    Ok(shaped)
                });
                drop(turn);
                let shaped = match shaped {
                    Ok(shaped) => shaped,
                    Err(message) => {
                        self.refuse(key, target, message).await;
                        return None;
                    }
                };
                let drift = Drift::of(&self.registered, &object);
                let (generation, held) = (object::generation(&object), share.held);
                SyncLine::Object { target, generation, object: shaped, drift, held }
            }
            _ => {
                self.end_access(key, &parts, &object);
                let since = self.server.registry.placements.leaving_since(&self.cluster, &self.uid, key);
                // If it has changed meanwhile, another change follows.
                SyncLine::Remove { target, since: since? }
            }
        })
    }

    /// Returns the form of an object for the cluster, or why the cluster does not get it, and whether its Pod
    /// template must stay as it was adopted.
    fn shape(
        &self,
        (key, parts): (&Key, &key::Parts<'_>),
        object: &Arc<Value>,
        share: &Share,
    ) -> Result<(Value, bool), String> {
        let undivided = self.server.registry.placements.parsed.undivided_shape(key, object);
        let mut shaped = shape::divided(undivided, object, share);
        let stays = api_access::has_adopted_template(object, &shaped, &self.cluster);
        dialects::add_metadata(&self.server, parts, &self.registered, object, &mut shaped);
        if let Some(message) = self.pod_security_violation(parts, object, &shaped) {
            return Err(message);
        }
        self.overrides.as_ref().map_err(String::clone)?.apply(&mut shaped)?;
        match exclusions::exclusion_reason(&self.server, parts, object, &shaped, self.controllers) {
            Some(message) => Err(message),
            None => Ok((shaped, stays)),
        }
    }

    /// Records why the cluster does not get the current version of an object. The previous version stays.
    async fn refuse(&mut self, key: &Key, target: ObjectTarget, message: String) {
        let sent = self.sent.entry(key.clone()).or_default();
        sent.target.clone_from(&target);
        sent.hash = None;
        records::record_refusal(&self.server, self.scope(), target, message).await;
    }

    /// Returns how a shape violates the cluster's Pod Security level although the stored object does not.
    /// Tenants write `managedFields` themselves, and only managed fields are sent.
    fn pod_security_violation(
        &self,
        parts: &key::Parts<'_>,
        object: &Value,
        shaped: &Value,
    ) -> Option<String> {
        let registry = &self.server.registry;
        let version = object::api_version(object).rsplit('/').next().unwrap_or_default();
        let row = registry.find(Some(parts.workspace), parts.api_group(), version, parts.resource)?;
        let registered =
            RegisteredCluster { workspace: self.workspace.clone(), cluster: self.registered.clone() };
        let sent = with_spec(object, &shaped["spec"]);
        let violation = registry.pod_security_violation(&row, parts.workspace, &sent, &registered)?;
        let is_new = registry.pod_security_violation(&row, parts.workspace, object, &registered).is_none();
        is_new.then(|| format!("without the fields that have no manager, it {violation}"))
    }

    /// Returns why a cluster does not get an object yet: it must run only once, and another cluster has not
    /// confirmed its deletion.
    fn waits_for_deletion(&self, target: &ObjectTarget, placement: &Placement) -> Option<String> {
        let resource = &target.resource;
        if placement.duplicate
            || placement.leaving.is_empty()
            || !placement::runs_once(&resource.group, &resource.resource)
            || records::is_reported(&self.server, self.scope(), target)
        {
            return None;
        }
        // A fence declares that nothing runs on the cluster any more.
        let is_fenced = |name: &str, uid: &str| {
            let found = self.server.registry.cluster(&target.workspace, name, uid);
            found.is_some_and(|found| atoll_fleet::placement_refusal::is_fenced(&found.cluster))
        };
        let waited_for = placement.leaving.iter().filter(|one| !is_fenced(&one.name, &one.uid));
        let names = waited_for.map(|one| one.name.as_str()).collect::<Vec<_>>().join(", ");
        if names.is_empty() {
            return None;
        }
        Some(format!(
            "it must not run twice, and {names} has not confirmed its deletion yet; if that cluster is gone for good: atoll cluster remove \
             {names} --lost"
        ))
    }
}

/// Returns an object with another spec, without the parts that are large and say nothing about its Pods.
fn with_spec(object: &Value, spec: &Value) -> Value {
    const LEFT_OUT: [&str; 2] = ["spec", "status"];
    let fields = object.as_object().into_iter().flatten();
    let fields = fields.filter(|(name, _)| !LEFT_OUT.contains(&name.as_str()));
    let mut sent: Map<String, Value> =
        fields.map(|(name, field)| (name.clone(), without_managers(field))).collect();
    sent.insert("spec".into(), spec.clone());
    Value::Object(sent)
}

/// Returns a copy without `managedFields`.
fn without_managers(field: &Value) -> Value {
    match field {
        Value::Object(fields) if fields.contains_key("managedFields") => {
            let kept = fields.iter().filter(|(name, _)| *name != "managedFields");
            Value::Object(kept.map(|(name, value)| (name.clone(), value.clone())).collect())
        }
        other => other.clone(),
    }
}
