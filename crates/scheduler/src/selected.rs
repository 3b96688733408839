//! Places Services, PodDisruptionBudgets and NetworkPolicies with the workloads whose Pods they select. They lose
//! a cluster when no such workload is there any more. One that was placed by other means is left alone.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use atoll_fleet::placement::Share;
use atoll_fleet::selecting::{pod_labels, selector, selects};
use atoll_fleet::{Placement, pause, placed_by};
use atoll_informer::{ApiScope, Cache, Change, Informers, Key, Next, Queue, Resource, resources};
use atoll_meta::{Status, object};
use atoll_placement::budgets::{Disruption, divide_disruption};
use atoll_placement::intent::Intent;
use serde_json::{Value, json};

use crate::workloads;
use crate::writer::PAUSED_DELAY;

const WORKERS: usize = 4;
/// Delay before a refused placement is tried again.
const REFUSED_DELAY: Duration = Duration::from_secs(5);
const PLACEMENT: &str = "placement";
const DRY_RUN: &str = "placement?dryRun=All";
/// Most labels of a workload's Pods that are looked up.
const MAX_LABELS: usize = 256;
/// Index key of selectors without an exact label.
const ANY: &str = "*";

/// Kinds that select Pods. The position of a kind is part of queue keys.
fn kinds() -> [&'static Resource; 3] {
    [&resources::SERVICES, &resources::NETWORK_POLICIES, &resources::POD_DISRUPTION_BUDGETS]
}

/// Index functions of the kinds, in the same order.
const INDEXES: [fn(&Value) -> Vec<String>; 3] = [
    |object| index_key("Service", object),
    |object| index_key("NetworkPolicy", object),
    |object| index_key("PodDisruptionBudget", object),
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

/// Objects that select Pods, and the workloads.
pub struct Selected {
    api: ApiScope,
    /// Caches and their indexes, in the order of [`kinds`].
    selecting: Vec<(Arc<Cache>, usize)>,
    workloads: Vec<Arc<Cache>>,
    queue: Queue,
}

impl Selected {
    pub fn new(informers: &Informers, workloads: Vec<Arc<Cache>>) -> Arc<Selected> {
        let with_index = |(kind, index): (&'static Resource, fn(&Value) -> Vec<String>)| {
            let cache = informers.of(kind);
            let index = cache.index(index);
            (cache, index)
        };
        let selecting = kinds().into_iter().zip(INDEXES).map(with_index).collect();
        Arc::new(Selected { api: informers.api().clone(), selecting, workloads, queue: Queue::new() })
    }

    /// Runs until it is dropped.
    pub async fn run(self: Arc<Selected>) {
        for (kind, (cache, _)) in self.selecting.iter().enumerate() {
            let queue = self.queue.clone();
            cache.listen(move |change| queue.add(workloads::queue_key(kind, &change.key)));
        }
        for cache in &self.workloads {
            let selected = self.clone();
            cache.listen(move |change| selected.workload_changed(change));
        }
        for cache in self.selecting.iter().map(|(cache, _)| cache).chain(&self.workloads) {
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
        for object in [&change.old, &change.new].into_iter().flatten() {
            if Placement::of(object).clusters.is_empty() {
                continue;
            }
            let labels = pod_labels(object).into_iter().flatten().take(MAX_LABELS);
            let exact = labels.filter_map(|(key, value)| Some(label(key, value.as_str()?)));
            for text in exact.chain([ANY.to_string()]) {
                let index_key = scoped(&change.key, &text);
                for (kind, (cache, index)) in self.selecting.iter().enumerate() {
                    for found in cache.by_index(*index, &index_key) {
                        self.queue.add(workloads::queue_key(kind, &Key::of(&found)));
                    }
                }
            }
        }
    }

    async fn sync(&self, key: &Key) -> Result<Next, Status> {
        let Some((kind, namespace)) = key.namespace.split_once('/') else { return Ok(Next::Done) };
        let Some(kind) = kind.parse::<usize>().ok().filter(|kind| *kind < kinds().len()) else {
            return Ok(Next::Done);
        };
        let (resource, at) = (kinds()[kind], Key::new(&key.workspace, namespace, &key.name));
        let Some(found) = self.selecting[kind].0.get(&at) else { return Ok(Next::Done) };
        let current = Placement::of(&found);
        let is_others = !current.clusters.is_empty() && current.by != placed_by::REFERENCE;
        if is_others || object::is_being_deleted(&found) {
            return Ok(Next::Done);
        }
        let wanted = match Intent::on(&found) {
            Some(Ok(intent)) if intent.is_none() => Vec::new(),
            // Its user decides where it goes.
            Some(_) => return Ok(Next::Done),
            None => {
                let cached = self.workloads.iter().flat_map(|cache| cache.list(&at.workspace, namespace));
                let cached: Vec<Arc<Value>> = cached.collect();
                shares(resource, &found, cached.iter().map(|workload| &**workload))
            }
        };
        if is_same(&current.clusters, &wanted) {
            return Ok(Next::Done);
        }
        let is_wanted = |share: &Share| wanted.iter().any(|other| other.is_of(&share.name, &share.uid));
        if current.clusters.iter().all(is_wanted) || Intent::on(&found).is_some() {
            return self.write(resource, &at, &found, wanted).await;
        }
        // Caches may be at different revisions, and a Service that is removed by mistake loses its address.
        let mut listed = Vec::new();
        for workload in workloads::kinds() {
            listed.extend(self.api.list(workload, &at.workspace, namespace, false).await?);
        }
        let wanted = shares(resource, &found, listed.iter());
        match is_same(&current.clusters, &wanted) {
            true => Ok(Next::Done),
            false => self.write(resource, &at, &found, wanted).await,
        }
    }

    async fn write(
        &self,
        resource: &'static Resource,
        at: &Key,
        found: &Value,
        wanted: Vec<Share>,
    ) -> Result<Next, Status> {
        match self.place(resource, at, found, &wanted, PLACEMENT).await {
            Err(status) if matches!(status.code(), 404 | 409) => Ok(Next::Again),
            Err(status) if status.has_cause(pause::CAUSE) => Ok(Next::After(PAUSED_DELAY)),
            // A cluster accepts nothing; the others still get the object.
            Err(status) if status.code() == 422 => {
                let before = Placement::of(found).clusters;
                let mut accepted: Vec<Share> = Vec::new();
                for share in wanted {
                    let is_known = before.iter().any(|other| other.is_of(&share.name, &share.uid));
                    accepted.push(share);
                    if !is_known && self.place(resource, at, found, &accepted, DRY_RUN).await.is_err() {
                        accepted.pop();
                    }
                }
                if !is_same(&before, &accepted) {
                    match self.place(resource, at, found, &accepted, PLACEMENT).await {
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
        shares: &[Share],
        subresource: &str,
    ) -> Result<Value, Status> {
        let patch = json!({
            "metadata": { "uid": object::uid(found), "resourceVersion": object::resource_version(found) },
            "spec": { "clusters": shares, "by": placed_by::REFERENCE },
        });
        self.api.patch(resource, at, subresource, &patch).await
    }
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

fn is_same(shares: &[Share], others: &[Share]) -> bool {
    let has = |share: &Share| {
        others.iter().any(|other| other.is_of(&share.name, &share.uid) && other.replicas == share.replicas)
    };
    shares.len() == others.len() && shares.iter().all(has)
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
            // Each cluster has all of it.
            (
                &resources::POD_DISRUPTION_BUDGETS,
                budget(json!({ "selector": { "matchLabels": { "app": "copy" } }, "minAvailable": 3 })),
                "east west",
            ),
            // The Pods of several workloads are one whole.
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
