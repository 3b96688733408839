//! How objects in clusters say whose they are.

/// Label of everything that Atoll made in a cluster; its value is the id of the control plane.
pub const CONTROL_PLANE: &str = "atoll.dev/control-plane";
/// Annotation of an object: the id of the workspace that it is from. Label of a namespace that an administrator of the cluster
/// has made: the id of the workspace that may use it, although the Cluster is registered in another one.
pub const WORKSPACE: &str = "atoll.dev/workspace";
/// Its uid there.
pub const UID: &str = "atoll.dev/uid";
/// Its namespace and name there.
pub const SOURCE: &str = "atoll.dev/source";
/// Its generation there when it was last sent.
pub const GENERATION: &str = "atoll.dev/generation";
/// What was sent, as a hash.
pub const APPLIED: &str = "atoll.dev/applied";
/// It was there before Atoll, and was adopted.
pub const ADOPTED: &str = "atoll.dev/adopted";
/// It is being let go: whatever else it says, it is nobody's.
pub const RELEASED: &str = "atoll.dev/released";
/// Something that was let go refers to it, such as `deployments.apps/web`: it is never deleted, but let go as well.
pub const KEEP: &str = "atoll.dev/keep";
/// Above: what becomes of changes that others make in clusters.
pub const DRIFT: &str = "atoll.dev/drift";
/// On a namespace: the one above that it stands for, as JSON.
pub const NAMESPACE: &str = "atoll.dev/namespace";
/// On a namespace: the Pod Security labels that a syncer has written there, as JSON.
pub const POD_SECURITY: &str = "atoll.dev/pod-security";
/// Label of a namespace that stands for one of another name, with the name that it would have if it had been made for that: so it
/// is found.
pub const STANDS_FOR: &str = "atoll.dev/stands-for";
/// Above: where an object shall be, as JSON.
pub const PLACEMENT: &str = "atoll.dev/placement";
/// On a Cluster that is shown in another workspace: the path of the workspace in which it is registered.
pub const REGISTERED_IN: &str = "atoll.dev/registered-in";
/// What all of ours begin with.
pub const PREFIX: &str = "atoll.dev/";

/// Where Atoll keeps what is its own, in workspaces and in clusters.
pub const SYSTEM_NAMESPACE: &str = "atoll-system";
/// ConfigMap in a cluster that says which control plane it belongs to.
pub const CLAIM: &str = "atoll-claim";
/// Lease in a cluster that whoever syncs renews.
pub const LEASE: &str = "atoll-syncer";
/// Label of what is kept above about a cluster; its value is the cluster's name.
pub const CLUSTER: &str = "atoll.dev/cluster";
/// On a Secret with credentials: until when they are good.
pub const EXPIRES: &str = "atoll.dev/expires";
/// On the Lease above: whether whoever syncs is connected, `open` or `closed`.
pub const VIEW: &str = "atoll.dev/view";
/// On the Lease below: since when the control plane is not reached, and why.
pub const LOST: &str = "atoll.dev/control-plane-lost";
/// Label of a ConfigMap in root's `atoll-system` that vouches for a kubelet; its value is the id of the workspace of its nodes.
pub const KUBELETS: &str = "atoll.dev/kubelets";
/// Who manages fields in clusters.
pub const MANAGER: &str = "atoll";
/// Who marks there what was not made by us.
pub const ADOPTER: &str = "atoll-adopt";

/// The Lease above that is renewed whenever something is heard of a cluster.
pub fn heartbeat(cluster: &str) -> String {
    format!("cluster-{cluster}")
}
