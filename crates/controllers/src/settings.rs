//! How patient controllers are. What is not said is as in kube-controller-manager.

use std::time::Duration;

#[derive(Clone, Debug)]
pub struct Settings {
    /// After what time without a word from whoever syncs it a cluster is not ready.
    pub cluster_grace_period: Duration,
    /// How often the health of nodes is looked at.
    pub node_monitor_period: Duration,
    /// After what time without a word from it a node is given up.
    pub node_monitor_grace_period: Duration,
    /// The same for a node that has never said anything.
    pub node_startup_grace_period: Duration,
    /// Nodes that are emptied in a second, in each zone.
    pub node_eviction_rate: f64,
    /// The same in a zone that is large and in which many fail.
    pub secondary_node_eviction_rate: f64,
    /// From more nodes than this a zone is large; in a smaller one nothing is emptied while many fail.
    pub large_cluster_size_threshold: usize,
    /// Which part of a zone's nodes must fail for it to be many.
    pub unhealthy_zone_threshold: f64,
    /// How often autoscalers look at their metrics.
    pub horizontal_pod_autoscaler_sync_period: Duration,
    /// For so long the highest of recent recommendations counts, unless an autoscaler says otherwise.
    pub horizontal_pod_autoscaler_downscale_stabilization: Duration,
    /// Metrics that differ by less than this part from what is wanted change nothing.
    pub horizontal_pod_autoscaler_tolerance: f64,
    /// For so long after its start, a pod's use of processors says nothing if it was not ready meanwhile.
    pub horizontal_pod_autoscaler_cpu_initialization_period: Duration,
    /// A pod that became not ready within this time of its start has never been ready.
    pub horizontal_pod_autoscaler_initial_readiness_delay: Duration,
    /// How often volumes and claims are looked at that wait for something nobody tells of.
    pub volume_sync_period: Duration,
    /// How often pods are looked for that nobody else would remove.
    pub pod_gc_period: Duration,
    /// How long a node may be missing before its pods are taken for lost.
    pub pod_gc_quarantine: Duration,
    /// Pods that have ended and may stay, in each workspace. Zero: all.
    pub terminated_pod_gc_threshold: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            cluster_grace_period: Duration::from_secs(40),
            node_monitor_period: Duration::from_secs(5),
            node_monitor_grace_period: Duration::from_secs(50),
            node_startup_grace_period: Duration::from_secs(60),
            node_eviction_rate: 0.1,
            secondary_node_eviction_rate: 0.01,
            large_cluster_size_threshold: 50,
            unhealthy_zone_threshold: 0.55,
            horizontal_pod_autoscaler_sync_period: Duration::from_secs(15),
            horizontal_pod_autoscaler_downscale_stabilization: Duration::from_secs(300),
            horizontal_pod_autoscaler_tolerance: 0.1,
            horizontal_pod_autoscaler_cpu_initialization_period: Duration::from_secs(300),
            horizontal_pod_autoscaler_initial_readiness_delay: Duration::from_secs(30),
            volume_sync_period: Duration::from_secs(15),
            pod_gc_period: Duration::from_secs(20),
            pod_gc_quarantine: Duration::from_secs(40),
            terminated_pod_gc_threshold: 12500,
        }
    }
}
