//! The command line.

mod cluster;
mod dialect;
mod keep;
mod playground;
mod settings;
mod sim;

use std::ffi::OsString;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use crate::kubelets::KubeletSettings;
use atoll_controllers::catalog::Choice;
use atoll_registry::{PortRange, Prefix};
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};

use crate::completion::Shell;
use crate::output::Shown;
use crate::style::When;

pub use self::cluster::{
    ClusterCommand, ClusterName, FleetSettings, JoinOptions, Mode, PlaceOptions, SyncerOptions,
};
pub use self::dialect::{Dialect, DialectCommand, DialectOptions};
pub use self::keep::{AdoptOptions, OrphansCommand, PauseOptions, Paused, ReleaseOptions};
pub use self::playground::PlaygroundOptions;
pub use self::sim::{FaultCommand, SimCommand, SimLine, SimOptions};

/// One Kubernetes API over every cluster you have.
#[derive(Parser)]
#[command(name = "atoll", version, disable_help_subcommand = true, after_help = AFTER_HELP)]
pub struct Line {
    #[command(subcommand)]
    pub command: Command,

    /// Colour what is shown: auto does on a terminal, unless NO_COLOR is set
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", hide_default_value = true)]
    pub color: When,
}

const AFTER_HELP: &str = "\
To begin:
  atoll start
  export KUBECONFIG=$PWD/atoll-data/admin.kubeconfig    (in another terminal)
  atoll workspace create team --use
With kubectl-atoll on the PATH the same commands are also \"kubectl atoll …\".";

#[derive(Subcommand)]
pub enum Command {
    /// Start the control plane
    Start(Box<StartOptions>),
    /// Start a control plane and a few simulated clusters to play with
    Playground(PlaygroundOptions),
    /// Simulate a physical cluster, only its nodes, or what goes wrong with one
    Sim(Box<SimLine>),
    /// Create, enter, show and delete workspaces
    #[command(subcommand)]
    Workspace(WorkspaceCommand),
    /// Join clusters, look after them and take them out again
    #[command(subcommand)]
    Cluster(ClusterCommand),
    /// Copy what is placed on a cluster there, and its status back, for a cluster that joined with --mode none
    Syncer(SyncerOptions),
    /// Say on which clusters objects shall be
    Place(PlaceOptions),
    /// Bring what runs in a cluster already under Atoll, without restarting it
    #[command(after_help = keep::ADOPTING)]
    Adopt(AdoptOptions),
    /// Let go of objects in clusters: they run on there without a trace of Atoll
    #[command(after_help = keep::RELEASING)]
    Release(ReleaseOptions),
    /// Find and delete what clusters still have that is not known here any longer
    #[command(subcommand)]
    Orphans(OrphansCommand),
    /// Stop placing, moving and deleting, in the whole fleet, a workspace or a cluster
    #[command(after_help = keep::PAUSING)]
    Pause(PauseOptions),
    /// Go on where it was paused
    Resume(Paused),
    /// Speak another system's API, such as kcp's, in a workspace
    #[command(subcommand)]
    Dialect(DialectCommand),
    /// Save everything to a file, or put it back
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
    /// What shells ask while one types
    #[command(name = "__complete", hide = true, disable_help_flag = true)]
    Complete {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<OsString>,
    },
}

#[derive(Args)]
pub struct StartOptions {
    /// Directory for data, certificates and the admin's kubeconfig
    #[arg(long, env = "ATOLL_DATA_DIR", default_value = "atoll-data", value_name = "DIR")]
    pub data_dir: PathBuf,

    /// Address and port to listen on; port 0 picks a free one
    #[arg(long, env = "ATOLL_LISTEN", default_value = "127.0.0.1:6443", value_name = "ADDRESS:PORT")]
    pub listen: SocketAddr,

    /// Address that clients reach this server by, if it is not the one it listens on
    #[arg(long, env = "ATOLL_ADVERTISE_ADDRESS", value_name = "ADDRESS")]
    pub advertise_address: Option<IpAddr>,

    /// Addresses that Services are given, one range or one for each family
    #[arg(
        long,
        env = "ATOLL_SERVICE_CLUSTER_IP_RANGE",
        default_value = "10.0.0.0/16",
        value_delimiter = ',',
        num_args = 1..=2,
        value_name = "RANGE"
    )]
    pub service_cluster_ip_range: Vec<Prefix>,

    /// Ports that Services are given on nodes
    #[arg(long, env = "ATOLL_SERVICE_NODE_PORT_RANGE", default_value = "30000-32767", value_name = "RANGE")]
    pub service_node_port_range: PortRange,

    /// What to serve: all of Kubernetes' own resources, or only what Atoll needs
    #[arg(long, env = "ATOLL_PROFILE", default_value = "full")]
    pub profile: ProfileName,

    /// Static tokens, as lines of token,user,uid,"group1,group2"
    #[arg(long, env = "ATOLL_TOKEN_AUTH_FILE", value_name = "FILE")]
    pub token_auth_file: Option<PathBuf>,

    /// Let workspaces below root have the server connect to loopback, link-local and metadata addresses, and to its own: for
    /// clusters and nodes on the same machine
    #[arg(long, env = "ATOLL_ALLOW_TENANT_ADDRESSES")]
    pub allow_tenant_addresses: bool,

    /// Who is said to sign tokens of ServiceAccounts, and whom they are meant for by default
    #[arg(long, env = "ATOLL_SERVICE_ACCOUNT_ISSUER", default_value = atoll_authn::ISSUER, value_parser = issuer,
        value_name = "URL")]
    pub service_account_issuer: String,

    /// Days after which another key signs tokens of ServiceAccounts; 0 leaves that to `atoll keys rotate tokens`
    #[arg(long, env = "ATOLL_SERVICE_ACCOUNT_KEY_DAYS", default_value_t = 90, value_name = "DAYS")]
    pub service_account_key_days: u32,

    /// What to encrypt on the disk and with which keys, as an EncryptionConfiguration; Secrets with a key of Atoll's own
    /// if there is none
    #[arg(long, env = "ATOLL_ENCRYPTION_PROVIDER_CONFIG", value_name = "FILE")]
    pub encryption_provider_config: Option<PathBuf>,

    /// Seconds that Atoll's own certificates are good for; they are renewed after two thirds of that
    #[arg(long, env = "ATOLL_CERTIFICATE_LIFETIME", default_value_t = 365 * 86_400, value_name = "SECONDS",
        value_parser = clap::value_parser!(u32).range(3..))]
    pub certificate_lifetime: u32,

    /// Admission plugins to enable besides those that are on by default
    #[arg(long, env = "ATOLL_ENABLE_ADMISSION_PLUGINS", value_delimiter = ',', value_name = "NAMES")]
    pub enable_admission_plugins: Vec<String>,

    /// Admission plugins to disable although they are on by default
    #[arg(long, env = "ATOLL_DISABLE_ADMISSION_PLUGINS", value_delimiter = ',', value_name = "NAMES")]
    pub disable_admission_plugins: Vec<String>,

    /// Where pods are made in namespaces without the label atoll.dev/grain, in workspaces that do not say: in clusters, of
    /// objects that are placed there, or here, one by one
    #[arg(long, env = "ATOLL_GRAIN", default_value = "object")]
    pub grain: Grain,
    #[command(flatten)]
    pub kubelets: KubeletSettings,

    /// Seconds that a request other than a watch may take
    #[arg(long, env = "ATOLL_REQUEST_TIMEOUT", default_value_t = 60, value_name = "SECONDS")]
    pub request_timeout: u64,

    /// Seconds that a client may take to open a connection and to send a request's headers; and to send a body, which after
    /// that has to arrive at 32 KiB a second
    #[arg(long, env = "ATOLL_HEADER_TIMEOUT", default_value_t = 10, value_name = "SECONDS")]
    pub header_timeout: u64,

    /// Reading requests under way at once, beyond which clients are asked to come back. A user has at most a quarter of them.
    /// So have a workspace and all below it, for its own ServiceAccounts and certificates, of which each has at most half
    #[arg(long, env = "ATOLL_MAX_REQUESTS_INFLIGHT", default_value_t = 400, value_name = "COUNT")]
    pub max_requests_inflight: usize,

    /// Writing requests under way at once, shared in the same way
    #[arg(long, env = "ATOLL_MAX_MUTATING_REQUESTS_INFLIGHT", default_value_t = 200, value_name = "COUNT")]
    pub max_mutating_requests_inflight: usize,

    /// Seconds that requests may take to finish once a shutdown was asked for
    #[arg(long, env = "ATOLL_SHUTDOWN_TIMEOUT", default_value_t = 10, value_name = "SECONDS")]
    pub shutdown_timeout: u64,

    /// Seconds of the past that watches can resume from, and that a list can be continued for
    #[arg(long, env = "ATOLL_HISTORY", default_value_t = 300, value_name = "SECONDS")]
    pub history: u64,

    /// Most memory that the past may take, in MiB
    #[arg(long, env = "ATOLL_HISTORY_SIZE", default_value_t = 64, value_name = "MIB")]
    pub history_size: usize,

    /// Controllers to run: all (*), some by name, or all but some (*,-name); true and false are all and none
    #[arg(long, env = "ATOLL_CONTROLLERS", default_value = "*", value_name = "NAMES")]
    pub controllers: Choice,

    /// Whether the server keeps a Lease that says that it runs: without it nothing is written while nothing is asked for, as
    /// some tests need it
    #[arg(long, hide = true, default_value_t = true, action = clap::ArgAction::Set, value_name = "BOOL")]
    pub identity_lease: bool,

    #[command(flatten)]
    pub fleet: FleetSettings,

    #[command(flatten)]
    pub log: LogOptions,

    /// OpenTelemetry collector to send traces of requests to, as OTLP over HTTP
    #[arg(long, env = "ATOLL_OTLP_ENDPOINT", value_name = "URL")]
    pub otlp_endpoint: Option<String>,

    /// File with any of these flags as `name: value` lines; flags and environment come first
    #[arg(long, env = "ATOLL_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// What is told to whoever operates it.
#[derive(Args)]
pub struct LogOptions {
    /// How to write the log
    #[arg(long, env = "ATOLL_LOG_FORMAT", default_value = "text")]
    pub log_format: LogFormat,

    /// What to log: error, warn, info, debug, or a filter such as atoll_server=debug
    #[arg(long, env = "ATOLL_LOG", default_value = "info", value_name = "FILTER")]
    pub log: String,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Grain {
    Object,
    Pod,
}

impl Grain {
    /// As objects say it.
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

/// Where the control plane is.
#[derive(Args, Clone)]
pub struct Connection {
    /// Kubeconfig to use instead of $KUBECONFIG or ~/.kube/config
    #[arg(long, global = true, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// Context in it to use instead of the current one
    #[arg(long, global = true, value_name = "NAME")]
    pub context: Option<String>,
}

#[derive(Subcommand)]
pub enum WorkspaceCommand {
    /// Create a workspace in the current one
    Create {
        /// Name of the new workspace
        name: String,
        /// Switch to it at once
        #[arg(long)]
        r#use: bool,
        /// Where pods are made of what is created in it: in clusters, of objects that are placed there, or right there, one
        /// by one
        #[arg(long)]
        grain: Option<Grain>,
        #[command(flatten)]
        shown: Shown,
        #[command(flatten)]
        connection: Connection,
    },
    /// Switch the current context to a workspace
    Use {
        /// A child's name, an absolute path such as root:org:team, .. for the parent, or - for the one before
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
        shown: Shown,
        #[command(flatten)]
        connection: Connection,
    },
    /// Show all workspaces below the current one, as a tree
    Tree {
        #[command(flatten)]
        shown: Shown,
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
        /// Do not ask, whatever is in it
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        connection: Connection,
    },
}

#[derive(Subcommand)]
pub enum SnapshotCommand {
    /// Write everything that the running server holds to a file
    Save {
        /// File to write
        file: PathBuf,
        #[command(flatten)]
        connection: Connection,
    },
    /// Make the running server hold what a file says, and nothing else
    Restore {
        /// File written by `atoll snapshot save`
        file: PathBuf,
        /// Do not ask, whatever is lost
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        connection: Connection,
    },
}

/// Where the keys are.
#[derive(Args)]
pub struct KeyPlace {
    /// Directory of the server's data; it may be running
    #[arg(long, env = "ATOLL_DATA_DIR", default_value = "atoll-data", value_name = "DIR")]
    pub data_dir: PathBuf,
}

#[derive(Clone, Copy, ValueEnum)]
pub enum KeyKind {
    /// The key that signs tokens of ServiceAccounts
    Tokens,
    /// The key that encrypts what is on the disk
    Encryption,
}

#[derive(Subcommand)]
pub enum KeysCommand {
    /// Show the keys that tokens are verified with, newest first
    List {
        #[command(flatten)]
        shown: Shown,
        #[command(flatten)]
        place: KeyPlace,
    },
    /// Make a new key and use it from now on
    Rotate {
        kind: KeyKind,
        #[command(flatten)]
        place: KeyPlace,
    },
    /// Forget a key: tokens that it has signed are no longer valid
    Retire {
        /// As `atoll keys list` shows it
        // Some of them begin with a hyphen.
        #[arg(allow_hyphen_values = true)]
        id: String,
        #[command(flatten)]
        place: KeyPlace,
    },
}

/// OpenID wants it to be found by its name.
fn issuer(text: &str) -> Result<String, String> {
    match text.strip_prefix("https://") {
        Some(rest) if !rest.is_empty() && !rest.contains(['?', '#', ' ']) => Ok(text.to_string()),
        _ => Err("it must be a URL that begins with https:// and has neither a query nor a fragment".into()),
    }
}

/// What one types to get here: kubectl starts its plugins by names that begin with its own.
pub fn invocation(arguments: &[OsString]) -> &'static str {
    let name = arguments.first().and_then(|program| Path::new(program).file_name());
    if name.is_some_and(|name| name == "kubectl-atoll") { "kubectl atoll" } else { "atoll" }
}

/// Ends the process with help, or with what is wrong with the arguments.
pub fn parse(arguments: Vec<OsString>) -> Line {
    let color = match When::of(&arguments) {
        When::Auto => clap::ColorChoice::Auto,
        When::Always => clap::ColorChoice::Always,
        When::Never => clap::ColorChoice::Never,
    };
    let command = Line::command().bin_name(invocation(&arguments)).color(color);
    Line::from_arg_matches(&command.get_matches_from(arguments)).unwrap_or_else(|error| error.exit())
}

/// The arguments, with what a config file says put in front of them: what stands later on the line wins,
/// and a flag that is set by the environment is left to it.
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

/// The option that may stand before a command, or its value.
fn is_color(argument: &str) -> bool {
    argument.starts_with("--color") || When::from_str(argument, false).is_ok()
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
