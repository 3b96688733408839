//! Which types have defaults. Most are literals; what depends on other fields is a function in `rules/`.

mod apps;
mod autoscaling;
mod batch;
mod core;
mod extensions;
mod others;
mod pod;
mod service;

use serde_json::{Map, Value};

use crate::object::Object;
use Literal::{Empty, Flag, Number, Text};

/// What is filled in for one struct type, wherever it stands.
pub struct Rule {
    /// The type's key in the schema.
    pub of: &'static str,
    /// Fields, perhaps of a struct in a field (`spec.replicas`), in the order in which they are filled in.
    pub fields: &'static [(&'static str, Literal)],
    /// What is done after that and before anything below.
    pub then: Option<fn(&mut Object)>,
}

#[derive(Clone, Copy, Debug)]
pub enum Literal {
    Text(&'static str),
    Number(i64),
    Flag(bool),
    /// An object without fields.
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

    /// Reads what a marker in the schema says: the JSON of a string, a number or a truth value.
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

/// Groups whose objects hold types that have defaults elsewhere and are left alone here.
pub const UNFILLED: &[&str] = &["node.k8s.io"];

const fn fields(of: &'static str, fields: &'static [(&'static str, Literal)]) -> Rule {
    Rule { of, fields, then: None }
}

const fn code(of: &'static str, then: fn(&mut Object)) -> Rule {
    Rule { of, fields: &[], then: Some(then) }
}

const WEBHOOK: &[(&str, Literal)] = &[
    ("failurePolicy", Text("Fail")),
    ("matchPolicy", Text("Equivalent")),
    ("namespaceSelector", Empty),
    ("objectSelector", Empty),
    ("timeoutSeconds", Number(10)),
];

/// Readable for everybody, writable for the owner.
const FILE_MODE: &[(&str, Literal)] = &[("defaultMode", Number(0o644))];
const DEVICES: &[(&str, Literal)] = &[("allocationMode", Text("ExactCount"))];
const HTTPS: &[(&str, Literal)] = &[("port", Number(443))];
const RBAC: &str = "rbac.authorization.k8s.io";

#[rustfmt::skip]
pub const RULES: &[Rule] = &[
    // core
    code("core/v1.Pod", pod::pod),
    Rule {
        of: "core/v1.PodSpec",
        fields: &[
            ("dnsPolicy", Text("ClusterFirst")),
            ("restartPolicy", Text("Always")),
            ("securityContext", Empty),
            ("terminationGracePeriodSeconds", Number(30)),
            ("schedulerName", Text("default-scheduler")),
        ],
        then: Some(pod::spec),
    },
    code("core/v1.PodStatus", pod::status),
    code("core/v1.PodTemplateSpec", pod::template),
    Rule { of: "core/v1.Container", fields: pod::CONTAINER, then: Some(pod::container) },
    Rule { of: "core/v1.EphemeralContainerCommon", fields: pod::CONTAINER, then: Some(pod::container) },
    code("core/v1.Volume", pod::volume),
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
    code("core/v1.ReplicationController", core::replication_controller),
    Rule {
        of: "core/v1.Service",
        fields: &[("spec.sessionAffinity", Text("None")), ("spec.type", Text("ClusterIP"))],
        then: Some(service::service),
    },
    Rule { of: "core/v1.Secret", fields: &[("type", Text("Opaque"))], then: Some(core::secret) },
    fields("core/v1.PersistentVolume", &[
        ("status.phase", Text("Pending")),
        ("spec.persistentVolumeReclaimPolicy", Text("Retain")),
        ("spec.volumeMode", Text("Filesystem")),
    ]),
    fields("core/v1.PersistentVolumeClaim", &[("status.phase", Text("Pending"))]),
    fields("core/v1.PersistentVolumeClaimSpec", &[("volumeMode", Text("Filesystem"))]),
    fields("core/v1.EndpointPort", &[("protocol", Text("TCP"))]),
    code("core/v1.Namespace", core::namespace),
    fields("core/v1.NamespaceStatus", &[("phase", Text("Active"))]),
    code("core/v1.NodeSpec", core::node_spec),
    code("core/v1.NodeStatus", core::node_status),
    code("core/v1.LimitRangeItem", core::limit_range_item),
    // apps
    Rule {
        of: "apps/v1.Deployment",
        fields: &[
            ("spec.replicas", Number(1)),
            ("spec.revisionHistoryLimit", Number(10)),
            ("spec.progressDeadlineSeconds", Number(600)),
        ],
        then: Some(apps::deployment),
    },
    Rule {
        of: "apps/v1.DaemonSet",
        fields: &[("spec.revisionHistoryLimit", Number(10))],
        then: Some(apps::daemon_set),
    },
    Rule {
        of: "apps/v1.StatefulSet",
        fields: &[
            ("spec.podManagementPolicy", Text("OrderedReady")),
            ("spec.replicas", Number(1)),
            ("spec.revisionHistoryLimit", Number(10)),
        ],
        then: Some(apps::stateful_set),
    },
    fields("apps/v1.ReplicaSet", &[("spec.replicas", Number(1))]),
    // batch
    Rule {
        of: "batch/v1.Job",
        fields: &[
            ("spec.completionMode", Text("NonIndexed")),
            ("spec.suspend", Flag(false)),
            ("spec.manualSelector", Flag(false)),
        ],
        then: Some(batch::job),
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
    Rule {
        of: "autoscaling/v2.HorizontalPodAutoscaler",
        fields: &[("spec.minReplicas", Number(1))],
        then: Some(autoscaling::version_2),
    },
    // networking, discovery
    fields("networking/v1.NetworkPolicyPort", &[("protocol", Text("TCP"))]),
    code("networking/v1.NetworkPolicySpec", others::network_policy),
    fields("networking/v1.IngressClassParametersReference", &[("scope", Text("Cluster"))]),
    fields("discovery/v1.EndpointPort", &[("name", Text("")), ("protocol", Text("TCP"))]),
    // policy, rbac
    code("policy/v1.PodDisruptionBudgetSpec", others::disruption_budget),
    fields("rbac/v1.RoleRef", &[("apiGroup", Text(RBAC))]),
    code("rbac/v1.Subject", others::subject),
    // storage, scheduling
    fields("storage/v1.StorageClass", &[
        ("reclaimPolicy", Text("Delete")),
        ("volumeBindingMode", Text("Immediate")),
    ]),
    Rule {
        of: "storage/v1.CSIDriverSpec",
        fields: &[
            ("attachRequired", Flag(true)),
            ("podInfoOnMount", Flag(false)),
            ("storageCapacity", Flag(false)),
            ("fsGroupPolicy", Text("ReadWriteOnceWithFSType")),
            ("requiresRepublish", Flag(false)),
            ("seLinuxMount", Flag(false)),
        ],
        then: Some(others::storage_driver),
    },
    fields("scheduling/v1.PriorityClass", &[("preemptionPolicy", Text("PreemptLowerPriority"))]),
    // authentication
    fields("authentication/v1.TokenRequestSpec", &[("expirationSeconds", Number(3600))]),
    // admissionregistration
    fields("admissionregistration/v1.ValidatingWebhook", WEBHOOK),
    Rule { of: "admissionregistration/v1.MutatingWebhook", fields: WEBHOOK, then: Some(extensions::mutating_webhook) },
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
    code("apiextensions/v1.CustomResourceDefinition", extensions::definition),
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
    Rule { of: "resource/v1.ExactDeviceRequest", fields: DEVICES, then: Some(others::device_request) },
    Rule { of: "resource/v1.DeviceSubRequest", fields: DEVICES, then: Some(others::device_request) },
    code("resource/v1.Device", others::device),
];
