//! Autoscalers whose target is placed on clusters. The control plane acts where the placement of the target says so:
//! a target on one cluster is scaled there.

use std::sync::Arc;

use atoll_fleet::Placement;
use atoll_fleet::autoscaling::{ABOVE, PINNED, ScaleTarget, is_of_placed_workloads};
use atoll_fleet::placed_condition::{self, Health};
use atoll_fleet::placement::Share;
use atoll_fleet::view::PodCounts;
use atoll_informer::{Cache, Key, Next, Resource, resources};
use atoll_meta::{Status, object};
use serde_json::{Value, json};

use super::merged::{CurrentReplicas, MergedPods, SharePods};
use super::proposal;
use super::usage::{Tolerance, fraction};
use super::{ABLE, ACTIVE, ATTEMPTS, Controller, MAX_METRICS, Reconciliation};
use crate::context::{Context, WorkloadScope};
use crate::fleet::cluster_lookup::ClusterLookup;
use crate::fleet::reports::{by_object, object_key};
use crate::shared::conditions;
use crate::workloads::scale;

/// The kinds of targets that are placed on clusters and can be scaled.
static KINDS: [&Resource; 4] = [
    &resources::DEPLOYMENTS,
    &resources::REPLICA_SETS,
    &resources::STATEFUL_SETS,
    &resources::REPLICATION_CONTROLLERS,
];

/// Reports of clusters about the pods of targets.
pub struct PlacedTargets {
    records: Arc<Cache>,
    index: usize,
    lookup: ClusterLookup,
}

/// The outcome of looking at an autoscaler.
enum Verdict {
    /// Scale the target, which is as it was read.
    Act(Box<Value>),
    /// Nothing: a cluster acts, or will soon.
    Leave,
    /// Nothing can be done: reason and message.
    Refuse(&'static str, String),
}

impl PlacedTargets {
    /// `None` where all pods are created by these controllers.
    pub fn new(context: &Context) -> Option<PlacedTargets> {
        if context.workloads == WorkloadScope::All {
            return None;
        }
        let records = context.informers.of(&resources::OBJECT_STATUSES);
        let index = records.index(by_object);
        let clusters = context.informers.of(&resources::CLUSTERS);
        let lookup = ClusterLookup { clusters, api: context.api().clone(), intents: context.intents.clone() };
        Some(PlacedTargets { records, index, lookup })
    }

    pub async fn synced(&self) {
        self.records.synced().await;
        self.lookup.clusters.synced().await;
    }

    /// The pods of a target in each of its clusters.
    fn pods(&self, target: &Value) -> Vec<SharePods> {
        let workspace = Key::of(target).workspace;
        let records = self.records.by_index(self.index, &object_key(&workspace, object::uid(target)));
        let replicas = target["spec"]["replicas"].as_i64().unwrap_or(1);
        let of = |name: &str, uid: &str| -> Result<PodCounts, String> {
            match self.lookup.health(&workspace, name, uid) {
                Health::Ready => {}
                Health::NotReady(_) => return Err("is not ready".into()),
                Health::Missing => return Err("does not exist".into()),
            }
            let is_it = |record: &&Arc<Value>| {
                record["spec"]["cluster"] == name && (uid.is_empty() || record["spec"]["clusterUID"] == uid)
            };
            let pods = records.iter().find(is_it).map(|record| record["status"]["pods"].clone());
            let pods = pods.filter(Value::is_object).and_then(|pods| serde_json::from_value(pods).ok());
            pods.ok_or_else(|| "has not reported pods yet".to_string())
        };
        let share = |share: Share| SharePods {
            reported: of(&share.name, &share.uid),
            replicas: share.replicas.unwrap_or(replicas),
            cluster: share.name,
        };
        Placement::of(target).clusters.into_iter().map(share).collect()
    }
}

/// The resource of a target that is placed on clusters.
fn resource_of(target: ScaleTarget<'_>) -> Option<&'static Resource> {
    KINDS.iter().copied().find(|kind| (&*kind.group, &*kind.kind) == (target.group, target.kind))
}

/// The number of clusters that each run all replicas of a target; 1 if they are divided.
fn copies(placement: &Placement, replicas: i64) -> i64 {
    let is_whole = placement.clusters.iter().all(|share| share.replicas.unwrap_or(replicas) == replicas);
    match is_whole && placement.phase.is_empty() && replicas > 0 {
        true => i64::try_from(placement.clusters.len()).unwrap_or(1).max(1),
        false => 1,
    }
}

/// The shares of a pinned target, as in the annotation that pins them or, with another sign, makes them weights.
fn pinned(placement: &Placement, sign: &str) -> String {
    let share = |share: &Share| format!("{}{sign}{}", share.name, share.replicas.unwrap_or(0));
    placement.clusters.iter().map(share).collect::<Vec<_>>().join(",")
}

impl Controller {
    /// Reconciles an autoscaler of object grain.
    pub(super) async fn sync_placed(&self, key: &Key, autoscaler: Arc<Value>) -> Next {
        let again = Next::After(self.context.settings.horizontal_pod_autoscaler_sync_period);
        if object::is_being_deleted(&autoscaler) || !is_of_placed_workloads(&autoscaler) {
            self.state().remove(key);
            return Next::Done;
        }
        let mut reconciliation = self.begin(key, &autoscaler);
        match self.verdict(&autoscaler, key).await {
            Ok(Verdict::Act(target)) => self.finish(reconciliation, &autoscaler, Some(&target)).await,
            Ok(Verdict::Leave) => drop(self.state().remove(key)),
            Ok(Verdict::Refuse(reason, message)) => {
                self.state().remove(key);
                reconciliation.set(ACTIVE, false, reason, message);
                self.write_status(&reconciliation, &autoscaler).await;
            }
            Err(problem) => {
                // As for any target that cannot be read.
                let message =
                    format!("the HPA controller was unable to get the target's current scale: {problem}");
                self.warn(&reconciliation, "FailedGetScale", &problem);
                reconciliation.set(ABLE, false, "FailedGetScale", message);
                self.write_status(&reconciliation, &autoscaler).await;
            }
        }
        again
    }

    async fn verdict(&self, autoscaler: &Value, key: &Key) -> Result<Verdict, String> {
        if !Placement::of(autoscaler).clusters.is_empty() {
            return Ok(Verdict::Leave);
        }
        let target = ScaleTarget::of(autoscaler);
        let Some((target, resource)) = target.and_then(|target| Some((target, resource_of(target)?))) else {
            let kind = autoscaler["spec"]["scaleTargetRef"]["kind"].as_str().unwrap_or_default();
            let name = object::name(autoscaler);
            let message = format!(
                "the control plane does not scale objects of kind {kind:?}; place the autoscaler with its target: atoll place hpa/{name} --on CLUSTER"
            );
            return Ok(Verdict::Refuse("TargetNotSupported", message));
        };
        let found = self.context.api().get(resource, &key.sibling(target.name)).await;
        let found = found.map_err(|status| status.message().to_string())?;
        let placement = Placement::of(&found);
        if placement.autoscaler == ABOVE {
            return Ok(Verdict::Act(Box::new(found)));
        }
        if placement.autoscaler == PINNED {
            let (kind, name) = (target.kind, target.name);
            let message = format!(
                "{kind} {name} is not scaled: the annotation atoll.dev/clusters pins its replicas ({}); write weights instead, \
                 as in {}",
                pinned(&placement, "=="),
                pinned(&placement, "=")
            );
            return Ok(Verdict::Refuse("TargetPinned", message));
        }
        // Workloads of pod grain have autoscalers of pod grain. Without any cluster, nothing is known about the
        // placement, and another controller may run the workload.
        let is_known = conditions::find(&found, placed_condition::CONDITION).is_some();
        let is_nowhere = placement.is_empty() && placement.phase.is_empty() && !self.context.manages(&found);
        let is_nowhere = is_nowhere && is_known;
        Ok(match is_nowhere {
            true => {
                let message =
                    format!("{} {} is not placed on any cluster, so nothing runs", target.kind, target.name);
                Verdict::Refuse("TargetNotPlaced", message)
            }
            false => Verdict::Leave,
        })
    }

    /// Returns the number of pods that the metrics of all clusters call for, and the metric that calls for it.
    pub(super) fn wanted_of_clusters(
        &self,
        reconciliation: &mut Reconciliation,
        spec: &Value,
        target: &Value,
        current: i64,
    ) -> Result<Vec<proposal::ProposalResult>, String> {
        self.check_ambiguous_target(reconciliation)?;
        let Some(placed) = &self.placed else { return Ok(Vec::new()) };
        let placement = Placement::of(target);
        let settings = &self.context.settings;
        let tolerance = |rules: &Value| {
            fraction(&rules["tolerance"]).unwrap_or(settings.horizontal_pod_autoscaler_tolerance)
        };
        let rules = &spec["behavior"];
        let replicas = CurrentReplicas {
            replicas: current,
            copies: copies(&placement, current),
            is_moving: !placement.phase.is_empty() && !placement.target.is_empty(),
            tolerance: Tolerance { down: tolerance(&rules["scaleDown"]), up: tolerance(&rules["scaleUp"]) },
        };
        let pods = placed.pods(target);
        let metrics = spec["metrics"].as_array().into_iter().flatten().take(MAX_METRICS);
        let of = |resource: &str| MergedPods::of(&pods, resource);
        Ok(metrics.map(|metric| proposal::of_clusters(metric, &of, replicas)).collect())
    }

    /// Fails if another autoscaler has the same target.
    fn check_ambiguous_target(&self, reconciliation: &mut Reconciliation) -> Result<(), String> {
        let target = ScaleTarget::of(&reconciliation.autoscaler);
        let all = self.autoscalers.list(&reconciliation.key.workspace, &reconciliation.key.namespace);
        let is_other = |other: &&Arc<Value>| {
            ScaleTarget::of(other) == target
                && is_of_placed_workloads(other)
                && !object::is_being_deleted(other)
        };
        let place = |other: &Arc<Value>| format!("{}/{}", object::namespace(other), object::name(other));
        let found: Vec<String> = all.iter().filter(is_other).map(place).collect();
        if found.len() < 2 {
            return Ok(());
        }
        let problem = format!("the target is controlled by multiple HPAs: [{}]", found.join(" "));
        self.warn(reconciliation, "AmbiguousSelector", &problem);
        reconciliation.set(ACTIVE, false, "AmbiguousSelector", problem.clone());
        Err(problem)
    }

    /// Scales a target for as long as it is the control plane that scales it: the write is conditional on the revision
    /// at which its placement says so.
    pub(super) async fn rescale_placed(
        &self,
        resource: &Resource,
        target: &Key,
        autoscaler: &Key,
        desired: i64,
    ) -> Result<(), Status> {
        let api = self.context.api();
        let changed = || {
            let message = "the placement of the target or of the autoscaler has changed";
            Status::conflict(&resource.group, &resource.plural, &target.name, message)
        };
        for _ in 0..ATTEMPTS {
            let found = api.get(resource, target).await?;
            let own = api.get(&resources::HORIZONTAL_POD_AUTOSCALERS, autoscaler).await?;
            if Placement::of(&found).autoscaler != ABOVE || !Placement::of(&own).clusters.is_empty() {
                return Err(changed());
            }
            let mut scale = scale::read(api, resource, target).await?;
            scale["metadata"]["resourceVersion"] = object::resource_version(&found).into();
            scale["spec"] = json!({ "replicas": desired });
            match scale::write(api, resource, target, &scale).await {
                Err(status) if status.reason() == "Conflict" => {}
                written => return written.map(drop),
            }
        }
        Err(changed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_told_from_divided_replicas() {
        let on = |phase: &str, shares: &[Option<i64>]| Placement {
            clusters: shares
                .iter()
                .enumerate()
                .map(|(number, replicas)| Share { replicas: *replicas, ..Share::on(&number.to_string(), "") })
                .collect(),
            phase: phase.into(),
            ..Placement::default()
        };
        for (placement, expected) in [
            (on("", &[Some(4), Some(4)]), 2),
            (on("", &[None, None, None]), 3),
            (on("", &[Some(2), Some(2)]), 1),
            (on("", &[Some(4)]), 1),
            (on("adding", &[Some(4), Some(4)]), 1),
            (on("", &[]), 1),
        ] {
            assert_eq!(copies(&placement, 4), expected, "{placement:?}");
        }
    }
}
