//! `atoll adopt`, `atoll pause` and their kin.

use clap::{Args, Subcommand};

use super::Connection;
use crate::output::Shown;

pub const ADOPTING: &str = "\
What is adopted is created in the current workspace as it is in the cluster, placed on that cluster, and marked there; \
nothing restarts. ConfigMaps, Secrets, ServiceAccounts and claims that it refers to come along. What a controller in the \
cluster has made is not adopted: adopt what it was made for. If anything would change in the cluster, nothing is done.

  atoll adopt deployment/web -n shop --cluster east
  atoll adopt deployments services -n shop -l app=web --cluster east
  atoll adopt --all -n shop --cluster east --dry-run
  atoll adopt --all -n legacy --into shop --cluster east
  atoll adopt namespace/shop --cluster east          (only makes the namespace usable)

With --into, namespace legacy of the cluster stands for shop here from then on: what is placed there from shop goes into legacy.";

#[derive(Args)]
#[command(group(clap::ArgGroup::new("which").args(["objects", "all", "selector"]).required(true).multiple(true)))]
pub struct AdoptOptions {
    /// What to adopt, as RESOURCE/NAME; or RESOURCE with --all or --selector
    #[arg(value_name = "RESOURCE/NAME")]
    pub objects: Vec<String>,

    /// The cluster that it runs in
    #[arg(long, value_name = "NAME")]
    pub cluster: String,

    /// Namespace of the objects in the cluster, if it is not the context's
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,

    /// Namespace here that they are adopted into, if it is called otherwise than in the cluster
    #[arg(long, value_name = "NAMESPACE")]
    pub into: Option<String>,

    /// Everything in the namespace, or everything of these resources
    #[arg(long)]
    pub all: bool,

    /// Only what has these labels, as in app=web,tier!=test
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    pub selector: Option<String>,

    /// Only say what would be done
    #[arg(long)]
    pub dry_run: bool,

    #[command(flatten)]
    pub connection: Connection,
}

pub const PAUSING: &str = "\
While it is paused nothing is placed, moved or deleted: placements are refused, and what was deleted above stays in its \
cluster until somebody resumes. What runs goes on to run, and changes of what is there already go on to arrive. It stays \
paused whatever is restarted. Without --cluster and --workspace it is the current workspace with all below it; in the root \
that is the whole fleet.";

/// What is paused.
#[derive(Args)]
pub struct Paused {
    /// Only this cluster of the current workspace
    #[arg(long, value_name = "NAME", conflicts_with = "workspace")]
    pub cluster: Option<String>,

    /// A workspace with all below it, instead of the current one: a child's name, or a path such as root:org:team
    #[arg(long, value_name = "PATH")]
    pub workspace: Option<String>,

    #[command(flatten)]
    pub connection: Connection,
}

#[derive(Args)]
pub struct PauseOptions {
    #[command(flatten)]
    pub what: Paused,

    /// Why, for those who run into it
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub reason: String,
}

pub const RELEASING: &str = "\
What is let go runs on in its cluster as it is, without a trace of Atoll, and nobody here looks after it any more; so does \
what only it refers to. ConfigMaps, Secrets, ServiceAccounts and claims that others there need as well stay Atoll's for now; \
when they go they are let go in the cluster, too, and not deleted. Here it stays, without that cluster; with --delete it goes.";

#[derive(Args)]
pub struct ReleaseOptions {
    /// What to let go of, as RESOURCE/NAME: deployments/web, deploy/web, deployments.apps/web
    #[arg(required = true, value_name = "RESOURCE/NAME")]
    pub objects: Vec<String>,

    /// The cluster that it runs on by itself from then on; all that have it, if none is named
    #[arg(long, value_name = "NAME")]
    pub cluster: Option<String>,

    /// Namespace of the objects, if it is not the context's
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,

    /// Delete it here as well; in the clusters it runs on
    #[arg(long, conflicts_with = "cluster")]
    pub delete: bool,

    #[command(flatten)]
    pub connection: Connection,
}

/// What is in clusters and carries our mark, but is not known here any longer.
#[derive(Subcommand)]
pub enum OrphansCommand {
    /// List what clusters still have that is not known here any longer, as after an old backup was restored
    #[command(visible_alias = "ls")]
    List {
        /// Only in this cluster; in all of the current workspace, if none is named
        #[arg(long, value_name = "NAME")]
        cluster: Option<String>,
        #[command(flatten)]
        shown: Shown,
        #[command(flatten)]
        connection: Connection,
    },
    /// Delete in clusters what is not known here any longer, after asking
    Prune {
        /// Only in this cluster; in all of the current workspace, if none is named
        #[arg(long, value_name = "NAME")]
        cluster: Option<String>,
        /// Do not ask
        #[arg(short, long)]
        yes: bool,
        #[command(flatten)]
        connection: Connection,
    },
}
