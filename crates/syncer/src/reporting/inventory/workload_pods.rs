//! Pods by the objects that own them. Pure.
//!
//! A Pod belongs to its controller. ReplicaSets and Jobs may in turn belong to a Deployment or a CronJob, whose
//! Pods are those of all objects that it owns.

use std::collections::{BTreeSet, HashMap, HashSet};

use atoll_fleet::view::{LONGEST_REASON, PodCounts, PodRequests, PodUsage};
use atoll_meta::object;
use atoll_meta::quantity::{Format, Quantity};
use atoll_meta::text::clean;
use atoll_meta::views::PodView;
use serde_json::Value;

/// Longest field of an owner; Pods of others are not counted.
const LONGEST: usize = 320;
/// Memory of an owner in addition to its texts.
const ENTRY: usize = 256;

/// An object that owns Pods, or objects that do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Owner {
    pub namespace: String,
    pub group: String,
    pub kind: String,
    pub name: String,
    pub uid: String,
}

impl Owner {
    /// Returns the controller of an object.
    pub fn of(object: &Value) -> Option<Owner> {
        let owner = object::controller_of(object)?;
        let texts = [owner.api_version, owner.kind, owner.name, owner.uid, object::namespace(object)];
        if texts.iter().any(|text| text.len() > LONGEST) {
            return None;
        }
        let group = owner.api_version.rsplit_once('/').map_or("", |(group, _)| group);
        Some(Owner {
            namespace: object::namespace(object).into(),
            group: group.into(),
            kind: owner.kind.into(),
            name: owner.name.into(),
            uid: owner.uid.into(),
        })
    }

    pub fn size(&self) -> usize {
        let texts = [&self.namespace, &self.group, &self.kind, &self.name, &self.uid];
        texts.into_iter().map(String::len).sum::<usize>() + ENTRY
    }
}

/// A kind between Pods and a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnedKind {
    ReplicaSet,
    Job,
}

/// A Pod, as far as it is counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodState {
    pub is_bound: bool,
    pub is_ready: bool,
    pub is_pending: bool,
    pub is_unschedulable: bool,
    pub is_terminating: bool,
}

impl PodState {
    /// Returns the state of a Pod, and why it cannot be scheduled.
    pub fn of(pod: &Value) -> (PodState, String) {
        let view = PodView::of(pod);
        let is_bound = view.node_name().is_some_and(|node| !node.is_empty());
        let scheduled = view.condition("PodScheduled");
        let refused = scheduled.filter(|condition| {
            !is_bound && condition.status() == "False" && condition.reason() == "Unschedulable"
        });
        let reason = refused.map(|refused| clean(refused.message(), LONGEST_REASON)).unwrap_or_default();
        let state = PodState {
            is_bound,
            is_ready: view.is_ready(),
            is_pending: !view.is_ready() && (!is_bound || matches!(view.phase(), "Pending" | "")),
            is_unschedulable: refused.is_some(),
            is_terminating: object::is_being_deleted(pod),
        };
        (state, reason)
    }
}

/// The usage of ready Pods, in millicores and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MeasuredPods {
    pub pods: i64,
    pub cpu: i64,
    pub memory: i64,
    /// Requests of these Pods; `None` if one of them requests nothing.
    pub requested_cpu: Option<i64>,
    pub requested_memory: Option<i64>,
}

impl MeasuredPods {
    /// Returns the sum of two groups of Pods.
    #[must_use]
    pub fn and(self, other: MeasuredPods) -> MeasuredPods {
        if self.pods == 0 {
            return other;
        }
        let both = |one: Option<i64>, other: Option<i64>| Some(one?.saturating_add(other?));
        MeasuredPods {
            pods: self.pods + other.pods,
            cpu: self.cpu.saturating_add(other.cpu),
            memory: self.memory.saturating_add(other.memory),
            requested_cpu: both(self.requested_cpu, other.requested_cpu),
            requested_memory: both(self.requested_memory, other.requested_memory),
        }
    }

    /// Whether the usage is so similar that it need not be reported again: usage always varies.
    fn is_similar(self, other: MeasuredPods) -> bool {
        let is_near =
            |one: i64, other: i64| one.abs_diff(other).saturating_mul(20) <= one.max(other).unsigned_abs();
        let without_usage = |one: MeasuredPods| MeasuredPods { cpu: 0, memory: 0, ..one };
        is_near(self.cpu, other.cpu)
            && is_near(self.memory, other.memory)
            && without_usage(self) == without_usage(other)
    }

    fn report(self) -> PodUsage {
        let cpu = |millicores| Quantity::from_millis(millicores, Format::DecimalSi).to_string();
        let memory = |bytes| Quantity::new(bytes, Format::BinarySi).to_string();
        PodUsage {
            cpu: cpu(self.cpu),
            memory: memory(self.memory),
            pods: self.pods,
            requests: PodRequests {
                cpu: self.requested_cpu.map(cpu),
                memory: self.requested_memory.map(memory),
            },
        }
    }
}

/// Counts of the Pods of one controller.
#[derive(Clone, Debug, Default)]
struct OwnedPods {
    counts: PodCounts,
    /// Resources in use, if known.
    usage: Option<MeasuredPods>,
}

impl OwnedPods {
    fn add(&mut self, pod: &PodState, change: i64) {
        let counts = &mut self.counts;
        counts.bound += change * i64::from(pod.is_bound);
        // A Pod that is being deleted only uses resources.
        if !pod.is_terminating {
            counts.total += change;
            counts.ready += change * i64::from(pod.is_ready);
            counts.pending += change * i64::from(pod.is_pending);
            counts.unschedulable += change * i64::from(pod.is_unschedulable);
        }
        if counts.unschedulable == 0 {
            counts.reason.clear();
        }
    }

    fn is_empty(&self) -> bool {
        self.counts.total == 0 && self.counts.bound == 0
    }
}

#[derive(Default)]
pub struct WorkloadPods {
    /// Pods by the uid of their controller.
    pods: HashMap<String, OwnedPods>,
    /// Controllers of ReplicaSets and Jobs, by uid.
    parents: HashMap<String, (OwnedKind, Owner)>,
    /// Uids of ReplicaSets and Jobs, by the uid of their controller.
    children: HashMap<String, BTreeSet<String>>,
    /// Objects whose counts have changed.
    changed: BTreeSet<Owner>,
}

impl WorkloadPods {
    /// Replaces the state of a Pod.
    pub fn count(&mut self, owner: &Owner, before: Option<&PodState>, now: Option<(&PodState, &str)>) {
        let owned = self.pods.entry(owner.uid.clone()).or_default();
        let is_same_reason =
            now.is_none_or(|(state, reason)| !state.is_unschedulable || *owned.counts.reason == *reason);
        if before == now.map(|(state, _)| state) && is_same_reason {
            return;
        }
        if let Some(before) = before {
            owned.add(before, -1);
        }
        if let Some((state, reason)) = now {
            owned.add(state, 1);
            if state.is_unschedulable && !state.is_terminating {
                owned.counts.reason = reason.to_string();
            }
        }
        if owned.is_empty() {
            self.pods.remove(&owner.uid);
        }
        let root = self.parents.get(&owner.uid).map_or(owner, |(_, parent)| parent);
        self.changed.insert(root.clone());
    }

    /// Sets the controller of a ReplicaSet or Job.
    pub fn set_parent(&mut self, kind: OwnedKind, uid: &str, parent: Owner) {
        self.remove_parent(uid);
        self.children.entry(parent.uid.clone()).or_default().insert(uid.to_string());
        if self.pods.contains_key(uid) {
            self.changed.insert(parent.clone());
        }
        self.parents.insert(uid.to_string(), (kind, parent));
    }

    pub fn remove_parent(&mut self, uid: &str) {
        let Some((_, parent)) = self.parents.remove(uid) else { return };
        if let Some(children) = self.children.get_mut(&parent.uid) {
            children.remove(uid);
            if children.is_empty() {
                self.children.remove(&parent.uid);
            }
        }
        if self.pods.contains_key(uid) {
            self.changed.insert(parent);
        }
    }

    pub fn parent_of(&self, uid: &str) -> Option<&Owner> {
        self.parents.get(uid).map(|(_, parent)| parent)
    }

    /// Returns the known objects of a kind that are not present.
    pub fn absent(&self, kind: OwnedKind, present: &HashSet<String>) -> Vec<String> {
        let of_kind = self.parents.iter().filter(|(_, (of, _))| *of == kind);
        of_kind.map(|(uid, _)| uid).filter(|uid| !present.contains(*uid)).cloned().collect()
    }

    /// Returns the Pods of an object and of the objects that it owns.
    pub fn of(&self, uid: &str) -> PodCounts {
        let mut sum = PodCounts::default();
        let mut usage: Option<MeasuredPods> = None;
        let children = self.children.get(uid).into_iter().flatten().map(String::as_str);
        for owned in std::iter::once(uid).chain(children).filter_map(|uid| self.pods.get(uid)) {
            sum.total += owned.counts.total;
            sum.ready += owned.counts.ready;
            sum.pending += owned.counts.pending;
            sum.unschedulable += owned.counts.unschedulable;
            sum.bound += owned.counts.bound;
            if sum.reason.is_empty() {
                sum.reason.clone_from(&owned.counts.reason);
            }
            if let Some(measured) = owned.usage {
                usage = Some(usage.unwrap_or_default().and(measured));
            }
        }
        sum.usage = usage.map(MeasuredPods::report);
        sum
    }

    /// Number of Pods of an object that have a node.
    pub fn bound(&self, uid: &str) -> i64 {
        let children = self.children.get(uid).into_iter().flatten().map(String::as_str);
        let owned = std::iter::once(uid).chain(children).filter_map(|uid| self.pods.get(uid));
        owned.map(|owned| owned.counts.bound).sum()
    }

    /// Sets the usage of the Pods of each controller; none of them may have been measured.
    pub fn set_usage(&mut self, usage: &HashMap<&Owner, MeasuredPods>) {
        for (owner, now) in usage {
            let Some(owned) = self.pods.get_mut(&owner.uid) else { continue };
            let now = (now.pods > 0).then_some(*now);
            let is_known = match (owned.usage, now) {
                (Some(before), Some(now)) => before.is_similar(now),
                (before, now) => before == now,
            };
            if !is_known {
                owned.usage = now;
                let root = self.parents.get(&owner.uid).map_or(*owner, |(_, parent)| parent);
                self.changed.insert(root.clone());
            }
        }
    }

    /// Returns the objects whose Pods have changed since the last call.
    pub fn take_changed(&mut self) -> BTreeSet<Owner> {
        std::mem::take(&mut self.changed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn owned(kind: &str, name: &str) -> Owner {
        Owner {
            namespace: "shop".into(),
            group: "apps".into(),
            kind: kind.into(),
            name: name.into(),
            uid: format!("uid-{name}"),
        }
    }

    fn pod(node: &str, phase: &str, is_ready: bool) -> Value {
        json!({
            "metadata": {
                "namespace": "shop",
                "ownerReferences": [{
                    "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "uid-web-1", "controller": true,
                }],
            },
            "spec": { "nodeName": node },
            "status": { "phase": phase, "conditions": [{ "type": "Ready", "status": if is_ready { "True" } else { "False" } }] },
        })
    }

    #[test]
    fn pods_count_for_the_object_at_the_end_of_the_chain() {
        let mut all = WorkloadPods::default();
        let mut refused = pod("", "Pending", false);
        refused["status"]["conditions"] = json!([
            { "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes are available" },
        ]);
        let mut ending = pod("a", "Running", true);
        ending["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        let pods = [pod("a", "Running", true), pod("a", "Pending", false), refused, ending];
        for pod in &pods {
            let (state, reason) = PodState::of(pod);
            all.count(&Owner::of(pod).unwrap(), None, Some((&state, &reason)));
        }
        let expected = PodCounts {
            total: 3,
            ready: 1,
            pending: 2,
            unschedulable: 1,
            reason: "0/3 nodes are available".into(),
            bound: 3,
            usage: None,
        };
        assert_eq!(all.of("uid-web-1"), expected);
        assert_eq!(all.take_changed(), [owned("ReplicaSet", "web-1")].into());

        // The owner of the ReplicaSet becomes known.
        all.set_parent(OwnedKind::ReplicaSet, "uid-web-1", owned("Deployment", "web"));
        assert_eq!((all.of("uid-web"), all.bound("uid-web")), (expected, 3));
        assert_eq!(all.take_changed(), [owned("Deployment", "web")].into());

        // The message of the scheduler changes.
        let (before, _) = PodState::of(&pods[2]);
        all.count(&Owner::of(&pods[2]).unwrap(), Some(&before), Some((&before, "0/4 nodes are available")));
        assert_eq!(all.of("uid-web").reason, "0/4 nodes are available");
        assert_eq!(all.take_changed().len(), 1);

        // The Pod is scheduled.
        let (now, _) = PodState::of(&pods[0]);
        let owner = Owner::of(&pods[2]).unwrap();
        all.count(&owner, Some(&before), Some((&now, "")));
        let counts = all.of("uid-web");
        assert_eq!((counts.ready, counts.unschedulable, counts.reason.as_str()), (2, 0, ""));
        all.take_changed();
        all.count(&owner, Some(&now), Some((&now, "")));
        assert!(all.take_changed().is_empty(), "nothing has changed");
        assert!(all.absent(OwnedKind::Job, &HashSet::new()).is_empty());
        assert_eq!(all.absent(OwnedKind::ReplicaSet, &HashSet::new()), ["uid-web-1"]);
        all.remove_parent("uid-web-1");
        assert_eq!(all.of("uid-web"), PodCounts::default());
    }

    #[test]
    fn usage_is_added_and_small_changes_are_ignored() {
        let mut all = WorkloadPods::default();
        let (one, two) = (owned("ReplicaSet", "web-1"), owned("ReplicaSet", "web-2"));
        let (state, _) = PodState::of(&pod("a", "Running", true));
        for owner in [&one, &two] {
            all.count(owner, None, Some((&state, "")));
            all.set_parent(OwnedKind::ReplicaSet, &owner.uid, owned("Deployment", "web"));
        }
        let measured = |cpu: i64, memory: i64| MeasuredPods {
            pods: 1,
            cpu,
            memory: memory << 20,
            requested_cpu: Some(400),
            requested_memory: None,
        };
        let second = measured(50, 28);
        all.set_usage(&[(&one, measured(200, 100)), (&two, second)].into());
        let requests = PodRequests { cpu: Some("800m".into()), memory: None };
        let usage = PodUsage { cpu: "250m".into(), memory: "128Mi".into(), pods: 2, requests };
        assert_eq!(all.of("uid-web").usage, Some(usage.clone()));
        all.take_changed();
        all.set_usage(&[(&one, measured(210, 101)), (&two, second)].into());
        assert!(all.take_changed().is_empty());
        assert_eq!(all.of("uid-web").usage, Some(usage));
        all.set_usage(&[(&one, measured(300, 101)), (&two, second)].into());
        assert_eq!(all.take_changed(), [owned("Deployment", "web")].into());
        // Pods that are not measured any more have no usage.
        let none = MeasuredPods::default();
        all.set_usage(&[(&one, none), (&two, second)].into());
        assert_eq!(all.take_changed(), [owned("Deployment", "web")].into());
        let left = all.of("uid-web").usage.map(|usage| (usage.cpu, usage.pods));
        assert_eq!(left, Some(("50m".to_string(), 1)));
        all.set_usage(&[(&one, none), (&two, none)].into());
        assert_eq!((all.of("uid-web").usage, all.take_changed().len()), (None, 1));
    }
}
