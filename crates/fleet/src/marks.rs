//! Marks: labels and annotations by which objects in clusters are recognized.

/// Label of all objects that Atoll creates in a cluster; its value is the id of the control plane.
pub const CONTROL_PLANE: &str = "atoll.dev/control-plane";
/// Annotation of an object: the id of its workspace. Label of a namespace that an administrator of the
/// cluster created: the id of the workspace that may use it although it is not the registering workspace.
pub const WORKSPACE: &str = "atoll.dev/workspace";
/// Annotation: uid above.
pub const UID: &str = "atoll.dev/uid";
/// Annotation: namespace and name above.
pub const SOURCE: &str = "atoll.dev/source";
/// Annotation: generation above of the last applied shape.
pub const GENERATION: &str = "atoll.dev/generation";
/// Annotation: hash of the last applied shape.
pub const APPLIED: &str = "atoll.dev/applied";
/// Annotation of an object with an earlier Pod template, because its share is held in a rollout.
pub const HELD: &str = "atoll.dev/held";
/// Annotation of an adopted object, which existed before.
pub const ADOPTED: &str = "atoll.dev/adopted";
/// Annotation above: the digests of Pod templates that were adopted, by cluster, such as `east=x,west=y`. They
/// stay as they are in the cluster until the template changes.
pub const ADOPTED_TEMPLATES: &str = "atoll.dev/adopted-templates";
/// Annotation of an object that is being released and must be left alone.
pub const RELEASED: &str = "atoll.dev/released";
/// Annotation: released objects that refer to it, such as `deployments.apps/web`. The object is never
/// deleted, but released too.
pub const KEEP: &str = "atoll.dev/keep";
/// Annotation above: the drift policy.
pub const DRIFT: &str = "atoll.dev/drift";
/// Annotation of a namespace: its locator as JSON.
pub const NAMESPACE: &str = "atoll.dev/namespace";
/// Annotation of a namespace: the Pod Security labels that a syncer has set, as JSON.
pub const POD_SECURITY: &str = "atoll.dev/pod-security";
/// Label of a namespace that stands for one with another name: the name that it would have if Atoll had
/// created it, so that it can be found.
pub const STANDS_FOR: &str = "atoll.dev/stands-for";
/// Annotation above: the placement as JSON.
pub const PLACEMENT: &str = "atoll.dev/placement";
/// Annotation of a Cluster shown in another workspace: the path of its registering workspace.
pub const REGISTERED_IN: &str = "atoll.dev/registered-in";
/// Prefix of all marks.
pub const PREFIX: &str = "atoll.dev/";

/// Namespace for Atoll's own objects, in workspaces and in clusters.
pub const SYSTEM_NAMESPACE: &str = "atoll-system";
/// ConfigMap in a cluster with the control plane that it has joined.
pub const CLAIM: &str = "atoll-claim";
/// Lease of the syncer in a cluster.
pub const LEASE: &str = "atoll-syncer";
/// Label of objects above that concern a cluster; its value is the cluster's name.
pub const CLUSTER: &str = "atoll.dev/cluster";
/// Annotation of a Secret with credentials: their expiry.
pub const EXPIRES: &str = "atoll.dev/expires";
/// Annotation of the Lease above: whether the syncer is connected, `open` or `closed`.
pub const VIEW: &str = "atoll.dev/view";
/// Annotation of the Lease above: whether the agent has a tunnel, `open` or `closed`.
pub const TUNNEL: &str = "atoll.dev/tunnel";
/// Annotation of the Lease below: start and reason of an outage of the control plane.
pub const LOST: &str = "atoll.dev/control-plane-lost";
/// Label of a ConfigMap in root's `atoll-system` that vouches for a kubelet; its value is the id of the
/// workspace of its nodes.
pub const KUBELETS: &str = "atoll.dev/kubelets";
/// Annotation of an inherited CustomResourceDefinition: the name of the cluster that it was imported from.
pub const IMPORTED_FROM: &str = "atoll.dev/imported-from";
/// Field manager of the syncer.
pub const MANAGER: &str = "atoll";
/// Field manager that marks objects which Atoll did not create.
pub const ADOPTER: &str = "atoll-adopt";

/// Returns the name of the Lease above that is renewed with every heartbeat of a cluster.
pub fn heartbeat(cluster: &str) -> String {
    format!("cluster-{cluster}")
}
