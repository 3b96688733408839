//! A command that keeps running, and what it says.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};

use tempfile::TempDir;

use crate::support::access::Access;
use crate::support::process::atoll;
use crate::support::programs::succeed;
use crate::support::{PATIENCE, eventually_blocking};

pub struct Running {
    child: Child,
    /// What it said until it was ready.
    pub said: Vec<String>,
    lines: Receiver<String>,
}

impl Running {
    /// Runs `atoll` until it says a line that has `ready` in it. If it ends before that, what it complained of.
    pub fn start(arguments: &[&str], ready: &str) -> Result<Running, String> {
        let mut command = atoll(arguments);
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (sender, lines) = mpsc::channel();
        let output = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in output.lines() {
                let Ok(line) = line else { return };
                // Whoever no longer listens has heard enough.
                let _ = sender.send(line);
            }
        });
        let mut errors = child.stderr.take().unwrap();
        let errors = std::thread::spawn(move || {
            let mut text = String::new();
            let _ = errors.read_to_string(&mut text);
            text
        });
        let mut running = Running { child, said: Vec::new(), lines };
        loop {
            match running.lines.recv_timeout(PATIENCE) {
                Ok(line) => {
                    let is_ready = line.contains(ready);
                    running.said.push(line);
                    if is_ready {
                        return Ok(running);
                    }
                }
                Err(mpsc::RecvTimeoutError::Disconnected) => {
                    running.wait();
                    return Err(errors.join().unwrap());
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    panic!("neither ready nor ended after {PATIENCE:?}: {:?}", running.said)
                }
            }
        }
    }

    /// Everything that it says from here on, until a line has `last` in it.
    pub fn hear(&self, last: &str) -> Vec<String> {
        let mut heard = Vec::new();
        loop {
            let line =
                self.lines.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("no {last:?} in {heard:?}"));
            let is_last = line.contains(last);
            heard.push(line);
            if is_last {
                return heard;
            }
        }
    }

    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal, by its name.
    pub fn signal(&self, name: &str) {
        succeed(std::process::Command::new("kill").args([&format!("-{name}"), &self.process().to_string()]));
    }

    pub fn wait(&mut self) -> ExitStatus {
        let mut ended = None;
        eventually_blocking("it has ended", || {
            ended = self.child.try_wait().unwrap();
            ended.is_some()
        });
        ended.unwrap()
    }

    /// Asks it to end, and it must end well.
    pub fn stop(mut self) {
        self.signal("TERM");
        assert!(self.wait().success());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A simulated cluster without nodes: the network is what matters.
pub struct Cluster {
    _running: Running,
    pub directory: PathBuf,
    _temporary: TempDir,
}

impl Cluster {
    pub fn start(arguments: &[&str]) -> Cluster {
        let temporary = tempfile::tempdir().unwrap();
        let directory = temporary.path().join("data");
        let mut line = vec!["sim", "--data-dir", directory.to_str().unwrap()];
        line.extend(arguments);
        let running = Running::start(&line, "is ready at").unwrap();
        Cluster { _running: running, directory, _temporary: temporary }
    }

    pub fn kubeconfig(&self) -> PathBuf {
        self.directory.join("admin.kubeconfig")
    }

    /// As the administrator, over its network.
    pub fn admin(&self) -> Access {
        Access::from_kubeconfig(&self.kubeconfig())
    }

    /// What `atoll sim fault …` prints.
    pub fn fault(&self, words: &str) -> String {
        fault(&self.kubeconfig(), words)
    }
}

/// What `atoll sim fault …` prints for a kubeconfig's current context.
pub fn fault(kubeconfig: &Path, words: &str) -> String {
    let mut command = atoll(&["sim", "fault"]);
    succeed(command.args(words.split(' ')).env("KUBECONFIG", kubeconfig))
}
