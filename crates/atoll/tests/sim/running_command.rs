//! A running `atoll` command and its output.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};

use tempfile::TempDir;

use crate::support::access::Access;
use crate::support::process::atoll;
use crate::support::programs::succeed;
use crate::support::{WAIT_TIMEOUT, eventually_blocking};

pub struct RunningCommand {
    child: Child,
    /// Lines printed until the command was ready.
    pub printed: Vec<String>,
    lines: Receiver<String>,
}

impl RunningCommand {
    /// Runs `atoll` until it prints a line that contains `ready`. Returns its standard error if it exits
    /// before.
    pub fn start(arguments: &[&str], ready: &str) -> Result<RunningCommand, String> {
        let mut command = atoll(arguments);
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (sender, lines) = mpsc::channel();
        let output = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in output.lines() {
                let Ok(line) = line else { return };
                // The receiver may be gone.
                let _ = sender.send(line);
            }
        });
        let mut errors = child.stderr.take().unwrap();
        let errors = std::thread::spawn(move || {
            let mut text = String::new();
            let _ = errors.read_to_string(&mut text);
            text
        });
        let mut running = RunningCommand { child, printed: Vec::new(), lines };
        loop {
            match running.lines.recv_timeout(WAIT_TIMEOUT) {
                Ok(line) => {
                    let is_ready = line.contains(ready);
                    running.printed.push(line);
                    if is_ready {
                        return Ok(running);
                    }
                }
                Err(mpsc::RecvTimeoutError::Disconnected) => {
                    running.wait();
                    return Err(errors.join().unwrap());
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    panic!("neither ready nor ended after {WAIT_TIMEOUT:?}: {:?}", running.printed)
                }
            }
        }
    }

    /// Returns all further lines up to the first that contains `last`.
    pub fn lines_until(&self, last: &str) -> Vec<String> {
        let mut printed_lines = Vec::new();
        loop {
            let line = self
                .lines
                .recv_timeout(WAIT_TIMEOUT)
                .unwrap_or_else(|_| panic!("no {last:?} in {printed_lines:?}"));
            let is_last = line.contains(last);
            printed_lines.push(line);
            if is_last {
                return printed_lines;
            }
        }
    }

    pub fn process_id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal by name.
    pub fn signal(&self, name: &str) {
        succeed(
            std::process::Command::new("kill").args([&format!("-{name}"), &self.process_id().to_string()]),
        );
    }

    pub fn wait(&mut self) -> ExitStatus {
        let mut ended = None;
        eventually_blocking("the command has exited", || {
            ended = self.child.try_wait().unwrap();
            ended.is_some()
        });
        ended.unwrap()
    }

    /// Terminates the command, which must exit successfully.
    pub fn stop(mut self) {
        self.signal("TERM");
        assert!(self.wait().success());
    }
}

impl Drop for RunningCommand {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A simulated cluster in its own process.
pub struct SimulatedCluster {
    _running: RunningCommand,
    pub directory: PathBuf,
    _temporary: TempDir,
}

impl SimulatedCluster {
    pub fn start(arguments: &[&str]) -> SimulatedCluster {
        let temporary = tempfile::tempdir().unwrap();
        let directory = temporary.path().join("data");
        let mut line = vec!["sim", "--data-dir", directory.to_str().unwrap()];
        line.extend(arguments);
        let running = RunningCommand::start(&line, "is ready at").unwrap();
        SimulatedCluster { _running: running, directory, _temporary: temporary }
    }

    pub fn kubeconfig(&self) -> PathBuf {
        self.directory.join("admin.kubeconfig")
    }

    /// Returns an access as administrator, through the cluster's simulated network.
    pub fn admin(&self) -> Access {
        Access::from_kubeconfig(&self.kubeconfig())
    }

    /// Runs `atoll sim fault …` and returns its output.
    pub fn fault(&self, arguments: &str) -> String {
        fault(&self.kubeconfig(), arguments)
    }
}

/// Runs `atoll sim fault …` in the current context of a kubeconfig and returns its output.
pub fn fault(kubeconfig: &Path, arguments: &str) -> String {
    let mut command = atoll(&["sim", "fault"]);
    succeed(command.args(arguments.split(' ')).env("KUBECONFIG", kubeconfig))
}
