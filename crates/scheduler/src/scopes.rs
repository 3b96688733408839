//! Changes that concern many objects: those of a namespace, of a workspace and the workspaces below it, or all
//! DaemonSets.
//!
//! Listing the objects takes long where there are many, and a listener of a cache delays all other listeners. So a
//! listener only notes the scope. A worker lists its objects, and the scope rests afterwards: changes that follow
//! each other quickly are handled together, and workspaces take turns.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use atoll_informer::{Key, Next};
use serde_json::Value;

use crate::{Scheduler, workloads};

/// Scopes that are listed or rest at the same time, in all and of one workspace.
const AT_ONCE: usize = 64;
const PER_WORKSPACE: usize = 1;
/// A scope rests for so many times as long as it took to list its objects.
const REST: u32 = 4;
/// Objects after which other tasks get a turn.
const AT_A_TIME: usize = 256;

/// The objects that a change concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
}

impl ChangeScope {
    const ALL: [ChangeScope; 4] = [
        ChangeScope::Namespace,
        ChangeScope::NamespacePolicies,
        ChangeScope::WorkspacePolicies,
        ChangeScope::DaemonSets,
    ];

    fn name(self) -> &'static str {
        match self {
            ChangeScope::Namespace => "namespace",
            ChangeScope::NamespacePolicies => "namespace-policies",
            ChangeScope::WorkspacePolicies => "workspace-policies",
            ChangeScope::DaemonSets => "daemonsets",
        }
    }

    fn has_new_rules(self) -> bool {
        matches!(self, ChangeScope::NamespacePolicies | ChangeScope::WorkspacePolicies)
    }
}

impl Scheduler {
    /// Notes that the objects of a scope are to be decided about again.
    pub fn scope_changed(&self, workspace: &str, namespace: &str, scope: ChangeScope) {
        self.scopes.add(Key::new(workspace, namespace, scope.name()));
    }

    /// Adds the objects of all noted scopes to the queue.
    pub fn enqueue_scopes(&self) {
        for key in self.scopes.drain() {
            for (scope, object) in self.objects_of(&key) {
                self.enqueue(scope, &object);
            }
        }
    }

    /// The objects of a noted scope, with their numbers of kinds.
    fn objects_of(&self, key: &Key) -> Vec<(EnqueuedAs, Arc<Value>)> {
        let Some(scope) = ChangeScope::ALL.into_iter().find(|scope| scope.name() == &*key.name) else {
            return Vec::new();
        };
        let has_new_rules = scope.has_new_rules();
        let mut below: HashMap<Arc<str>, bool> = HashMap::new();
        let mut is_below = |object: &Value| {
            let workspace = Key::of(object).workspace;
            *below.entry(workspace.clone()).or_insert_with(|| self.is_below(&workspace, &key.workspace))
        };
        let mut found = Vec::new();
        let workloads = self.kinds.workloads.iter().cloned().enumerate();
        let kinds = match scope {
            ChangeScope::Namespace | ChangeScope::NamespacePolicies => {
                workloads.chain(self.kinds.others_in(&key.workspace)).collect()
            }
            ChangeScope::WorkspacePolicies | ChangeScope::DaemonSets => self.kinds.all(),
        };
        for (kind, cache) in kinds {
            let listed = match scope {
                ChangeScope::Namespace | ChangeScope::NamespacePolicies => {
                    cache.list(&key.workspace, &key.namespace)
                }
                ChangeScope::DaemonSets if &*cache.resource.kind != "DaemonSet" => continue,
                ChangeScope::WorkspacePolicies | ChangeScope::DaemonSets => {
                    let mut all = cache.all();
                    all.retain(|object| is_below(object));
                    all
                }
            };
            found.extend(listed.into_iter().map(|object| (EnqueuedAs { kind, has_new_rules }, object)));
        }
        found
    }

    fn enqueue(&self, EnqueuedAs { kind, has_new_rules }: EnqueuedAs, object: &Value) {
        let key = workloads::queue_key(kind, &Key::of(object));
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
    has_new_rules: bool,
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
