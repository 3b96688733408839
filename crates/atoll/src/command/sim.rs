//! `atoll sim …`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use atoll_controllers::catalog::Choice;
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::{Connection, LogOptions};
use crate::output::Shown;

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct SimLine {
    #[command(subcommand)]
    pub command: Option<SimCommand>,

    #[command(flatten)]
    pub options: SimOptions,
}

/// A whole cluster.
#[derive(Args)]
pub struct SimOptions {
    /// Name of the cluster, of its context in the kubeconfig, and what names of nodes begin with
    #[arg(long, default_value = "sim", value_parser = name, value_name = "NAME")]
    pub name: String,

    #[command(flatten)]
    pub nodes: NodeOptions,

    /// Address and port to listen on; port 0 picks a free one
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDRESS:PORT")]
    pub listen: SocketAddr,

    /// Directory to keep everything in; without one everything is gone when it stops
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,

    /// Static tokens, as lines of token,user,uid,"group1,group2"
    #[arg(long, value_name = "FILE")]
    pub token_auth_file: Option<PathBuf>,

    /// Controllers to run: all (*), some by name, or all but some (*,-name); true and false are all and none
    #[arg(long, default_value = "*", value_name = "NAMES")]
    pub controllers: Choice,

    /// How long a node may be silent before it is given up
    #[arg(long, default_value = "50s", value_parser = duration, value_name = "DURATION")]
    pub node_monitor_grace_period: Duration,

    /// How often autoscalers look at their metrics
    #[arg(long, default_value = "15s", value_parser = duration, value_name = "DURATION")]
    pub horizontal_pod_autoscaler_sync_period: Duration,

    /// Say what nodes and Pods use, as a metrics server does; false where there shall be none
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, value_name = "BOOLEAN")]
    pub metrics_api: bool,

    /// Make volumes for claims, by the class standard and others of the provisioner sim.atoll.dev; false where nobody shall
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, value_name = "BOOLEAN")]
    pub storage: bool,

    /// Assign Pods to nodes here; false where another scheduler does it
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, value_name = "BOOLEAN")]
    pub scheduler: bool,

    #[command(flatten)]
    pub log: LogOptions,
}

#[derive(Args)]
pub struct NodeOptions {
    /// How many nodes there are
    #[arg(long, default_value_t = 3, value_name = "COUNT", value_parser = count)]
    pub nodes: usize,

    /// Processors of each node
    #[arg(long, default_value = "8", value_parser = quantity, value_name = "QUANTITY")]
    pub node_cpu: String,

    /// Memory of each node
    #[arg(long, default_value = "32Gi", value_parser = quantity, value_name = "QUANTITY")]
    pub node_memory: String,

    /// Pods that each node runs at most
    #[arg(long, default_value_t = 110, value_name = "COUNT")]
    pub node_pods: u32,

    /// Region that nodes are labelled with
    #[arg(long, default_value = "", value_name = "NAME")]
    pub region: String,

    /// Zones that nodes are labelled with, in turn
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub zones: Vec<String>,

    /// How long Pods take to start
    #[arg(long, default_value = "100ms", value_parser = duration, value_name = "DURATION")]
    pub pod_start_delay: Duration,
}

impl NodeOptions {
    /// The same for the simulation; names of nodes begin with `name`.
    pub fn settings(&self, name: &str) -> atoll_sim::Settings {
        atoll_sim::Settings {
            name: name.into(),
            nodes: self.nodes,
            cpu: self.node_cpu.clone(),
            memory: self.node_memory.clone(),
            pods: self.node_pods,
            region: self.region.clone(),
            zones: self.zones.clone(),
            pod_start_delay: self.pod_start_delay,
            ..atoll_sim::Settings::default()
        }
    }
}

#[derive(Subcommand)]
pub enum SimCommand {
    /// Add simulated nodes to any cluster or workspace
    ///
    /// What goes wrong with them is said with atoll sim fault at the same cluster: slow, lossy, partition --nodes, crash-loop, full-node,
    /// dead-node, dead-cluster (all these nodes stop) and clock-skew. The server is another's: it cannot be cut off from its clients
    /// (partition --clients), nor miss an API (missing-api).
    Nodes {
        #[command(flatten)]
        nodes: NodeOptions,

        /// What names of nodes begin with
        #[arg(long, default_value = "", value_parser = optional_name, value_name = "NAME")]
        name: String,

        /// Also assign Pods to nodes
        #[arg(long)]
        scheduler: bool,

        /// Authority that has signed what the server shows to kubelets; without it, the one that the kubeconfig names
        #[arg(long, value_name = "FILE")]
        kubelet_client_ca: Option<PathBuf>,

        #[command(flatten)]
        log: LogOptions,

        #[command(flatten)]
        connection: Connection,
    },
    /// Let something go wrong with a simulated cluster that runs, or with simulated nodes, or end it
    #[command(subcommand)]
    Fault(FaultCommand),
}

#[derive(Subcommand)]
pub enum FaultCommand {
    /// Let something go wrong
    #[command(subcommand)]
    Add(FaultKind),
    /// Show what goes wrong
    List {
        #[command(flatten)]
        shown: Shown,
        #[command(flatten)]
        connection: Connection,
    },
    /// End one of the things that go wrong
    Remove {
        /// As `atoll sim fault list` shows it
        id: u64,
        #[command(flatten)]
        connection: Connection,
    },
    /// End everything that goes wrong
    Clear {
        #[command(flatten)]
        connection: Connection,
    },
}

#[derive(Subcommand)]
pub enum FaultKind {
    /// Answers and events of watches are late; where only nodes are simulated, those that nodes get
    Slow {
        /// By how much, as in 200ms
        #[arg(long, value_name = "DURATION")]
        latency: String,
        /// How much later still they may be, by chance
        #[arg(long, value_name = "DURATION")]
        jitter: Option<String>,
        #[command(flatten)]
        connection: Connection,
    },
    /// Connections break; where only nodes are simulated, those of nodes
    Lossy {
        /// Which part of connections, answers and events, from 0 to 1
        #[arg(long, value_name = "RATE")]
        rate: f64,
        #[command(flatten)]
        connection: Connection,
    },
    /// Nothing gets through, and nobody is told
    Partition {
        /// Between these nodes and the cluster
        #[arg(long, value_delimiter = ',', value_name = "NAMES", conflicts_with = "clients")]
        nodes: Vec<String>,
        /// Between the cluster and those outside; this is what happens unless nodes are named. Not where only nodes are simulated: their
        /// server is another's
        #[arg(long)]
        clients: bool,
        #[command(flatten)]
        connection: Connection,
    },
    /// Containers end as soon as they have begun
    CrashLoop {
        /// Of which images; * stands for anything
        #[arg(long, value_name = "PATTERN")]
        image: String,
        #[command(flatten)]
        connection: Connection,
    },
    /// A node has no room left
    FullNode {
        node: String,
        #[command(flatten)]
        connection: Connection,
    },
    /// A node stops
    DeadNode {
        node: String,
        #[command(flatten)]
        connection: Connection,
    },
    /// The cluster stops; where only nodes are simulated, all of these
    DeadCluster {
        #[command(flatten)]
        connection: Connection,
    },
    /// A version of an API is not served. Not where only nodes are simulated: their server is another's
    MissingApi {
        /// As in batch/v1
        #[arg(value_name = "GROUP/VERSION")]
        api: String,
        #[command(flatten)]
        connection: Connection,
    },
    /// The cluster's clock is wrong; where only nodes are simulated, theirs
    ClockSkew {
        /// By how much, as in +5m or -90s
        #[arg(value_name = "DURATION", allow_hyphen_values = true)]
        skew: String,
        #[command(flatten)]
        connection: Connection,
    },
}

impl FaultKind {
    /// As the server is told, and which server that is.
    pub fn parts(self) -> (Value, Connection) {
        match self {
            FaultKind::Slow { latency, jitter, connection } => {
                let mut fault = json!({ "kind": "slow", "latency": latency });
                if let Some(jitter) = jitter {
                    fault["jitter"] = jitter.into();
                }
                (fault, connection)
            }
            FaultKind::Lossy { rate, connection } => (json!({ "kind": "lossy", "rate": rate }), connection),
            FaultKind::Partition { nodes, connection, .. } if nodes.is_empty() => {
                (json!({ "kind": "partition" }), connection)
            }
            FaultKind::Partition { nodes, connection, .. } => {
                (json!({ "kind": "partition", "nodes": nodes }), connection)
            }
            FaultKind::CrashLoop { image, connection } => {
                (json!({ "kind": "crash-loop", "image": image }), connection)
            }
            FaultKind::FullNode { node, connection } => {
                (json!({ "kind": "full-node", "node": node }), connection)
            }
            FaultKind::DeadNode { node, connection } => {
                (json!({ "kind": "dead-node", "node": node }), connection)
            }
            FaultKind::DeadCluster { connection } => (json!({ "kind": "dead-cluster" }), connection),
            FaultKind::MissingApi { api, connection } => {
                (json!({ "kind": "missing-api", "api": api }), connection)
            }
            FaultKind::ClockSkew { skew, connection } => {
                (json!({ "kind": "clock-skew", "skew": skew }), connection)
            }
        }
    }
}

/// How many nodes a process can simulate.
const MOST_NODES: usize = 10_000;

pub(super) fn count(text: &str) -> Result<usize, String> {
    let count = text.parse::<usize>().map_err(|error| error.to_string())?;
    if count <= MOST_NODES { Ok(count) } else { Err(format!("there may be at most {MOST_NODES}")) }
}

fn name(text: &str) -> Result<String, String> {
    match atoll_meta::names::dns1123_label(text).into_iter().next() {
        None => Ok(text.to_string()),
        Some(problem) => Err(problem.to_string()),
    }
}

fn optional_name(text: &str) -> Result<String, String> {
    if text.is_empty() { Ok(String::new()) } else { name(text) }
}

fn quantity(text: &str) -> Result<String, String> {
    match atoll_meta::quantity::Quantity::parse(text) {
        Ok(_) if !text.starts_with('-') => Ok(text.to_string()),
        _ => Err("it must be a quantity such as 8, 500m or 32Gi".into()),
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    let nanos = atoll_meta::time::parse_duration(text).and_then(|nanos| u64::try_from(nanos).ok());
    nanos.map(Duration::from_nanos).ok_or_else(|| "it must be a duration such as 200ms or 1m30s".into())
}
