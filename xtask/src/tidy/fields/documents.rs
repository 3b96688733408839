//! Names in documents that no schema in the repository describes. A word is known only in the files that read or write
//! the document; one that is not used there any more must be removed.

pub struct Document {
    /// The beginnings of the paths of the files.
    pub files: &'static [&'static str],
    /// The document, and its specification if there is one.
    pub reason: &'static str,
    pub words: &'static [&'static str],
}

pub const DOCUMENTS: &[Document] = &[
    Document {
        files: &["crates/"],
        reason: "resources in lists of amounts (k8s.io/api/core/v1, ResourceName)",
        words: &["cpu", "memory"],
    },
    Document {
        files: &["crates/quota/"],
        reason: "resources that a quota counts (k8s.io/api/core/v1, ResourceName)",
        words: &["services"],
    },
    Document {
        files: &["crates/atoll/src/kubeconfig", "crates/client/src/kubeconfig"],
        reason: "a kubeconfig (k8s.io/client-go/tools/clientcmd/api/v1)",
        words: &[
            "auth-provider",
            "client-certificate-data",
            "client-key-data",
            "context",
            "contexts",
            "current-context",
            "extension",
            "extensions",
            "insecure-skip-tls-verify",
            "tokenFile",
            "users",
        ],
    },
    Document {
        files: &["crates/atoll/src/kubeconfig/exec.rs"],
        reason: "an ExecCredential (k8s.io/client-go/pkg/apis/clientauthentication/v1)",
        words: &["clientCertificateData", "clientKeyData"],
    },
    Document {
        files: &["crates/atoll/src/", "crates/syncer/src/heartbeat.rs"],
        reason: "the response of /version (k8s.io/apimachinery/pkg/version)",
        words: &["gitVersion"],
    },
    Document {
        files: &["crates/authn/src/service_account", "crates/syncer/src/renewal.rs"],
        reason: "the header and the claims of a token (RFC 7515, RFC 7519; pkg/serviceaccount/claims.go)",
        words: &[
            "aud",
            "crit",
            "exp",
            "iat",
            "iss",
            "jti",
            "nbf",
            "node",
            "pod",
            "serviceaccount",
            "sub",
            "warnafter",
        ],
    },
    Document {
        files: &["crates/openapi/src/"],
        reason: "an OpenAPI document, version 2 or 3, with Kubernetes' extensions",
        words: &[
            "body",
            "consumes",
            "discriminator",
            "in",
            "info",
            "operationId",
            "produces",
            "requestBody",
            "responses",
            "schemes",
            "security",
            "securityDefinitions",
            "swagger",
            "tags",
            "x-kubernetes-action",
            "x-kubernetes-group-version-kind",
            "x-kubernetes-selectable-fields",
            "x-kubernetes-unions",
        ],
    },
    Document {
        files: &["crates/fleet/src/overrides/", "crates/merge/src/json_patch/"],
        reason: "an operation of a JSON patch (RFC 6902)",
        words: &["op"],
    },
    Document {
        files: &["crates/controllers/src/history.rs", "crates/merge/src/strategic_merge.rs"],
        reason: "a directive of a strategic merge patch",
        words: &["$patch"],
    },
    Document {
        files: &["crates/controllers/src/autoscaling/metrics.rs"],
        reason: "a value of custom.metrics.k8s.io (k8s.io/metrics/pkg/apis/custom_metrics/v1beta2)",
        words: &["windowSeconds"],
    },
    Document {
        files: &["crates/sim/src/endpoint/statistics.rs"],
        reason: "the summary of a kubelet (k8s.io/kubelet/pkg/apis/stats/v1alpha1)",
        words: &["availableBytes"],
    },
    Document {
        files: &["crates/server/src/trace.rs"],
        reason: "a span of the OpenTelemetry protocol",
        words: &["parentSpanId"],
    },
    Document {
        files: &["crates/server/src/paging.rs"],
        reason: "a continue token (k8s.io/apiserver/pkg/storage/continue.go)",
        words: &["rest", "rv", "v"],
    },
    Document {
        files: &["crates/atoll/src/snapshot.rs", "crates/server/src/snapshot.rs"],
        reason: "a snapshot, and the response to restoring one",
        words: &["atoll", "changed", "created", "deleted", "end", "placed", "sealed", "taken"],
    },
    Document {
        files: &["crates/atoll/src/playground/directory.rs"],
        reason: "the settings of a playground",
        words: &["atoll", "sample"],
    },
    Document {
        files: &["crates/atoll/src/command/sim.rs", "crates/atoll/src/sim/", "crates/sim/src/faults/"],
        reason: "the faults of a simulated cluster",
        words: &["api", "faults", "jitter", "node", "rate", "removed", "skew"],
    },
    Document {
        files: &["crates/registry/src/definitions/compile.rs"],
        reason: "the state of a definition, which is compiled with it",
        words: &["accepted", "established", "reported"],
    },
    Document {
        files: &["crates/registry/src/strategy/secret.rs"],
        reason: "a key of Secrets of the type kubernetes.io/basic-auth",
        words: &["password"],
    },
    Document {
        files: &["crates/server/src/connect/trusted_kubelets.rs"],
        reason: "the ConfigMap that names trusted kubelets",
        words: &["certificateAuthority"],
    },
    Document {
        files: &["crates/registry/src/strategy/", "crates/validation/src/"],
        reason: "upstream's messages, which misspell these fields or use names of Go",
        words: &[
            "HostIPC",
            "HostPID",
            "JSONPath",
            "LoadBalancerSourceRanges",
            "Phase",
            "Spec",
            "Type",
            "attachedRequired",
            "initiatorname",
            "nodeSwapStatus",
            "persistentvolumesource",
            "rollback",
            "targetportal",
            "validation",
            "webhookClientConfig",
        ],
    },
];
