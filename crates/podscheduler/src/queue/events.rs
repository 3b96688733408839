//! Cluster events that may make an unschedulable Pod schedulable.

// upstream: pkg/scheduler/framework/events.go

use crate::refusal::Plugin;

/// A cluster event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    NodeAdded,
    NodeLabels,
    NodeTaints,
    NodeAllocatable,
    NodeGone,
    /// A Pod was assigned to a node.
    PodPlaced,
    /// The labels of an assigned Pod have changed.
    PodLabels,
    /// The requests of an assigned Pod were reduced.
    PodShrunk,
    /// An assigned Pod was deleted.
    PodGone,
    Claim,
    Volume,
    StorageClass,
}

impl Event {
    /// Whether Pods that this plugin rejected may be schedulable now.
    pub fn may_help(self, plugin: Plugin) -> bool {
        use Event::{Claim, NodeAdded, NodeAllocatable, NodeGone, NodeLabels, NodeTaints};
        use Event::{PodGone, PodLabels, PodPlaced, PodShrunk, StorageClass, Volume};
        let helpful: &[Event] = match plugin {
            Plugin::NodeName => &[NodeAdded],
            Plugin::NodeUnschedulable | Plugin::TaintToleration => &[NodeAdded, NodeTaints],
            Plugin::NodeAffinity => &[NodeAdded, NodeLabels],
            Plugin::NodePorts => &[NodeAdded, PodGone],
            Plugin::NodeResourcesFit => &[NodeAdded, NodeAllocatable, PodGone, PodShrunk],
            Plugin::VolumeRestrictions => &[NodeAdded, PodGone, Claim],
            Plugin::VolumeBinding | Plugin::VolumeZone => {
                &[NodeAdded, NodeLabels, NodeTaints, Claim, Volume, StorageClass]
            }
            Plugin::PodTopologySpread => {
                &[NodeAdded, NodeGone, NodeLabels, NodeTaints, PodPlaced, PodLabels, PodGone]
            }
            Plugin::InterPodAffinity => &[NodeAdded, NodeLabels, PodPlaced, PodLabels, PodGone],
        };
        helpful.contains(&self)
    }
}
