//! Kubernetes' own programs and other programs for comparisons, through `upstream/build`.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A directory of programs.
pub struct Programs {
    directory: PathBuf,
}

impl Programs {
    /// Builds the programs if necessary. Returns `None`, with a printed reason, where Go is absent. With
    /// `ATOLL_REQUIRE_UPSTREAM` set that is a failure instead.
    pub fn build(names: &[&str]) -> Option<Programs> {
        Some(Programs { directory: atoll_upstream::build(names)? })
    }

    pub fn directory(&self) -> &Path {
        &self.directory
    }

    pub fn command(&self, name: &str) -> Command {
        Command::new(self.directory.join(name))
    }

    /// Starts a program that runs until it is dropped. Where setpriv exists, it also ends with the thread
    /// that starts it, so that a killed test leaves no process behind.
    pub fn start(&self, name: &'static str, arguments: &[String], log: &Path) -> Program {
        let output = File::create(log).unwrap_or_else(|error| panic!("{}: {error}", log.display()));
        let program = self.directory.join(name);
        let mut command = match Command::new("setpriv").arg("--version").output() {
            Ok(_) => {
                let mut command = Command::new("setpriv");
                command.args(["--pdeathsig", "KILL"]).arg(program);
                command
            }
            Err(_) => Command::new(program),
        };
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(output);
        let child = command.spawn().unwrap_or_else(|error| panic!("{name} cannot be started: {error}"));
        Program { child, name }
    }
}

/// A running program.
pub struct Program {
    child: Child,
    name: &'static str,
}

impl Program {
    /// Returns its name if it has exited unexpectedly.
    pub fn ended(&mut self) -> Option<&'static str> {
        let ended = self.child.try_wait().unwrap_or_else(|error| panic!("{}: {error}", self.name));
        ended.map(|_| self.name)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
