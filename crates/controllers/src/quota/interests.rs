//! Which quotas there are, and whose objects they count.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use atoll_quota::Quota;
use serde_json::Value;

/// One quota.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    /// Id.
    pub workspace: String,
    pub namespace: String,
    pub name: String,
}

/// A resource by group and plural.
pub type GroupResource = (String, String);

#[derive(Default)]
pub struct Interests {
    quotas: Mutex<Quotas>,
}

/// What is counted: by workspace and namespace, then by the quota's name.
type Quotas = HashMap<(String, String), HashMap<String, BTreeSet<GroupResource>>>;

impl Interests {
    /// Whether something is counted now that was not before, or the other way round.
    pub fn insert(&self, target: &Target, quota: &Value) -> bool {
        let counted: BTreeSet<GroupResource> = resources(&Quota::read(quota)).into_iter().collect();
        let mut quotas = self.quotas();
        let place = quotas.entry((target.workspace.clone(), target.namespace.clone())).or_default();
        place.insert(target.name.clone(), counted.clone()) != Some(counted)
    }

    pub fn remove(&self, target: &Target) {
        let mut quotas = self.quotas();
        let key = (target.workspace.clone(), target.namespace.clone());
        let Some(place) = quotas.get_mut(&key) else { return };
        place.remove(&target.name);
        if place.is_empty() {
            quotas.remove(&key);
        }
    }

    pub fn knows(&self, target: &Target) -> bool {
        let quotas = self.quotas();
        let place = quotas.get(&(target.workspace.clone(), target.namespace.clone()));
        place.is_some_and(|place| place.contains_key(&target.name))
    }

    /// The quotas of a namespace that count objects of a resource.
    pub fn in_namespace(&self, workspace: &str, namespace: &str, resource: &GroupResource) -> Vec<Target> {
        let quotas = self.quotas();
        let place = quotas.get(&(workspace.to_string(), namespace.to_string()));
        let names = place.into_iter().flatten().filter(|(_, counted)| counted.contains(resource));
        names
            .map(|(name, _)| Target {
                workspace: workspace.into(),
                namespace: namespace.into(),
                name: name.clone(),
            })
            .collect()
    }

    /// The quotas anywhere that count objects of a resource.
    pub fn counting(&self, resource: &GroupResource) -> Vec<Target> {
        let all = self.all();
        all.into_iter()
            .filter(|target| {
                self.in_namespace(&target.workspace, &target.namespace, resource).contains(target)
            })
            .collect()
    }

    pub fn all(&self) -> Vec<Target> {
        let quotas = self.quotas();
        let of = |((workspace, namespace), place): (&(String, String), &HashMap<String, _>)| {
            let targets = place.keys().map(|name| Target {
                workspace: workspace.clone(),
                namespace: namespace.clone(),
                name: name.clone(),
            });
            targets.collect::<Vec<_>>()
        };
        quotas.iter().flat_map(of).collect()
    }

    /// All that any quota counts, with a workspace where it does.
    pub fn resources(&self) -> HashMap<GroupResource, BTreeSet<String>> {
        let quotas = self.quotas();
        let mut resources: HashMap<GroupResource, BTreeSet<String>> = HashMap::new();
        for ((workspace, _), place) in quotas.iter() {
            for resource in place.values().flatten() {
                resources.entry(resource.clone()).or_default().insert(workspace.clone());
            }
        }
        resources
    }

    fn quotas(&self) -> MutexGuard<'_, Quotas> {
        self.quotas.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
        let target = |namespace: &str, name: &str| Target {
            workspace: "w".into(),
            namespace: namespace.into(),
            name: name.into(),
        };
        let (pods, maps) = (quota(json!({"pods": "1"})), quota(json!({"configmaps": "1"})));
        assert!(interests.insert(&target("a", "p"), &pods));
        assert!(!interests.insert(&target("a", "p"), &pods), "nothing new");
        assert!(interests.insert(&target("a", "m"), &maps));
        assert!(interests.insert(&target("b", "p"), &pods));
        let resource = (String::new(), "pods".to_string());
        assert_eq!(interests.in_namespace("w", "a", &resource), [target("a", "p")]);
        assert_eq!(interests.in_namespace("w", "c", &resource), []);
        assert_eq!(interests.counting(&resource).len(), 2);
        assert_eq!(interests.resources().len(), 2);
        interests.remove(&target("a", "m"));
        assert_eq!(interests.resources().len(), 1);
        assert!(!interests.knows(&target("a", "m")) && interests.knows(&target("b", "p")));
    }
}
