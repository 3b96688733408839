//! `atoll dialect …`.

use clap::{Args, Subcommand, ValueEnum};

use super::Connection;

#[derive(Subcommand)]
pub enum DialectCommand {
    /// Serve another system's API in a workspace and all workspaces below it
    #[command(after_help = KCP_HELP)]
    Enable(DialectOptions),
    /// List the dialects, and whether they are enabled in a workspace
    #[command(visible_alias = "ls")]
    List {
        /// Workspace to show instead of the current one
        #[arg(long, value_name = "PATH")]
        workspace: Option<String>,
        #[command(flatten)]
        connection: Connection,
    },
    /// Stop serving it; refused while there are objects of its kinds
    Disable(DialectOptions),
}

#[derive(Args)]
pub struct DialectOptions {
    /// The dialect
    pub dialect: Dialect,

    /// Workspace to use instead of the current one: an absolute path such as root:org:team, or a relative one
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

const KCP_HELP: &str = "\
With kcp, \"kubectl apply\" accepts Clusters and WorkloadClusters of workload.kcp.dev/v1alpha1. Such a cluster joins automatically, as with
\"atoll cluster join\": its kubeconfig is moved to a Secret before it is stored, is used once to create the syncer's
account, and is then deleted; spec.kubeconfig reads as empty. An object with the label workloads.kcp.dev/cluster: NAME is placed on
that cluster, unless it was placed by hand, by a policy or by a reference.";

impl Dialect {
    /// The key in the ConfigMap of dialects.
    pub fn name(self) -> &'static str {
        match self {
            Dialect::Kcp => "kcp",
        }
    }
}
