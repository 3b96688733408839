//! What can be wrong with a cluster: each thing has a reason of its own, and words that say what to do about it.

/// What a problem says about whether the cluster's API can be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// It answers, and that is not the problem.
    Answers,
    Fails,
    /// Nobody has tried.
    Unknown,
}

/// What can be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Problem {
    pub reason: &'static str,
    pub reach: Reach,
    /// Whether it may be over in a moment, without anybody doing anything: then it counts only once it has lasted.
    pub passes: bool,
    /// What happened.
    what: &'static str,
    /// What to do; `NAME` stands for the cluster.
    next: &'static str,
}

const fn problem(
    reason: &'static str,
    reach: Reach,
    passes: bool,
    what: &'static str,
    next: &'static str,
) -> Problem {
    Problem { reason, reach, passes, what, next }
}

/// By the words that `atoll-client` has for why a server was not reached, and a few more.
pub const PROBLEMS: [Problem; 24] = [
    problem(
        "NameNotResolved",
        Reach::Fails,
        true,
        "the name of the cluster's API server has no address",
        "see whether DNS knows it where the syncer runs (getent hosts); if the address has changed: \
         atoll cluster join NAME --kubeconfig FILE",
    ),
    problem(
        "ConnectionRefused",
        Reach::Fails,
        true,
        "nobody listens where the cluster's API server was",
        "see whether it runs (kubectl --kubeconfig FILE get --raw /readyz); if the address has changed: \
         atoll cluster join NAME --kubeconfig FILE",
    ),
    problem(
        "TimedOut",
        Reach::Fails,
        true,
        "the cluster's API server does not answer in time",
        "see whether a network or a firewall is in the way, or whether it is too busy: \
         kubectl --kubeconfig FILE get --raw /readyz",
    ),
    problem(
        "Unreachable",
        Reach::Fails,
        true,
        "the cluster's API server cannot be reached",
        "see whether others can: kubectl --kubeconfig FILE get --raw /readyz",
    ),
    problem(
        "CertificateExpired",
        Reach::Fails,
        false,
        "the certificate of the cluster's API server has expired",
        "renew it there (with kubeadm: kubeadm certs renew apiserver) and see that the clocks are right (date)",
    ),
    problem(
        "CertificateNotYetValid",
        Reach::Fails,
        false,
        "the certificate of the cluster's API server is not valid yet",
        "see that the clocks there and where the syncer runs are right: date",
    ),
    problem(
        "CertificateUntrusted",
        Reach::Fails,
        false,
        "who answers for the cluster has a certificate of another authority than the one that was known when it joined",
        "if its authority was replaced: atoll cluster join NAME --kubeconfig FILE; if not, somebody else answers at that \
         address",
    ),
    problem(
        "CertificateForAnotherName",
        Reach::Fails,
        false,
        "who answers for the cluster has a certificate for another name",
        "join with an address that is in the certificate: atoll cluster join NAME --kubeconfig FILE",
    ),
    problem(
        "AnswerTooLarge",
        Reach::Answers,
        false,
        "the cluster's API server sends more in one answer than any object needs, so it was not read",
        "see what is so large, and whether a proxy answers in its place: kubectl --kubeconfig FILE get --raw \
         '/api/v1/pods?limit=1' | wc -c; if somebody else answers at that address: atoll cluster remove NAME",
    ),
    problem(
        "MemoryBudgetExceeded",
        Reach::Answers,
        false,
        "what the cluster's API server sends takes more memory than one cluster may use, so a part of it was not read",
        "see how many Pods and nodes it has: kubectl --kubeconfig FILE get --raw '/metrics' | grep \
         apiserver_storage_objects; split a cluster that is too large, or stop syncing it: atoll cluster remove NAME",
    ),
    problem(
        "AddressRefused",
        Reach::Unknown,
        false,
        "a workspace below root may not make the control plane connect to this address",
        "join it with an address that others can reach (atoll cluster join NAME --kubeconfig FILE), let an administrator \
         register it in root, or start the control plane with --allow-tenant-addresses",
    ),
    problem(
        "Overloaded",
        Reach::Fails,
        true,
        "the cluster's API server asks to be left alone for a while",
        "it is tried again by itself; see what keeps it busy: kubectl --kubeconfig FILE get --raw '/readyz?verbose'",
    ),
    problem(
        "ServerFails",
        Reach::Fails,
        true,
        "the cluster's API server answers that something is wrong with itself",
        "it is tried again by itself; see what is wrong: kubectl --kubeconfig FILE get --raw '/readyz?verbose'",
    ),
    problem(
        "CredentialsRefused",
        Reach::Fails,
        false,
        "the cluster does not accept the credentials; nothing is deleted there",
        "make new ones: atoll cluster join NAME --kubeconfig FILE",
    ),
    problem(
        "CredentialsExpired",
        Reach::Fails,
        false,
        "the credentials for the cluster have expired; nothing is deleted there",
        "make new ones: atoll cluster join NAME --kubeconfig FILE",
    ),
    problem(
        "PermissionsMissing",
        Reach::Answers,
        false,
        "the credentials do not allow what is needed",
        "give the account its rights again: atoll cluster join NAME --kubeconfig FILE",
    ),
    problem(
        "CredentialsMissing",
        Reach::Unknown,
        false,
        "there are no credentials for the cluster",
        "make some: atoll cluster join NAME --kubeconfig FILE",
    ),
    problem(
        "CredentialsBroken",
        Reach::Unknown,
        false,
        "the credentials for the cluster cannot be used",
        "make new ones: atoll cluster join NAME --kubeconfig FILE",
    ),
    problem(
        "AnotherCluster",
        Reach::Answers,
        false,
        "the credentials lead to another cluster than the one that joined; nothing is written to it",
        "correct them: atoll cluster join NAME --kubeconfig FILE; or take the old one out, if this one replaces it: \
         atoll cluster remove NAME --lost",
    ),
    problem(
        "ClaimedByAnother",
        Reach::Answers,
        false,
        "the cluster belongs to somebody else; nothing is written to it",
        "take it out there first (atoll cluster remove), or, if that one is gone for good: \
         kubectl --kubeconfig FILE --namespace atoll-system delete configmap atoll-claim",
    ),
    problem(
        "HeldByAnother",
        Reach::Answers,
        true,
        "another syncer is at work in the cluster",
        "stop one of the two; who it is: kubectl --kubeconfig FILE --namespace atoll-system get lease atoll-syncer",
    ),
    problem(
        "SyncerSilent",
        Reach::Unknown,
        false,
        "nothing is heard from whoever syncs the cluster, and it is not connected",
        "",
    ),
    problem(
        "SyncerHangs",
        Reach::Unknown,
        false,
        "whoever syncs the cluster was connected but said nothing: it hangs, or its machine or the network does",
        "",
    ),
    problem("SyncerStopped", Reach::Unknown, false, "whoever synced the cluster was stopped", ""),
];

impl Problem {
    /// What is known of a reason, which may be a newer syncer's.
    pub fn find(reason: &str) -> Option<&'static Problem> {
        PROBLEMS.iter().find(|problem| problem.reason == reason)
    }

    /// For people: what happened, as who noticed it has put it, and what to type next.
    pub fn message(&self, cluster: &str, detail: &str) -> String {
        let next = self.next.replace("NAME", cluster);
        let detail = if detail.is_empty() { String::new() } else { format!(" ({detail})") };
        let stop = if next.is_empty() { "" } else { ". Next: " };
        format!("{}{detail}{stop}{next}", self.what)
    }
}

/// What to do about a syncer that is not heard of, by the mode of its Cluster.
pub fn awaken(mode: &str, cluster: &str) -> String {
    match mode {
        "push" => {
            "Next: the control plane syncs it itself; see its log, and that --controllers does not leave \
                   clusterpush out"
                .into()
        }
        _ => format!(
            "Next: see that its syncer runs and reaches this control plane: atoll syncer --from-kubeconfig \
             {cluster}.control-plane.kubeconfig --to-kubeconfig {cluster}.cluster.kubeconfig {cluster}; what it says of itself: \
             kubectl --kubeconfig FILE --namespace atoll-system get lease atoll-syncer --output yaml"
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_thing_that_can_be_wrong_has_a_reason_and_a_command() {
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
            // Conditions have room for this.
            assert!(message.len() < 1024, "{reason}: {message}");
        }
        assert!(awaken("none", "east").contains("atoll syncer --from-kubeconfig"));
        assert!(awaken("push", "east").contains("clusterpush"));
        assert_eq!(Problem::find("Overloaded").map(|problem| problem.reach), Some(Reach::Fails));
        assert_eq!(Problem::find("Else"), None);
    }
}
