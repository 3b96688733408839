//! The rules of all types with defaults. Most are literals; defaults that depend on other fields are
//! functions in `rules/`.

// upstream: pkg/apis/core/v1/zz_generated.defaults.go
// upstream: pkg/apis/apps/v1/defaults.go
// upstream: pkg/apis/batch/v1/defaults.go
// upstream: pkg/apis/storage/v1/defaults.go
// upstream: pkg/apis/scheduling/v1/defaults.go
// upstream: pkg/apis/authentication/v1/defaults.go
// upstream: pkg/apis/admissionregistration/v1/defaults.go
// upstream: pkg/apis/flowcontrol/v1/defaults.go
// upstream: pkg/apis/discovery/v1/defaults.go
// upstream: pkg/apis/resource/v1/defaults.go
// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1/defaults.go
// upstream: staging/src/k8s.io/kube-aggregator/pkg/apis/apiregistration/v1/defaults.go

mod apps;
mod autoscaling;
mod batch;
mod core;
mod extensions;
mod networking;
mod pod;
mod policy;
mod rbac;
mod resource;
mod service;
mod storage;

use serde_json::{Map, Value};

use crate::object::ObjectMap;
use Literal::{Empty, Flag, Number, Text};

/// The defaults of one struct type, wherever it occurs.
pub struct TypeDefaults {
    /// Key of the type in the schema.
    pub type_key: &'static str,
    /// Default values by field, in order. A field may be nested in a struct (`spec.replicas`).
    pub fields: &'static [(&'static str, Literal)],
    /// Function that runs after the literals and before nested fields.
    pub function: Option<fn(&mut ObjectMap)>,
}

#[derive(Clone, Copy, Debug)]
pub enum Literal {
    Text(&'static str),
    Number(i64),
    Flag(bool),
    /// An empty object.
    Empty,
}

impl Literal {
    pub fn value(self) -> Value {
        match self {
            Text(text) => text.into(),
            Number(number) => number.into(),
            Flag(flag) => flag.into(),
            Empty => Value::Object(Map::new()),
        }
    }

    pub fn is_zero(self) -> bool {
        matches!(self, Text("") | Number(0) | Flag(false))
    }

    /// Parses a `+default` marker of the schema: the JSON of a string, a number or a boolean.
    pub fn of_marker(text: &'static str) -> Option<Literal> {
        match text {
            "true" => Some(Flag(true)),
            "false" => Some(Flag(false)),
            _ => match text.strip_prefix('"') {
                Some(rest) => rest.strip_suffix('"').map(Text),
                None => text.parse().ok().map(Number),
            },
        }
    }
}

/// Groups for which upstream registers no defaulting functions, although their objects contain types with
/// defaults.
pub const GROUPS_WITHOUT_DEFAULTS: &[&str] = &["node.k8s.io"];

const fn fields(type_key: &'static str, fields: &'static [(&'static str, Literal)]) -> TypeDefaults {
    TypeDefaults { type_key, fields, function: None }
}

const fn function(type_key: &'static str, function: fn(&mut ObjectMap)) -> TypeDefaults {
    TypeDefaults { type_key, fields: &[], function: Some(function) }
}

const WEBHOOK: &[(&str, Literal)] = &[
    ("failurePolicy", Text("Fail")),
    ("matchPolicy", Text("Equivalent")),
    ("namespaceSelector", Empty),
    ("objectSelector", Empty),
    ("timeoutSeconds", Number(10)),
];

/// `rw-r--r--`.
const FILE_MODE: &[(&str, Literal)] = &[("defaultMode", Number(0o644))];
const DEVICES: &[(&str, Literal)] = &[("allocationMode", Text("ExactCount"))];
const HTTPS: &[(&str, Literal)] = &[("port", Number(443))];
const RBAC: &str = "rbac.authorization.k8s.io";

#[rustfmt::skip]
pub const RULES: &[TypeDefaults] = &[
    // core
    function("core/v1.Pod", pod::pod),
    TypeDefaults {
        type_key: "core/v1.PodSpec",
        fields: &[
            ("dnsPolicy", Text("ClusterFirst")),
            ("restartPolicy", Text("Always")),
            ("securityContext", Empty),
            ("terminationGracePeriodSeconds", Number(30)),
            ("schedulerName", Text("default-scheduler")),
        ],
        function: Some(pod::spec),
    },
    function("core/v1.PodStatus", pod::status),
    function("core/v1.PodTemplateSpec", pod::template),
    TypeDefaults { type_key: "core/v1.Container", fields: pod::CONTAINER, function: Some(pod::container) },
    TypeDefaults { type_key: "core/v1.EphemeralContainerCommon", fields: pod::CONTAINER, function: Some(pod::container) },
    function("core/v1.Volume", pod::volume),
    fields("core/v1.Probe", &[
        ("timeoutSeconds", Number(1)),
        ("periodSeconds", Number(10)),
        ("successThreshold", Number(1)),
        ("failureThreshold", Number(3)),
    ]),
    fields("core/v1.HTTPGetAction", &[("path", Text("/")), ("scheme", Text("HTTP"))]),
    fields("core/v1.ObjectFieldSelector", &[("apiVersion", Text("v1"))]),
    fields("core/v1.SecretVolumeSource", FILE_MODE),
    fields("core/v1.ConfigMapVolumeSource", FILE_MODE),
    fields("core/v1.DownwardAPIVolumeSource", FILE_MODE),
    fields("core/v1.ProjectedVolumeSource", FILE_MODE),
    fields("core/v1.ServiceAccountTokenProjection", &[("expirationSeconds", Number(3600))]),
    fields("core/v1.HostPathVolumeSource", &[("type", Text(""))]),
    function("core/v1.ReplicationController", core::replication_controller),
    TypeDefaults {
        type_key: "core/v1.Service",
        fields: &[("spec.sessionAffinity", Text("None")), ("spec.type", Text("ClusterIP"))],
        function: Some(service::service),
    },
    TypeDefaults { type_key: "core/v1.Secret", fields: &[("type", Text("Opaque"))], function: Some(core::secret) },
    fields("core/v1.PersistentVolume", &[
        ("status.phase", Text("Pending")),
        ("spec.persistentVolumeReclaimPolicy", Text("Retain")),
        ("spec.volumeMode", Text("Filesystem")),
    ]),
    fields("core/v1.PersistentVolumeClaim", &[("status.phase", Text("Pending"))]),
    fields("core/v1.PersistentVolumeClaimSpec", &[("volumeMode", Text("Filesystem"))]),
    fields("core/v1.EndpointPort", &[("protocol", Text("TCP"))]),
    function("core/v1.Namespace", core::namespace),
    fields("core/v1.NamespaceStatus", &[("phase", Text("Active"))]),
    function("core/v1.NodeSpec", core::node_spec),
    function("core/v1.NodeStatus", core::node_status),
    function("core/v1.LimitRangeItem", core::limit_range_item),
    // apps
    TypeDefaults {
        type_key: "apps/v1.Deployment",
        fields: &[
            ("spec.replicas", Number(1)),
            ("spec.revisionHistoryLimit", Number(10)),
            ("spec.progressDeadlineSeconds", Number(600)),
        ],
        function: Some(apps::deployment),
    },
    TypeDefaults {
        type_key: "apps/v1.DaemonSet",
        fields: &[("spec.revisionHistoryLimit", Number(10))],
        function: Some(apps::daemon_set),
    },
    TypeDefaults {
        type_key: "apps/v1.StatefulSet",
        fields: &[
            ("spec.podManagementPolicy", Text("OrderedReady")),
            ("spec.replicas", Number(1)),
            ("spec.revisionHistoryLimit", Number(10)),
        ],
        function: Some(apps::stateful_set),
    },
    fields("apps/v1.ReplicaSet", &[("spec.replicas", Number(1))]),
    // batch
    TypeDefaults {
        type_key: "batch/v1.Job",
        fields: &[
            ("spec.completionMode", Text("NonIndexed")),
            ("spec.suspend", Flag(false)),
            ("spec.manualSelector", Flag(false)),
        ],
        function: Some(batch::job),
    },
    fields("batch/v1.CronJob", &[
        ("spec.concurrencyPolicy", Text("Allow")),
        ("spec.suspend", Flag(false)),
        ("spec.successfulJobsHistoryLimit", Number(3)),
        ("spec.failedJobsHistoryLimit", Number(1)),
    ]),
    fields("batch/v1.PodFailurePolicyOnPodConditionsPattern", &[("status", Text("True"))]),
    // autoscaling
    fields("autoscaling/v1.HorizontalPodAutoscaler", &[("spec.minReplicas", Number(1))]),
    TypeDefaults {
        type_key: "autoscaling/v2.HorizontalPodAutoscaler",
        fields: &[("spec.minReplicas", Number(1))],
        function: Some(autoscaling::version_2),
    },
    // networking, discovery
    fields("networking/v1.NetworkPolicyPort", &[("protocol", Text("TCP"))]),
    function("networking/v1.NetworkPolicySpec", networking::network_policy),
    fields("networking/v1.IngressClassParametersReference", &[("scope", Text("Cluster"))]),
    fields("discovery/v1.EndpointPort", &[("name", Text("")), ("protocol", Text("TCP"))]),
    // policy, rbac
    function("policy/v1.PodDisruptionBudgetSpec", policy::disruption_budget),
    fields("rbac/v1.RoleRef", &[("apiGroup", Text(RBAC))]),
    function("rbac/v1.Subject", rbac::subject),
    // storage, scheduling
    fields("storage/v1.StorageClass", &[
        ("reclaimPolicy", Text("Delete")),
        ("volumeBindingMode", Text("Immediate")),
    ]),
    TypeDefaults {
        type_key: "storage/v1.CSIDriverSpec",
        fields: &[
            ("attachRequired", Flag(true)),
            ("podInfoOnMount", Flag(false)),
            ("storageCapacity", Flag(false)),
            ("fsGroupPolicy", Text("ReadWriteOnceWithFSType")),
            ("requiresRepublish", Flag(false)),
            ("seLinuxMount", Flag(false)),
        ],
        function: Some(storage::storage_driver),
    },
    fields("scheduling/v1.PriorityClass", &[("preemptionPolicy", Text("PreemptLowerPriority"))]),
    // authentication
    fields("authentication/v1.TokenRequestSpec", &[("expirationSeconds", Number(3600))]),
    // admissionregistration
    fields("admissionregistration/v1.ValidatingWebhook", WEBHOOK),
    TypeDefaults { type_key: "admissionregistration/v1.MutatingWebhook", fields: WEBHOOK, function: Some(extensions::mutating_webhook) },
    fields("admissionregistration/v1.Rule", &[("scope", Text("*"))]),
    fields("admissionregistration/v1.ServiceReference", HTTPS),
    fields("admissionregistration/v1.ValidatingAdmissionPolicySpec", &[("failurePolicy", Text("Fail"))]),
    fields("admissionregistration/v1.MutatingAdmissionPolicySpec", &[("failurePolicy", Text("Fail"))]),
    fields("admissionregistration/v1.MatchResources", &[
        ("matchPolicy", Text("Equivalent")),
        ("namespaceSelector", Empty),
        ("objectSelector", Empty),
    ]),
    // apiextensions, apiregistration
    function("apiextensions/v1.CustomResourceDefinition", extensions::definition),
    fields("apiextensions/v1.ServiceReference", HTTPS),
    fields("apiregistration/v1.ServiceReference", HTTPS),
    // flowcontrol
    fields("flowcontrol/v1.FlowSchemaSpec", &[("matchingPrecedence", Number(1000))]),
    fields("flowcontrol/v1.ExemptPriorityLevelConfiguration", &[
        ("nominalConcurrencyShares", Number(0)),
        ("lendablePercent", Number(0)),
    ]),
    fields("flowcontrol/v1.LimitedPriorityLevelConfiguration", &[
        ("nominalConcurrencyShares", Number(30)),
        ("lendablePercent", Number(0)),
    ]),
    fields("flowcontrol/v1.QueuingConfiguration", &[
        ("handSize", Number(8)),
        ("queues", Number(64)),
        ("queueLengthLimit", Number(50)),
    ]),
    // resource
    TypeDefaults { type_key: "resource/v1.ExactDeviceRequest", fields: DEVICES, function: Some(resource::device_request) },
    TypeDefaults { type_key: "resource/v1.DeviceSubRequest", fields: DEVICES, function: Some(resource::device_request) },
    function("resource/v1.Device", resource::device),
];
