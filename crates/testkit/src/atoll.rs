//! Atoll as a user starts it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::OnceLock;

use rustix::process::Signal;
use tempfile::TempDir;

use crate::client::Client;
use crate::process::{NotReady, Process};
use crate::wait::eventually_blocking;

/// A token of user `admin` in `system:masters`, the same that `upstream/serve` accepts.
pub const TOKEN: &str = "admin-token";

/// A running `atoll start` or `atoll sim`. Dropping it stops it and removes its data.
pub struct Atoll {
    // Before the directory: dropped first, so nothing writes there any more when it is removed.
    process: Process,
    directory: TempDir,
    command: &'static str,
    arguments: Vec<OsString>,
    url: String,
}

impl Atoll {
    /// With default settings.
    pub fn start() -> Atoll {
        Atoll::start_with::<&str>(&[])
    }

    /// With more arguments of `atoll start`.
    pub fn start_with<A: Into<OsString> + Clone>(arguments: &[A]) -> Atoll {
        Atoll::run("start", arguments)
    }

    /// A simulated cluster, with more arguments of `atoll sim`.
    pub fn simulate<A: Into<OsString> + Clone>(arguments: &[A]) -> Atoll {
        Atoll::run("sim", arguments)
    }

    fn run<A: Into<OsString> + Clone>(command: &'static str, arguments: &[A]) -> Atoll {
        let directory = tempfile::tempdir().unwrap_or_else(|error| panic!("temporary directory: {error}"));
        let tokens = directory.path().join("tokens.csv");
        let line = format!("{TOKEN},admin,admin,system:masters\n");
        std::fs::write(&tokens, line).unwrap_or_else(|error| panic!("{}: {error}", tokens.display()));
        let arguments: Vec<OsString> = arguments.iter().cloned().map(Into::into).collect();
        let (process, url) = started(launch(command, directory.path(), "127.0.0.1:0", &arguments));
        Atoll { process, directory, command, arguments, url }
    }

    /// `https://127.0.0.1:PORT`. Stays the same when the server is restarted.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The certificate authority, in PEM.
    pub fn authority(&self) -> PathBuf {
        self.data_dir().join("ca.crt")
    }

    /// An administrator's, with a client certificate.
    pub fn kubeconfig(&self) -> PathBuf {
        self.data_dir().join("admin.kubeconfig")
    }

    pub fn data_dir(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// A client that authenticates with [`TOKEN`].
    pub fn client(&self) -> Client {
        Client::new(&self.url, &self.authority(), Some(TOKEN))
    }

    /// Asks it to stop (SIGTERM) and waits until it has.
    pub fn stop(&mut self) -> ExitStatus {
        self.process.signal(Signal::TERM);
        self.process.wait()
    }

    /// Ends it as a power cut would.
    pub fn kill9(&mut self) {
        self.process.signal(Signal::KILL);
        self.process.wait();
    }

    /// Starts it again on the same data and port, after stopping it if it still runs.
    pub fn restart(&mut self) {
        self.stop();
        let address = self.url.trim_start_matches("https://").to_string();
        let mut again = None;
        eventually_blocking("the port is free again", || {
            again = match launch(self.command, self.directory.path(), &address, &self.arguments) {
                // Another program's connection may have been given our port as its own end; it will pass.
                Err(end) if end.complaint.contains("cannot listen") => None,
                other => Some(started(other)),
            };
            again.is_some()
        });
        if let Some((process, url)) = again {
            (self.process, self.url) = (process, url);
        }
    }
}

/// Runs the binary in `directory` until it says that it is ready.
fn launch(
    name: &str,
    directory: &Path,
    listen: &str,
    arguments: &[OsString],
) -> Result<(Process, String), NotReady> {
    let mut command = Command::new(binary());
    command.arg(name).arg("--data-dir").arg(directory.join("data"));
    command.arg("--token-auth-file").arg(directory.join("tokens.csv"));
    command.args(["--listen", listen]).args(arguments);
    let (process, line) = Process::start(&mut command)?;
    let url = line.split("ready at ").nth(1).and_then(|rest| rest.split(". ").next());
    let url = url.unwrap_or_else(|| panic!("no address in what atoll says: {line}")).to_string();
    Ok((process, url))
}

fn started(outcome: Result<(Process, String), NotReady>) -> (Process, String) {
    outcome.unwrap_or_else(|end| panic!("atoll did not start ({}): {}", end.status, end.complaint))
}

/// A running `atoll sim nodes`: simulated nodes at a server or in a workspace. Dropping it stops it.
pub struct SimulatedNodes {
    _process: Process,
}

impl SimulatedNodes {
    /// Where the current context of a kubeconfig says, with more arguments.
    pub fn start(kubeconfig: &Path, arguments: &[&str]) -> SimulatedNodes {
        let mut command = Command::new(binary());
        command.args(["sim", "nodes", "--kubeconfig"]).arg(kubeconfig).args(arguments);
        match Process::start(&mut command) {
            Ok((process, _)) => SimulatedNodes { _process: process },
            Err(end) => panic!("atoll sim nodes did not start ({}): {}", end.status, end.complaint),
        }
    }
}

/// The binary under test: `ATOLL_BIN`, or else this workspace's, which cargo brings up to date first so that no test
/// ever passes because of an old one.
pub fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| match std::env::var_os("ATOLL_BIN") {
        Some(path) => PathBuf::from(path),
        None => build(),
    })
}

fn build() -> PathBuf {
    let test = std::env::current_exe().unwrap_or_else(|error| panic!("where is this test? {error}"));
    // TARGET/PROFILE/deps/test-hash; an example or a binary has no `deps`.
    let beside = test.parent().expect("a program is in a directory");
    let profile = if beside.ends_with("deps") { beside.parent().unwrap_or(beside) } else { beside };
    let target = profile.parent().expect("a profile's directory is in the target directory");
    let name = profile.file_name().unwrap_or_default();
    let name = if name == "debug" { "dev".into() } else { name.to_os_string() };
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .args(["build", "--quiet", "-p", "atoll"]);
    command.arg("--profile").arg(name).arg("--target-dir").arg(target);
    let status = command.status().unwrap_or_else(|error| panic!("cargo does not start: {error}"));
    assert!(status.success(), "atoll does not build");
    profile.join("atoll")
}
