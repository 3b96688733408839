//! All controllers by name, and which of them run.

use std::future::Future;
use std::pin::Pin;
use std::str::FromStr;

use crate::context::Context;

type Running = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A controller that runs over any API.
pub struct Controller {
    /// As kube-controller-manager calls it.
    pub name: &'static str,
    /// As it was called before.
    pub alias: &'static str,
    pub run: fn(Context) -> Running,
}

macro_rules! controllers {
    ($($name:literal $alias:literal $run:path;)*) => {
        /// Those that can be chosen.
        pub const CONTROLLERS: &[Controller] = &[
            $(Controller { name: $name, alias: $alias, run: |context| Box::pin($run(context)) },)*
        ];
    };
}

// Each is a row: its name, how it was called before, what it does.
controllers! {
    "certificatesigningrequest-approving-controller" "csrapproving" crate::certificates::approve::run;
    "certificatesigningrequest-cleaner-controller" "csrcleaner" crate::certificates::clean::run;
    "certificatesigningrequest-signing-controller" "csrsigning" crate::certificates::sign::run;
    "clusterrole-aggregation-controller" "clusterrole-aggregation" crate::roles::run;
    "cronjob-controller" "cronjob" crate::cron_job::run;
    "daemonset-controller" "daemonset" crate::daemon_set::run;
    "deployment-controller" "deployment" crate::deployment::run;
    "disruption-controller" "disruption" crate::disruption::run;
    "endpoints-controller" "endpoint" crate::endpoints::run;
    "endpointslice-controller" "endpointslice" crate::endpoint_slice::run;
    "endpointslice-mirroring-controller" "endpointslicemirroring" crate::endpoint_slice_mirroring::run;
    "garbage-collector-controller" "garbagecollector" crate::garbage_collector::run;
    "horizontal-pod-autoscaler-controller" "horizontalpodautoscaling" crate::autoscaling::run;
    "job-controller" "job" crate::job::run;
    "namespace-controller" "namespace" crate::namespace::run;
    "node-lifecycle-controller" "nodelifecycle" crate::node_lifecycle::run;
    "persistentvolume-binder-controller" "persistentvolume-binder" crate::volume_binding::run;
    "persistentvolume-protection-controller" "pv-protection" crate::protection::run_volumes;
    "persistentvolumeclaim-protection-controller" "pvc-protection" crate::protection::run_claims;
    "pod-garbage-collector-controller" "podgc" crate::pod_garbage_collector::run;
    "replicaset-controller" "replicaset" crate::replica_set::run;
    "replicationcontroller-controller" "replicationcontroller" crate::replica_set::run_replication_controllers;
    "resourcequota-controller" "resourcequota" crate::quota::run;
    "root-ca-certificate-publisher-controller" "root-ca-cert-publisher" crate::belongings::run_trust;
    "serviceaccount-controller" "serviceaccount" crate::belongings::run_accounts;
    "serviceaccount-token-controller" "serviceaccount-token" crate::tokens::run;
    "statefulset-controller" "statefulset" crate::stateful_set::run;
    "taint-eviction-controller" "taint-eviction-controller" crate::taint_eviction::run;
    "ttl-after-finished-controller" "ttl-after-finished" crate::ttl_after_finished::run;
    "volumeattributesclass-protection-controller" "vac-protection" crate::protection::run_attributes;
}

/// Those that only an Atoll has, in the same words.
pub const OWN: &[(&str, &str)] = &[
    ("cluster-health-controller", "clusterhealth"),
    ("cluster-push-controller", "clusterpush"),
    ("kcp-cluster-controller", "kcpcluster"),
    ("object-status-controller", "objectstatus"),
    ("placement-follower-controller", "placementfollower"),
    ("workspace-controller", "workspace"),
];

/// All names, with the ones they had before.
fn names() -> impl Iterator<Item = (&'static str, &'static str)> + Clone {
    CONTROLLERS.iter().map(|row| (row.name, row.alias)).chain(OWN.iter().copied())
}

/// Which controllers run: `*` for all, `name` for one, `-name` for all but one; of two words about the same one the first
/// counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    words: Vec<String>,
}

impl Default for Choice {
    fn default() -> Self {
        Choice { words: vec!["*".into()] }
    }
}

impl Choice {
    /// Whether a controller runs, by its name or the one it had before.
    pub fn includes(&self, name: &str, alias: &str) -> bool {
        let about = |word: &&String| {
            let bare = word.strip_prefix('-').unwrap_or(word);
            bare == name || bare == alias
        };
        match self.words.iter().find(about) {
            Some(word) => !word.starts_with('-'),
            None => self.words.iter().any(|word| word == "*"),
        }
    }

    /// The same, by the name it had before alone.
    pub fn includes_alias(&self, alias: &str) -> bool {
        names().any(|(name, known)| known == alias && self.includes(name, alias))
    }

    /// Whether any runs at all.
    pub fn any(&self) -> bool {
        self.words.iter().any(|word| !word.starts_with('-'))
    }
}

impl FromStr for Choice {
    type Err = String;

    /// `true` and `false` stand for all and none.
    fn from_str(text: &str) -> Result<Self, String> {
        let words: Vec<String> = match text {
            "true" => vec!["*".into()],
            "false" | "" => Vec::new(),
            list => list.split(',').map(|word| word.trim().to_string()).collect(),
        };
        let known: Vec<(&str, &str)> = names().collect();
        for word in &words {
            let bare = word.strip_prefix('-').unwrap_or(word);
            if bare != "*" && known.iter().all(|(name, alias)| bare != *name && bare != *alias) {
                let mut names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
                names.sort_unstable();
                return Err(format!("there is no controller {bare:?}; there are {}", names.join(", ")));
            }
        }
        Ok(Choice { words })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controllers_are_chosen_as_upstream_does() {
        for (text, deployment, endpoints, any) in [
            ("*", true, true, true),
            ("true", true, true, true),
            ("false", false, false, false),
            ("", false, false, false),
            ("*,-endpoint", true, false, true),
            ("-endpoints-controller,*", true, false, true),
            ("deployment", true, false, true),
            ("deployment, endpoint", true, true, true),
            ("-endpoint", false, false, false),
            ("endpoint,-endpoint,*", true, true, true),
        ] {
            let choice: Choice = text.parse().expect("all of them are known");
            let of = |name, alias| choice.includes(name, alias);
            let found = (
                of("deployment-controller", "deployment"),
                of("endpoints-controller", "endpoint"),
                choice.any(),
            );
            assert_eq!(found, (deployment, endpoints, any), "{text}");
        }
        let error = "*,-nobody".parse::<Choice>().unwrap_err();
        assert!(
            error.starts_with("there is no controller \"nobody\"; there are certificatesigning"),
            "{error}"
        );
    }

    #[test]
    fn names_are_of_one_controller_each() {
        let rows = names();
        let mut names: Vec<&str> =
            rows.clone().map(|(name, _)| name).chain(rows.map(|(_, alias)| alias)).collect();
        names.sort_unstable();
        names.dedup();
        // The newest of them never had another name.
        let same = CONTROLLERS.iter().filter(|row| row.name == row.alias).count();
        assert_eq!(names.len() + same, 2 * (CONTROLLERS.len() + OWN.len()));
    }
}
