//! `atoll dialect …`.

use clap::{Args, Subcommand, ValueEnum};

use super::Connection;

#[derive(Subcommand)]
pub enum DialectCommand {
    /// Serve another system's API in a workspace and all below it
    #[command(after_help = KCP)]
    Enable(DialectOptions),
    /// List the dialects that there are, and where they come from in a workspace
    #[command(visible_alias = "ls")]
    List {
        /// Look at this workspace instead of the current one
        #[arg(long, value_name = "PATH")]
        workspace: Option<String>,
        #[command(flatten)]
        connection: Connection,
    },
    /// Serve it no longer; refused while there are objects of its kinds
    Disable(DialectOptions),
}

#[derive(Args)]
pub struct DialectOptions {
    /// Which one
    pub dialect: Dialect,

    /// In this workspace instead of the current one: an absolute path such as root:org:team, or one from here
    #[arg(long, value_name = "PATH")]
    pub workspace: Option<String>,

    #[command(flatten)]
    pub connection: Connection,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Dialect {
    /// Clusters with an inline kubeconfig, and the label workloads.kcp.dev/cluster
    Kcp,
}

const KCP: &str = "\
With kcp, \"kubectl apply\" takes Clusters and WorkloadClusters of workload.kcp.dev/v1alpha1. Such a cluster joins by itself, as with
\"atoll cluster join\": its kubeconfig is put into a Secret on the way in, is used once to make an account that may do what syncing
needs, and is then thrown away; spec.kubeconfig reads as empty. An object with the label workloads.kcp.dev/cluster: NAME is placed on
that cluster, unless somebody else has placed it: what was placed by hand, by a policy or by a reference stays.";

impl Dialect {
    /// As objects say it.
    pub fn name(self) -> &'static str {
        match self {
            Dialect::Kcp => "kcp",
        }
    }
}
