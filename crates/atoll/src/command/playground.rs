//! `atoll playground`.

use std::path::PathBuf;

use clap::Args;

use super::LogOptions;
use super::sim::count;

#[derive(Args)]
pub struct PlaygroundOptions {
    /// Number of simulated clusters; default: as many as last time, or 3
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u8).range(0..=20))]
    pub clusters: Option<u8>,

    /// Number of nodes of each cluster; default: as many as last time, or 5
    #[arg(long, value_name = "COUNT", value_parser = count)]
    pub nodes: Option<usize>,

    /// Data directory
    #[arg(long, default_value = "atoll-playground", value_name = "DIR")]
    pub data_dir: PathBuf,

    /// Delete all existing data and start anew
    #[arg(long)]
    pub reset: bool,

    #[command(flatten)]
    pub log: LogOptions,
}
