//! Options of `atoll explain` and `atoll what-if`.

use std::path::PathBuf;

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

pub const WHAT_IF_HELP: &str = "\
The running control plane decides about everything that the change concerns, on a copy of its state, and changes nothing. It needs the \
rights that the change itself would need.

  atoll what-if drain east
  atoll what-if lose east
  atoll what-if scale deploy/web --replicas 8
  atoll what-if deploy/web --replicas +50
  atoll what-if policy -f policy.yaml";

#[derive(Args)]
pub struct WhatIfOptions {
    /// The change: drain, lose, scale or policy; or RESOURCE/NAME with --replicas
    #[arg(value_name = "CHANGE")]
    pub change: String,

    /// Name of the cluster, or RESOURCE/NAME of the workload to scale
    #[arg(value_name = "NAME")]
    pub name: Option<String>,

    /// Number of replicas; +50 or -2 for more or fewer than now
    #[arg(long, value_name = "NUMBER", allow_hyphen_values = true)]
    pub replicas: Option<String>,

    /// YAML or JSON file with the policy; - is standard input
    #[arg(short = 'f', long, value_name = "FILE")]
    pub filename: Option<PathBuf>,

    /// Namespace of the workload or policy, if it is not the context's
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,

    #[command(flatten)]
    pub shown: OutputOptions,

    #[command(flatten)]
    pub connection: Connection,
}
