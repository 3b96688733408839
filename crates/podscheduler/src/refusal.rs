//! Reasons why a node is not feasible, and their messages.

// upstream: pkg/scheduler/framework/types.go
// upstream: pkg/scheduler/framework/plugins/names/names.go

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::Arc;

/// The plugin that rejects a Pod, by upstream's name. It decides which events can help.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Plugin {
    NodeUnschedulable,
    NodeName,
    TaintToleration,
    NodeAffinity,
    NodePorts,
    NodeResourcesFit,
    VolumeRestrictions,
    VolumeBinding,
    VolumeZone,
    PodTopologySpread,
    InterPodAffinity,
}

/// Insufficient resources of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shortage {
    pub pods: bool,
    pub cpu: bool,
    pub memory: bool,
    pub storage: bool,
    pub scalars: Vec<Arc<str>>,
    /// Whether even the empty node would not have enough.
    pub is_unresolvable: bool,
}

impl Shortage {
    pub fn is_none(&self) -> bool {
        !(self.pods || self.cpu || self.memory || self.storage) && self.scalars.is_empty()
    }
}

/// Problem with the volumes of a Pod on a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VolumeConflict {
    /// A volume is not accessible from the node.
    pub unreachable: bool,
    /// There is no volume for a claim.
    pub none_to_bind: bool,
    /// The volume of a claim does not exist.
    pub missing: bool,
}

impl VolumeConflict {
    pub fn is_none(self) -> bool {
        self == VolumeConflict::default()
    }
}

/// Reason why a node is not feasible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    Unschedulable,
    NodeName,
    Taint,
    NodeAffinity,
    Ports,
    Resources(Box<Shortage>),
    ClaimInUse,
    Volumes(VolumeConflict),
    VolumeZone,
    SpreadLabelMissing,
    Spread,
    PodAffinity,
    PodAntiAffinity,
    ExistingPodsAntiAffinity,
    /// The node has no Pods of lower priority.
    NoVictims,
}

impl Refusal {
    /// Whether evicting other Pods could help.
    pub fn is_resolvable(&self) -> bool {
        match self {
            Refusal::Ports
            | Refusal::ClaimInUse
            | Refusal::Spread
            | Refusal::PodAntiAffinity
            | Refusal::ExistingPodsAntiAffinity => true,
            Refusal::Resources(shortage) => !shortage.is_unresolvable,
            _ => false,
        }
    }

    pub fn plugin(&self) -> Option<Plugin> {
        Some(match self {
            Refusal::Unschedulable => Plugin::NodeUnschedulable,
            Refusal::NodeName => Plugin::NodeName,
            Refusal::Taint => Plugin::TaintToleration,
            Refusal::NodeAffinity => Plugin::NodeAffinity,
            Refusal::Ports => Plugin::NodePorts,
            Refusal::Resources(_) => Plugin::NodeResourcesFit,
            Refusal::ClaimInUse => Plugin::VolumeRestrictions,
            Refusal::Volumes(_) => Plugin::VolumeBinding,
            Refusal::VolumeZone => Plugin::VolumeZone,
            Refusal::SpreadLabelMissing | Refusal::Spread => Plugin::PodTopologySpread,
            Refusal::PodAffinity | Refusal::PodAntiAffinity | Refusal::ExistingPodsAntiAffinity => {
                Plugin::InterPodAffinity
            }
            Refusal::NoVictims => return None,
        })
    }

    fn reasons(&self, mut say: impl FnMut(&str)) {
        match self {
            Refusal::Unschedulable => say("node(s) were unschedulable"),
            Refusal::NodeName => say("node(s) didn't match the requested node name"),
            Refusal::Taint => say("node(s) had untolerated taint(s)"),
            Refusal::NodeAffinity => say("node(s) didn't match Pod's node affinity/selector"),
            Refusal::Ports => say("node(s) didn't have free ports for the requested pod ports"),
            Refusal::ClaimInUse => say(
                "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod",
            ),
            Refusal::VolumeZone => say("node(s) had no available volume zone"),
            Refusal::SpreadLabelMissing => {
                say("node(s) didn't match pod topology spread constraints (missing required label)");
            }
            Refusal::Spread => say("node(s) didn't match pod topology spread constraints"),
            Refusal::PodAffinity => say("node(s) didn't match pod affinity rules"),
            Refusal::PodAntiAffinity => say("node(s) didn't match pod anti-affinity rules"),
            Refusal::ExistingPodsAntiAffinity => {
                say("node(s) didn't satisfy existing pods anti-affinity rules")
            }
            Refusal::NoVictims => say("No preemption victims found for incoming pod"),
            Refusal::Resources(shortage) => {
                let fixed = [
                    (shortage.pods, "Too many pods"),
                    (shortage.cpu, "Insufficient cpu"),
                    (shortage.memory, "Insufficient memory"),
                    (shortage.storage, "Insufficient ephemeral-storage"),
                ];
                fixed.into_iter().filter(|(is, _)| *is).for_each(|(_, reason)| say(reason));
                shortage.scalars.iter().for_each(|name| say(&format!("Insufficient {name}")));
            }
            Refusal::Volumes(conflict) => {
                let all = [
                    (conflict.unreachable, "node(s) didn't match PersistentVolume's node affinity"),
                    (conflict.none_to_bind, "node(s) didn't find available persistent volumes to bind"),
                    (
                        conflict.missing,
                        "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
                    ),
                ];
                all.into_iter().filter(|(is, _)| *is).for_each(|(_, reason)| say(reason));
            }
        }
    }
}

/// Number of nodes by reason.
#[derive(Clone, Debug, Default)]
pub struct Histogram(HashMap<String, usize>);

impl Histogram {
    pub fn count(&mut self, refusal: &Refusal) {
        refusal.reasons(|reason| self.add(reason, 1));
    }

    pub fn add(&mut self, reason: &str, count: usize) {
        match self.0.get_mut(reason) {
            Some(own) => *own += count,
            None => drop(self.0.insert(reason.to_owned(), count)),
        }
    }

    /// Returns all reasons with the number of nodes, sorted by text as upstream does.
    pub fn sentence(&self, nodes: usize) -> String {
        let mut parts: Vec<String> = self
            .0
            .iter()
            .filter(|(_, count)| **count > 0)
            .map(|(reason, count)| format!("{count} {reason}"))
            .collect();
        parts.sort();
        let mut sentence = format!("0/{nodes} nodes are available:");
        if !parts.is_empty() {
            let _ = write!(sentence, " {}.", parts.join(", "));
        }
        sentence
    }
}
