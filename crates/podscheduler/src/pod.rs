//! Pods in compiled form.

// upstream: pkg/scheduler/framework/types.go
// upstream: pkg/scheduler/util/pod_resources.go
// upstream: pkg/scheduler/eventhandlers.go

use std::collections::{BTreeSet, HashSet};
use std::hash::Hash;
use std::sync::Arc;

use atoll_meta::quantity::{Format, Quantity};
use atoll_meta::views::{ConditionView, ContainerView, PodView};
use atoll_meta::{object, time};
use atoll_quota::Amounts;
use serde_json::Value;

use crate::labels::Labels;
use crate::node_affinity::{self, Required};
use crate::pod_affinity::{Class, PodAffinity};
use crate::resources::Resources;
use crate::spread::Constraint;
use crate::taints::Toleration;

/// Assumed requests of a container without requests, so that not all of them go to one node.
const DEFAULT_MILLI_CPU: i64 = 100;
const DEFAULT_MEMORY: i64 = 200 * 1024 * 1024;

/// A host port of a Pod.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Port {
    address: Box<str>,
    protocol: Box<str>,
    number: i64,
}

impl Port {
    const ANY: &str = "0.0.0.0";

    fn of(port: &Value) -> Option<Self> {
        let number = port["hostPort"].as_i64().filter(|number| *number > 0)?;
        let text = |field: &str| port[field].as_str().filter(|text| !text.is_empty());
        Some(Port {
            address: text("hostIP").unwrap_or(Port::ANY).into(),
            protocol: text("protocol").unwrap_or("TCP").into(),
            number,
        })
    }

    pub fn conflicts_with(&self, other: &Port) -> bool {
        self.number == other.number
            && self.protocol == other.protocol
            && (self.address == other.address || &*self.address == Port::ANY || &*other.address == Port::ANY)
    }
}

/// A volume claim of a Pod.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClaimReference {
    pub name: Box<str>,
    /// Whether it was created for this Pod only.
    pub is_ephemeral: bool,
}

/// Everything that decides where a Pod can run, except its class. Pods of one template share it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Demand {
    pub requests: Resources,
    /// Requests with defaults for containers without requests (`NonZeroRequested`).
    pub assumed: Resources,
    pub priority: i64,
    /// Whether the preemption policy is `Never`.
    pub never_preempts: bool,
    pub tolerations: Box<[Toleration]>,
    pub required_nodes: Option<Arc<Required>>,
    pub named_nodes: Option<BTreeSet<Box<str>>>,
    pub preferred_nodes: Vec<(i64, node_affinity::Term)>,
    pub ports: Vec<Port>,
    /// Whether the Pod has spread constraints of its own.
    pub has_constraints: bool,
    pub constraints: Vec<Constraint>,
    pub affinity: PodAffinity,
    pub claims: Vec<ClaimReference>,
    pub gates: Vec<Box<str>>,
}

/// The controller of a Pod.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Owner {
    pub kind: Box<str>,
    pub name: Box<str>,
}

/// A Pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    pub name: Arc<str>,
    pub uid: Arc<str>,
    pub class: Arc<Class>,
    pub demand: Arc<Demand>,
    pub owner: Option<Arc<Owner>>,
    pub node: Option<Arc<str>>,
    pub nominated_node: Option<Arc<str>>,
    /// Start time in seconds since 1970.
    pub started: Option<i64>,
    /// Creation time in seconds since 1970.
    pub created: i64,
    /// Whether it is being deleted because of a preemption.
    pub is_preempted: bool,
}

impl Pod {
    pub fn namespace(&self) -> &Arc<str> {
        &self.class.namespace
    }
}

/// Whether a Pod has finished and no longer uses resources.
pub fn is_finished(pod: &Value) -> bool {
    PodView::of(pod).is_finished()
}

/// Whether the difference between two states of a Pod can affect scheduling. Most updates are status updates
/// by kubelets.
pub fn affects_scheduling(old: &Value, new: &Value) -> bool {
    const METADATA: [&str; 5] =
        ["uid", "labels", "deletionTimestamp", "ownerReferences", "creationTimestamp"];
    const STATUS: [&str; 4] = ["nominatedNodeName", "startTime", "allocatedResources", "resources"];
    let resources = |pod: &Value| -> Vec<Value> {
        let lists = ["containerStatuses", "initContainerStatuses"].into_iter();
        let statuses = lists.flat_map(|list| pod["status"][list].as_array().into_iter().flatten());
        let amounts = statuses.flat_map(|status| [&status["resources"], &status["allocatedResources"]]);
        amounts.filter(|amounts| !amounts.is_null()).cloned().collect()
    };
    fn pending_resize(pod: &Value) -> Option<ConditionView<'_>> {
        PodView::of(pod).condition("PodResizePending")
    }
    METADATA.iter().any(|field| old["metadata"][field] != new["metadata"][field])
        || STATUS.iter().any(|field| old["status"][field] != new["status"][field])
        || is_finished(old) != is_finished(new)
        || is_disruption_by_scheduler(old) != is_disruption_by_scheduler(new)
        || resources(old) != resources(new)
        || pending_resize(old) != pending_resize(new)
        || old["spec"] != new["spec"]
}

/// Compiles Pods; Pods with the same requirements share the result.
#[derive(Debug, Default)]
pub struct Compiler {
    demands: Interned<Demand>,
    classes: Interned<Class>,
    owners: Interned<Owner>,
}

impl Compiler {
    pub fn compile(&mut self, pod: &Value) -> Pod {
        let labels = Labels::of(pod);
        let demand = demand(pod, &labels);
        let class = Class {
            namespace: object::namespace(pod).into(),
            labels,
            terminating: object::is_being_deleted(pod),
        };
        let owner = object::controller_of(pod).filter(|owner| is_known_owner(owner.api_version, owner.kind));
        let view = PodView::of(pod);
        let seconds = |text: Option<&str>| time::parse(text?).ok().map(|time| time.seconds);
        Pod {
            name: object::name(pod).into(),
            uid: object::uid(pod).into(),
            class: self.classes.share(class),
            demand: self.demands.share(demand),
            owner: owner
                .map(|owner| self.owners.share(Owner { kind: owner.kind.into(), name: owner.name.into() })),
            node: view.node_name().map(Arc::from),
            nominated_node: view.nominated_node_name().map(Arc::from),
            started: seconds(view.start_time()),
            created: seconds(object::creation_timestamp(pod)).unwrap_or_default(),
            is_preempted: object::is_being_deleted(pod) && is_disruption_by_scheduler(pod),
        }
    }
}

/// Whether the scheduler uses the selector of this owner for default spreading.
fn is_known_owner(api_version: &str, kind: &str) -> bool {
    matches!((api_version, kind), ("v1", "ReplicationController") | ("apps/v1", "ReplicaSet" | "StatefulSet"))
}

fn is_disruption_by_scheduler(pod: &Value) -> bool {
    let target = PodView::of(pod).condition("DisruptionTarget");
    target.is_some_and(|target| target.is_true() && target.reason() == "PreemptionByScheduler")
}

fn demand(pod: &Value, labels: &Labels) -> Demand {
    let (spec, view) = (&pod["spec"], PodView::of(pod).spec());
    let mut missing = Amounts::default();
    missing.set("cpu", Quantity::from_millis(DEFAULT_MILLI_CPU, Format::DecimalSi));
    missing.set("memory", Quantity::new(DEFAULT_MEMORY, Format::BinarySi));
    let list = |field: &str| spec[field].as_array().into_iter().flatten();
    let containers = view.sidecars().chain(view.containers());
    let ports = containers.flat_map(ContainerView::ports).filter_map(Port::of);
    let claims = view.volumes().filter_map(|volume| {
        let name = volume.claim_name(object::name(pod))?;
        Some(ClaimReference { name: name.into(), is_ephemeral: volume.is_ephemeral() })
    });
    Demand {
        requests: Resources::of(&atoll_quota::requests(pod, &Amounts::default())),
        assumed: Resources::of(&atoll_quota::requests(pod, &missing)),
        priority: spec["priority"].as_i64().unwrap_or_default(),
        never_preempts: spec["preemptionPolicy"] == "Never",
        tolerations: Toleration::all_of(view),
        required_nodes: Required::of_pod(view).map(Arc::new),
        named_nodes: node_affinity::names(view),
        preferred_nodes: node_affinity::preferred(pod),
        ports: ports.collect(),
        has_constraints: spec["topologySpreadConstraints"].as_array().is_some_and(|list| !list.is_empty()),
        constraints: Constraint::all_of(pod, labels),
        affinity: PodAffinity::of(pod),
        claims: claims.collect(),
        gates: list("schedulingGates").filter_map(|gate| gate["name"].as_str()).map(Box::from).collect(),
    }
}

/// Set of shared values.
#[derive(Debug)]
struct Interned<T> {
    known: HashSet<Arc<T>>,
    /// Size at which unused values are removed.
    limit: usize,
}

impl<T> Default for Interned<T> {
    fn default() -> Self {
        Interned { known: HashSet::new(), limit: 64 }
    }
}

impl<T: Eq + Hash> Interned<T> {
    fn share(&mut self, value: T) -> Arc<T> {
        if let Some(known) = self.known.get(&value) {
            return known.clone();
        }
        if self.known.len() >= self.limit {
            self.known.retain(|known| Arc::strong_count(known) > 1);
            self.limit = (self.known.len() * 2).max(64);
        }
        let value = Arc::new(value);
        self.known.insert(value.clone());
        value
    }
}

#[cfg(test)]
mod tests;
