//! The real kube-apiserver with its etcd, through `upstream/serve`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use rustix::process::Signal;
use tempfile::TempDir;

use crate::client::Client;
use crate::process::Process;
use atoll_upstream::NO_GO;

/// A token of the user `admin` in `system:masters`.
pub const TOKEN: &str = "admin-token";
/// [`TOKEN`] in a file of static tokens.
pub const TOKENS: &str = "admin-token,admin,admin,system:masters\n";

/// The beginning of the line that the scripts print when the server is ready.
pub(crate) const READY: &str = "ready: ";
/// The timeout of the scripts, which may build the programs first.
pub(crate) const BUILD_TIMEOUT: Duration = Duration::from_secs(3600);

/// Returns the address that a script has printed.
pub(crate) fn announced_url(process: &Process) -> String {
    let line = process.printed.last().and_then(|line| line.trim().strip_prefix(READY));
    line.unwrap_or_else(|| panic!("unexpected output: {:?}", process.printed)).to_string()
}

/// A running `upstream/serve`. Dropping it stops the process and removes its data.
pub struct Upstream {
    process: Process,
    directory: TempDir,
    url: String,
}

impl Upstream {
    /// Starts a server with the given arguments of `upstream/serve`. Returns `None`, with a printed reason,
    /// where the programs cannot be built because Go is absent. With `ATOLL_REQUIRE_UPSTREAM` set that is a
    /// failure instead.
    pub fn start(arguments: &[&str]) -> Option<Upstream> {
        let directory = tempfile::tempdir().unwrap_or_else(|error| panic!("temporary directory: {error}"));
        let mut command = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../upstream/serve"));
        command.arg(directory.path()).args(arguments);
        match Process::start_within(BUILD_TIMEOUT, &mut command, READY) {
            Ok(process) => {
                let url = announced_url(&process);
                Some(Upstream { process, directory, url })
            }
            Err(failure) if failure.status.code() == Some(NO_GO) => {
                let required = std::env::var_os("ATOLL_REQUIRE_UPSTREAM").is_some();
                assert!(!required, "kube-apiserver is required here: {}", failure.errors);
                eprintln!("SKIPPED: no kube-apiserver to compare with: {}", failure.errors.trim());
                None
            }
            Err(failure) => panic!("kube-apiserver did not start ({}): {}", failure.status, failure.errors),
        }
    }

    /// Returns a server without controllers that all tests of this process share. It ends with the process.
    pub fn shared() -> Option<&'static Upstream> {
        static SHARED: OnceLock<Option<Upstream>> = OnceLock::new();
        SHARED.get_or_init(|| Upstream::start(&[])).as_ref()
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the path of an administrator's kubeconfig.
    pub fn kubeconfig(&self) -> PathBuf {
        self.directory.path().join("kubeconfig")
    }

    /// Returns the directory with its data and logs.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Returns a client of an administrator, with [`TOKEN`].
    pub fn admin(&self) -> Client {
        Client::from_kubeconfig(&self.kubeconfig())
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.process.signal(Signal::TERM);
        self.process.wait();
    }
}
