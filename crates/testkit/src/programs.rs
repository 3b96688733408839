//! Kubernetes' own programs and other programs for comparisons, through `upstream/build`.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The exit code of `upstream/build` and `upstream/serve` where Go is absent.
pub(crate) const NO_GO: i32 = 3;

/// A directory of programs.
pub struct Programs {
    directory: PathBuf,
}

impl Programs {
    /// Builds the programs if necessary. Returns `None`, with a printed reason, where Go is absent. With
    /// `ATOLL_REQUIRE_UPSTREAM` set that is a failure instead.
    pub fn build(names: &[&str]) -> Option<Programs> {
        let mut command = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../upstream/build"));
        let output = command.args(names).output();
        let output = output.unwrap_or_else(|error| panic!("cannot run upstream/build: {error}"));
        let stderr = String::from_utf8_lossy(&output.stderr);
        if output.status.code() == Some(NO_GO) {
            let required = std::env::var_os("ATOLL_REQUIRE_UPSTREAM").is_some();
            assert!(!required, "{names:?} are required here: {stderr}");
            eprintln!("skipped: {}", stderr.trim());
            return None;
        }
        assert!(output.status.success(), "{stderr}");
        let text = String::from_utf8_lossy(&output.stdout);
        let directory =
            text.lines().last().unwrap_or_else(|| panic!("upstream/build printed no directory")).into();
        Some(Programs { directory })
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
