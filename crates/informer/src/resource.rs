//! Resources by group, version and plural.

use std::borrow::Cow;

use atoll_client::path;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Resource {
    /// Empty for the core group.
    pub group: Cow<'static, str>,
    pub version: Cow<'static, str>,
    /// Plural name, as in URLs.
    pub plural: Cow<'static, str>,
    pub kind: Cow<'static, str>,
    pub namespaced: bool,
}

impl Resource {
    const fn known(
        group: &'static str,
        version: &'static str,
        plural: &'static str,
        kind: &'static str,
        namespaced: bool,
    ) -> Self {
        Resource {
            group: Cow::Borrowed(group),
            version: Cow::Borrowed(version),
            plural: Cow::Borrowed(plural),
            kind: Cow::Borrowed(kind),
            namespaced,
        }
    }

    pub fn api_version(&self) -> String {
        match self.group.is_empty() {
            true => self.version.to_string(),
            false => format!("{}/{}", self.group, self.version),
        }
    }

    /// The path in a namespace, or in all namespaces if it is empty.
    pub fn collection(&self, namespace: &str) -> String {
        path::collection(&self.group, &self.version, namespace, &self.plural)
    }
}

/// Resources that controllers use.
pub mod resources {
    use super::Resource;

    macro_rules! known {
        ($($name:ident = $group:literal $version:literal $plural:literal $kind:literal $namespaced:literal;)*) => {
            $(pub static $name: Resource = Resource::known($group, $version, $plural, $kind, $namespaced);)*
        };
    }

    known! {
        CLUSTERS = "atoll.dev" "v1alpha1" "clusters" "Cluster" false;
        OBJECT_STATUSES = "atoll.dev" "v1alpha1" "objectstatuses" "ObjectStatus" true;
        PLACEMENT_POLICIES = "atoll.dev" "v1alpha1" "placementpolicies" "PlacementPolicy" true;
        CLUSTER_PLACEMENT_POLICIES = "atoll.dev" "v1alpha1" "clusterplacementpolicies" "ClusterPlacementPolicy" false;
        CUSTOM_RESOURCE_DEFINITIONS = "apiextensions.k8s.io" "v1" "customresourcedefinitions" "CustomResourceDefinition" false;
        CONFIG_MAPS = "" "v1" "configmaps" "ConfigMap" true;
        ENDPOINTS = "" "v1" "endpoints" "Endpoints" true;
        EVENTS = "" "v1" "events" "Event" true;
        NAMESPACES = "" "v1" "namespaces" "Namespace" false;
        NODES = "" "v1" "nodes" "Node" false;
        PERSISTENT_VOLUMES = "" "v1" "persistentvolumes" "PersistentVolume" false;
        PERSISTENT_VOLUME_CLAIMS = "" "v1" "persistentvolumeclaims" "PersistentVolumeClaim" true;
        RESOURCE_QUOTAS = "" "v1" "resourcequotas" "ResourceQuota" true;
        SECRETS = "" "v1" "secrets" "Secret" true;
        SERVICE_ACCOUNTS = "" "v1" "serviceaccounts" "ServiceAccount" true;
        PODS = "" "v1" "pods" "Pod" true;
        REPLICATION_CONTROLLERS = "" "v1" "replicationcontrollers" "ReplicationController" true;
        SERVICES = "" "v1" "services" "Service" true;
        CONTROLLER_REVISIONS = "apps" "v1" "controllerrevisions" "ControllerRevision" true;
        DAEMON_SETS = "apps" "v1" "daemonsets" "DaemonSet" true;
        DEPLOYMENTS = "apps" "v1" "deployments" "Deployment" true;
        REPLICA_SETS = "apps" "v1" "replicasets" "ReplicaSet" true;
        STATEFUL_SETS = "apps" "v1" "statefulsets" "StatefulSet" true;
        HORIZONTAL_POD_AUTOSCALERS = "autoscaling" "v2" "horizontalpodautoscalers" "HorizontalPodAutoscaler" true;
        CRON_JOBS = "batch" "v1" "cronjobs" "CronJob" true;
        JOBS = "batch" "v1" "jobs" "Job" true;
        LEASES = "coordination.k8s.io" "v1" "leases" "Lease" true;
        ENDPOINT_SLICES = "discovery.k8s.io" "v1" "endpointslices" "EndpointSlice" true;
        INGRESSES = "networking.k8s.io" "v1" "ingresses" "Ingress" true;
        NETWORK_POLICIES = "networking.k8s.io" "v1" "networkpolicies" "NetworkPolicy" true;
        POD_DISRUPTION_BUDGETS = "policy" "v1" "poddisruptionbudgets" "PodDisruptionBudget" true;
        CERTIFICATE_SIGNING_REQUESTS = "certificates.k8s.io" "v1" "certificatesigningrequests" "CertificateSigningRequest" false;
        CLUSTER_ROLES = "rbac.authorization.k8s.io" "v1" "clusterroles" "ClusterRole" false;
        DEVICE_CLASSES = "resource.k8s.io" "v1" "deviceclasses" "DeviceClass" false;
        VOLUME_ATTRIBUTES_CLASSES = "storage.k8s.io" "v1" "volumeattributesclasses" "VolumeAttributesClass" false;
        STORAGE_CLASSES = "storage.k8s.io" "v1" "storageclasses" "StorageClass" false;
    }
}
