//! Options of `atoll adopt`, `pause`, `resume`, `release` and `orphans`.

use clap::{Args, Subcommand};

use super::Connection;
use crate::output::OutputOptions;

pub const ADOPT_HELP: &str = "\
Adopted objects are created in the current workspace as they are in the cluster, placed on that cluster, and marked there; \
nothing restarts. ConfigMaps, Secrets, ServiceAccounts and volume claims that they refer to are adopted as well. An object with a controller \
is not adopted: adopt the controller instead. If adoption would change anything in the cluster, nothing is done.

  atoll adopt deployment/web -n shop --cluster east
  atoll adopt deployments services -n shop -l app=web --cluster east
  atoll adopt --all -n shop --cluster east --dry-run
  atoll adopt --all -n legacy --into shop --cluster east
  atoll adopt namespace/shop --cluster east          (only the namespace itself)

With --into, namespace legacy of the cluster is used for namespace shop here: objects of shop placed on that cluster go into legacy.";

#[derive(Args)]
#[command(group(clap::ArgGroup::new("which").args(["objects", "all", "selector"]).required(true).multiple(true)))]
pub struct AdoptOptions {
    /// Objects to adopt, as RESOURCE/NAME; or RESOURCE with --all or --selector
    #[arg(value_name = "RESOURCE/NAME")]
    pub objects: Vec<String>,

    /// Cluster that they run in
    #[arg(long, value_name = "NAME")]
    pub cluster: String,

    /// Namespace of the objects in the cluster, if it is not the context's
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,

    /// Namespace here to adopt them into, if its name differs from that in the cluster
    #[arg(long, value_name = "NAMESPACE")]
    pub into: Option<String>,

    /// All objects in the namespace, or all objects of the named resources
    #[arg(long)]
    pub all: bool,

    /// Only objects with these labels, as in app=web,tier!=test
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    pub selector: Option<String>,

    /// Also send objects of the control plane to the cluster that the adopted ones refer to and the cluster does not have
    #[arg(long)]
    pub with_dependents: bool,

    /// Only show what would be done
    #[arg(long)]
    pub dry_run: bool,

    #[command(flatten)]
    pub connection: Connection,
}

pub const PAUSE_HELP: &str = "\
While paused, nothing is placed, moved or deleted: changes of placements are refused, and objects that are deleted here stay in their \
clusters until resumed. Workloads keep running, and updates of placed objects are still applied. A pause \
survives restarts. Without --cluster and --workspace it applies to the current workspace and all below it; in root \
to the whole fleet.";

/// The scope of a pause.
#[derive(Args)]
pub struct PauseScope {
    /// Only this cluster of the current workspace
    #[arg(long, value_name = "NAME", conflicts_with = "workspace")]
    pub cluster: Option<String>,

    /// Workspace, with all below it, to use instead of the current one: name of a child, or path such as
    /// root:org:team
    #[arg(long, value_name = "PATH")]
    pub workspace: Option<String>,

    #[command(flatten)]
    pub connection: Connection,
}

#[derive(Args)]
pub struct PauseOptions {
    #[command(flatten)]
    pub scope: PauseScope,

    /// Reason, shown when a change is refused
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub reason: String,
}

pub const RELEASE_HELP: &str = "\
Released objects stay in their clusters as they are, without Atoll's marks, and are no longer managed by Atoll. So do dependents that \
only they refer to. ConfigMaps, Secrets, ServiceAccounts and volume claims that other placed objects also need stay managed; \
when these are removed, they are released in the cluster too instead of being deleted. Here the objects stay, without that cluster, unless --delete is given.";

#[derive(Args)]
pub struct ReleaseOptions {
    /// Objects to release, as RESOURCE/NAME: deployments/web, deploy/web, deployments.apps/web
    #[arg(required = true, value_name = "RESOURCE/NAME")]
    pub objects: Vec<String>,

    /// Cluster to release them in; default: all clusters that have them
    #[arg(long, value_name = "NAME")]
    pub cluster: Option<String>,

    /// Namespace of the objects, if it is not the context's
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,

    /// Also delete the objects here; they stay in the clusters
    #[arg(long, conflicts_with = "cluster")]
    pub delete: bool,

    #[command(flatten)]
    pub connection: Connection,
}

/// Orphans: marked objects in clusters without an object above.
#[derive(Subcommand)]
pub enum OrphansCommand {
    /// List objects in clusters that no longer exist here, for example after an old backup was restored
    #[command(visible_alias = "ls")]
    List {
        /// Only in this cluster; default: all clusters of the current workspace
        #[arg(long, value_name = "NAME")]
        cluster: Option<String>,
        #[command(flatten)]
        shown: OutputOptions,
        #[command(flatten)]
        connection: Connection,
    },
    /// Delete objects in clusters that no longer exist here, after confirmation
    Prune {
        /// Only in this cluster; default: all clusters of the current workspace
        #[arg(long, value_name = "NAME")]
        cluster: Option<String>,
        /// Do not ask for confirmation
        #[arg(short, long)]
        yes: bool,
        #[command(flatten)]
        connection: Connection,
    },
}
