//! Places Services, PodDisruptionBudgets and NetworkPolicies with the workloads whose Pods they select,
//! Ingresses with the Services that they lead to, and all of them with their owners. They leave a cluster when
//! no such object is there any more. Clusters that a user has chosen for them stay.

mod backends;
mod changed_workloads;
mod owners;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use atoll_fleet::placement::{Share, are_same, next_needed};
use atoll_fleet::scheduled::stays_above;
use atoll_fleet::selecting::{pod_labels, selector, selects};
use atoll_fleet::{Placement, pause};
use atoll_informer::{ApiScope, Cache, Change, Informers, Key, Next, Queue, Resource, resources};
use atoll_meta::{Status, object};
use atoll_placement::budgets::{Disruption, divide_disruption};
use serde_json::{Value, json};

use self::changed_workloads::{ChangedWorkloads, Due};
use crate::kinds::Kinds;
use crate::workloads;
use crate::writer::PAUSED_DELAY;

const WORKERS: usize = 4;
/// Delay before a refused placement is tried again.
const REFUSED_DELAY: Duration = Duration::from_secs(5);
const PLACEMENT: &str = "placement";
const DRY_RUN: &str = "placement?dryRun=All";
/// Most labels of the Pods of a workload that are looked up.
const MAX_LABELS: usize = 256;
/// Index key of selectors without an exact label.
const ANY: &str = "*";

/// Kinds that select Pods. The position of a kind is part of queue keys.
fn kinds() -> [&'static Resource; 4] {
    [
        &resources::SERVICES,
        &resources::NETWORK_POLICIES,
        &resources::POD_DISRUPTION_BUDGETS,
        &resources::INGRESSES,
    ]
}

/// The position of Services.
const SERVICES: usize = 0;
/// The position of Ingresses.
const INGRESSES: usize = 3;
/// Position in the queue keys of namespaces with changed workloads.
const NAMESPACES: usize = 4;
/// Number of objects after which other work of the thread goes first.
const YIELD_AFTER: usize = 256;

/// Delay before a removal that depends on unknown owners is checked again.
const UNKNOWN_DELAY: Duration = Duration::from_secs(1);

/// Index function of Services; see [`index_keys`].
pub const SERVICE_INDEX: fn(&Value) -> Vec<String> =
    |object| owners::with_index_keys(object, index_key("Service", object));

/// Index functions of the kinds, in the same order.
const INDEXES: [fn(&Value) -> Vec<String>; 4] = [
    SERVICE_INDEX,
    |object| owners::with_index_keys(object, index_key("NetworkPolicy", object)),
    |object| owners::with_index_keys(object, index_key("PodDisruptionBudget", object)),
    |object| owners::with_index_keys(object, backends::index_keys(object)),
];

/// Workspace, namespace and one label that every selected Pod has.
fn index_key(kind: &str, object: &Value) -> Vec<String> {
    let Some(selector) = selector(kind, object) else { return Vec::new() };
    let exact = selector.requirements().iter().find_map(|requirement| {
        let value = selector.required_exact(requirement.key())?;
        Some(label(requirement.key(), value))
    });
    vec![scoped(&Key::of(object), &exact.unwrap_or_else(|| ANY.to_string()))]
}

fn label(key: &str, value: &str) -> String {
    format!("{key}={value}")
}

fn scoped(at: &Key, text: &str) -> String {
    format!("{}/{}/{text}", at.workspace, at.namespace)
}

/// The index keys of all objects that may select the Pods of a workload.
pub fn index_keys(at: &Key, workload: &Value) -> Vec<String> {
    let labels = pod_labels(workload).into_iter().flatten().take(MAX_LABELS);
    let exact = labels.filter_map(|(key, value)| Some(label(key, value.as_str()?)));
    exact.chain([ANY.to_string()]).map(|text| scoped(at, &text)).collect()
}

/// Objects that select Pods, and the workloads.
pub struct Selected {
    api: ApiScope,
    /// Caches and their indexes, in the order of [`kinds`].
    selecting: Vec<(Arc<Cache>, usize)>,
    kinds: Arc<Kinds>,
    changed: ChangedWorkloads,
    queue: Queue,
}

impl Selected {
    pub fn new(informers: &Informers, kinds: Arc<Kinds>) -> Arc<Selected> {
        let with_index = |(kind, index): (&'static Resource, fn(&Value) -> Vec<String>)| {
            let cache = informers.of(kind);
            let index = cache.index(index);
            (cache, index)
        };
        let selecting = self::kinds().into_iter().zip(INDEXES).map(with_index).collect();
        let (api, changed) = (informers.api().clone(), ChangedWorkloads::default());
        Arc::new(Selected { api, selecting, kinds, changed, queue: Queue::new() })
    }

    /// Runs until it is dropped.
    pub async fn run(self: Arc<Selected>) {
        for (kind, (cache, _)) in self.selecting.iter().enumerate() {
            let queue = self.queue.clone();
            cache.listen(move |change| queue.add(workloads::queue_key(kind, &change.key)));
        }
        for cache in &self.kinds.workloads {
            let selected = self.clone();
            cache.listen(move |change| selected.workload_changed(change));
        }
        let selected = self.clone();
        self.selecting[SERVICES].0.listen(move |change| selected.service_changed(change));
        for cache in self.selecting.iter().map(|(cache, _)| cache).chain(&self.kinds.workloads) {
            cache.synced().await;
        }
        let (queue, selected) = (self.queue.clone(), self.clone());
        queue
            .work("selected dependents", WORKERS, move |key| {
                let selected = selected.clone();
                async move { selected.sync(&key).await }
            })
            .await;
    }

    /// Adds the objects that select the Pods of a workload whose clusters, replicas or labels have changed.
    fn workload_changed(&self, change: &Change) {
        let matters =
            |object: &Value| (pod_labels(object).cloned(), demand(object), object::is_being_deleted(object));
        if let (Some(old), Some(new)) = (&change.old, &change.new)
            && matters(old) == matters(new)
        {
            return;
        }
        let placed = [&change.old, &change.new].into_iter().flatten();
        let placed = placed.filter(|object| !Placement::of(object).clusters.is_empty());
        let with_owner = |object: &Arc<Value>| {
            let owner = owners::index_key(&change.key, object::uid(object));
            index_keys(&change.key, object).into_iter().chain([owner]).collect::<Vec<_>>()
        };
        let index_keys: Vec<String> = placed.flat_map(with_owner).collect();
        if !index_keys.is_empty() {
            let namespace = change.key.sibling("");
            self.changed.add(&namespace, index_keys);
            self.queue.add(workloads::queue_key(NAMESPACES, &namespace));
        }
    }

    /// Adds the objects of a namespace that may select the Pods of changed workloads.
    async fn expand(&self, namespace: &Key) -> Next {
        let (due, mut found) = (self.changed.take(namespace, Instant::now()), 0);
        let index_keys = match due {
            Due::Nothing => return Next::Done,
            Due::Later(left) => return Next::After(left),
            Due::With(index_keys) => Some(index_keys),
            Due::All => None,
        };
        for (kind, (cache, index)) in self.selecting.iter().enumerate() {
            let objects = match &index_keys {
                Some(index_keys) => index_keys.iter().flat_map(|key| cache.by_index(*index, key)).collect(),
                None => cache.list(&namespace.workspace, &namespace.namespace),
            };
            for object in objects {
                self.queue.add(workloads::queue_key(kind, &Key::of(&object)));
                found += 1;
                if found % YIELD_AFTER == 0 {
                    tokio::task::yield_now().await;
                }
            }
        }
        match found {
            0 => Next::Done,
            _ => Next::After(self.changed.pause(namespace, found, Instant::now())),
        }
    }

    /// Adds the Ingresses that lead to a Service whose clusters have changed.
    fn service_changed(&self, change: &Change) {
        let clusters = |object: &Option<Arc<Value>>| {
            object.as_ref().map(|object| Placement::of(object).clusters).unwrap_or_default()
        };
        if clusters(&change.old) == clusters(&change.new) {
            return;
        }
        let (cache, index) = &self.selecting[INGRESSES];
        for found in cache.by_index(*index, &scoped(&change.key, &change.key.name)) {
            self.queue.add(workloads::queue_key(INGRESSES, &Key::of(&found)));
        }
    }

    async fn sync(&self, key: &Key) -> Result<Next, Status> {
        let Some((kind, at)) = workloads::target(key) else { return Ok(Next::Done) };
        if kind == NAMESPACES {
            return Ok(self.expand(&at).await);
        }
        let Some(resource) = kinds().get(kind).copied() else { return Ok(Next::Done) };
        let Some(found) = self.selecting[kind].0.get(&at) else { return Ok(Next::Done) };
        let current = Placement::of(&found);
        if object::is_being_deleted(&found) {
            return Ok(Next::Done);
        }
        let needed = match stays_above(&found) {
            true => Vec::new(),
            false => self.needed(kind, &at, &found),
        };
        let Some((wanted, by)) = next_needed(&current, needed) else { return Ok(Next::Done) };
        if are_same(&current.clusters, &wanted) {
            return Ok(Next::Done);
        }
        let is_wanted = |share: &Share| wanted.iter().any(|other| other.is_of(&share.name, &share.uid));
        if current.clusters.iter().all(is_wanted) || stays_above(&found) {
            return self.write(resource, &at, &found, (wanted, by)).await;
        }
        if !self.kinds.knows_owners(&at, &found) {
            return Ok(Next::After(UNKNOWN_DELAY));
        }
        // Caches may be at different revisions, and a Service that is removed by mistake loses its address in
        // the cluster.
        let needed = self.listed(kind, &at, &found).await?;
        match next_needed(&current, needed) {
            Some((wanted, by)) if !are_same(&current.clusters, &wanted) => {
                self.write(resource, &at, &found, (wanted, by)).await
            }
            _ => Ok(Next::Done),
        }
    }

    /// The clusters that need an object, by the caches.
    fn needed(&self, kind: usize, at: &Key, found: &Value) -> Vec<Share> {
        owners::with_shares(self.selected_by(kind, at, found), found, &|owner| self.kinds.owner(at, owner))
    }

    /// The clusters of the objects that an object selects or leads to.
    fn selected_by(&self, kind: usize, at: &Key, found: &Value) -> Vec<Share> {
        if kind == INGRESSES {
            let service = |name: &str| self.selecting[SERVICES].0.get(&at.sibling(name));
            let services: Vec<Arc<Value>> =
                backends::services(found).into_iter().filter_map(service).collect();
            return backends::shares(services.iter().map(|service| &**service));
        }
        let cached = self.kinds.workloads.iter().flat_map(|cache| cache.list(&at.workspace, &at.namespace));
        let cached: Vec<Arc<Value>> = cached.collect();
        shares(kinds()[kind], found, cached.iter().map(|workload| &**workload))
    }

    /// The clusters that need an object, by lists from the API.
    async fn listed(&self, kind: usize, at: &Key, found: &Value) -> Result<Vec<Share>, Status> {
        let owners = owners::read(&self.api, &self.kinds, at, found).await?;
        let shares = self.listed_by(kind, at, found).await?;
        Ok(owners::with_shares(shares, found, &|owner| owners.get(owner.uid).cloned()))
    }

    async fn listed_by(&self, kind: usize, at: &Key, found: &Value) -> Result<Vec<Share>, Status> {
        let mut listed = Vec::new();
        if kind == INGRESSES {
            for name in backends::services(found) {
                match self.api.get_metadata(&resources::SERVICES, &at.sibling(name)).await {
                    Err(status) if status.code() == 404 => {}
                    service => listed.push(service?),
                }
            }
            return Ok(backends::shares(listed.iter()));
        }
        for workload in workloads::kinds() {
            let add = |page: Vec<Value>| listed.extend(page.iter().map(selectable));
            self.api.list_large(workload, &at.workspace, &at.namespace, add).await?;
        }
        Ok(shares(kinds()[kind], found, listed.iter()))
    }

    async fn write(
        &self,
        resource: &'static Resource,
        at: &Key,
        found: &Value,
        (wanted, by): (Vec<Share>, &str),
    ) -> Result<Next, Status> {
        match self.place(resource, at, found, (&wanted, by), PLACEMENT).await {
            Err(status) if matches!(status.code(), 404 | 409) => Ok(Next::Again),
            Err(status) if status.has_cause(pause::CAUSE) => Ok(Next::After(PAUSED_DELAY)),
            // One cluster accepts no new shares; the object is still placed on the others.
            Err(status) if status.code() == 422 => {
                let before = Placement::of(found).clusters;
                let mut accepted: Vec<Share> = Vec::new();
                for share in wanted {
                    let is_known = before.iter().any(|other| other.is_of(&share.name, &share.uid));
                    accepted.push(share);
                    if !is_known && self.place(resource, at, found, (&accepted, by), DRY_RUN).await.is_err() {
                        accepted.pop();
                    }
                }
                if !are_same(&before, &accepted) {
                    match self.place(resource, at, found, (&accepted, by), PLACEMENT).await {
                        Err(status) if !matches!(status.code(), 403 | 404 | 409 | 422) => return Err(status),
                        _ => {}
                    }
                }
                Ok(Next::After(REFUSED_DELAY))
            }
            Err(status) if status.code() == 403 => Ok(Next::After(REFUSED_DELAY)),
            placed => placed.map(|_| Next::Done),
        }
    }

    async fn place(
        &self,
        resource: &Resource,
        at: &Key,
        found: &Value,
        (shares, by): (&[Share], &str),
        subresource: &str,
    ) -> Result<Value, Status> {
        let patch = json!({
            "metadata": { "uid": object::uid(found), "resourceVersion": object::resource_version(found) },
            "spec": { "clusters": shares, "by": by },
        });
        self.api.patch(resource, at, subresource, &patch).await
    }
}

/// The parts of a workload that [`shares`] depend on. The rest may be large.
fn selectable(workload: &Value) -> Value {
    let mut small = json!({ "metadata": {}, "spec": { "template": { "metadata": {} } } });
    if let Some(time) = workload["metadata"].get("deletionTimestamp") {
        small["metadata"]["deletionTimestamp"] = time.clone();
    }
    if let Some(placement) = object::annotation(workload, atoll_fleet::marks::PLACEMENT) {
        object::set_annotation(&mut small, atoll_fleet::marks::PLACEMENT, placement);
    }
    if let Some(labels) = pod_labels(workload) {
        small["spec"]["template"]["metadata"]["labels"] = labels.clone().into();
    }
    if let Some(replicas) = workload["spec"].get("replicas") {
        small["spec"]["replicas"] = replicas.clone();
    }
    small
}

/// The clusters of a workload with the replicas on each.
fn demand(workload: &Value) -> Vec<(String, String, i64)> {
    let all = workload["spec"]["replicas"].as_i64().unwrap_or(1);
    let shares = Placement::of(workload).clusters.into_iter();
    shares.map(|share| (share.name, share.uid, share.replicas.unwrap_or(all))).collect()
}

/// The shares of an object: the clusters of all workloads whose Pods it selects.
fn shares<'a>(
    resource: &Resource,
    selecting: &Value,
    workloads: impl Iterator<Item = &'a Value>,
) -> Vec<Share> {
    let Some(selector) = selector(&resource.kind, selecting) else { return Vec::new() };
    let selected: Vec<&Value> = workloads.filter(|workload| selects(&selector, workload)).collect();
    let replicas = replicas_by_cluster(&selected);
    let mut shares: Vec<Share> = replicas.keys().map(|(name, uid)| Share::on(name, uid)).collect();
    if resource.kind == "PodDisruptionBudget" && shares.len() > 1 && !are_copies(&selected, shares.len()) {
        let replicas: Vec<i64> = replicas.into_values().collect();
        for (share, number) in shares.iter_mut().zip(disruptions(selecting, &replicas)) {
            share.replicas = Some(number);
        }
    }
    shares
}

/// Whether each of the clusters runs all of the workloads, so that a budget applies to each as it is.
fn are_copies(workloads: &[&Value], clusters: usize) -> bool {
    let is_copied = |workload: &&&Value| {
        let all = workload["spec"]["replicas"].as_i64().unwrap_or(1);
        let shares = demand(workload);
        shares.is_empty() || (shares.len() == clusters && shares.iter().all(|(.., own)| *own >= all))
    };
    workloads.iter().filter(is_copied).count() == workloads.len()
}

/// Replicas of workloads by name and uid of the cluster.
fn replicas_by_cluster(workloads: &[&Value]) -> BTreeMap<(String, String), i64> {
    let mut found: BTreeMap<(String, String), i64> = BTreeMap::new();
    for workload in workloads {
        for (name, uid, replicas) in demand(workload) {
            *found.entry((name, uid)).or_default() += replicas;
        }
    }
    // A placement names each cluster once.
    let mut names = std::collections::BTreeSet::new();
    found.retain(|(name, _), _| names.insert(name.clone()));
    found
}

/// The number of a budget for each cluster; none if the budget is a percentage.
fn disruptions(budget: &Value, replicas: &[i64]) -> Vec<i64> {
    let number = |field: &str| budget["spec"][field].as_i64();
    match (number("minAvailable"), number("maxUnavailable")) {
        (Some(least), _) => divide_disruption(Disruption::MinAvailable(least), replicas),
        (None, Some(most)) => divide_disruption(Disruption::MaxUnavailable(most), replicas),
        (None, None) => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workload(app: &str, clusters: &[(&str, Option<i64>)]) -> Value {
        let clusters =
            clusters.iter().map(|(name, replicas)| Share { replicas: *replicas, ..Share::on(name, name) });
        let placement =
            Placement { clusters: clusters.collect(), by: "default".into(), ..Placement::default() };
        json!({
            "metadata": { "name": app, "namespace": "n", "annotations": { "atoll.dev/placement": placement.text() } },
            "spec": { "replicas": 4, "template": { "metadata": { "labels": { "app": app } } } },
        })
    }

    #[test]
    fn selecting_objects_go_where_the_pods_are() {
        let web = workload("web", &[("east", Some(3)), ("west", Some(1))]);
        let api = workload("api", &[("north", None)]);
        let copy = workload("copy", &[("east", Some(4)), ("west", None)]);
        let all = [web, api, copy];
        let budget = |spec: Value| json!({ "spec": spec });
        let web_only = json!({ "matchLabels": { "app": "web" } });
        for (resource, object, expected) in [
            (&resources::SERVICES, json!({ "spec": { "selector": { "app": "web" } } }), "east west"),
            (&resources::SERVICES, json!({ "spec": { "selector": { "app": "none" } } }), ""),
            (&resources::NETWORK_POLICIES, json!({ "spec": { "podSelector": {} } }), "east north west"),
            (
                &resources::POD_DISRUPTION_BUDGETS,
                budget(json!({ "selector": web_only, "maxUnavailable": 1 })),
                "east=1 west=0",
            ),
            (
                &resources::POD_DISRUPTION_BUDGETS,
                budget(json!({ "selector": web_only, "minAvailable": 2 })),
                "east=1 west=1",
            ),
            (
                &resources::POD_DISRUPTION_BUDGETS,
                budget(json!({ "selector": web_only, "minAvailable": "50%" })),
                "east west",
            ),
            // Each cluster runs all replicas.
            (
                &resources::POD_DISRUPTION_BUDGETS,
                budget(json!({ "selector": { "matchLabels": { "app": "copy" } }, "minAvailable": 3 })),
                "east west",
            ),
            // A budget for the Pods of several workloads counts them together.
            (
                &resources::POD_DISRUPTION_BUDGETS,
                budget(json!({ "selector": {}, "maxUnavailable": 3 })),
                "east=1 north=1 west=1",
            ),
        ] {
            let found: Vec<String> = shares(resource, &object, all.iter())
                .iter()
                .map(|share| match share.replicas {
                    Some(replicas) => format!("{}={replicas}", share.name),
                    None => share.name.clone(),
                })
                .collect();
            assert_eq!(found.join(" "), expected, "{object}");
        }
    }
}
