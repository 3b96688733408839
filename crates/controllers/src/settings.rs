//! Periods and limits of controllers. Defaults are those of kube-controller-manager.

// upstream: pkg/controller/nodelifecycle/config/v1alpha1/defaults.go
// upstream: pkg/controller/podautoscaler/config/v1alpha1/defaults.go
// upstream: pkg/controller/podgc/config/v1alpha1/defaults.go

use std::net::SocketAddr;
use std::time::Duration;

#[derive(Clone, Debug)]
pub struct Settings {
    /// Time without a heartbeat after which a cluster is not ready.
    pub cluster_grace_period: Duration,
    /// Address of the API server for clients, if the conditions of clusters are to tell whether Pods reach it.
    pub advertised: Option<SocketAddr>,
    /// Interval of node health checks.
    pub node_monitor_period: Duration,
    /// Time without a heartbeat after which a node is unknown.
    pub node_monitor_grace_period: Duration,
    /// Time after which a node without any heartbeat is unknown.
    pub node_startup_grace_period: Duration,
    /// Evictions per second in each zone.
    pub node_eviction_rate: f64,
    /// Evictions per second in a large unhealthy zone.
    pub secondary_node_eviction_rate: f64,
    /// Number of nodes above which a zone is large. In smaller unhealthy zones there are no evictions.
    pub large_cluster_size_threshold: usize,
    /// Fraction of failed nodes from which a zone is unhealthy.
    pub unhealthy_zone_threshold: f64,
    /// Interval at which autoscalers are reconciled.
    pub horizontal_pod_autoscaler_sync_period: Duration,
    /// Default window in which the highest recommendation counts.
    pub horizontal_pod_autoscaler_downscale_stabilization: Duration,
    /// Default relative deviation of metrics that causes no scaling.
    pub horizontal_pod_autoscaler_tolerance: f64,
    /// Time after a pod's start in which its CPU usage counts only if it is ready.
    pub horizontal_pod_autoscaler_cpu_initialization_period: Duration,
    /// Time after a pod's start in which becoming unready means that it was never ready.
    pub horizontal_pod_autoscaler_initial_readiness_delay: Duration,
    /// Interval at which volumes and volume claims are reconciled without a change.
    pub volume_sync_period: Duration,
    /// Interval of pod garbage collection.
    pub pod_gc_period: Duration,
    /// Time for which a node may be missing before its pods are deleted.
    pub pod_gc_quarantine: Duration,
    /// Number of finished pods that may stay in each workspace. Zero means no limit.
    pub terminated_pod_gc_threshold: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            cluster_grace_period: Duration::from_secs(40),
            advertised: None,
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
