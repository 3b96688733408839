//! A running `atoll` process.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::OnceLock;

use rustix::process::Signal;
use tempfile::TempDir;

use crate::client::Client;
use crate::process::{NotReady, Process};
use crate::wait::eventually_blocking;

/// A token of the user `admin` in `system:masters`, the same that `upstream/serve` accepts.
pub const TOKEN: &str = "admin-token";

/// A running `atoll start` or `atoll sim`. Dropping it stops the process and removes its data.
pub struct Atoll {
    // Declared before the directory: it is dropped first, so that nothing writes there when the directory is
    // removed.
    process: Process,
    directory: TempDir,
    command: &'static str,
    arguments: Vec<OsString>,
    url: String,
}

impl Atoll {
    /// Starts a server with default settings.
    pub fn start() -> Atoll {
        Atoll::start_with::<&str>(&[])
    }

    /// Starts a server with additional arguments of `atoll start`.
    pub fn start_with<A: Into<OsString> + Clone>(arguments: &[A]) -> Atoll {
        Atoll::run("start", arguments)
    }

    /// Starts a simulated cluster with additional arguments of `atoll sim`.
    pub fn simulate<A: Into<OsString> + Clone>(arguments: &[A]) -> Atoll {
        Atoll::run("sim", arguments)
    }

    fn run<A: Into<OsString> + Clone>(command: &'static str, arguments: &[A]) -> Atoll {
        let directory = tempfile::tempdir().unwrap_or_else(|error| panic!("temporary directory: {error}"));
        let tokens = directory.path().join("tokens.csv");
        let line = format!("{TOKEN},admin,admin,system:masters\n");
        std::fs::write(&tokens, line).unwrap_or_else(|error| panic!("{}: {error}", tokens.display()));
        let arguments: Vec<OsString> = arguments.iter().cloned().map(Into::into).collect();
        let (process, url) = expect_started(launch(command, directory.path(), "127.0.0.1:0", &arguments));
        Atoll { process, directory, command, arguments, url }
    }

    /// Returns `https://127.0.0.1:PORT`, which stays the same when the server is restarted.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the path of the certificate authority in PEM.
    pub fn authority(&self) -> PathBuf {
        self.data_dir().join("ca.crt")
    }

    /// Returns the path of an administrator's kubeconfig with a client certificate.
    pub fn kubeconfig(&self) -> PathBuf {
        self.data_dir().join("admin.kubeconfig")
    }

    pub fn data_dir(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Returns a client that authenticates with [`TOKEN`].
    pub fn client(&self) -> Client {
        Client::new(&self.url, &self.authority(), Some(TOKEN))
    }

    /// Sends SIGTERM and waits until the process exits.
    pub fn stop(&mut self) -> ExitStatus {
        self.process.signal(Signal::TERM);
        self.process.wait()
    }

    /// Kills the process with SIGKILL, as in a power cut.
    pub fn kill9(&mut self) {
        self.process.signal(Signal::KILL);
        self.process.wait();
    }

    /// Starts the server again with the same data and port, after stopping it if it is running.
    pub fn restart(&mut self) {
        self.stop();
        let address = self.url.trim_start_matches("https://").to_string();
        let mut again = None;
        eventually_blocking("the port is free again", || {
            again = match launch(self.command, self.directory.path(), &address, &self.arguments) {
                // Another process's connection may temporarily use the port as its local end.
                Err(failure) if failure.stderr.contains("cannot listen") => None,
                other => Some(expect_started(other)),
            };
            again.is_some()
        });
        if let Some((process, url)) = again {
            (self.process, self.url) = (process, url);
        }
    }
}

/// Runs the binary in `directory` until it prints that it is ready.
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
    let url = url.unwrap_or_else(|| panic!("no address in the output of atoll: {line}")).to_string();
    Ok((process, url))
}

fn expect_started(result: Result<(Process, String), NotReady>) -> (Process, String) {
    result.unwrap_or_else(|failure| panic!("atoll did not start ({}): {}", failure.status, failure.stderr))
}

/// A running `atoll sim nodes`: simulated nodes of a server or a workspace. Dropping it stops the process.
pub struct SimulatedNodes {
    _process: Process,
}

impl SimulatedNodes {
    /// Starts nodes at the server of a kubeconfig's current context, with additional arguments.
    pub fn start(kubeconfig: &Path, arguments: &[&str]) -> SimulatedNodes {
        let mut command = Command::new(binary());
        command.args(["sim", "nodes", "--kubeconfig"]).arg(kubeconfig).args(arguments);
        match Process::start(&mut command) {
            Ok((process, _)) => SimulatedNodes { _process: process },
            Err(failure) => panic!("atoll sim nodes did not start ({}): {}", failure.status, failure.stderr),
        }
    }
}

/// Returns the binary under test: `ATOLL_BIN`, or the workspace's binary, which cargo rebuilds first so that
/// no test uses an old one.
pub fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| match std::env::var_os("ATOLL_BIN") {
        Some(path) => PathBuf::from(path),
        None => build(),
    })
}

fn build() -> PathBuf {
    let test = std::env::current_exe().unwrap_or_else(|error| panic!("cannot find the test binary: {error}"));
    // TARGET/PROFILE/deps/test-hash. An example or a binary has no `deps`.
    let directory = test.parent().expect("a binary has a parent directory");
    let profile =
        if directory.ends_with("deps") { directory.parent().unwrap_or(directory) } else { directory };
    let target = profile.parent().expect("a profile directory has a parent directory");
    let name = profile.file_name().unwrap_or_default();
    let name = if name == "debug" { "dev".into() } else { name.to_os_string() };
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .args(["build", "--quiet", "-p", "atoll"]);
    command.arg("--profile").arg(name).arg("--target-dir").arg(target);
    let status = command.status().unwrap_or_else(|error| panic!("cannot run cargo: {error}"));
    assert!(status.success(), "building atoll failed");
    profile.join("atoll")
}
