//! `atoll sim …`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use atoll_controllers::catalog::ControllerSelection;
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::{Connection, LogOptions};
use crate::output::OutputOptions;

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct SimArgs {
    #[command(subcommand)]
    pub command: Option<SimCommand>,

    #[command(flatten)]
    pub options: SimOptions,
}

/// Options of a simulated cluster.
#[derive(Args)]
pub struct SimOptions {
    /// Name of the cluster and of its context in the kubeconfig, and prefix of node names
    #[arg(long, default_value = "sim", value_parser = name, value_name = "NAME")]
    pub name: String,

    #[command(flatten)]
    pub nodes: NodeOptions,

    /// Address and port to listen on; port 0 picks a free port
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDRESS:PORT")]
    pub listen: SocketAddr,

    /// Data directory; without one all data is lost when the process stops
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,

    /// Static tokens, as lines of token,user,uid,"group1,group2"
    #[arg(long, value_name = "FILE")]
    pub token_auth_file: Option<PathBuf>,

    /// Controllers to run: all (*), some by name, or all but some (*,-name); true and false mean all and none
    #[arg(long, default_value = "*", value_name = "NAMES")]
    pub controllers: ControllerSelection,

    /// Time without heartbeats after which a node is not ready
    #[arg(long, default_value = "50s", value_parser = duration, value_name = "DURATION")]
    pub node_monitor_grace_period: Duration,

    /// Interval at which HorizontalPodAutoscalers read metrics
    #[arg(long, default_value = "15s", value_parser = duration, value_name = "DURATION")]
    pub horizontal_pod_autoscaler_sync_period: Duration,

    /// Serve the resource metrics API for nodes and Pods
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, value_name = "BOOLEAN")]
    pub metrics_api: bool,

    /// Provision volumes for claims of the class standard and of other classes with the provisioner
    /// sim.atoll.dev
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, value_name = "BOOLEAN")]
    pub storage: bool,

    /// Run a scheduler; false if another one is used
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, value_name = "BOOLEAN")]
    pub scheduler: bool,

    #[command(flatten)]
    pub log: LogOptions,
}

#[derive(Args)]
pub struct NodeOptions {
    /// Number of nodes
    #[arg(long, default_value_t = 3, value_name = "COUNT", value_parser = count)]
    pub nodes: usize,

    /// CPU of each node
    #[arg(long, default_value = "8", value_parser = quantity, value_name = "QUANTITY")]
    pub node_cpu: String,

    /// Memory of each node
    #[arg(long, default_value = "32Gi", value_parser = quantity, value_name = "QUANTITY")]
    pub node_memory: String,

    /// Maximum number of Pods per node
    #[arg(long, default_value_t = 110, value_name = "COUNT")]
    pub node_pods: u32,

    /// Region label of the nodes
    #[arg(long, default_value = "", value_name = "NAME")]
    pub region: String,

    /// Zone labels of the nodes, assigned in turn
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub zones: Vec<String>,

    /// Time that Pods take to start
    #[arg(long, default_value = "100ms", value_parser = duration, value_name = "DURATION")]
    pub pod_start_delay: Duration,
}

impl NodeOptions {
    /// The settings for the simulation; names of nodes begin with `name`.
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
    /// Faults are injected with atoll sim fault at the same cluster: slow, lossy, partition --nodes,
    /// crash-loop, full-node, dead-node, dead-cluster (all these nodes stop) and clock-skew. The API server
    /// is not simulated: it cannot be cut off from its clients (partition --clients), and APIs cannot be
    /// removed from it (missing-api).
    Nodes {
        #[command(flatten)]
        nodes: NodeOptions,

        /// Prefix of node names
        #[arg(long, default_value = "", value_parser = optional_name, value_name = "NAME")]
        name: String,

        /// Also run a scheduler
        #[arg(long)]
        scheduler: bool,

        /// CA that signs the client certificate that the server presents to kubelets; default: the CA of the
        /// kubeconfig
        #[arg(long, value_name = "FILE")]
        kubelet_client_ca: Option<PathBuf>,

        #[command(flatten)]
        log: LogOptions,

        #[command(flatten)]
        connection: Connection,
    },
    /// Add, list and remove faults of a running simulated cluster or of simulated nodes
    #[command(subcommand)]
    Fault(FaultCommand),
}

#[derive(Subcommand)]
pub enum FaultCommand {
    /// Add a fault
    #[command(subcommand)]
    Add(FaultKind),
    /// List the active faults
    List {
        #[command(flatten)]
        shown: OutputOptions,
        #[command(flatten)]
        connection: Connection,
    },
    /// Remove a fault
    Remove {
        /// Id of the fault, as listed by `atoll sim fault list`
        id: u64,
        #[command(flatten)]
        connection: Connection,
    },
    /// Remove all faults
    Clear {
        #[command(flatten)]
        connection: Connection,
    },
}

#[derive(Subcommand)]
pub enum FaultKind {
    /// Delay responses and watch events; if only nodes are simulated, those for the nodes
    Slow {
        /// Delay, as in 200ms
        #[arg(long, value_name = "DURATION")]
        latency: String,
        /// Maximum additional random delay
        #[arg(long, value_name = "DURATION")]
        jitter: Option<String>,
        #[command(flatten)]
        connection: Connection,
    },
    /// Break connections; if only nodes are simulated, those of the nodes
    Lossy {
        /// Fraction of connections, responses and events that are lost, from 0 to 1
        #[arg(long, value_name = "RATE")]
        rate: f64,
        #[command(flatten)]
        connection: Connection,
    },
    /// Drop all traffic silently
    Partition {
        /// Between these nodes and the cluster
        #[arg(long, value_delimiter = ',', value_name = "NAMES", conflicts_with = "clients")]
        nodes: Vec<String>,
        /// Between the cluster and its clients; the default if no nodes are named. Not available if only
        /// nodes are simulated
        #[arg(long)]
        clients: bool,
        #[command(flatten)]
        connection: Connection,
    },
    /// Let containers exit as soon as they have started
    CrashLoop {
        /// Images of the containers; * matches any text
        #[arg(long, value_name = "PATTERN")]
        image: String,
        #[command(flatten)]
        connection: Connection,
    },
    /// Let a node run out of resources
    FullNode {
        node: String,
        #[command(flatten)]
        connection: Connection,
    },
    /// Stop a node
    DeadNode {
        node: String,
        #[command(flatten)]
        connection: Connection,
    },
    /// Stop the cluster; if only nodes are simulated, all of these
    DeadCluster {
        #[command(flatten)]
        connection: Connection,
    },
    /// Stop serving a version of an API. Not available if only nodes are simulated
    MissingApi {
        /// Group and version, as in batch/v1
        #[arg(value_name = "GROUP/VERSION")]
        api: String,
        #[command(flatten)]
        connection: Connection,
    },
    /// Change the clock of the cluster; if only nodes are simulated, the clock of the nodes
    ClockSkew {
        /// Offset, as in +5m or -90s
        #[arg(value_name = "DURATION", allow_hyphen_values = true)]
        skew: String,
        #[command(flatten)]
        connection: Connection,
    },
}

impl FaultKind {
    /// The request body for the server, and the connection to it.
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

/// Maximum number of nodes in one process.
const MAX_NODES: usize = 10_000;

pub(super) fn count(text: &str) -> Result<usize, String> {
    let count = text.parse::<usize>().map_err(|error| error.to_string())?;
    if count <= MAX_NODES { Ok(count) } else { Err(format!("there may be at most {MAX_NODES}")) }
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

pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let nanos = atoll_meta::time::parse_duration(text).and_then(|nanos| u64::try_from(nanos).ok());
    nanos.map(Duration::from_nanos).ok_or_else(|| "it must be a duration such as 200ms or 1m30s".into())
}
