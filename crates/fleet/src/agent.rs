//! Names of what an agent in pull mode uses in the control plane and in its cluster.

/// Prefix of the users of agents.
const USER: &str = "system:atoll:agent:";

/// Annotation of the Secret of a join token: uid of the Cluster.
pub const CLUSTER_UID: &str = "atoll.dev/cluster-uid";
/// Annotation of the Secret of a join token that was used: the key for which a certificate was issued.
pub const USED_FOR: &str = "atoll.dev/used-for";
/// Annotation of the same Secret: the certificate that was issued last for that key, by the ID of its users'
/// credential.
pub const ISSUED: &str = "atoll.dev/issued-certificate";
/// The Secret in a cluster with the address of the control plane and the agent's credential, and the agent's
/// Deployment.
pub const AGENT: &str = "atoll-agent";

/// Returns the user of the agent of a Cluster. Another Cluster of the same name has another agent.
pub fn user(cluster: &str, uid: &str) -> String {
    format!("{USER}{cluster}:{uid}")
}

/// Returns the cluster and the uid in the name of an agent's user.
pub fn cluster_of(user: &str) -> Option<(&str, &str)> {
    user.strip_prefix(USER)?.split_once(':')
}

/// Name of the ServiceAccount above that an agent joins with, and of the Secret that its token is bound to.
pub fn join_account(cluster: &str) -> String {
    format!("join-{cluster}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_name_their_cluster() {
        let user = user("east.example", "b-1");
        assert_eq!(cluster_of(&user), Some(("east.example", "b-1")));
        assert_eq!(cluster_of("system:atoll:agent:east"), None);
        assert_eq!(cluster_of("ann"), None);
    }
}
