//! `atoll cluster …` and `atoll place`.

use std::path::PathBuf;

use atoll_meta::names;
use clap::{Args, Subcommand, ValueEnum};

use super::{Connection, LogOptions};
use crate::output::Shown;
use crate::place::shares::{self, Shares};

#[derive(Subcommand)]
pub enum ClusterCommand {
    /// Join a cluster to the current workspace, or renew its credential
    #[command(after_help = JOINING)]
    Join(Box<JoinOptions>),
    /// List the clusters of the current workspace
    #[command(visible_alias = "ls")]
    List {
        #[command(flatten)]
        shown: Shown,
        #[command(flatten)]
        connection: Connection,
    },
    /// Show all that is known of a cluster
    Describe {
        #[command(flatten)]
        cluster: ClusterName,
    },
    /// Place nothing new on a cluster; what is there stays
    Cordon {
        #[command(flatten)]
        cluster: ClusterName,
    },
    /// Place things on a cluster again
    Uncordon {
        #[command(flatten)]
        cluster: ClusterName,
    },
    /// Say that nothing runs on a cluster any more, so that what must run only once can move
    Fence {
        #[command(flatten)]
        cluster: ClusterName,
        /// Say that it may run things again
        #[arg(long)]
        lift: bool,
        /// Do not ask
        #[arg(short, long)]
        yes: bool,
    },
    /// Take a cluster out of the fleet
    #[command(after_help = REMOVING)]
    Remove {
        #[command(flatten)]
        cluster: ClusterName,
        /// Leave running what was placed there, without a trace of Atoll
        #[arg(long, conflicts_with = "lost")]
        keep_workloads: bool,
        /// The cluster is gone for good: do not wait for it
        #[arg(long)]
        lost: bool,
        /// Kubeconfig of an administrator of the cluster, where Atoll's own credential no longer works or only reads
        #[arg(long, value_name = "FILE", conflicts_with = "lost")]
        cluster_kubeconfig: Option<PathBuf>,
        /// Context in it to use instead of the current one
        #[arg(long, value_name = "NAME", requires = "cluster_kubeconfig")]
        cluster_context: Option<String>,
        /// Do not ask
        #[arg(short, long)]
        yes: bool,
    },
}

const JOINING: &str = "\
--kubeconfig is that of an administrator of the cluster. It is used by this command only and not kept: the cluster gets an \
account for the syncer, and that account's token is what is stored. The control plane is the one of $KUBECONFIG or \
~/.kube/config, or of --control-plane-kubeconfig.

Running it again with the same name makes a new token; after a failure it goes on where it stopped. Whoever syncs renews the \
token before it expires.";

const REMOVING: &str = "\
Without --keep-workloads and --lost, what was placed there is deleted there, and the command waits until it is gone. What is \
placed on other clusters stays on those.";

/// One that has joined.
#[derive(Args)]
pub struct ClusterName {
    /// Name of the cluster
    pub name: String,
    #[command(flatten)]
    pub connection: Connection,
}

#[derive(Args, Default)]
pub struct JoinOptions {
    /// What the cluster shall be called
    #[arg(value_parser = cluster_name)]
    pub name: String,

    /// Kubeconfig of the cluster that joins
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: PathBuf,

    /// Context in it to use instead of the current one
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,

    /// Who syncs: the control plane (push), or whoever runs `atoll syncer` by hand (none); push if it is new
    #[arg(long)]
    pub mode: Option<Mode>,

    /// Only look at what runs there: ask for read rights, and show them before they are given
    #[arg(long)]
    pub observe: bool,

    /// API groups of custom resources that may be placed there, besides what Kubernetes has itself
    #[arg(long, value_delimiter = ',', value_name = "GROUPS", value_parser = custom_group, conflicts_with = "observe")]
    pub groups: Vec<String>,

    /// With --mode push: seconds to wait for the first heartbeat; 0 does not wait
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u32).range(0..=3600))]
    pub wait: u32,

    /// With --mode none: directory to write the kubeconfigs for `atoll syncer` to
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub write_to: PathBuf,

    /// Kubeconfig of the control plane to use instead of $KUBECONFIG or ~/.kube/config
    #[arg(long, value_name = "FILE")]
    pub control_plane_kubeconfig: Option<PathBuf>,

    /// Context in it to use instead of the current one
    #[arg(long, value_name = "NAME")]
    pub control_plane_context: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    Push,
    None,
}

impl Mode {
    /// As objects say it.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Push => "push",
            Mode::None => "none",
        }
    }
}

/// How clusters that have joined are looked after.
#[derive(Args)]
pub struct FleetSettings {
    /// Seconds after which a cluster is not ready whose API, syncer or credentials have failed
    #[arg(long, env = "ATOLL_CLUSTER_GRACE_PERIOD", default_value_t = 40, value_name = "SECONDS",
        value_parser = clap::value_parser!(u32).range(4..=86_400))]
    pub cluster_grace_period: u32,

    /// Seconds between heartbeats of clusters, at most half of --cluster-grace-period; a quarter of it if it is not given
    #[arg(long, env = "ATOLL_CLUSTER_HEARTBEAT_INTERVAL", value_name = "SECONDS",
        value_parser = clap::value_parser!(u32).range(1..=43_200))]
    pub cluster_heartbeat_interval: Option<u32>,
}

#[derive(Args)]
pub struct SyncerOptions {
    /// Name of the cluster, as it joined
    pub name: String,

    /// Kubeconfig of the workspace that the cluster joined
    #[arg(long, value_name = "FILE")]
    pub from_kubeconfig: PathBuf,

    /// Kubeconfig of the cluster
    #[arg(long, value_name = "FILE")]
    pub to_kubeconfig: PathBuf,

    /// Seconds between heartbeats; the control plane may ask for more frequent ones
    #[arg(long, env = "ATOLL_HEARTBEAT_INTERVAL", default_value_t = 10, value_name = "SECONDS",
        value_parser = clap::value_parser!(u32).range(1..=43_200))]
    pub heartbeat_interval: u32,

    #[command(flatten)]
    pub log: LogOptions,
}

#[derive(Args)]
pub struct PlaceOptions {
    /// What to place, as RESOURCE/NAME: deployments/web, deploy/web, deployments.apps/web; with -l or --all as RESOURCE
    #[arg(required_unless_present = "filename", value_name = "RESOURCE/NAME")]
    pub objects: Vec<String>,

    /// Clusters: a,b for the whole of it on each, a=3,b=2 for so many replicas each, none to take it away everywhere;
    /// without it the placement is printed
    #[arg(long, value_name = "CLUSTERS", value_parser = shares::parse)]
    pub on: Option<Shares>,

    /// Place a StatefulSet, Job or CronJob on several clusters although each of them then runs all of it
    #[arg(long)]
    pub duplicate: bool,

    /// Namespace of the object, if it is not the context's
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,

    /// All objects of the named resources that these labels select
    #[arg(short = 'l', long, value_name = "SELECTOR", conflicts_with = "all")]
    pub selector: Option<String>,

    /// All objects of the named resources in the namespace
    #[arg(long)]
    pub all: bool,

    /// The objects in a file of YAML or JSON; - is standard input
    #[arg(short = 'f', long, value_name = "FILE", conflicts_with_all = ["selector", "all"])]
    pub filename: Vec<PathBuf>,

    /// Say what would be done, and do nothing
    #[arg(long, requires = "on")]
    pub dry_run: bool,

    /// Place it also on clusters that are cordoned or not ready
    #[arg(long, requires = "on")]
    pub force: bool,

    #[command(flatten)]
    pub connection: Connection,
}

/// Names of clusters stand in labels and names of Secrets; one of them means nowhere.
fn cluster_name(text: &str) -> Result<String, String> {
    match names::dns1123_label(text).into_iter().next() {
        Some(problem) => Err(problem),
        None if text == shares::NOWHERE => Err(format!("`--on {text}` means nowhere; choose another name")),
        None if text.len() > LONGEST => Err(format!("it must have at most {LONGEST} characters")),
        None => Ok(text.to_string()),
    }
}

/// What is made for a cluster has its name and a word before it.
const LONGEST: usize = 50;

/// Who may write roles may do everything.
fn custom_group(text: &str) -> Result<String, String> {
    const POWERFUL: [&str; 5] = [
        "rbac.authorization.k8s.io",
        "admissionregistration.k8s.io",
        "apiregistration.k8s.io",
        "certificates.k8s.io",
        "authentication.k8s.io",
    ];
    if POWERFUL.contains(&text) {
        return Err("whoever writes these can do everything there, so syncers do not".into());
    }
    match names::dns1123_subdomain(text).into_iter().next() {
        Some(problem) => Err(problem),
        None => Ok(text.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_groups_that_would_do_harm_are_refused() {
        for (name, is_fine) in
            [("east", true), ("a-1", true), ("none", false), ("East", false), ("a.b", false), ("", false)]
        {
            assert_eq!(cluster_name(name).is_ok(), is_fine, "{name}");
        }
        assert!(cluster_name(&"a".repeat(50)).is_ok());
        assert!(cluster_name(&"a".repeat(51)).is_err());
        for (group, is_fine) in
            [("example.com", true), ("*", false), ("", false), ("rbac.authorization.k8s.io", false)]
        {
            assert_eq!(custom_group(group).is_ok(), is_fine, "{group}");
        }
    }
}
