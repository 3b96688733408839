//! The programs from `upstream/build`, and processes that write logs.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Where the programs are.
pub struct Programs {
    directory: PathBuf,
}

impl Programs {
    /// `None`, with a line that says so, where Go is absent.
    pub fn build() -> Option<Programs> {
        /// What `upstream/build` exits with where there is no Go to build with.
        const NO_GO: i32 = 3;
        let mut command = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../upstream/build"));
        command.args([
            "keys",
            "kube-apiserver",
            "etcd",
            "kube-controller-manager",
            "kube-scheduler",
            "kwok",
            "kubectl",
        ]);
        let output = command.output().unwrap();
        let complaint = String::from_utf8_lossy(&output.stderr);
        if output.status.code() == Some(NO_GO) {
            assert!(std::env::var_os("ATOLL_REQUIRE_UPSTREAM").is_none(), "required here: {complaint}");
            eprintln!("skipped: {}", complaint.trim());
            return None;
        }
        assert!(output.status.success(), "{complaint}");
        let directory = String::from_utf8(output.stdout).unwrap().lines().last().unwrap().into();
        Some(Programs { directory })
    }

    pub fn command(&self, name: &str) -> Command {
        Command::new(self.directory.join(name))
    }

    /// Keys and certificates for the controllers, in a new directory.
    pub fn keys(&self, directory: &Path) {
        assert!(self.command("keys").arg(directory).status().unwrap().success());
    }

    /// Starts a program that runs until it is dropped, and no longer than the thread that starts it, where there is
    /// setpriv (not on every system): a test that is killed leaves nothing behind.
    pub fn start(&self, name: &'static str, arguments: &[String], log: &Path) -> Program {
        let output = File::create(log).unwrap();
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
        Program { child: command.spawn().unwrap(), name }
    }
}

pub struct Program {
    child: Child,
    name: &'static str,
}

impl Program {
    /// Its name, if it has ended although nobody asked it to.
    pub fn ended(&mut self) -> Option<&'static str> {
        self.child.try_wait().unwrap().map(|_| self.name)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
