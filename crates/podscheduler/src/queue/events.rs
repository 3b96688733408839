//! Cluster events that may make an unschedulable Pod schedulable.

// upstream: pkg/scheduler/framework/events.go

use crate::refusal::Plugin;

/// A cluster event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusterEvent {
    NodeAdded,
    NodeLabels,
    NodeTaints,
    NodeAllocatable,
    NodeDeleted,
    /// A Pod was assigned to a node.
    PodAssigned,
    /// The labels of an assigned Pod have changed.
    PodLabels,
    /// The requests of an assigned Pod were reduced.
    PodScaledDown,
    /// An assigned Pod was deleted.
    PodDeleted,
    Claim,
    Volume,
    StorageClass,
}

impl ClusterEvent {
    /// Whether Pods that this plugin rejected may be schedulable now.
    pub fn may_help(self, plugin: Plugin) -> bool {
        use ClusterEvent::{Claim, NodeAdded, NodeAllocatable, NodeDeleted, NodeLabels, NodeTaints};
        use ClusterEvent::{PodAssigned, PodDeleted, PodLabels, PodScaledDown, StorageClass, Volume};
        let helpful: &[ClusterEvent] = match plugin {
            Plugin::NodeName => &[NodeAdded],
            Plugin::NodeUnschedulable | Plugin::TaintToleration => &[NodeAdded, NodeTaints],
            Plugin::NodeAffinity => &[NodeAdded, NodeLabels],
            Plugin::NodePorts => &[NodeAdded, PodDeleted],
            Plugin::NodeResourcesFit => &[NodeAdded, NodeAllocatable, PodDeleted, PodScaledDown],
            Plugin::VolumeRestrictions => &[NodeAdded, PodDeleted, Claim],
            Plugin::VolumeBinding | Plugin::VolumeZone => {
                &[NodeAdded, NodeLabels, NodeTaints, Claim, Volume, StorageClass]
            }
            Plugin::PodTopologySpread => {
                &[NodeAdded, NodeDeleted, NodeLabels, NodeTaints, PodAssigned, PodLabels, PodDeleted]
            }
            Plugin::InterPodAffinity => &[NodeAdded, NodeLabels, PodAssigned, PodLabels, PodDeleted],
        };
        helpful.contains(&self)
    }
}
