//! Amounts that ResourceQuotas of the cluster leave to the Pods of placed objects.
//!
//! A quota counts every Pod from its creation. What it leaves is reported as if Pods without a node did not exist,
//! because the control plane reserves what these need: reports about Pods count those that have a node.

use std::collections::{BTreeMap, BTreeSet};

use atoll_informer::ListWatchEvent;
use atoll_meta::object;
use atoll_meta::quantity::Quantity;
use serde_json::{Map, Value, json};

use super::node::{ENTRY, is_short_resource};
use super::{Inventory, NodesAndPods, absent, units};

/// Maximum number of namespaces that are reported, and of resources of a quota.
const NAMESPACES: usize = 500;
const RESOURCES: usize = 16;
/// Names of resources that a quota has for the requests of Pods.
const REQUESTS: &str = "requests.";
/// Resources that Pods request by their own name, too.
const PLAIN: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];
/// Requests of volume claims, and not of Pods.
const STORAGE: &str = "storage";

/// Workspace id and namespace above, by namespace below.
pub type MappedQuotas = BTreeMap<String, (String, String)>;

/// A ResourceQuota that applies to all Pods of its namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespaceQuota {
    pub namespace: String,
    /// Amounts that are left, by the name of the resource in requests of Pods, in thousandths of cores and whole units.
    left: BTreeMap<String, i64>,
}

impl NamespaceQuota {
    /// Reads a quota. Those with scopes apply only to some Pods, and others limit nothing that Pods request: `None`.
    pub fn of(quota: &Value) -> Option<NamespaceQuota> {
        let spec = &quota["spec"];
        let has_scopes = spec["scopes"].as_array().is_some_and(|scopes| !scopes.is_empty());
        if has_scopes || spec["scopeSelector"].is_object() {
            return None;
        }
        let status = &quota["status"];
        let amount = |of: &Value, name: &str, resource: &str| {
            let parsed = Quantity::parse(of.get(name)?.as_str()?).ok()?;
            Some(units(resource, &parsed))
        };
        let mut left: BTreeMap<String, i64> = BTreeMap::new();
        for name in status["hard"].as_object().into_iter().flatten().map(|(name, _)| name) {
            let Some(resource) = requested(name).filter(|resource| is_short_resource(resource)) else {
                continue;
            };
            let Some(hard) = amount(&status["hard"], name, resource) else { continue };
            let used = amount(&status["used"], name, resource).unwrap_or(0);
            let rest = hard.saturating_sub(used);
            if left.len() < RESOURCES || left.contains_key(resource) {
                left.entry(resource.to_string())
                    .and_modify(|least| *least = rest.min(*least))
                    .or_insert(rest);
            }
        }
        let namespace = object::namespace(quota).to_string();
        (!left.is_empty()).then_some(NamespaceQuota { namespace, left })
    }

    pub fn size(&self) -> usize {
        self.namespace.len() + self.left.keys().map(|name| name.len() + ENTRY).sum::<usize>() + ENTRY
    }
}

impl NodesAndPods {
    /// Sets a quota, or removes one that does not count.
    fn add_quota(&mut self, uid: &str, quota: Option<NamespaceQuota>) {
        self.remove_quota(uid);
        if let Some(quota) = quota
            && self.charge.grow(quota.size() + uid.len()).is_ok()
        {
            self.quotas.insert(uid.into(), quota);
        }
    }

    fn remove_quota(&mut self, uid: &str) {
        if let Some(quota) = self.quotas.remove(uid) {
            self.charge.shrink(quota.size() + uid.len());
        }
    }
}

impl Inventory {
    /// Handles a change of a ResourceQuota.
    pub(super) fn quota(&self, event: ListWatchEvent<'_>) {
        let mut state = self.state();
        match event {
            ListWatchEvent::Upserted(quota) => {
                state.add_quota(object::uid(&quota), NamespaceQuota::of(&quota));
            }
            ListWatchEvent::Deleted(quota) => state.remove_quota(object::uid(&quota)),
            ListWatchEvent::Listed(present, _) => {
                for uid in absent(&state.quotas, present) {
                    state.remove_quota(&uid);
                }
                state.has_quotas = true;
            }
        }
    }

    /// Namespaces of the cluster with ResourceQuotas that count.
    pub fn namespaces_with_quotas(&self) -> BTreeSet<String> {
        self.state().quotas.values().map(|quota| quota.namespace.clone()).collect()
    }
}

/// The resource that Pods request, of the name that a quota has for it.
fn requested(name: &str) -> Option<&str> {
    match name.strip_prefix(REQUESTS) {
        Some(STORAGE) => None,
        Some(resource) => Some(resource),
        None if PLAIN.contains(&name) => Some(name),
        None => matches!(name, "pods" | "count/pods").then_some("pods"),
    }
}

/// Returns what is left in namespaces that stand for one above, and how many of them are left out.
pub(super) fn left(state: &NodesAndPods, mapped: &MappedQuotas) -> (Vec<Value>, usize) {
    let mut found: BTreeMap<&str, BTreeMap<&str, i64>> = BTreeMap::new();
    if !state.has_quotas {
        return (Vec::new(), 0);
    }
    for quota in state.quotas.values().filter(|quota| mapped.contains_key(&quota.namespace)) {
        let all = found.entry(&quota.namespace).or_default();
        for (resource, rest) in &quota.left {
            all.entry(resource).and_modify(|least| *least = (*rest).min(*least)).or_insert(*rest);
        }
    }
    if found.is_empty() {
        return (Vec::new(), 0);
    }
    for pod in state.pods.values().filter(|pod| pod.node.is_empty()) {
        let namespace = pod.name.split_once('/').map_or("", |(namespace, _)| namespace);
        let Some(all) = found.get_mut(namespace) else { continue };
        for (resource, rest) in all.iter_mut() {
            let counted = match *resource {
                "pods" => 1,
                resource => pod.requests.get(resource).map_or(0, |amount| units(resource, amount)),
            };
            *rest = rest.saturating_add(counted);
        }
    }
    let cut = found.len().saturating_sub(NAMESPACES);
    let rows = found.into_iter().take(NAMESPACES).filter_map(|(namespace, rest)| {
        let (workspace, above) = mapped.get(namespace)?;
        let left: Map<String, Value> = rest
            .into_iter()
            .map(|(name, rest)| (name.to_string(), quantity(name, rest.max(0)).into()))
            .collect();
        Some(json!({ "workspace": workspace, "namespace": above, "left": left }))
    });
    (rows.collect(), cut)
}

fn quantity(resource: &str, amount: i64) -> String {
    if resource == "cpu" { format!("{amount}m") } else { amount.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotas_of_pods_are_read() {
        let quota = |spec: Value, hard: Value, used: Value| {
            let read = NamespaceQuota::of(&json!({
                "metadata": { "namespace": "n" }, "spec": spec, "status": { "hard": hard, "used": used },
            }));
            read.map(|read| json!(read.left))
        };
        let scoped = json!({ "scopes": ["BestEffort"] });
        for (spec, hard, used, expected) in [
            (
                json!({}),
                json!({ "requests.cpu": "2" }),
                json!({ "requests.cpu": "500m" }),
                Some(json!({ "cpu": 1500 })),
            ),
            (
                json!({}),
                json!({ "cpu": "2", "requests.cpu": "1", "pods": "3", "requests.nvidia.com/gpu": "1" }),
                json!({ "pods": "4" }),
                Some(json!({ "cpu": 1000, "pods": -1, "nvidia.com/gpu": 1 })),
            ),
            (
                json!({}),
                json!({ "limits.cpu": "2", "requests.storage": "1Gi", "count/secrets": "1" }),
                json!({}),
                None,
            ),
            (scoped, json!({ "pods": "3" }), json!({}), None),
            // Its controller has not counted yet.
            (json!({}), Value::Null, Value::Null, None),
        ] {
            assert_eq!(quota(spec, hard.clone(), used), expected, "{hard}");
        }
    }
}
