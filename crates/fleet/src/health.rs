//! Problems of clusters: each has a reason for the Ready condition, and a message with the next step.

/// Consequence of a problem for the reachability of the cluster's API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// It responds; the problem is another one.
    Answers,
    Fails,
    /// Not known.
    Unknown,
}

/// A problem of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClusterProblem {
    pub reason: &'static str,
    pub reach: Reach,
    /// Whether it may disappear by itself, so that it counts only after some time.
    pub is_transient: bool,
    /// Description of the problem.
    what: &'static str,
    /// Next step; `NAME` stands for the cluster.
    next: &'static str,
}

const fn problem(
    reason: &'static str,
    reach: Reach,
    is_transient: bool,
    what: &'static str,
    next: &'static str,
) -> ClusterProblem {
    ClusterProblem { reason, reach, is_transient, what, next }
}

/// All problems: the connection causes of `atoll-client`, and further ones.
pub const PROBLEMS: [ClusterProblem; 24] = [
    problem(
        "NameNotResolved",
        Reach::Fails,
        true,
        "the name of the cluster's API server cannot be resolved",
        "check that DNS resolves it where the syncer runs (getent hosts); if the address has changed: \
         atoll cluster join NAME --kubeconfig FILE",
    ),
    problem(
        "ConnectionRefused",
        Reach::Fails,
        true,
        "the cluster's API server refuses connections",
        "check whether it runs (kubectl --kubeconfig FILE get --raw /readyz); if the address has changed: \
         atoll cluster join NAME --kubeconfig FILE",
    ),
    problem(
        "TimedOut",
        Reach::Fails,
        true,
        "the cluster's API server does not respond in time",
        "check whether the network or a firewall blocks it, and whether it is overloaded: \
         kubectl --kubeconfig FILE get --raw /readyz",
    ),
    problem(
        "Unreachable",
        Reach::Fails,
        true,
        "the cluster's API server cannot be reached",
        "check whether other clients can reach it: kubectl --kubeconfig FILE get --raw /readyz",
    ),
    problem(
        "CertificateExpired",
        Reach::Fails,
        false,
        "the certificate of the cluster's API server has expired",
        "renew it there (with kubeadm: kubeadm certs renew apiserver) and check that the clocks are right (date)",
    ),
    problem(
        "CertificateNotYetValid",
        Reach::Fails,
        false,
        "the certificate of the cluster's API server is not valid yet",
        "check the clocks there and where the syncer runs: date",
    ),
    problem(
        "CertificateUntrusted",
        Reach::Fails,
        false,
        "the cluster's API server has a certificate of another authority than when the cluster joined",
        "if its authority was replaced: atoll cluster join NAME --kubeconfig FILE; if not, another server responds at that \
         address",
    ),
    problem(
        "CertificateForAnotherName",
        Reach::Fails,
        false,
        "the certificate of the cluster's API server is for another name",
        "join with an address that is in the certificate: atoll cluster join NAME --kubeconfig FILE",
    ),
    problem(
        "AnswerTooLarge",
        Reach::Answers,
        false,
        "a response of the cluster's API server is larger than any object needs, so it was not read",
        "check what is so large, and whether a proxy responds instead: kubectl --kubeconfig FILE get --raw \
         '/api/v1/pods?limit=1' | wc -c; if another server responds at that address: atoll cluster remove NAME",
    ),
    problem(
        "MemoryBudgetExceeded",
        Reach::Answers,
        false,
        "the responses of the cluster's API server take more memory than one cluster may use, so a part of them was not read",
        "check how many Pods and nodes it has: kubectl --kubeconfig FILE get --raw '/metrics' | grep \
         apiserver_storage_objects; split a cluster that is too large, or stop syncing it: atoll cluster remove NAME",
    ),
    problem(
        "AddressRefused",
        Reach::Unknown,
        false,
        "a workspace below root may not make the control plane connect to this address",
        "join it with an address that other machines can reach (atoll cluster join NAME --kubeconfig FILE), ask an administrator to \
         register it in root, or start the control plane with --allow-tenant-addresses",
    ),
    problem(
        "Overloaded",
        Reach::Fails,
        true,
        "the cluster's API server asks clients to back off",
        "the syncer retries; check the load: kubectl --kubeconfig FILE get --raw '/readyz?verbose'",
    ),
    problem(
        "ServerFails",
        Reach::Fails,
        true,
        "the cluster's API server responds with internal errors",
        "the syncer retries; check its health: kubectl --kubeconfig FILE get --raw '/readyz?verbose'",
    ),
    problem(
        "CredentialsRefused",
        Reach::Fails,
        false,
        "the cluster does not accept the credentials; nothing is deleted there",
        "create new ones: atoll cluster join NAME --kubeconfig FILE",
    ),
    problem(
        "CredentialsExpired",
        Reach::Fails,
        false,
        "the credentials for the cluster have expired; nothing is deleted there",
        "create new ones: atoll cluster join NAME --kubeconfig FILE",
    ),
    problem(
        "PermissionsMissing",
        Reach::Answers,
        false,
        "the credentials lack permissions",
        "grant them again: atoll cluster join NAME --kubeconfig FILE",
    ),
    problem(
        "CredentialsMissing",
        Reach::Unknown,
        false,
        "there are no credentials for the cluster",
        "create some: atoll cluster join NAME --kubeconfig FILE",
    ),
    problem(
        "CredentialsBroken",
        Reach::Unknown,
        false,
        "the credentials for the cluster cannot be used",
        "create new ones: atoll cluster join NAME --kubeconfig FILE",
    ),
    problem(
        "AnotherCluster",
        Reach::Answers,
        false,
        "the credentials lead to another cluster than the one that joined; nothing is written to it",
        "correct them: atoll cluster join NAME --kubeconfig FILE; or remove the old one, if this one replaces it: \
         atoll cluster remove NAME --lost",
    ),
    problem(
        "ClaimedByAnother",
        Reach::Answers,
        false,
        "another control plane has claimed the cluster; nothing is written to it",
        "remove it there first (atoll cluster remove), or, if that control plane is gone for good: \
         kubectl --kubeconfig FILE --namespace atoll-system delete configmap atoll-claim",
    ),
    problem(
        "HeldByAnother",
        Reach::Answers,
        true,
        "another syncer holds the lease of the cluster",
        "stop one of the two; to see the other one: kubectl --kubeconfig FILE --namespace atoll-system get lease atoll-syncer",
    ),
    problem(
        "SyncerSilent",
        Reach::Unknown,
        false,
        "the syncer of the cluster sends no heartbeats and is not connected",
        "",
    ),
    problem(
        "SyncerHangs",
        Reach::Unknown,
        false,
        "the syncer of the cluster was connected but sends no heartbeats: it hangs, or its machine or the network does",
        "",
    ),
    problem("SyncerStopped", Reach::Unknown, false, "the syncer of the cluster was stopped", ""),
];

impl ClusterProblem {
    /// Returns the problem with a reason; `None` for a reason of a newer syncer.
    pub fn find(reason: &str) -> Option<&'static ClusterProblem> {
        PROBLEMS.iter().find(|problem| problem.reason == reason)
    }

    /// Returns the message with the details and the next step.
    pub fn message(&self, cluster: &str, detail: &str) -> String {
        let next = self.next.replace("NAME", cluster);
        let detail = if detail.is_empty() { String::new() } else { format!(" ({detail})") };
        let stop = if next.is_empty() { "" } else { ". Next: " };
        format!("{}{detail}{stop}{next}", self.what)
    }
}

/// Returns the next step for a syncer without heartbeats, by the mode of its Cluster.
pub fn syncer_advice(mode: &str, cluster: &str) -> String {
    match mode {
        "push" => {
            "Next: the control plane syncs it itself; check its log, and that --controllers does not disable \
                   clusterpush"
                .into()
        }
        "pull" => format!(
            "Next: check that its agent runs and reaches this control plane, with a kubeconfig of the cluster: kubectl \
             --namespace atoll-system logs deployment/atoll-agent; for a new join token: atoll cluster join {cluster} --mode pull"
        ),
        _ => format!(
            "Next: check that its syncer runs and reaches this control plane: atoll syncer --from-kubeconfig \
             {cluster}.control-plane.kubeconfig --to-kubeconfig {cluster}.cluster.kubeconfig {cluster}; to see its lease: \
             kubectl --kubeconfig FILE --namespace atoll-system get lease atoll-syncer --output yaml"
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_problem_has_a_reason_and_a_command() {
        let reasons: BTreeSet<&str> = PROBLEMS.iter().map(|problem| problem.reason).collect();
        assert_eq!(reasons.len(), PROBLEMS.len());
        for problem in &PROBLEMS {
            let message = problem.message("east", "why");
            let reason = problem.reason;
            assert!(message.contains(" (why)") && !message.contains("NAME"), "{reason}: {message}");
            let is_of_the_syncer = reason.starts_with("Syncer");
            let commands = ["atoll cluster", "kubectl --kubeconfig", "date", "kubeadm certs"];
            let has_command = commands.iter().any(|command| message.contains(command));
            assert!(is_of_the_syncer || has_command, "{reason}: {message}");
            assert!(reason.chars().all(|letter| letter.is_ascii_alphabetic()), "{reason}");
            // The size limit of condition messages.
            assert!(message.len() < 1024, "{reason}: {message}");
        }
        assert!(syncer_advice("none", "east").contains("atoll syncer --from-kubeconfig"));
        assert!(syncer_advice("pull", "east").contains("deployment/atoll-agent"));
        assert!(syncer_advice("push", "east").contains("clusterpush"));
        assert_eq!(ClusterProblem::find("Overloaded").map(|problem| problem.reach), Some(Reach::Fails));
        assert_eq!(ClusterProblem::find("Else"), None);
    }
}
