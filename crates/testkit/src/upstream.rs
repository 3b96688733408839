//! The real kube-apiserver with its etcd, through `upstream/serve`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use rustix::process::Signal;
use tempfile::TempDir;

use crate::client::Client;
use crate::process::Process;
use crate::programs::NO_GO;

/// A running `upstream/serve`. Dropping it stops it and removes its data.
pub struct Upstream {
    process: Process,
    directory: TempDir,
    url: String,
}

impl Upstream {
    /// `None`, with a line that says so, where the programs cannot be built because Go is absent. With
    /// `ATOLL_REQUIRE_UPSTREAM` set that is a failure instead. `arguments` are those of `upstream/serve`.
    pub fn start(arguments: &[&str]) -> Option<Upstream> {
        let directory = tempfile::tempdir().unwrap_or_else(|error| panic!("temporary directory: {error}"));
        let mut command = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../upstream/serve"));
        command.arg(directory.path()).args(arguments);
        match Process::start(&mut command) {
            Ok((process, line)) => {
                let url = line.trim().strip_prefix("ready: ");
                let url = url.unwrap_or_else(|| panic!("upstream/serve says {line}")).to_string();
                Some(Upstream { process, directory, url })
            }
            Err(end) if end.status.code() == Some(NO_GO) => {
                let required = std::env::var_os("ATOLL_REQUIRE_UPSTREAM").is_some();
                assert!(!required, "kube-apiserver is required here: {}", end.complaint);
                eprintln!("SKIPPED: no kube-apiserver to compare with: {}", end.complaint.trim());
                None
            }
            Err(end) => panic!("kube-apiserver did not start ({}): {}", end.status, end.complaint),
        }
    }

    /// One without controllers that all tests of this process share. It ends with the process.
    pub fn shared() -> Option<&'static Upstream> {
        static SHARED: OnceLock<Option<Upstream>> = OnceLock::new();
        SHARED.get_or_init(|| Upstream::start(&[])).as_ref()
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    /// The certificate authority, in PEM.
    pub fn authority(&self) -> PathBuf {
        self.directory.path().join("keys/ca.crt")
    }

    /// An administrator's.
    pub fn kubeconfig(&self) -> PathBuf {
        self.directory.path().join("kubeconfig")
    }

    /// Where it keeps its data and its logs.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// A client that authenticates as an administrator.
    pub fn client(&self) -> Client {
        Client::new(&self.url, &self.authority(), Some(crate::TOKEN))
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.process.signal(Signal::TERM);
        self.process.wait();
    }
}
