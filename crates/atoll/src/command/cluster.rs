//! `atoll cluster …` and `atoll place`.

use std::path::PathBuf;
use std::time::Duration;

use atoll_meta::names;
use atoll_placement::intent::{Amount, Intent, NONE};
use clap::{Args, Subcommand, ValueEnum};

use super::sim::duration;
use super::{Connection, LogOptions};
use crate::advice::Failure;
use crate::output::OutputOptions;

#[derive(Subcommand)]
pub enum ClusterCommand {
    /// Join a cluster to the current workspace, or renew its credential
    #[command(after_help = JOIN_HELP)]
    Join(Box<JoinOptions>),
    /// List the clusters of the current workspace
    #[command(visible_alias = "ls")]
    List {
        #[command(flatten)]
        shown: OutputOptions,
        #[command(flatten)]
        connection: Connection,
    },
    /// Show everything that is known about a cluster
    Describe {
        #[command(flatten)]
        cluster: ClusterName,
    },
    /// Place no new objects on a cluster; existing ones stay
    Cordon {
        #[command(flatten)]
        cluster: ClusterName,
    },
    /// Place objects on a cluster again
    Uncordon {
        #[command(flatten)]
        cluster: ClusterName,
    },
    /// Cordon a cluster, and move everything on it to other clusters
    #[command(after_help = DRAIN_HELP)]
    Drain(DrainOptions),
    /// Declare that nothing runs on a cluster any more, so that workloads that must run only once can move
    Fence {
        #[command(flatten)]
        cluster: ClusterName,
        /// Lift the fence
        #[arg(long)]
        lift: bool,
        /// Do not ask for confirmation
        #[arg(short, long)]
        yes: bool,
    },
    /// Remove a cluster from the fleet
    #[command(after_help = REMOVE_HELP)]
    Remove {
        #[command(flatten)]
        cluster: ClusterName,
        /// Leave placed workloads running in the cluster, without Atoll's marks
        #[arg(long, conflicts_with = "lost")]
        keep_workloads: bool,
        /// The cluster is lost permanently: do not wait for it
        #[arg(long)]
        lost: bool,
        /// Kubeconfig of an administrator of the cluster, if Atoll's own credential no longer works or may
        /// only read
        #[arg(long, value_name = "FILE", conflicts_with = "lost")]
        cluster_kubeconfig: Option<PathBuf>,
        /// Context to use instead of the current one of that kubeconfig
        #[arg(long, value_name = "NAME", requires = "cluster_kubeconfig")]
        cluster_context: Option<String>,
        /// Do not ask for confirmation
        #[arg(short, long)]
        yes: bool,
    },
}

const JOIN_HELP: &str = "\
--kubeconfig names a kubeconfig of an administrator of the cluster. Only this command uses it, and it is not stored: the command creates an \
account for the syncer in the cluster and stores the token of that account. The control plane is that of $KUBECONFIG or \
~/.kube/config, or of --control-plane-kubeconfig.

Running it again with the same name creates a new token; after a failure it continues where it stopped. The syncer renews the \
token before it expires.";

const REMOVE_HELP: &str = "\
Without --keep-workloads and --lost, the placed objects are deleted in the cluster, and the command waits until they are gone. Shares on \
other clusters stay.";

const DRAIN_HELP: &str = "\
New replicas are available elsewhere before old ones are taken away, and what cannot move stays and is named. DaemonSets stay until the \
cluster is removed. `atoll cluster uncordon NAME` ends the drain.";

#[derive(Args)]
pub struct DrainOptions {
    #[command(flatten)]
    pub cluster: ClusterName,

    /// Show what would move where and what would stay, and change nothing
    #[arg(long)]
    pub dry_run: bool,

    /// Seconds to wait until everything has left; 0 does not wait
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    pub timeout: u32,
}

/// The name of a cluster that has joined.
#[derive(Args)]
pub struct ClusterName {
    /// Name of the cluster
    pub name: String,
    #[command(flatten)]
    pub connection: Connection,
}

#[derive(Args, Default)]
pub struct JoinOptions {
    /// Name for the cluster
    #[arg(value_parser = cluster_name)]
    pub name: String,

    /// Kubeconfig of the joining cluster; with --mode pull, a manifest is printed without it
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// Context to use instead of the current one of that kubeconfig
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,

    /// Where the syncer runs: in the control plane (push), as an agent in the cluster (pull), or started by
    /// hand with `atoll syncer` (none); default for a new cluster: push
    #[arg(long)]
    pub mode: Option<Mode>,

    /// With --mode pull: image of the agent [default: localhost/atoll:1]
    #[arg(long, value_name = "IMAGE")]
    pub image: Option<String>,

    /// Only observe the cluster: request read rights only, and show them before they are granted
    #[arg(long)]
    pub observe: bool,

    /// Join the cluster cordoned: nothing is placed there before `atoll cluster uncordon`
    #[arg(long)]
    pub cordoned: bool,

    /// API groups of custom resources that may be placed there, in addition to Kubernetes' own
    #[arg(long, value_delimiter = ',', value_name = "GROUPS", value_parser = custom_group, conflicts_with = "observe")]
    pub groups: Vec<String>,

    /// With --mode push: seconds to wait for the first heartbeat; 0 does not wait
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u32).range(0..=3600))]
    pub wait: u32,

    /// With --mode none: directory for the kubeconfigs of `atoll syncer`
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub write_to: PathBuf,

    /// Kubeconfig of the control plane to use instead of $KUBECONFIG or ~/.kube/config
    #[arg(long, value_name = "FILE")]
    pub control_plane_kubeconfig: Option<PathBuf>,

    /// Context to use instead of the current one of that kubeconfig
    #[arg(long, value_name = "NAME")]
    pub control_plane_context: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    Push,
    Pull,
    None,
}

impl Mode {
    /// The value in `spec.mode`.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Push => "push",
            Mode::Pull => "pull",
            Mode::None => "none",
        }
    }

    pub fn find(name: &str) -> Option<Mode> {
        [Mode::Push, Mode::Pull, Mode::None].into_iter().find(|mode| mode.name() == name)
    }
}

/// Settings of the control plane for its clusters.
#[derive(Args)]
pub struct FleetSettings {
    /// Seconds after a failure of its API, syncer or credential until a cluster is not ready
    #[arg(long, env = "ATOLL_CLUSTER_GRACE_PERIOD", default_value_t = 40, value_name = "SECONDS",
        value_parser = clap::value_parser!(u32).range(4..=86_400))]
    pub cluster_grace_period: u32,

    /// Seconds between heartbeats of clusters, at most half of --cluster-grace-period; default: a quarter of
    /// it
    #[arg(long, env = "ATOLL_CLUSTER_HEARTBEAT_INTERVAL", value_name = "SECONDS",
        value_parser = clap::value_parser!(u32).range(1..=43_200))]
    pub cluster_heartbeat_interval: Option<u32>,

    /// Interval at which HorizontalPodAutoscalers of workloads on several clusters read their usage
    #[arg(long, env = "ATOLL_HORIZONTAL_POD_AUTOSCALER_SYNC_PERIOD", default_value = "15s",
        value_parser = duration, value_name = "DURATION")]
    pub horizontal_pod_autoscaler_sync_period: Duration,
}

#[derive(Args)]
pub struct SyncerOptions {
    /// Name of the cluster in the control plane
    pub name: String,

    /// Kubeconfig of the workspace in which the cluster is registered
    #[arg(long, value_name = "FILE", required_unless_present = "in_cluster")]
    pub from_kubeconfig: Option<PathBuf>,

    /// Kubeconfig of the cluster
    #[arg(long, value_name = "FILE", required_unless_present = "in_cluster")]
    pub to_kubeconfig: Option<PathBuf>,

    /// Sync the cluster in which this runs as a Pod, with the credential of its agent (mode pull)
    #[arg(long, conflicts_with_all = ["from_kubeconfig", "to_kubeconfig"])]
    pub in_cluster: bool,

    /// With --in-cluster: directory with the token and the CA of the Pod's ServiceAccount
    #[arg(
        long,
        value_name = "DIR",
        default_value = "/var/run/secrets/kubernetes.io/serviceaccount",
        hide = true
    )]
    pub service_account: PathBuf,

    /// Seconds between heartbeats; the control plane may request a shorter interval
    #[arg(long, env = "ATOLL_HEARTBEAT_INTERVAL", default_value_t = 10, value_name = "SECONDS",
        value_parser = clap::value_parser!(u32).range(1..=43_200))]
    pub heartbeat_interval: u32,

    #[command(flatten)]
    pub log: LogOptions,
}

#[derive(Args)]
pub struct MoveOptions {
    /// Workloads to move, as RESOURCE/NAME: deployments/web, deploy/web, deployments.apps/web
    #[arg(required = true, value_name = "RESOURCE/NAME")]
    pub objects: Vec<String>,

    /// Clusters to move to, as in `atoll place --on`: west, or east=2,west=1
    #[arg(long, value_name = "CLUSTERS", value_parser = Intent::parse)]
    pub to: Intent,

    /// Namespace of the objects, if it is not the context's
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,

    /// Accept that workloads with volume claims start with empty volumes on other clusters
    #[arg(long)]
    pub accept_empty_volumes: bool,

    /// Seconds to wait until the objects have arrived; 0 does not wait
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    pub timeout: u32,

    #[command(flatten)]
    pub connection: Connection,
}

#[derive(Args, Default)]
pub struct PlaceOptions {
    /// Objects to place, as RESOURCE/NAME: deployments/web, deploy/web, deployments.apps/web; with -l or
    /// --all as RESOURCE
    #[arg(required_unless_present = "filename", value_name = "RESOURCE/NAME")]
    pub objects: Vec<String>,

    /// Clusters: a,b to place the object on these, a=2,b=1 to divide its replicas two to one, none to remove it
    /// from all clusters; without --on the placement is printed
    #[arg(long, value_name = "CLUSTERS", value_parser = Intent::parse)]
    pub on: Option<Intent>,

    /// The numbers of --on are exact numbers of replicas, whatever the object says
    #[arg(long, requires = "on", conflicts_with = "duplicate")]
    pub exactly: bool,

    /// Let each of the clusters run all of the object, even a StatefulSet, Job or CronJob
    #[arg(long)]
    pub duplicate: bool,

    /// Namespace of the objects, if it is not the context's
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,

    /// All objects of the named resources that match this label selector
    #[arg(short = 'l', long, value_name = "SELECTOR", conflicts_with = "all")]
    pub selector: Option<String>,

    /// All objects of the named resources in the namespace
    #[arg(long)]
    pub all: bool,

    /// The objects in a YAML or JSON file; - is standard input
    #[arg(short = 'f', long, value_name = "FILE", conflicts_with_all = ["selector", "all"])]
    pub filename: Vec<PathBuf>,

    /// Show what would be done, and change nothing
    #[arg(long, requires = "on")]
    pub dry_run: bool,

    /// Also place objects on clusters that are cordoned or not ready
    #[arg(long, requires = "on")]
    pub force: bool,

    #[command(flatten)]
    pub connection: Connection,
}

impl PlaceOptions {
    /// The clusters that the user asks for.
    pub fn intent(&self) -> Result<Option<Intent>, Failure> {
        let Some(intent) = &self.on else { return Ok(None) };
        if intent.is_none() {
            return Ok(Some(Intent::default()));
        }
        let mut intent = intent.clone();
        for part in &mut intent.parts {
            part.amount = match part.amount {
                Amount::Weight(replicas) if self.exactly => Amount::Pin(replicas),
                Amount::Unset if self.exactly => {
                    let cluster = &part.cluster;
                    let what = format!("--exactly needs a number for {cluster}");
                    return Err(Failure::new(what, format!("as in: --on {cluster}=2 --exactly")));
                }
                Amount::Unset if self.duplicate => Amount::All,
                amount => amount,
            };
        }
        Ok(Some(intent))
    }
}

/// Validates the name of a cluster, which becomes part of labels and names of Secrets. `none` is reserved by
/// `--on`.
fn cluster_name(text: &str) -> Result<String, String> {
    match names::dns1123_label(text).into_iter().next() {
        Some(problem) => Err(problem),
        None if text == NONE => {
            Err(format!("`--on {text}` removes an object from all clusters; choose another name"))
        }
        None if text.len() > MAX_NAME_LENGTH => {
            Err(format!("it must have at most {MAX_NAME_LENGTH} characters"))
        }
        None => Ok(text.to_string()),
    }
}

/// Maximum length, because objects of a cluster are named after it with a prefix.
const MAX_NAME_LENGTH: usize = 50;

/// Refuses API groups that would let a syncer gain all rights.
fn custom_group(text: &str) -> Result<String, String> {
    const POWERFUL: [&str; 5] = [
        "rbac.authorization.k8s.io",
        "admissionregistration.k8s.io",
        "apiregistration.k8s.io",
        "certificates.k8s.io",
        "authentication.k8s.io",
    ];
    if POWERFUL.contains(&text) {
        return Err(
            "the right to write these resources would give the syncer all rights in the cluster".into()
        );
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
    fn invalid_names_and_powerful_groups_are_refused() {
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
