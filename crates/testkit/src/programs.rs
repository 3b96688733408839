//! Kubernetes' own programs, and others to compare with or to be driven by, through `upstream/build`.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// What `upstream/build` and `upstream/serve` end with where Go is absent.
pub(crate) const NO_GO: i32 = 3;

/// Where programs are.
pub struct Programs {
    directory: PathBuf,
}

impl Programs {
    /// Has them built, unless they were. `None`, with a line that says so, where Go is absent; with `ATOLL_REQUIRE_UPSTREAM` set
    /// that is a failure instead.
    pub fn build(names: &[&str]) -> Option<Programs> {
        let mut command = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../upstream/build"));
        let output = command.args(names).output();
        let output = output.unwrap_or_else(|error| panic!("upstream/build does not run: {error}"));
        let complaint = String::from_utf8_lossy(&output.stderr);
        if output.status.code() == Some(NO_GO) {
            let required = std::env::var_os("ATOLL_REQUIRE_UPSTREAM").is_some();
            assert!(!required, "{names:?} are required here: {complaint}");
            eprintln!("skipped: {}", complaint.trim());
            return None;
        }
        assert!(output.status.success(), "{complaint}");
        let text = String::from_utf8_lossy(&output.stdout);
        let directory =
            text.lines().last().unwrap_or_else(|| panic!("upstream/build says no directory")).into();
        Some(Programs { directory })
    }

    pub fn directory(&self) -> &Path {
        &self.directory
    }

    pub fn command(&self, name: &str) -> Command {
        Command::new(self.directory.join(name))
    }

    /// Starts a program that runs until it is dropped, and no longer than the thread that starts it, where there is
    /// setpriv (not on every system): a test that is killed leaves nothing behind.
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
        let child = command.spawn().unwrap_or_else(|error| panic!("{name} does not start: {error}"));
        Program { child, name }
    }
}

/// A running program.
pub struct Program {
    child: Child,
    name: &'static str,
}

impl Program {
    /// Its name, if it has ended although nobody asked it to.
    pub fn ended(&mut self) -> Option<&'static str> {
        let ended = self.child.try_wait().unwrap_or_else(|error| panic!("{}: {error}", self.name));
        ended.map(|_| self.name)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
