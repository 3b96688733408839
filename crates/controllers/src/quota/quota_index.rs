//! Index of quotas by namespace and counted resources.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use atoll_informer::Key;
use atoll_quota::Quota;
use serde_json::Value;

/// A resource by group and plural.
pub type GroupResource = (String, String);

#[derive(Default)]
pub struct QuotaIndex {
    quotas: Mutex<Quotas>,
}

/// Counted resources by workspace and namespace, then by quota name.
type Quotas = HashMap<(Arc<str>, Arc<str>), HashMap<Arc<str>, BTreeSet<GroupResource>>>;

impl QuotaIndex {
    /// Adds a quota. Returns whether the counted resources changed.
    pub fn insert(&self, key: &Key, quota: &Value) -> bool {
        let counted: BTreeSet<GroupResource> = resources(&Quota::read(quota)).into_iter().collect();
        let mut quotas = self.quotas();
        let place = quotas.entry(namespace_key(key)).or_default();
        place.insert(key.name.clone(), counted.clone()) != Some(counted)
    }

    pub fn remove(&self, key: &Key) {
        let mut quotas = self.quotas();
        let Some(of_namespace) = quotas.get_mut(&namespace_key(key)) else { return };
        of_namespace.remove(&key.name);
        if of_namespace.is_empty() {
            quotas.remove(&namespace_key(key));
        }
    }

    pub fn knows(&self, key: &Key) -> bool {
        self.quotas()
            .get(&namespace_key(key))
            .is_some_and(|of_namespace| of_namespace.contains_key(&key.name))
    }

    /// Returns the quotas in an object's namespace that count a resource.
    pub fn in_namespace_of(&self, object: &Key, resource: &GroupResource) -> Vec<Key> {
        let quotas = self.quotas();
        let of_namespace = quotas.get(&namespace_key(object)).into_iter().flatten();
        let counting = of_namespace.filter(|(_, counted)| counted.contains(resource));
        counting.map(|(name, _)| object.sibling(name)).collect()
    }

    /// Returns all quotas that count a resource.
    pub fn counting(&self, resource: &GroupResource) -> Vec<Key> {
        self.found(|counted| counted.contains(resource))
    }

    pub fn all(&self) -> Vec<Key> {
        self.found(|_| true)
    }

    fn found(&self, is_wanted: impl Fn(&BTreeSet<GroupResource>) -> bool) -> Vec<Key> {
        let quotas = self.quotas();
        let mut found = Vec::new();
        for ((workspace, namespace), inside) in quotas.iter() {
            for (name, _) in inside.iter().filter(|(_, counted)| is_wanted(counted)) {
                found.push(Key {
                    workspace: workspace.clone(),
                    namespace: namespace.clone(),
                    name: name.clone(),
                });
            }
        }
        found
    }

    /// Returns all counted resources.
    pub fn resources(&self) -> HashSet<GroupResource> {
        let quotas = self.quotas();
        quotas.values().flat_map(HashMap::values).flatten().cloned().collect()
    }

    fn quotas(&self) -> MutexGuard<'_, Quotas> {
        self.quotas.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn namespace_key(key: &Key) -> (Arc<str>, Arc<str>) {
    (key.workspace.clone(), key.namespace.clone())
}

/// Resources with quota names of their own.
const RESOURCES_WITH_NAMES: [&str; 7] = [
    "pods",
    "services",
    "persistentvolumeclaims",
    "configmaps",
    "secrets",
    "replicationcontrollers",
    "resourcequotas",
];

/// Returns the resources whose objects count towards the quota.
pub fn resources(quota: &Quota) -> Vec<GroupResource> {
    let mut candidates: Vec<GroupResource> =
        RESOURCES_WITH_NAMES.iter().map(|resource| (String::new(), (*resource).to_string())).collect();
    candidates.push(("resource.k8s.io".into(), "resourceclaims".into()));
    for counted in quota.wanted.names().filter_map(|name| name.strip_prefix("count/")) {
        let (resource, group) = counted.split_once('.').unwrap_or((counted, ""));
        let candidate = (group.to_string(), resource.to_string());
        if !candidates.contains(&candidate) {
            candidates.push(candidate);
        }
    }
    let of = candidates.iter().map(|(group, resource)| (group.as_str(), resource.as_str()));
    let counted = atoll_quota::counted(quota, of, &atoll_quota::NoObjects);
    counted
        .iter()
        .map(atoll_quota::Evaluator::resource)
        .map(|(group, resource)| (group.to_string(), resource.to_string()))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn quota(hard: Value) -> Value {
        json!({"spec": {"hard": hard}})
    }

    #[test]
    fn quota_names_determine_counted_resources() {
        let cases = [
            (json!({"pods": "1", "requests.cpu": "1"}), vec!["pods."]),
            (json!({"services.nodeports": "1"}), vec!["services."]),
            (
                json!({"gold.storageclass.storage.k8s.io/requests.storage": "1"}),
                vec!["persistentvolumeclaims."],
            ),
            (json!({"count/widgets.example.com": "1"}), vec!["widgets.example.com"]),
            (json!({"count/configmaps": "1", "configmaps": "1"}), vec!["configmaps."]),
            (json!({"gpu.deviceclass.resource.k8s.io/devices": "1"}), vec!["resourceclaims.resource.k8s.io"]),
            (json!({"count/events": "1", "nonsense": "1"}), vec![]),
        ];
        for (hard, expected) in cases {
            let found = resources(&Quota::read(&quota(hard.clone())));
            let found: Vec<String> =
                found.iter().map(|(group, resource)| format!("{resource}.{group}")).collect();
            assert_eq!(found, expected, "{hard}");
        }
    }

    #[test]
    fn quotas_are_found_by_namespace_and_resource() {
        let index = QuotaIndex::default();
        let target = |namespace: &str, name: &str| Key::new("w", namespace, name);
        let (pods, maps) = (quota(json!({"pods": "1"})), quota(json!({"configmaps": "1"})));
        assert!(index.insert(&target("a", "p"), &pods));
        assert!(!index.insert(&target("a", "p"), &pods), "no change");
        assert!(index.insert(&target("a", "m"), &maps));
        assert!(index.insert(&target("b", "p"), &pods));
        let resource = (String::new(), "pods".to_string());
        assert_eq!(index.in_namespace_of(&target("a", "object"), &resource), [target("a", "p")]);
        assert_eq!(index.in_namespace_of(&target("c", "object"), &resource), []);
        assert_eq!(index.counting(&resource).len(), 2);
        assert_eq!(index.resources().len(), 2);
        index.remove(&target("a", "m"));
        assert_eq!(index.resources().len(), 1);
        assert!(!index.knows(&target("a", "m")) && index.knows(&target("b", "p")));
    }
}
