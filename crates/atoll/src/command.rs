//! The command line.

mod cluster;
mod controllers;
mod dialect;
mod explain;
mod management;
mod playground;
mod settings;
mod sim;

use std::ffi::OsString;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use crate::kubelets::KubeletSettings;
use atoll_controllers::catalog::ControllerSelection;
use atoll_registry::{PortRange, Prefix};
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};

use crate::completion::Shell;
use crate::output::OutputOptions;
use crate::style::ColorMode;

pub use self::cluster::{
    ClusterCommand, ClusterName, DrainOptions, FleetSettings, JoinOptions, Mode, MoveOptions, PlaceOptions,
    SyncerOptions,
};
pub use self::controllers::ControllersOptions;
pub use self::dialect::{DialectCommand, DialectOptions};
pub use self::explain::{ExplainOptions, WhatIfOptions};
pub use self::management::{AdoptOptions, OrphansCommand, PauseOptions, PauseScope, ReleaseOptions};
pub use self::playground::PlaygroundOptions;
pub use self::sim::{FaultCommand, SimArgs, SimCommand, SimOptions};

/// One Kubernetes API over every cluster you have.
#[derive(Parser)]
#[command(name = "atoll", version, disable_help_subcommand = true, after_help = AFTER_HELP)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,

    /// Colour the output: auto does on a terminal, unless NO_COLOR is set
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", hide_default_value = true)]
    pub color: ColorMode,
}

const AFTER_HELP: &str = "\
To get started:
  atoll start
  export KUBECONFIG=$PWD/atoll-data/admin.kubeconfig    (in another terminal)
  atoll workspace create team --use
With kubectl-atoll on the PATH the same commands are also \"kubectl atoll …\".";

#[derive(Subcommand)]
pub enum Command {
    /// Start the control plane
    Start(Box<StartOptions>),
    /// Start a control plane and a few simulated clusters to try Atoll
    Playground(PlaygroundOptions),
    /// Simulate a cluster or nodes, and inject faults into them
    Sim(Box<SimArgs>),
    /// Create, switch to, show and delete workspaces
    #[command(subcommand)]
    Workspace(WorkspaceCommand),
    /// Join, show, cordon, drain, fence and remove clusters
    #[command(subcommand)]
    Cluster(ClusterCommand),
    /// Sync a cluster that joined with --mode none: apply placed objects there and report their status
    Syncer(SyncerOptions),
    /// Run the scheduler or other controllers outside of the server, over its API alone
    #[command(after_help = controllers::CONTROLLERS_HELP)]
    Controllers(ControllersOptions),
    /// Place objects on clusters
    Place(PlaceOptions),
    /// Move workloads to other clusters: new replicas are available before old ones are taken away
    Move(MoveOptions),
    /// Explain why an object runs where it does, cluster by cluster
    #[command(after_help = explain::EXPLAIN_HELP)]
    Explain(ExplainOptions),
    /// Show what would move where if a cluster, a policy or a number of replicas changed
    #[command(after_help = explain::WHAT_IF_HELP)]
    WhatIf(WhatIfOptions),
    /// Bring objects that already run in a cluster under Atoll's management, without restarting them
    #[command(after_help = management::ADOPT_HELP)]
    Adopt(AdoptOptions),
    /// Release objects: they stay in their clusters and are no longer managed by Atoll
    #[command(after_help = management::RELEASE_HELP)]
    Release(ReleaseOptions),
    /// Find and delete objects in clusters that no longer exist in the control plane
    #[command(subcommand)]
    Orphans(OrphansCommand),
    /// Pause placing, moving and deleting in the whole fleet, a workspace or a cluster
    #[command(after_help = management::PAUSE_HELP)]
    Pause(PauseOptions),
    /// Resume what was paused
    Resume(PauseScope),
    /// Serve another system's API, such as kcp's, in a workspace
    #[command(subcommand)]
    Dialect(DialectCommand),
    /// Save everything to a file, or restore it
    #[command(subcommand)]
    Snapshot(SnapshotCommand),
    /// Show and replace the keys that sign tokens and encrypt the data
    #[command(subcommand)]
    Keys(KeysCommand),
    /// Print the versions of this program and of the server
    Version {
        #[command(flatten)]
        connection: Connection,
    },
    /// Print a script that completes commands, options and names in a shell
    Completion {
        /// Which shell; the first lines of the script say where to put it
        shell: Shell,
    },
    /// Completion candidates, requested by the shells' scripts
    #[command(name = "__complete", hide = true, disable_help_flag = true)]
    Complete {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<OsString>,
    },
}

#[derive(Args)]
pub struct StartOptions {
    /// Directory for data, certificates and the administrator's kubeconfig
    #[arg(long, env = "ATOLL_DATA_DIR", default_value = "atoll-data", value_name = "DIR")]
    pub data_dir: PathBuf,

    /// Address and port to listen on; port 0 picks a free port
    #[arg(long, env = "ATOLL_LISTEN", default_value = "127.0.0.1:6443", value_name = "ADDRESS:PORT")]
    pub listen: SocketAddr,

    /// Address by which clients reach this server, if it is not the one it listens on
    #[arg(long, env = "ATOLL_ADVERTISE_ADDRESS", value_name = "ADDRESS")]
    pub advertise_address: Option<IpAddr>,

    /// Ranges of cluster IPs of Services, one or one per IP family
    #[arg(
        long,
        env = "ATOLL_SERVICE_CLUSTER_IP_RANGE",
        default_value = "10.0.0.0/16",
        value_delimiter = ',',
        num_args = 1..=2,
        value_name = "RANGE"
    )]
    pub service_cluster_ip_range: Vec<Prefix>,

    /// Range of node ports of Services
    #[arg(long, env = "ATOLL_SERVICE_NODE_PORT_RANGE", default_value = "30000-32767", value_name = "RANGE")]
    pub service_node_port_range: PortRange,

    /// Resources to serve: all of Kubernetes' own, or only those that Atoll needs
    #[arg(long, env = "ATOLL_PROFILE", default_value = "full")]
    pub profile: ProfileName,

    /// Static tokens, as lines of token,user,uid,"group1,group2"
    #[arg(long, env = "ATOLL_TOKEN_AUTH_FILE", value_name = "FILE")]
    pub token_auth_file: Option<PathBuf>,

    /// Let workspaces below root make the server connect to loopback, link-local and metadata addresses and
    /// to its own addresses: for clusters and nodes on the same machine
    #[arg(long, env = "ATOLL_ALLOW_TENANT_ADDRESSES")]
    pub allow_tenant_addresses: bool,

    /// Issuer of ServiceAccount tokens, and their default audience
    #[arg(long, env = "ATOLL_SERVICE_ACCOUNT_ISSUER", default_value = atoll_authn::ISSUER, value_parser = issuer,
        value_name = "URL")]
    pub service_account_issuer: String,

    /// Days after which a new key signs ServiceAccount tokens; 0 leaves that to `atoll keys rotate tokens`
    #[arg(long, env = "ATOLL_SERVICE_ACCOUNT_KEY_DAYS", default_value_t = 90, value_name = "DAYS")]
    pub service_account_key_days: u32,

    /// EncryptionConfiguration for data at rest; without it Secrets are encrypted with a key of Atoll's own
    #[arg(long, env = "ATOLL_ENCRYPTION_PROVIDER_CONFIG", value_name = "FILE")]
    pub encryption_provider_config: Option<PathBuf>,

    /// Lifetime of Atoll's own certificates in seconds; they are renewed after two thirds of it
    #[arg(long, env = "ATOLL_CERTIFICATE_LIFETIME", default_value_t = 365 * 86_400, value_name = "SECONDS",
        value_parser = clap::value_parser!(u32).range(3..))]
    pub certificate_lifetime: u32,

    /// Lifetime of the tokens of ServiceAccounts in clusters, in seconds; they are renewed after four fifths of it
    #[arg(long, env = "ATOLL_POD_TOKEN_LIFETIME", default_value_t = 3600, value_name = "SECONDS",
        value_parser = clap::value_parser!(u32).range(5..=86_400))]
    pub pod_token_lifetime: u32,

    /// Admission plugins to enable in addition to the default ones
    #[arg(long, env = "ATOLL_ENABLE_ADMISSION_PLUGINS", value_delimiter = ',', value_name = "NAMES")]
    pub enable_admission_plugins: Vec<String>,

    /// Admission plugins to disable that are enabled by default
    #[arg(long, env = "ATOLL_DISABLE_ADMISSION_PLUGINS", value_delimiter = ',', value_name = "NAMES")]
    pub disable_admission_plugins: Vec<String>,

    /// Default grain of workspaces and namespaces without the label atoll.dev/grain: workloads are placed as
    /// objects, whose pods the clusters create, or pod by pod
    #[arg(long, env = "ATOLL_GRAIN", default_value = "object")]
    pub grain: Grain,
    #[command(flatten)]
    pub kubelets: KubeletSettings,

    /// Timeout of requests other than watches, in seconds
    #[arg(long, env = "ATOLL_REQUEST_TIMEOUT", default_value_t = 60, value_name = "SECONDS")]
    pub request_timeout: u64,

    /// Seconds for a client to open a connection and to send the headers of a request. A body has the same
    /// time, plus one second per 32 KiB
    #[arg(long, env = "ATOLL_HEADER_TIMEOUT", default_value_t = 10, value_name = "SECONDS")]
    pub header_timeout: u64,

    /// Maximum number of non-mutating requests in flight; more are rejected with 429. A user has at most a
    /// quarter of them. So do a workspace and all workspaces below it, for their own ServiceAccounts and
    /// certificates, each of which has at most half of that
    #[arg(long, env = "ATOLL_MAX_REQUESTS_INFLIGHT", default_value_t = 400, value_name = "COUNT")]
    pub max_requests_inflight: usize,

    /// Maximum number of mutating requests in flight, shared in the same way
    #[arg(long, env = "ATOLL_MAX_MUTATING_REQUESTS_INFLIGHT", default_value_t = 200, value_name = "COUNT")]
    pub max_mutating_requests_inflight: usize,

    /// Maximum number of watches, shared in the same way
    #[arg(long, env = "ATOLL_MAX_WATCHES", default_value_t = 10_000, value_name = "COUNT")]
    pub max_watches: usize,

    /// Seconds for requests to finish after a shutdown was requested
    #[arg(long, env = "ATOLL_SHUTDOWN_TIMEOUT", default_value_t = 10, value_name = "SECONDS")]
    pub shutdown_timeout: u64,

    /// Seconds of history from which watches can resume and lists can be continued
    #[arg(long, env = "ATOLL_HISTORY", default_value_t = 300, value_name = "SECONDS")]
    pub history: u64,

    /// Maximum memory of the history in MiB
    #[arg(long, env = "ATOLL_HISTORY_SIZE", default_value_t = 64, value_name = "MIB")]
    pub history_size: usize,

    /// Controllers to run: all (*), some by name, or all but some (*,-name); true and false mean all and none
    #[arg(long, env = "ATOLL_CONTROLLERS", default_value = "*", value_name = "NAMES", value_parser = dialect::controllers)]
    pub controllers: ControllerSelection,

    /// Whether the server renews an identity Lease. Some tests disable it, because without it an idle server
    /// writes nothing
    #[arg(long, hide = true, default_value_t = true, action = clap::ArgAction::Set, value_name = "BOOL")]
    pub identity_lease: bool,

    #[command(flatten)]
    pub fleet: FleetSettings,

    #[command(flatten)]
    pub log: LogOptions,

    /// URL of an OpenTelemetry collector that receives traces of requests, as OTLP over HTTP
    #[arg(long, env = "ATOLL_OTLP_ENDPOINT", value_name = "URL")]
    pub otlp_endpoint: Option<String>,

    /// File with any of these flags as `name: value` lines; flags and environment variables override it
    #[arg(long, env = "ATOLL_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// Options of the log.
#[derive(Args)]
pub struct LogOptions {
    /// Format of the log
    #[arg(long, env = "ATOLL_LOG_FORMAT", default_value = "text")]
    pub log_format: LogFormat,

    /// Log level or filter: error, warn, info, debug, or for example atoll_server=debug
    #[arg(long, env = "ATOLL_LOG", default_value = "info", value_name = "FILTER")]
    pub log: String,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Grain {
    Object,
    Pod,
}

impl Grain {
    /// The value in labels and annotations.
    pub fn name(self) -> &'static str {
        match self {
            Grain::Object => "object",
            Grain::Pod => "pod",
        }
    }
}

#[derive(Clone, Copy, ValueEnum)]
pub enum ProfileName {
    Full,
    Minimal,
}

#[derive(Clone, Copy, ValueEnum)]
pub enum LogFormat {
    Text,
    Json,
}

/// The kubeconfig and context of the control plane.
#[derive(Args, Clone, Default)]
pub struct Connection {
    /// Kubeconfig to use instead of $KUBECONFIG or ~/.kube/config
    #[arg(long, global = true, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// Context to use instead of the current one of the kubeconfig
    #[arg(long, global = true, value_name = "NAME")]
    pub context: Option<String>,
}

#[derive(Subcommand)]
pub enum WorkspaceCommand {
    /// Create a workspace in the current one
    Create {
        /// Name of the new workspace
        name: String,
        /// Switch to it
        #[arg(long)]
        r#use: bool,
        /// Grain of workloads created in it: placed as objects, whose pods the clusters create, or pod by pod
        #[arg(long)]
        grain: Option<Grain>,
        #[command(flatten)]
        shown: OutputOptions,
        #[command(flatten)]
        connection: Connection,
    },
    /// Switch the current context to a workspace
    Use {
        /// Name of a child, absolute path such as root:org:team, .. for the parent, or - for the previous
        /// workspace
        #[arg(allow_hyphen_values = true)]
        path: String,
        #[command(flatten)]
        connection: Connection,
    },
    /// Print the path of the current workspace
    Current {
        #[command(flatten)]
        connection: Connection,
    },
    /// List the workspaces in the current one
    #[command(visible_alias = "ls")]
    List {
        #[command(flatten)]
        shown: OutputOptions,
        #[command(flatten)]
        connection: Connection,
    },
    /// Show all workspaces below the current one, as a tree
    Tree {
        #[command(flatten)]
        shown: OutputOptions,
        #[command(flatten)]
        connection: Connection,
    },
    /// Delete a workspace and everything in it
    Delete {
        /// Name of a workspace in the current one
        name: String,
        /// Do not wait until it is gone
        #[arg(long)]
        no_wait: bool,
        /// Do not ask for confirmation
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        connection: Connection,
    },
}

#[derive(Subcommand)]
pub enum SnapshotCommand {
    /// Write all data of the running server to a file
    Save {
        /// File to write
        file: PathBuf,
        #[command(flatten)]
        connection: Connection,
    },
    /// Replace all data of the running server by that of a file
    Restore {
        /// File written by `atoll snapshot save`
        file: PathBuf,
        /// Do not ask for confirmation
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        connection: Connection,
    },
}

/// The directory of the keys.
#[derive(Args)]
pub struct KeyLocation {
    /// Data directory of the server, which may be running
    #[arg(long, env = "ATOLL_DATA_DIR", default_value = "atoll-data", value_name = "DIR")]
    pub data_dir: PathBuf,
}

#[derive(Clone, Copy, ValueEnum)]
pub enum KeyKind {
    /// The key that signs ServiceAccount tokens
    Tokens,
    /// The key that encrypts data at rest
    Encryption,
}

#[derive(Subcommand)]
pub enum KeysCommand {
    /// List the keys that verify tokens, newest first
    List {
        #[command(flatten)]
        shown: OutputOptions,
        #[command(flatten)]
        location: KeyLocation,
    },
    /// Create a new key and use it from now on
    Rotate {
        kind: KeyKind,
        #[command(flatten)]
        location: KeyLocation,
    },
    /// Delete a key: tokens that it has signed are no longer valid
    Retire {
        /// Id of the key, as listed by `atoll keys list`
        // Some ids begin with a hyphen.
        #[arg(allow_hyphen_values = true)]
        id: String,
        #[command(flatten)]
        location: KeyLocation,
    },
}

/// Validates an issuer: OpenID Connect discovery requires an https URL.
fn issuer(text: &str) -> Result<String, String> {
    match text.strip_prefix("https://") {
        Some(rest) if !rest.is_empty() && !rest.contains(['?', '#', ' ']) => Ok(text.to_string()),
        _ => Err("it must be a URL that begins with https:// and has neither a query nor a fragment".into()),
    }
}

/// The command line that starts this program: kubectl runs plugins under names that begin with `kubectl-`.
pub fn invocation(arguments: &[OsString]) -> &'static str {
    let name = arguments.first().and_then(|program| Path::new(program).file_name());
    if name.is_some_and(|name| name == "kubectl-atoll") { "kubectl atoll" } else { "atoll" }
}

/// Parses the arguments. Exits the process for help and for invalid arguments.
pub fn parse(arguments: Vec<OsString>) -> Cli {
    let color = match ColorMode::of(&arguments) {
        ColorMode::Auto => clap::ColorChoice::Auto,
        ColorMode::Always => clap::ColorChoice::Always,
        ColorMode::Never => clap::ColorChoice::Never,
    };
    let command = Cli::command().bin_name(invocation(&arguments)).color(color);
    Cli::from_arg_matches(&command.get_matches_from(arguments)).unwrap_or_else(|error| error.exit())
}

/// Inserts the settings of a config file before the other arguments, so that flags on the command line
/// override them. A setting is skipped if its environment variable is set.
pub fn with_config_file(arguments: Vec<OsString>) -> Result<Vec<OsString>, String> {
    let before =
        arguments.iter().skip(1).take_while(|argument| argument.to_str().is_some_and(is_color)).count();
    let command = before + 1;
    if arguments.get(command).is_none_or(|name| name != "start") {
        return Ok(arguments);
    }
    let given = config_argument(&arguments).or_else(|| std::env::var_os("ATOLL_CONFIG"));
    let Some(path) = given else { return Ok(arguments) };
    let shown = PathBuf::from(&path);
    let text = std::fs::read_to_string(&shown).map_err(|error| format!("{}: {error}", shown.display()))?;
    let settings = settings::parse(&text).map_err(|error| format!("{}: {error}", shown.display()))?;
    let mut merged: Vec<OsString> = arguments[..=command].to_vec();
    for (name, value) in settings {
        let flag = format!("--{name}");
        let variable = format!("ATOLL_{}", name.replace('-', "_").to_uppercase());
        let on_line = arguments.iter().any(|argument| {
            argument.to_str().is_some_and(|text| text == flag || text.starts_with(&format!("{flag}=")))
        });
        if name == "config" || on_line || std::env::var_os(variable).is_some() {
            continue;
        }
        merged.push(format!("{flag}={value}").into());
    }
    merged.extend_from_slice(&arguments[command + 1..]);
    Ok(merged)
}

/// Whether an argument is the global option `--color` or its value.
fn is_color(argument: &str) -> bool {
    argument.starts_with("--color") || ColorMode::from_str(argument, false).is_ok()
}

fn config_argument(arguments: &[OsString]) -> Option<OsString> {
    arguments.iter().enumerate().find_map(|(position, argument)| {
        let text = argument.to_str()?;
        match text.strip_prefix("--config=") {
            Some(path) => Some(path.into()),
            None if text == "--config" => arguments.get(position + 1).cloned(),
            None => None,
        }
    })
}
