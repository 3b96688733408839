//! The catalog of controllers, and the selection of those that run.

// upstream: cmd/kube-controller-manager/names/controller_names.go
// upstream: staging/src/k8s.io/controller-manager/app/helper.go

use std::future::Future;
use std::pin::Pin;
use std::str::FromStr;

use crate::context::Context;

type ControllerFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A controller that runs against any API server.
pub struct Controller {
    /// The name in kube-controller-manager.
    pub name: &'static str,
    /// The former name, which is still accepted.
    pub alias: &'static str,
    pub run: fn(Context) -> ControllerFuture,
}

macro_rules! controllers {
    ($($name:literal $alias:literal $run:path;)*) => {
        /// The controllers that can be selected.
        pub const CONTROLLERS: &[Controller] = &[
            $(Controller { name: $name, alias: $alias, run: |context| Box::pin($run(context)) },)*
        ];
    };
}

// Each row: name, former name, run function.
controllers! {
    "certificatesigningrequest-approving-controller" "csrapproving" crate::identity::certificates::approve::run;
    "certificatesigningrequest-cleaner-controller" "csrcleaner" crate::identity::certificates::clean::run;
    "certificatesigningrequest-signing-controller" "csrsigning" crate::identity::certificates::sign::run;
    "clusterrole-aggregation-controller" "clusterrole-aggregation" crate::identity::cluster_role_aggregation::run;
    "cronjob-controller" "cronjob" crate::workloads::cron_job::run;
    "daemonset-controller" "daemonset" crate::workloads::daemon_set::run;
    "deployment-controller" "deployment" crate::workloads::deployment::run;
    "disruption-controller" "disruption" crate::workloads::disruption::run;
    "endpoints-controller" "endpoint" crate::network::endpoints::run;
    "endpointslice-controller" "endpointslice" crate::network::endpoint_slice::run;
    "endpointslice-mirroring-controller" "endpointslicemirroring" crate::network::endpoint_slice_mirroring::run;
    "garbage-collector-controller" "garbagecollector" crate::deletion::garbage_collector::run;
    "horizontal-pod-autoscaler-controller" "horizontalpodautoscaling" crate::workloads::autoscaling::run;
    "job-controller" "job" crate::workloads::job::run;
    "namespace-controller" "namespace" crate::deletion::namespace::run;
    "node-lifecycle-controller" "nodelifecycle" crate::nodes::node_lifecycle::run;
    "persistentvolume-binder-controller" "persistentvolume-binder" crate::storage::volume_binding::run;
    "persistentvolume-protection-controller" "pv-protection" crate::storage::protection::run_volumes;
    "persistentvolumeclaim-protection-controller" "pvc-protection" crate::storage::protection::run_claims;
    "pod-garbage-collector-controller" "podgc" crate::workloads::pod_garbage_collector::run;
    "replicaset-controller" "replicaset" crate::workloads::replica_set::run;
    "replicationcontroller-controller" "replicationcontroller" crate::workloads::replica_set::run_replication_controllers;
    "resourcequota-controller" "resourcequota" crate::quota::run;
    "root-ca-certificate-publisher-controller" "root-ca-cert-publisher" crate::identity::service_account_and_root_ca::run_root_ca;
    "serviceaccount-controller" "serviceaccount" crate::identity::service_account_and_root_ca::run_service_accounts;
    "serviceaccount-token-controller" "serviceaccount-token" crate::identity::service_account_tokens::run;
    "statefulset-controller" "statefulset" crate::workloads::stateful_set::run;
    "taint-eviction-controller" "taint-eviction-controller" crate::nodes::taint_eviction::run;
    "ttl-after-finished-controller" "ttl-after-finished" crate::workloads::ttl_after_finished::run;
    "volumeattributesclass-protection-controller" "vac-protection" crate::storage::protection::run_attributes;
}

/// Names and former names of the controllers that only Atoll has.
pub const ATOLL_CONTROLLERS: &[(&str, &str)] = &[
    ("cluster-health-controller", "clusterhealth"),
    ("cluster-push-controller", "clusterpush"),
    ("endpointslice-merging-controller", "endpointslicemerging"),
    ("object-status-controller", "objectstatus"),
    ("placement-follower-controller", "placementfollower"),
    ("placement-scheduler-controller", "placementscheduler"),
    ("workspace-controller", "workspace"),
];

/// Aliases of the controllers that run only in the server: they need its keys, or its connections to clusters.
const SERVER_CONTROLLERS: [&str; 4] =
    ["clusterpush", "csrsigning", "root-ca-cert-publisher", "serviceaccount-token"];

/// Returns all names with their aliases.
fn names() -> impl Iterator<Item = (&'static str, &'static str)> + Clone {
    CONTROLLERS.iter().map(|row| (row.name, row.alias)).chain(ATOLL_CONTROLLERS.iter().copied())
}

/// Selection of controllers: `*` for all, `name` for one, `-name` to exclude one. The first entry that names
/// a controller decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllerSelection {
    entries: Vec<String>,
}

impl Default for ControllerSelection {
    fn default() -> Self {
        ControllerSelection { entries: vec!["*".into()] }
    }
}

impl ControllerSelection {
    /// Whether a controller is selected, by its name or alias.
    pub fn includes(&self, name: &str, alias: &str) -> bool {
        let names_it = |entry: &&String| {
            let bare = entry.strip_prefix('-').unwrap_or(entry);
            bare == name || bare == alias
        };
        match self.entries.iter().find(names_it) {
            Some(entry) => !entry.starts_with('-'),
            None => self.entries.iter().any(|entry| entry == "*"),
        }
    }

    /// Whether the controller with this alias is selected.
    pub fn includes_alias(&self, alias: &str) -> bool {
        names().any(|(name, known)| known == alias && self.includes(name, alias))
    }

    /// Returns the controllers that are selected by name although they run only in the server.
    pub fn only_in_server(&self) -> Vec<&'static str> {
        let is_named = |(name, alias): &(&str, &str)| {
            let mut named = self.entries.iter().filter(|entry| entry == name || entry == alias);
            named.next().is_some() && self.includes(name, alias)
        };
        let of_server = names().filter(|(_, alias)| SERVER_CONTROLLERS.contains(alias));
        of_server.filter(is_named).map(|(name, _)| name).collect()
    }

    /// Whether any controller is selected.
    pub fn any(&self) -> bool {
        self.entries.iter().any(|entry| !entry.starts_with('-'))
    }
}

impl FromStr for ControllerSelection {
    type Err = String;

    /// Parses a list of controllers of this crate.
    fn from_str(text: &str) -> Result<Self, String> {
        ControllerSelection::parse(text, &[])
    }
}

impl ControllerSelection {
    /// Parses the list; `true` and `false` stand for all and none. `others` are the names and aliases of
    /// controllers that are not in this crate.
    ///
    /// # Errors
    ///
    /// The list contains an unknown name.
    pub fn parse(text: &str, others: &[(&str, &str)]) -> Result<Self, String> {
        let entries: Vec<String> = match text {
            "true" => vec!["*".into()],
            "false" | "" => Vec::new(),
            list => list.split(',').map(|entry| entry.trim().to_string()).collect(),
        };
        let mut known: Vec<(&str, &str)> = others.to_vec();
        known.extend(names().map(|(name, alias)| -> (&str, &str) { (name, alias) }));
        for entry in &entries {
            let bare = entry.strip_prefix('-').unwrap_or(entry);
            if bare != "*" && known.iter().all(|(name, alias)| bare != *name && bare != *alias) {
                let mut names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
                names.sort_unstable();
                return Err(format!("unknown controller {bare:?}; known controllers: {}", names.join(", ")));
            }
        }
        Ok(ControllerSelection { entries })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controllers_are_selected_as_upstream_does() {
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
            let selection: ControllerSelection = text.parse().expect("a valid selection");
            let of = |name, alias| selection.includes(name, alias);
            let found = (
                of("deployment-controller", "deployment"),
                of("endpoints-controller", "endpoint"),
                selection.any(),
            );
            assert_eq!(found, (deployment, endpoints, any), "{text}");
        }
        let error = "*,-nobody".parse::<ControllerSelection>().unwrap_err();
        assert!("ours".parse::<ControllerSelection>().is_err());
        let others = [("our-controller", "ours")];
        let selection = ControllerSelection::parse("ours", &others).expect("it is known");
        assert!(selection.includes("our-controller", "ours") && !selection.includes_alias("deployment"));
        assert!(
            error.starts_with("unknown controller \"nobody\"; known controllers: certificatesigning"),
            "{error}"
        );
    }

    #[test]
    fn controllers_of_the_server_are_known() {
        let all = names();
        assert!(SERVER_CONTROLLERS.iter().all(|alias| all.clone().any(|(_, known)| known == *alias)));
        for (text, expected) in [
            ("*", &[][..]),
            ("placementscheduler,-clusterpush", &[]),
            ("clusterpush", &["cluster-push-controller"]),
            ("*,serviceaccount-token-controller", &["serviceaccount-token-controller"]),
        ] {
            let selection: ControllerSelection = text.parse().expect("a valid selection");
            assert_eq!(selection.only_in_server(), expected, "{text}");
        }
    }

    #[test]
    fn names_are_unique() {
        let rows = names();
        let mut names: Vec<&str> =
            rows.clone().map(|(name, _)| name).chain(rows.map(|(_, alias)| alias)).collect();
        names.sort_unstable();
        names.dedup();
        // The taint eviction controller has no former name.
        let same = CONTROLLERS.iter().filter(|row| row.name == row.alias).count();
        assert_eq!(names.len() + same, 2 * (CONTROLLERS.len() + ATOLL_CONTROLLERS.len()));
    }
}
