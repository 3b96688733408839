//! The policies of all workspaces, parsed.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use atoll_fleet::workloads::WORKLOADS;
use atoll_informer::{ApiScope, Cache, Key, Resource};
use atoll_meta::object;
use atoll_placement::policy::{ANY_CUSTOM_KIND, Policy, WorkloadRule};
use serde_json::{Map, Value};
use tokio::sync::Notify;

/// Policies by the caches of both kinds.
pub struct Policies {
    pub of_namespaces: Arc<Cache>,
    pub of_workspaces: Arc<Cache>,
    /// Indexes of both caches by uid.
    by_uid: [usize; 2],
    /// Notified when a policy may name other kinds than before.
    pub kinds_changed: Notify,
    /// Parsed policies by uid, with the revision that they were parsed from.
    parsed: Mutex<HashMap<String, (String, Option<Policy>)>>,
    /// Rules about other workloads by uid of the policy, for those that have any.
    other_workloads: RwLock<HashMap<String, WorkloadRules>>,
}

/// The rules of a policy about other workloads.
struct WorkloadRules {
    /// Id of the workspace of the policy.
    workspace: Arc<str>,
    /// Empty for a policy of the workspace.
    namespace: Arc<str>,
    rules: Vec<WorkloadRule>,
}

/// A kind that a policy of a workspace names.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NamedKind {
    /// Id of the workspace of the policy.
    pub workspace: Arc<str>,
    /// `None` for any group.
    pub group: Option<String>,
    pub kind: String,
}

impl NamedKind {
    /// Whether the name means a kind. Custom kinds are defined by a workspace.
    pub fn names(&self, resource: &Resource, is_custom: bool) -> bool {
        let is_kind = match self.kind.as_str() {
            ANY_CUSTOM_KIND => is_custom,
            kind => kind == resource.kind,
        };
        is_kind && self.group.as_deref().is_none_or(|group| group == resource.group)
    }
}

impl Policies {
    pub fn new(of_namespaces: Arc<Cache>, of_workspaces: Arc<Cache>) -> Policies {
        let by_uid =
            [&of_namespaces, &of_workspaces].map(|cache| cache.index(|it| vec![object::uid(it).to_string()]));
        let (kinds_changed, parsed, other_workloads) = (Notify::new(), Mutex::default(), RwLock::default());
        Policies { of_namespaces, of_workspaces, by_uid, kinds_changed, parsed, other_workloads }
    }

    /// The policy with this uid.
    pub fn of_uid(&self, uid: &str) -> Option<Arc<Value>> {
        let caches = [&self.of_namespaces, &self.of_workspaces].into_iter().zip(self.by_uid);
        caches.flat_map(|(cache, index)| cache.by_index(index, uid)).next()
    }

    /// Returns the policies that may apply to objects in a namespace: its own, those of the workspace, and
    /// those of the workspaces above.
    pub fn candidates(&self, api: &ApiScope, workspace: &str, namespace: &str) -> Vec<Policy> {
        let mut found: Vec<Policy> = Vec::new();
        if self.of_namespaces.is_empty() && self.of_workspaces.is_empty() {
            return found;
        }
        if !namespace.is_empty() {
            let own = self.of_namespaces.list(workspace, namespace);
            found.extend(own.iter().filter_map(|policy| self.parse(&self.of_namespaces, policy, 0)));
        }
        for (distance, (id, _)) in api.ancestry(workspace).into_iter().enumerate() {
            let own = self.of_workspaces.list(&id, "");
            found.extend(own.iter().filter_map(|policy| self.parse(&self.of_workspaces, policy, distance)));
        }
        found
    }

    /// The kinds that are no workloads and that policies name, each once for a workspace.
    pub fn named_kinds(&self) -> HashSet<NamedKind> {
        let mut found = HashSet::new();
        for cache in [&self.of_namespaces, &self.of_workspaces] {
            for policy in cache.all() {
                let workspace = Key::of(&policy).workspace;
                let Some(parsed) = self.parse(cache, &policy, 0) else { continue };
                let named = parsed.objects.into_iter().filter_map(|rule| Some((rule.group, rule.kind?)));
                let is_workload = |kind: &str| WORKLOADS.iter().any(|known| known.kind == kind);
                let named = named.filter(|(group, kind)| group.is_some() || !is_workload(kind));
                found.extend(named.map(|(group, kind)| NamedKind {
                    workspace: workspace.clone(),
                    group,
                    kind,
                }));
            }
        }
        found
    }

    /// Records the rules of a changed policy about other workloads.
    pub fn set_other_workloads(&self, policy: &Value) {
        let is_of_namespace = !object::namespace(policy).is_empty();
        let cache = if is_of_namespace { &self.of_namespaces } else { &self.of_workspaces };
        let parsed = self.parse(cache, policy, 0);
        let rules: Vec<WorkloadRule> = parsed
            .into_iter()
            .flat_map(|policy| policy.affinity.into_iter().chain(policy.anti_affinity))
            .collect();
        let mut other_workloads = self.other_workloads.write().unwrap_or_else(PoisonError::into_inner);
        match rules.is_empty() {
            true => drop(other_workloads.remove(object::uid(policy))),
            false => {
                let Key { workspace, namespace, .. } = Key::of(policy);
                other_workloads
                    .insert(object::uid(policy).to_string(), WorkloadRules { workspace, namespace, rules });
            }
        }
    }

    /// Whether a policy that may apply in a namespace has a rule about workloads of a kind with some of these labels.
    pub fn refer_to(
        &self,
        (at, kind): (&Key, &str),
        labels: &[Option<&Map<String, Value>>],
        is_below: impl Fn(&str) -> bool,
    ) -> bool {
        let other_workloads = self.other_workloads.read().unwrap_or_else(PoisonError::into_inner);
        other_workloads.values().any(|policy| {
            let matches = |rule: &WorkloadRule| {
                rule.kind.as_deref().is_none_or(|wanted| wanted == kind)
                    && labels.iter().any(|labels| rule.selector.matches_labels(labels))
            };
            let is_in_namespace = policy.namespace.is_empty()
                || (policy.workspace == at.workspace && policy.namespace == at.namespace);
            is_in_namespace && policy.rules.iter().any(matches) && is_below(&policy.workspace)
        })
    }

    /// Forgets a deleted policy.
    pub fn remove(&self, policy: &Value) {
        self.other_workloads.write().unwrap_or_else(PoisonError::into_inner).remove(object::uid(policy));
        self.parsed.lock().unwrap_or_else(PoisonError::into_inner).remove(object::uid(policy));
    }

    /// Parses a policy. The server refuses invalid ones, so one that cannot be read has no effect.
    fn parse(&self, cache: &Cache, policy: &Value, distance: usize) -> Option<Policy> {
        if object::is_being_deleted(policy) {
            return None;
        }
        let (uid, revision) = (object::uid(policy), object::resource_version(policy));
        let mut parsed = self.parsed.lock().unwrap_or_else(PoisonError::into_inner);
        let known = parsed.get(uid).filter(|(known, _)| known == revision).map(|(_, policy)| policy.clone());
        let read = known.unwrap_or_else(|| {
            // Items of lists may not have a kind.
            let mut typed = policy.clone();
            object::set_type(&mut typed, &cache.resource.api_version(), &cache.resource.kind);
            let read = Policy::parse(&typed).ok();
            parsed.insert(uid.to_string(), (revision.to_string(), read.clone()));
            read
        });
        read.map(|policy| Policy { distance, ..policy })
    }
}
