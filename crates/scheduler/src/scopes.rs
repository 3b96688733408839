//! Changes that concern many objects: those of a namespace, of a workspace and the workspaces below it, all
//! DaemonSets, the workloads that mount a claim, those with rules about other workloads, or the objects that one object
//! owns.
//!
//! Listing many objects takes long, and a listener of a cache delays all other listeners. So a listener only
//! records the scope. A worker lists its objects and lets the scope rest afterwards, so that changes in quick
//! succession are handled together, and workspaces take turns.

use std::collections::HashMap;
use std::sync::Arc;

use atoll_informer::{Cache, Key, Next};
use atoll_placement::policy::select;
use serde_json::Value;
use tokio::time::Instant;

use crate::round::policy_target;
use crate::{Scheduler, workloads};

/// Most scopes that are listed or rest at the same time, in all and of one workspace.
const AT_ONCE: usize = 64;
const PER_WORKSPACE: usize = 1;
/// The rest of a scope, as a multiple of the time that listing its objects took.
const REST: u32 = 4;
/// Number of objects after which other tasks get a turn.
const AT_A_TIME: usize = 256;

/// Most objects that a listener adds to the queue itself.
pub const AT_ONCE_BY_LISTENERS: usize = 32;

/// The objects that a change concerns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeScope {
    /// All objects of a namespace: its metadata has changed.
    Namespace,
    /// All objects of a namespace: its policies have changed.
    NamespacePolicies,
    /// All objects of a workspace and of the workspaces below it: its policies have changed.
    WorkspacePolicies,
    /// The DaemonSets of a workspace and of the workspaces below it. They run on every cluster that their rules
    /// allow, also on those that join later.
    DaemonSets,
    /// The workloads of a namespace whose policies have rules about other workloads: one of these has changed.
    OtherWorkloads,
    /// The workloads that mount the claim with this name: its storage class has changed.
    Claim(String),
    /// The objects that the object with this uid owns: its clusters have changed.
    Owned(String),
}

impl ChangeScope {
    /// The name of the scope in queue keys.
    fn name(&self) -> String {
        match self {
            ChangeScope::Namespace => "namespace".to_string(),
            ChangeScope::NamespacePolicies => "namespace-policies".to_string(),
            ChangeScope::WorkspacePolicies => "workspace-policies".to_string(),
            ChangeScope::DaemonSets => "daemonsets".to_string(),
            ChangeScope::OtherWorkloads => "other-workloads".to_string(),
            ChangeScope::Claim(name) => format!("claim/{name}"),
            ChangeScope::Owned(uid) => format!("owned/{uid}"),
        }
    }

    /// The scope with this name.
    fn named(name: &str) -> Option<ChangeScope> {
        Some(match (name, name.split_once('/')) {
            ("namespace", _) => ChangeScope::Namespace,
            ("namespace-policies", _) => ChangeScope::NamespacePolicies,
            ("workspace-policies", _) => ChangeScope::WorkspacePolicies,
            ("daemonsets", _) => ChangeScope::DaemonSets,
            ("other-workloads", _) => ChangeScope::OtherWorkloads,
            (_, Some(("claim", name))) => ChangeScope::Claim(name.to_string()),
            (_, Some(("owned", uid))) => ChangeScope::Owned(uid.to_string()),
            _ => return None,
        })
    }
}

impl Scheduler {
    /// Records that the objects of a scope are to be decided about again.
    pub fn scope_changed(&self, workspace: &str, namespace: &str, scope: &ChangeScope) {
        self.scopes.add(Key::new(workspace, namespace, &scope.name()));
    }

    /// Adds the objects of all recorded scopes to the queue.
    pub fn enqueue_scopes(&self) {
        for key in self.scopes.drain() {
            for (scope, object) in self.objects_of(&key) {
                self.enqueue(scope, &object);
            }
        }
    }

    /// The objects of a recorded scope, and how each is added to the queue.
    fn objects_of(&self, key: &Key) -> Vec<(EnqueuedAs, Arc<Value>)> {
        let Some(scope) = ChangeScope::named(&key.name) else { return Vec::new() };
        let in_namespace =
            |(kind, cache): (usize, Arc<Cache>)| (kind, cache.list(&key.workspace, &key.namespace));
        let mut below: HashMap<Arc<str>, bool> = HashMap::new();
        let mut is_below = |object: &Arc<Value>| {
            let workspace = Key::of(object).workspace;
            *below.entry(workspace.clone()).or_insert_with(|| self.is_below(&workspace, &key.workspace))
        };
        let mut in_workspaces = |(kind, cache): (usize, Arc<Cache>)| {
            let mut all = cache.all();
            all.retain(&mut is_below);
            (kind, all)
        };
        let others = || self.kinds.others_in(&key.workspace).into_iter();
        let found: Vec<(usize, Vec<Arc<Value>>)> = match &scope {
            ChangeScope::Namespace | ChangeScope::NamespacePolicies => {
                let workloads = self.kinds.workloads.iter().cloned().enumerate();
                workloads.chain(others()).map(in_namespace).collect()
            }
            ChangeScope::WorkspacePolicies => self.kinds.all().into_iter().map(in_workspaces).collect(),
            ChangeScope::DaemonSets => {
                let is_daemon_set = |(_, cache): &(usize, Arc<Cache>)| &*cache.resource.kind == "DaemonSet";
                self.kinds.all().into_iter().filter(is_daemon_set).map(&mut in_workspaces).collect()
            }
            ChangeScope::OtherWorkloads => {
                let mut found: Vec<_> =
                    self.kinds.workloads.iter().cloned().enumerate().map(in_namespace).collect();
                self.retain_with_other_workloads(key, &mut found);
                found
            }
            ChangeScope::Claim(name) => {
                let claim = Key::new(&key.workspace, &key.namespace, name);
                self.volume_claims.mounting(&claim, &self.kinds.workloads)
            }
            ChangeScope::Owned(uid) => {
                others().map(|(kind, cache)| (kind, cache.owned_by(key, uid))).collect()
            }
        };
        let enqueued_as = |kind| EnqueuedAs {
            kind,
            has_new_rules: matches!(scope, ChangeScope::NamespacePolicies | ChangeScope::WorkspacePolicies),
            has_new_demand: matches!(scope, ChangeScope::Claim(_)),
        };
        let with_kind = |(kind, objects): (usize, Vec<Arc<Value>>)| {
            objects.into_iter().map(move |object| (enqueued_as(kind), object))
        };
        found.into_iter().flat_map(with_kind).collect()
    }

    /// Retains the workloads of a namespace whose policies have rules about other workloads.
    fn retain_with_other_workloads(&self, of: &Key, found: &mut [(usize, Vec<Arc<Value>>)]) {
        let candidates = self.policies.candidates(&self.api, &of.workspace, &of.namespace);
        let namespace = self.namespace(of);
        for (kind, objects) in found {
            let Some(cache) = self.kinds.workloads.get(*kind) else { continue };
            objects.retain(|object| {
                let at = Key::of(object);
                let target = policy_target(&cache.resource, &at, object, &namespace);
                let winner = select(candidates.iter(), &target).winner;
                winner.is_some_and(|policy| !policy.affinity.is_empty() || !policy.anti_affinity.is_empty())
            });
        }
    }

    fn enqueue(&self, how: EnqueuedAs, object: &Value) {
        let EnqueuedAs { kind, has_new_rules, has_new_demand } = how;
        let key = workloads::queue_key(kind, &Key::of(object));
        if has_new_demand {
            self.changes.object(key.clone());
        }
        if has_new_rules {
            self.changes.new_rules(key.clone());
        }
        self.queue.add(key);
    }
}

/// How an object is added to the queue.
#[derive(Clone, Copy)]
struct EnqueuedAs {
    /// The number of its kind.
    kind: usize,
    /// Whether its policies have changed.
    has_new_rules: bool,
    /// Whether the ledger is to be updated.
    has_new_demand: bool,
}

/// Lists the objects of changed scopes until it is dropped.
pub async fn run(scheduler: Arc<Scheduler>) {
    let worker = scheduler.clone();
    let list = move |key: Key| {
        let scheduler = worker.clone();
        async move {
            let begun = Instant::now();
            let objects = scheduler.objects_of(&key);
            let mut busy = begun.elapsed();
            for objects in objects.chunks(AT_A_TIME) {
                let begun = Instant::now();
                objects.iter().for_each(|(scope, object)| scheduler.enqueue(*scope, object));
                busy += begun.elapsed();
                tokio::task::yield_now().await;
            }
            // Changes in the meantime are handled afterwards.
            tokio::time::sleep(busy * REST).await;
            Ok(Next::Done)
        }
    };
    scheduler.scopes.work_with_share("objects of changed scopes", AT_ONCE, PER_WORKSPACE, list).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_are_found_by_their_names() {
        for scope in [
            ChangeScope::Namespace,
            ChangeScope::NamespacePolicies,
            ChangeScope::WorkspacePolicies,
            ChangeScope::DaemonSets,
            ChangeScope::OtherWorkloads,
            ChangeScope::Claim("data".into()),
            ChangeScope::Owned("1-2/3".into()),
        ] {
            assert_eq!(ChangeScope::named(&scope.name()), Some(scope));
        }
        assert_eq!(ChangeScope::named("pods/web"), None);
    }
}
