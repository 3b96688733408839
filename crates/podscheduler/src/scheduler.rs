//! The scheduler of one cluster: receives changes of objects and returns decisions. No I/O, no clock.

// upstream: pkg/scheduler/schedule_one.go
// upstream: pkg/scheduler/eventhandlers.go

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use atoll_meta::object;
use atoll_meta::views::PodView;
use serde_json::Value;

use crate::choose_node::Random;
use crate::node::Node;
use crate::node_index::{NodeIndex, PodKey};
use crate::pod::{self, Compiler, Pod};
use crate::pod_affinity::{Namespaces, Term};
use crate::preemption::Preemption;
use crate::queue::{ClusterEvent, Queue};
use crate::refusal::Plugin;
use crate::storage::Bindings;

/// A scheduling decision.
#[derive(Clone, Debug)]
pub enum Decision {
    /// The Pod goes to this node, which is assumed already: call [`Scheduler::bound`] or
    /// [`Scheduler::unbound`].
    Bind { pod: Arc<Pod>, node: Arc<str>, bindings: Bindings },
    /// No node is feasible; the Pod is requeued when an event may help.
    Refuse { pod: Arc<Pod>, message: String, preemption: Option<Preemption>, clears_nomination: bool },
}

/// The nodes and pending Pods of one cluster.
#[derive(Debug)]
pub struct Scheduler {
    /// The `schedulerName` of the Pods to schedule.
    name: Arc<str>,
    pub node_index: NodeIndex,
    queue: Queue,
    compiler: Compiler,
    pending: HashMap<PodKey, Arc<Pod>>,
    /// Assumed Pods, which are being bound, with their uids.
    assumed: HashMap<PodKey, Arc<str>>,
}

impl Scheduler {
    pub fn new(name: Arc<str>) -> Self {
        Scheduler {
            name,
            node_index: NodeIndex::default(),
            queue: Queue::default(),
            compiler: Compiler::default(),
            pending: HashMap::new(),
            assumed: HashMap::new(),
        }
    }

    /// Whether there are no nodes and no Pods.
    pub fn is_idle(&self) -> bool {
        self.node_index.is_empty() && self.node_index.has_no_pods() && self.queue.is_empty()
    }

    /// Returns the number of pending Pods.
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// Adds or updates a Pod.
    pub fn set_pod(&mut self, object: &Value, now: Duration) {
        let key: PodKey = (object::namespace(object).into(), object::name(object).into());
        let uid = object::uid(object);
        let known = self.node_index.pod(&key.0, &key.1).or_else(|| self.pending.get(&key));
        if pod::is_finished(object) || known.is_some_and(|known| *known.uid != *uid) {
            self.remove_pod(&key, now);
        }
        if pod::is_finished(object) {
            return;
        }
        let is_ours = object["spec"]["schedulerName"].as_str().unwrap_or("default-scheduler") == &*self.name;
        let has_node = PodView::of(object).node_name().is_some();
        if has_node {
            self.set_placed(&key, object, now);
        } else if is_ours && !self.assumed.contains_key(&key) {
            self.set_pending(&key, object, now);
        }
    }

    fn set_placed(&mut self, key: &PodKey, object: &Value, now: Duration) {
        let pod = Arc::new(self.compiler.compile(object));
        let was_assumed = self.assumed.remove(key).is_some();
        self.forget_pending(key);
        let event = match self.node_index.pod(&key.0, &key.1) {
            _ if was_assumed => Some(ClusterEvent::PodAssigned),
            Some(old) if old.node == pod.node && old.class.labels == pod.class.labels => {
                if *old == pod {
                    return;
                }
                (old.demand != pod.demand).then_some(ClusterEvent::PodScaledDown)
            }
            Some(_) => Some(ClusterEvent::PodLabels),
            None => Some(ClusterEvent::PodAssigned),
        };
        self.node_index.set_pod(pod.clone());
        if let Some(event) = event {
            self.pod_event(event, &pod, now);
        }
    }

    fn set_pending(&mut self, key: &PodKey, object: &Value, now: Duration) {
        let pod = self.compiler.compile(object);
        if pod.class.terminating || !pod.demand.gates.is_empty() {
            self.forget_pending(key);
            return;
        }
        let pod = Arc::new(pod);
        let old = self.pending.insert(key.clone(), pod.clone());
        let is_same = old
            .is_some_and(|old| old.demand == pod.demand && old.class == pod.class && old.owner == pod.owner);
        self.node_index.nominate(&pod, pod.nominated_node.as_ref());
        if !is_same {
            self.queue.add(key, pod.demand.priority, now);
        }
    }

    fn forget_pending(&mut self, key: &PodKey) {
        self.queue.remove(key);
        if let Some(pod) = self.pending.remove(key) {
            self.node_index.nominate(&pod, None);
        }
    }

    /// Removes a Pod.
    pub fn remove_pod(&mut self, key: &PodKey, now: Duration) {
        let nominated = self.pending.get(key).filter(|pod| pod.nominated_node.is_some()).cloned();
        self.assumed.remove(key);
        self.forget_pending(key);
        if let Some(pod) = self.node_index.remove_pod(&key.0, &key.1).or(nominated) {
            self.pod_event(ClusterEvent::PodDeleted, &pod, now);
        }
    }

    /// Requeues the unschedulable Pods that an event of an assigned Pod concerns.
    fn pod_event(&mut self, event: ClusterEvent, other: &Pod, now: Duration) {
        let (pending, namespaces) = (&self.pending, &self.node_index.namespaces);
        self.queue.requeue_on_if(event, now, |key, plugin| {
            pending.get(key).is_none_or(|pod| concerns(pod, plugin, event, other, namespaces))
        });
    }

    /// Adds or updates a node.
    pub fn set_node(&mut self, object: &Value, now: Duration) {
        let node = Node::of(object);
        let events: Vec<ClusterEvent> = match self.node_index.node(&node.name) {
            None => vec![ClusterEvent::NodeAdded],
            Some(old) => {
                let changed = [
                    (old.labels != node.labels, ClusterEvent::NodeLabels),
                    (
                        old.taints != node.taints || old.is_unschedulable != node.is_unschedulable,
                        ClusterEvent::NodeTaints,
                    ),
                    (
                        old.allocatable != node.allocatable || old.allowed_pods != node.allowed_pods,
                        ClusterEvent::NodeAllocatable,
                    ),
                ];
                changed.into_iter().filter(|(changed, _)| *changed).map(|(_, event)| event).collect()
            }
        };
        // Most node updates are status updates by kubelets.
        if events.is_empty() {
            return;
        }
        self.node_index.set_node(node);
        for event in events {
            self.queue.requeue_on(event, now);
        }
    }

    pub fn remove_node(&mut self, name: &str, now: Duration) {
        self.node_index.remove_node(name);
        self.queue.requeue_on(ClusterEvent::NodeDeleted, now);
    }

    /// Requeues Pods after another change of the cluster.
    pub fn requeue_on(&mut self, event: ClusterEvent, now: Duration) {
        self.queue.requeue_on(event, now);
    }

    /// Returns the next decision, if one can be made now.
    pub fn next(&mut self, now: Duration, random: Random<'_>) -> Option<Decision> {
        loop {
            let key = self.queue.pop(now)?;
            let Some(pod) = self.pending.get(&key).cloned() else {
                self.queue.remove(&key);
                continue;
            };
            return Some(match self.node_index.choose(&pod, random) {
                Ok(choice) => {
                    self.node_index.assume_bindings(&pod, &choice);
                    self.node_index.nominate(&pod, None);
                    let placed = Pod { node: Some(choice.node.clone()), ..(*pod).clone() };
                    self.node_index.set_pod(Arc::new(placed));
                    self.assumed.insert(key, pod.uid.clone());
                    Decision::Bind { pod, node: choice.node, bindings: choice.bindings }
                }
                Err(refusal) => {
                    self.queue.unschedulable(&key, refusal.plugins, now);
                    if let Some(preemption) = &refusal.preemption {
                        for displaced in &preemption.displaced {
                            self.renominate(displaced, None);
                        }
                        // Assumed until the API shows it, so that no further victims are selected meanwhile.
                        for victim in &preemption.victims {
                            self.node_index
                                .set_pod(Arc::new(Pod { is_preempted: true, ..(**victim).clone() }));
                        }
                        self.renominate(&pod, Some(&preemption.node));
                    } else if refusal.clears_nomination {
                        self.renominate(&pod, None);
                    }
                    Decision::Refuse {
                        pod,
                        message: refusal.message,
                        preemption: refusal.preemption,
                        clears_nomination: refusal.clears_nomination,
                    }
                }
            });
        }
    }

    /// Assumes a nomination until the API shows it.
    fn renominate(&mut self, pod: &Arc<Pod>, node: Option<&Arc<str>>) {
        let key = (pod.namespace().clone(), pod.name.clone());
        let Some(pending) = self.pending.get_mut(&key) else { return };
        let renominated = Arc::new(Pod { nominated_node: node.cloned(), ..(**pending).clone() });
        *pending = renominated.clone();
        self.node_index.nominate(&renominated, node);
    }

    /// Records that a Pod was bound.
    pub fn bound(&mut self, pod: &Pod) {
        let key = (pod.namespace().clone(), pod.name.clone());
        if self.assumed.get(&key) == Some(&pod.uid) {
            self.forget_pending(&key);
        }
    }

    /// Reverts an assumed Pod whose binding failed. It is queued again if it still exists.
    pub fn unbound(&mut self, pod: &Pod, now: Duration) {
        let key = (pod.namespace().clone(), pod.name.clone());
        if self.assumed.get(&key) != Some(&pod.uid) {
            return;
        }
        self.assumed.remove(&key);
        self.node_index.remove_pod(&key.0, &key.1);
        self.queue.failed(&key, now);
        self.pod_event(ClusterEvent::PodDeleted, pod, now);
    }

    /// Returns when to ask for a decision again at the latest.
    pub fn next_flush(&mut self, now: Duration) -> Option<Duration> {
        self.queue.next_flush(now)
    }
}

/// Whether an event of another Pod may change that `plugin` rejects a Pod.
fn concerns(pod: &Pod, plugin: Plugin, event: ClusterEvent, other: &Pod, namespaces: &Namespaces) -> bool {
    let demand = &pod.demand;
    let matches = |term: &Term, pod: &Pod| term.matcher.matches(&pod.class, namespaces);
    match (plugin, event) {
        (Plugin::PodTopologySpread, ClusterEvent::PodAssigned | ClusterEvent::PodDeleted) => {
            let mut rules = demand.constraints.iter().filter(|rule| rule.is_hard);
            other.namespace() == pod.namespace()
                && rules.any(|rule| other.class.labels.selected_by(&rule.selector))
        }
        (Plugin::InterPodAffinity, ClusterEvent::PodAssigned) => {
            demand.affinity.required.iter().all(|term| matches(term, other))
        }
        (Plugin::InterPodAffinity, ClusterEvent::PodDeleted) => {
            let rejected = other.demand.affinity.required_anti.iter().any(|term| matches(term, pod));
            rejected || demand.affinity.required_anti.iter().any(|term| matches(term, other))
        }
        (Plugin::NodePorts, ClusterEvent::PodDeleted) => {
            demand.ports.iter().any(|port| other.demand.ports.iter().any(|taken| port.conflicts_with(taken)))
        }
        _ => true,
    }
}

#[cfg(test)]
mod tests;
