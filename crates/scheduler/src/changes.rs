//! Changes in the caches: which objects are decided about again, and which entries of the ledger are updated.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use atoll_fleet::Placement;
use atoll_fleet::placement::Share;
use atoll_fleet::placement_refusal::placement_refusal;
use atoll_informer::{Change, Key};
use atoll_meta::object;
use serde_json::{Map, Value};

use crate::autoscalers::Autoscalers;
use crate::scopes::ChangeScope;
use crate::{Keys, Scheduler, report, reports, serving, workloads};

/// Changes since the last round.
#[derive(Default)]
pub struct Changes(Mutex<Changed>);

#[derive(Default)]
struct Changed {
    clusters: Keys,
    /// Queue keys of objects.
    objects: Keys,
    /// Queue keys of objects whose policies have changed and that were not decided about since.
    new_rules: Keys,
}

impl Changes {
    pub fn cluster(&self, key: Key) {
        self.changed().clusters.insert(key);
    }

    /// Whether a Cluster has changed since the last round.
    pub fn has_cluster(&self, key: &Key) -> bool {
        self.changed().clusters.contains(key)
    }

    pub fn object(&self, key: Key) {
        self.changed().objects.insert(key);
    }

    /// Takes the keys of changed Clusters and the queue keys of changed objects.
    pub fn take(&self) -> (Keys, Keys) {
        let mut changed = self.changed();
        (std::mem::take(&mut changed.clusters), std::mem::take(&mut changed.objects))
    }

    /// Forgets all changes, and takes over the rules that are new elsewhere.
    pub fn reset(&self, other: &Changes) {
        let new_rules = other.changed().new_rules.clone();
        *self.changed() = Changed { new_rules, ..Changed::default() };
    }

    /// Records that the policies of an object have changed.
    pub fn new_rules(&self, key: Key) {
        self.changed().new_rules.insert(key);
    }

    pub fn has_new_rules(&self, key: &Key) -> bool {
        self.changed().new_rules.contains(key)
    }

    /// Records that a decision by the latest rules was written.
    pub fn decided(&self, key: &Key) {
        self.changed().new_rules.remove(key);
    }

    fn changed(&self) -> MutexGuard<'_, Changed> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Follows all caches.
pub fn listen(scheduler: &Arc<Scheduler>) {
    for (kind, cache) in scheduler.kinds.all() {
        let scheduler = scheduler.clone();
        cache.listen(move |change| workload_changed(&scheduler, kind, change));
    }
    let listener = scheduler.clone();
    scheduler.clusters.listen(move |change| {
        listener.changes.cluster(change.key.clone());
        listener.rebalancing.cluster_changed(change);
        listener.suspicions.cluster_changed(change);
        listener.heartbeats.cluster_changed(change);
        listener.cluster_changed(change);
        if terms(change.old.as_deref()) != terms(change.new.as_deref()) {
            listener.scope_changed(&change.key.workspace, "", &ChangeScope::DaemonSets);
        }
    });
    let listener = scheduler.clone();
    scheduler.reports.cache.listen(move |change| {
        if reports::is_about_service(change.object()) {
            for key in listener.reports.service_changed(change) {
                listener.queue.add_after(key, serving::WAKE_DELAY);
            }
        } else if let Some(key) =
            listener.reports.workload_changed(change, &listener.kinds, &*listener.writer.clock)
        {
            listener.queue.add(key);
        }
    });
    if let Some(serving) = &scheduler.serving {
        let listener = scheduler.clone();
        serving.services.listen(move |change| {
            if serving::matters(change) {
                let awaited = listener.reports.awaited_in(&change.key.workspace, &change.key.namespace);
                awaited.into_iter().for_each(|key| listener.queue.add_after(key, serving::WAKE_DELAY));
            }
        });
    }
    let listener = scheduler.clone();
    scheduler.autoscalers.cache.listen(move |change| {
        Autoscalers::targets(change).into_iter().for_each(|key| listener.queue.add(key));
    });
    let listener = scheduler.clone();
    scheduler.volume_claims.cache.listen(move |change| {
        if listener.volume_claims.is_mounted(change, &listener.kinds.workloads) {
            let claim = ChangeScope::Claim(change.key.name.to_string());
            listener.scope_changed(&change.key.workspace, &change.key.namespace, &claim);
        }
    });
    let listener = scheduler.clone();
    scheduler.namespaces.listen(move |change| {
        let Some(new) = &change.new else { return };
        // A Namespace that every workspace has from the start is not in the cache before its first change.
        let is_changed = match &change.old {
            Some(old) => metadata(old) != metadata(new),
            None => metadata(new).0.is_some(),
        };
        if is_changed {
            listener.scope_changed(&change.key.workspace, &change.key.name, &ChangeScope::Namespace);
        }
    });
    let policies = &scheduler.policies;
    let listener = scheduler.clone();
    policies.of_namespaces.listen(move |change| {
        if listener.has_new_policy(change) {
            listener.policies.kinds_changed.notify_one();
            let (workspace, namespace) = (&change.key.workspace, &change.key.namespace);
            listener.scope_changed(workspace, namespace, &ChangeScope::NamespacePolicies);
        }
    });
    let listener = scheduler.clone();
    policies.of_workspaces.listen(move |change| {
        if listener.has_new_policy(change) {
            listener.policies.kinds_changed.notify_one();
            listener.scope_changed(&change.key.workspace, "", &ChangeScope::WorkspacePolicies);
        }
    });
}

pub fn workload_changed(scheduler: &Scheduler, kind: usize, change: &Change) {
    let key = workloads::queue_key(kind, &change.key);
    if let (Some(old), Some(new)) = (&change.old, &change.new)
        && decides(old) == decides(new)
    {
        return;
    }
    scheduler.changes.object(key.clone());
    let clusters = |object: &Option<Arc<Value>>| {
        object.as_ref().map(|object| Placement::of(object).clusters).unwrap_or_default()
    };
    if clusters(&change.old) != clusters(&change.new) || change.new.is_none() {
        scheduler.pending.retry_on(&freed(change));
        scheduler.enqueue_owned(change);
        scheduler.other_workloads_changed(kind, change);
    } else if labels(&change.old) != labels(&change.new) {
        scheduler.other_workloads_changed(kind, change);
    }
    let has_finished = |object: &Option<Arc<Value>>| object.as_deref().is_some_and(workloads::has_finished);
    if has_finished(&change.new) && !has_finished(&change.old) {
        scheduler.pending.retry_on(&freed(change));
    }
    scheduler.queue.add(key);
}

/// Uids of the clusters on which a workload takes less than before.
fn freed(change: &Change) -> Vec<Arc<str>> {
    let shares = |object: &Option<Arc<Value>>| {
        let object = object.as_deref().filter(|object| !workloads::has_finished(object));
        object.map(|object| Placement::of(object).clusters).unwrap_or_default()
    };
    let after = shares(&change.new);
    let numbers = |share: &Share| (share.replicas, share.completions, share.parallelism);
    let is_same = |share: &Share| {
        after.iter().any(|next| next.is_of(&share.name, &share.uid) && numbers(next) == numbers(share))
    };
    let freed = shares(&change.old).into_iter().filter(|share| !is_same(share));
    freed.map(|share| share.uid.as_str().into()).collect()
}

fn labels(object: &Option<Arc<Value>>) -> Option<&Map<String, Value>> {
    object.as_deref().and_then(object::label_map)
}

/// The parts of a workload that decisions and the ledger depend on. The rest is mostly status.
fn decides(object: &Value) -> ([&Value; 4], bool, bool) {
    let metadata = &object["metadata"];
    (
        [&object["spec"], &metadata["labels"], &metadata["annotations"], &metadata["ownerReferences"]],
        object::is_being_deleted(object),
        workloads::has_finished(object),
    )
}

/// The parts of a Namespace that decisions depend on.
fn metadata(namespace: &Value) -> (Option<&str>, &Value) {
    (object::annotation(namespace, atoll_placement::intent::ANNOTATION), &namespace["metadata"]["labels"])
}

/// The parts of a Cluster that decide whether it accepts objects.
fn terms(cluster: Option<&Value>) -> Option<(bool, bool, &Value, &Value)> {
    let cluster = cluster?;
    let (is_open, has_reported) =
        (placement_refusal(cluster).is_none(), cluster["status"]["free"].is_array());
    Some((is_open, has_reported, &cluster["spec"], &cluster["metadata"]["labels"]))
}

impl Scheduler {
    /// Lets pending objects be tried again that a change of a Cluster may help.
    fn cluster_changed(&self, change: &Change) {
        if self.pending.needs_nothing() {
            return;
        }
        // The path does not matter, because it is the same before and after.
        let terms = |cluster: &Value| (cluster["spec"].clone(), report::state(cluster, ""));
        let (Some(old), Some(new)) = (change.old.as_deref(), change.new.as_deref()) else {
            return self.pending.retry_below(&change.key.workspace);
        };
        if terms(old) != terms(new) {
            return self.pending.retry_below(&change.key.workspace);
        }
        let has_more = match (report::capacity(old), report::capacity(new)) {
            (_, None) => false,
            (None, Some(_)) => true,
            (Some(old), Some(new)) => new.has_more_than(&old),
        };
        if has_more {
            self.pending.retry_on(&[object::uid(new).into()]);
        }
    }

    /// Whether a policy says something else than before. Its status does not matter.
    fn has_new_policy(&self, change: &Change) -> bool {
        let says = |policy: &Value| (policy["spec"].clone(), object::is_being_deleted(policy));
        let is_new = change.old.as_deref().map(says) != change.new.as_deref().map(says);
        if change.new.is_none() {
            self.policies.remove(change.object());
        } else if is_new {
            self.policies.set_other_workloads(change.object());
            self.counts.policy_changed(object::uid(change.object()));
        }
        is_new
    }

    /// Lets the workloads of a namespace be decided about again whose policies have rules about a workload that is on
    /// other clusters now, has other labels, or was deleted.
    fn other_workloads_changed(&self, kind: usize, change: &Change) {
        let Some(cache) = self.kinds.workloads.get(kind) else { return };
        let is_below = |workspace: &str| self.is_below(&change.key.workspace, workspace);
        let of_kind = (&change.key, &*cache.resource.kind);
        if self.policies.refer_to(of_kind, &[labels(&change.old), labels(&change.new)], is_below) {
            self.scope_changed(&change.key.workspace, &change.key.namespace, &ChangeScope::OtherWorkloads);
        }
    }

    /// Whether a workspace is another one or below it.
    pub fn is_below(&self, workspace: &str, other: &str) -> bool {
        self.api.ancestry(workspace).iter().any(|(id, _)| id == other)
    }
}
