//! What may help a Pod that found no node.

use crate::refusal::Plugin;

/// Something that has happened to the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    NodeAdded,
    NodeLabels,
    NodeTaints,
    NodeAllocatable,
    NodeGone,
    /// A Pod came to a node.
    PodPlaced,
    /// The labels of a Pod on a node have changed.
    PodLabels,
    /// A Pod on a node needs less than before.
    PodShrunk,
    /// A Pod left its node.
    PodGone,
    Claim,
    Volume,
    StorageClass,
}

impl Event {
    /// Whether Pods that this one refused may be better off now.
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
