//! Options of `atoll explain`.

use clap::Args;

use super::Connection;
use crate::output::OutputOptions;

pub const EXPLAIN_HELP: &str = "\
The running control plane decides again, with the fleet as it is now, and says for every cluster whether it is chosen, its scores, or why \
it is not chosen; then it lists the last decisions that were recorded. Nothing is changed. It needs the right to get the subresource \
placement of the object.

  atoll explain deploy/web
  atoll explain statefulset/db -n shop -o json";

#[derive(Args)]
pub struct ExplainOptions {
    /// Object to explain, as RESOURCE/NAME: deployments/web, deploy/web, deployments.apps/web
    #[arg(value_name = "RESOURCE/NAME")]
    pub object: String,

    /// Namespace of the object, if it is not the context's
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,

    #[command(flatten)]
    pub shown: OutputOptions,

    #[command(flatten)]
    pub connection: Connection,
}
