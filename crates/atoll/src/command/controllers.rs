//! Options of `atoll controllers`.

use std::path::PathBuf;

use atoll_controllers::catalog::ControllerSelection;
use clap::Args;

use super::LogOptions;
use super::dialect::controllers;

pub const CONTROLLERS_HELP: &str = "\
Start the server without the same controllers, so that they do not run twice. Controllers that need the server's keys, and the syncers of clusters in \
push mode, run in the server only, and so do `atoll explain` and `atoll what-if`.

  atoll start --controllers '*,-placementscheduler'
  atoll controllers --kubeconfig atoll-data/admin.kubeconfig --controllers placementscheduler";

#[derive(Args)]
pub struct ControllersOptions {
    /// Kubeconfig of a member of system:masters of the control plane
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: PathBuf,

    /// Controllers to run: some by name, all (*), or all but some (*,-name)
    #[arg(long, env = "ATOLL_CONTROLLERS", default_value = "placementscheduler", value_name = "NAMES",
        value_parser = controllers)]
    pub controllers: ControllerSelection,

    #[command(flatten)]
    pub log: LogOptions,
}
