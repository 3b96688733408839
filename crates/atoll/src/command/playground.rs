//! `atoll playground`.

use std::path::PathBuf;

use clap::Args;

use super::LogOptions;
use super::sim::count;

#[derive(Args)]
pub struct PlaygroundOptions {
    /// How many simulated clusters there are; 3, or as many as last time
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u8).range(0..=20))]
    pub clusters: Option<u8>,

    /// How many nodes each of them has; 5, or as many as last time
    #[arg(long, value_name = "COUNT", value_parser = count)]
    pub nodes: Option<usize>,

    /// Directory to keep everything in
    #[arg(long, default_value = "atoll-playground", value_name = "DIR")]
    pub data_dir: PathBuf,

    /// Forget everything that is there and begin anew
    #[arg(long)]
    pub reset: bool,

    #[command(flatten)]
    pub log: LogOptions,
}
