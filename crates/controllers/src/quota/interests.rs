//! Which quotas there are, and whose objects they count.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use atoll_informer::Key;
use atoll_quota::Quota;
use serde_json::Value;

/// A resource by group and plural.
pub type GroupResource = (String, String);

#[derive(Default)]
pub struct Interests {
    quotas: Mutex<Quotas>,
}

/// What is counted: by workspace and namespace, then by the quota's name.
type Quotas = HashMap<(Arc<str>, Arc<str>), HashMap<Arc<str>, BTreeSet<GroupResource>>>;

impl Interests {
    /// Whether something is counted now that was not before, or the other way round.
    pub fn insert(&self, key: &Key, quota: &Value) -> bool {
        let counted: BTreeSet<GroupResource> = resources(&Quota::read(quota)).into_iter().collect();
        let mut quotas = self.quotas();
        let place = quotas.entry(place(key)).or_default();
        place.insert(key.name.clone(), counted.clone()) != Some(counted)
    }

    pub fn remove(&self, key: &Key) {
        let mut quotas = self.quotas();
        let Some(beside) = quotas.get_mut(&place(key)) else { return };
        beside.remove(&key.name);
        if beside.is_empty() {
            quotas.remove(&place(key));
        }
    }

    pub fn knows(&self, key: &Key) -> bool {
        self.quotas().get(&place(key)).is_some_and(|beside| beside.contains_key(&key.name))
    }

    /// The quotas in an object's namespace that count objects of a resource.
    pub fn beside(&self, object: &Key, resource: &GroupResource) -> Vec<Key> {
        let quotas = self.quotas();
        let beside = quotas.get(&place(object)).into_iter().flatten();
        let counting = beside.filter(|(_, counted)| counted.contains(resource));
        counting.map(|(name, _)| object.beside(name)).collect()
    }

    /// The quotas anywhere that count objects of a resource.
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

    /// All that any quota counts.
    pub fn resources(&self) -> HashSet<GroupResource> {
        let quotas = self.quotas();
        quotas.values().flat_map(HashMap::values).flatten().cloned().collect()
    }

    fn quotas(&self) -> MutexGuard<'_, Quotas> {
        self.quotas.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn place(key: &Key) -> (Arc<str>, Arc<str>) {
    (key.workspace.clone(), key.namespace.clone())
}

/// Resources that quotas have names of their own for.
const NAMED: [&str; 7] = [
    "pods",
    "services",
    "persistentvolumeclaims",
    "configmaps",
    "secrets",
    "replicationcontrollers",
    "resourcequotas",
];

/// Whose objects have to be looked at for what the quota limits.
pub fn resources(quota: &Quota) -> Vec<GroupResource> {
    let mut candidates: Vec<GroupResource> =
        NAMED.iter().map(|resource| (String::new(), (*resource).to_string())).collect();
    candidates.push(("resource.k8s.io".into(), "resourceclaims".into()));
    for counted in quota.wanted.names().filter_map(|name| name.strip_prefix("count/")) {
        let (resource, group) = counted.split_once('.').unwrap_or((counted, ""));
        let candidate = (group.to_string(), resource.to_string());
        if !candidates.contains(&candidate) {
            candidates.push(candidate);
        }
    }
    let of = candidates.iter().map(|(group, resource)| (group.as_str(), resource.as_str()));
    let counted = atoll_quota::counted(quota, of, &atoll_quota::Emptiness);
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
    fn names_say_what_is_counted() {
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
    fn only_those_who_count_are_asked() {
        let interests = Interests::default();
        let target = |namespace: &str, name: &str| Key::new("w", namespace, name);
        let (pods, maps) = (quota(json!({"pods": "1"})), quota(json!({"configmaps": "1"})));
        assert!(interests.insert(&target("a", "p"), &pods));
        assert!(!interests.insert(&target("a", "p"), &pods), "nothing new");
        assert!(interests.insert(&target("a", "m"), &maps));
        assert!(interests.insert(&target("b", "p"), &pods));
        let resource = (String::new(), "pods".to_string());
        assert_eq!(interests.beside(&target("a", "object"), &resource), [target("a", "p")]);
        assert_eq!(interests.beside(&target("c", "object"), &resource), []);
        assert_eq!(interests.counting(&resource).len(), 2);
        assert_eq!(interests.resources().len(), 2);
        interests.remove(&target("a", "m"));
        assert_eq!(interests.resources().len(), 1);
        assert!(!interests.knows(&target("a", "m")) && interests.knows(&target("b", "p")));
    }
}
