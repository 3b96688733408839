//! Services and workloads, whose selectors are used for default spreading.

// upstream: pkg/scheduler/framework/plugins/helper/spread.go

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use atoll_meta::{LabelSelector, object};
use serde_json::Value;

use crate::node_affinity::equals;
use crate::pod::{Owner, Pod};
use crate::pod_affinity::Class;

/// Maximum number of cached selectors.
const LIMIT: usize = 4096;

type Name = (Arc<str>, Arc<str>);
type Pairs = BTreeMap<String, String>;
/// Key of a cached selector.
type CacheKey = (Arc<Class>, Option<Arc<Owner>>);

/// Pod selector of a workload.
#[derive(Debug, PartialEq)]
enum WorkloadSelector {
    Labels(Pairs),
    Selector(LabelSelector),
}

/// The Services, ReplicationControllers, ReplicaSets and StatefulSets of a cluster.
#[derive(Debug, Default)]
pub struct Workloads {
    /// Selectors by namespace and name.
    services: HashMap<Arc<str>, BTreeMap<Arc<str>, Pairs>>,
    owners: HashMap<(Arc<str>, Owner), WorkloadSelector>,
    cached: HashMap<CacheKey, Option<Arc<LabelSelector>>>,
}

impl Workloads {
    pub fn set_service(&mut self, service: &Value) {
        let (namespace, name) = name_of(service);
        let services = self.services.entry(namespace).or_default();
        match service["spec"]["selector"].as_object() {
            Some(_) => drop(services.insert(name, texts(&service["spec"]["selector"]))),
            // A Service without a selector selects no Pods.
            None => drop(services.remove(&name)),
        }
        self.cached.clear();
    }

    pub fn remove_service(&mut self, namespace: &str, name: &str) {
        if let Some(services) = self.services.get_mut(namespace) {
            services.remove(name);
            if services.is_empty() {
                self.services.remove(namespace);
            }
        }
        self.cached.clear();
    }

    /// Adds or updates a ReplicationController, ReplicaSet or StatefulSet.
    pub fn set_workload(&mut self, kind: &str, workload: &Value) {
        let (namespace, name) = name_of(workload);
        let selector = &workload["spec"]["selector"];
        let selected = match kind {
            "ReplicationController" => Some(WorkloadSelector::Labels(texts(selector))),
            _ => LabelSelector::from_object(selector).ok().map(WorkloadSelector::Selector),
        };
        let key = (namespace, Owner { kind: kind.into(), name: (*name).into() });
        // Workloads change often, but their selectors hardly ever.
        if self.owners.get(&key) == selected.as_ref() {
            return;
        }
        match selected {
            Some(selected) => drop(self.owners.insert(key, selected)),
            None => drop(self.owners.remove(&key)),
        }
        self.cached.clear();
    }

    pub fn remove_workload(&mut self, kind: &str, namespace: &str, name: &str) {
        self.owners.remove(&(namespace.into(), Owner { kind: kind.into(), name: name.into() }));
        self.cached.retain(|(_, owner), _| owner.as_ref().is_none_or(|owner| &*owner.name != name));
    }

    /// Returns a selector for the Pods that belong with a Pod; `None` if there is none (`DefaultSelector`).
    pub fn default_selector(&mut self, pod: &Pod) -> Option<Arc<LabelSelector>> {
        let key = (pod.class.clone(), pod.owner.clone());
        if let Some(known) = self.cached.get(&key) {
            return known.clone();
        }
        let selector = Some(self.selector(pod)).filter(|selector| !selector.is_empty()).map(Arc::new);
        if self.cached.len() >= LIMIT {
            self.cached.clear();
        }
        self.cached.insert(key, selector.clone());
        selector
    }

    fn selector(&self, pod: &Pod) -> LabelSelector {
        let labels = &pod.class.labels;
        let mut wanted = BTreeMap::new();
        for selector in self.services.get(pod.namespace()).into_iter().flat_map(BTreeMap::values) {
            if selector.iter().all(|(key, value)| labels.get(key).is_some_and(|own| **own == **value)) {
                wanted.extend(selector);
            }
        }
        let owner = pod.owner.as_ref();
        let owner = owner.and_then(|owner| self.owners.get(&(pod.namespace().clone(), (**owner).clone())));
        if let Some(WorkloadSelector::Labels(selector)) = owner {
            wanted.extend(selector);
        }
        let mut requirements: Vec<_> = wanted.iter().filter_map(|(key, value)| equals(key, value)).collect();
        if let Some(WorkloadSelector::Selector(selector)) = owner {
            requirements.extend(selector.requirements().iter().cloned());
        }
        LabelSelector::new(requirements)
    }
}

fn name_of(object: &Value) -> Name {
    (object::namespace(object).into(), object::name(object).into())
}

fn texts(map: &Value) -> Pairs {
    let entries = map.as_object().into_iter().flatten();
    entries.map(|(key, value)| (key.clone(), value.as_str().unwrap_or_default().to_owned())).collect()
}
