//! Index of quotas by namespace and counted resources.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeSet, HashMap};
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use atoll_informer::Key;
use atoll_quota::{Evaluator, Quota};
use serde_json::Value;

/// A resource by group and plural.
pub type GroupResource = (String, String);

/// Hash of a resource. A quota can name many resources that do not exist, so names are not kept; a collision only
/// causes an unnecessary recount.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceHash(u64);

impl ResourceHash {
    pub fn of(group: &str, plural: &str) -> ResourceHash {
        let mut hasher = DefaultHasher::new();
        (group, plural).hash(&mut hasher);
        ResourceHash(hasher.finish())
    }
}

#[derive(Default)]
pub struct QuotaIndex {
    quotas: Mutex<Quotas>,
}

/// Counted resources in order, by workspace and namespace, then by quota name.
type Quotas = HashMap<(Arc<str>, Arc<str>), HashMap<Arc<str>, Box<[ResourceHash]>>>;

impl QuotaIndex {
    /// Adds a quota. Returns whether the counted resources changed.
    pub fn insert(&self, key: &Key, quota: &Value) -> bool {
        let counted = resources(&Quota::read(quota));
        let mut counted: Box<[ResourceHash]> =
            counted.iter().map(|(group, plural)| ResourceHash::of(group, plural)).collect();
        counted.sort_unstable();
        let mut quotas = self.quotas();
        let place = quotas.entry(namespace_key(key)).or_default();
        match place.get(&key.name) == Some(&counted) {
            true => false,
            false => {
                place.insert(key.name.clone(), counted);
                true
            }
        }
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
    pub fn in_namespace_of(&self, object: &Key, resource: ResourceHash) -> Vec<Key> {
        let quotas = self.quotas();
        let of_namespace = quotas.get(&namespace_key(object)).into_iter().flatten();
        let counting = of_namespace.filter(|(_, counted)| counted.binary_search(&resource).is_ok());
        counting.map(|(name, _)| object.sibling(name)).collect()
    }

    /// Returns all quotas that count a resource.
    pub fn counting(&self, resource: ResourceHash) -> Vec<Key> {
        self.found(|counted| counted.binary_search(&resource).is_ok())
    }

    /// Whether any quota counts a resource.
    pub fn counts(&self, resource: ResourceHash) -> bool {
        let quotas = self.quotas();
        quotas.values().flat_map(HashMap::values).any(|counted| counted.binary_search(&resource).is_ok())
    }

    /// Returns all quotas that count a resource for which `is_watched` is false.
    pub fn counting_unwatched(&self, is_watched: impl Fn(&ResourceHash) -> bool) -> Vec<Key> {
        self.found(|counted| !counted.iter().all(&is_watched))
    }

    pub fn is_empty(&self) -> bool {
        self.quotas().is_empty()
    }

    pub fn all(&self) -> Vec<Key> {
        self.found(|_| true)
    }

    fn found(&self, is_wanted: impl Fn(&[ResourceHash]) -> bool) -> Vec<Key> {
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
pub fn resources(quota: &Quota) -> BTreeSet<GroupResource> {
    let named = RESOURCES_WITH_NAMES.iter().map(|resource| ("", *resource));
    let named = named.chain([("resource.k8s.io", "resourceclaims")]);
    let named = atoll_quota::counted(quota, named, &atoll_quota::NoObjects);
    let owned = |(group, resource): (&str, &str)| (group.to_string(), resource.to_string());
    let mut found: BTreeSet<GroupResource> =
        named.iter().map(|evaluator| owned(evaluator.resource())).collect();
    for counted in quota.wanted.names().filter_map(|name| name.strip_prefix("count/")) {
        let (resource, group) = counted.split_once('.').unwrap_or((counted, ""));
        if Evaluator::of(group, resource).is_some() {
            found.insert(owned((group, resource)));
        }
    }
    found
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
        let (resource, other) = (ResourceHash::of("", "pods"), ResourceHash::of("", "configmaps"));
        assert_eq!(index.in_namespace_of(&target("a", "object"), resource), [target("a", "p")]);
        assert_eq!(index.in_namespace_of(&target("c", "object"), resource), []);
        assert_eq!(index.counting(resource).len(), 2);
        assert_eq!(index.counting_unwatched(|watched| *watched == resource), [target("a", "m")]);
        assert!(index.counts(resource) && index.counts(other));
        index.remove(&target("a", "m"));
        assert!(index.counts(resource) && !index.counts(other));
        assert!(!index.knows(&target("a", "m")) && index.knows(&target("b", "p")));
    }
}
