//! Workloads: the kinds that create Pods, and that run nowhere until they are placed.

/// The names of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkloadKind {
    pub group: &'static str,
    pub resource: &'static str,
    pub kind: &'static str,
}

/// All workloads. They are placed by default, and a policy without `objects` applies to them.
pub const WORKLOADS: [WorkloadKind; 7] = [
    WorkloadKind { group: "", resource: "replicationcontrollers", kind: "ReplicationController" },
    WorkloadKind { group: "apps", resource: "daemonsets", kind: "DaemonSet" },
    WorkloadKind { group: "apps", resource: "deployments", kind: "Deployment" },
    WorkloadKind { group: "apps", resource: "replicasets", kind: "ReplicaSet" },
    WorkloadKind { group: "apps", resource: "statefulsets", kind: "StatefulSet" },
    WorkloadKind { group: "batch", resource: "cronjobs", kind: "CronJob" },
    WorkloadKind { group: "batch", resource: "jobs", kind: "Job" },
];

/// Whether objects of a resource (group and name) run nowhere until they are placed on a cluster.
pub fn is_workload((group, resource): (&str, &str)) -> bool {
    WORKLOADS.iter().any(|one| one.group == group && one.resource == resource)
}

/// The same by group and kind.
pub fn is_workload_kind(group: &str, kind: &str) -> bool {
    WORKLOADS.iter().any(|one| one.group == group && one.kind == kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workloads_are_known_by_resource_and_by_kind() {
        for (group, resource, kind, expected) in [
            ("apps", "deployments", "Deployment", true),
            ("", "replicationcontrollers", "ReplicationController", true),
            ("batch", "cronjobs", "CronJob", true),
            ("example.com", "deployments", "Deployment", false),
            ("", "configmaps", "ConfigMap", false),
        ] {
            assert_eq!(is_workload((group, resource)), expected, "{group} {resource}");
            assert_eq!(is_workload_kind(group, kind), expected, "{group} {kind}");
        }
    }
}
