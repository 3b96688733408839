//! A server, and Helm with a kubeconfig for it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use atoll_testkit::{Atoll, Client, Programs, Upstream};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Both major versions, with the names that `upstream/build` gives them.
pub const HELM_3: &str = "helm3";
pub const HELM_4: &str = "helm";

pub const RELEASE: &str = "demo";
/// The name of most objects of the chart.
pub const NAME: &str = "demo-shop";

/// A server and a namespace in which one test installs releases.
#[derive(Clone)]
pub struct Site {
    programs: PathBuf,
    kubeconfig: PathBuf,
    pub namespace: &'static str,
}

/// The same namespace on both servers.
pub struct Sites {
    pub on_atoll: Site,
    pub on_upstream: Site,
    _atoll: Atoll,
}

impl Sites {
    /// Starts both servers. Returns `None`, with a printed reason, where Go is absent.
    pub fn start(namespace: &'static str) -> Option<Sites> {
        let programs = Programs::build(&[HELM_3, HELM_4])?.directory().to_path_buf();
        let upstream = Upstream::shared()?;
        let on_upstream = Site { programs: programs.clone(), kubeconfig: upstream.kubeconfig(), namespace };
        let atoll = Atoll::start();
        let on_atoll = Site { programs, kubeconfig: atoll.kubeconfig(), namespace };
        Some(Sites { on_atoll, on_upstream, _atoll: atoll })
    }
}

impl Site {
    pub fn client(&self) -> Client {
        Client::from_kubeconfig(&self.kubeconfig)
    }

    /// Creates the default ServiceAccount of the namespace, which a server without controllers does not
    /// create.
    pub async fn create_default_account(&self) {
        let path = format!("/api/v1/namespaces/{}/serviceaccounts", self.namespace);
        let made = self.client().post(&path, json!({"metadata": {"name": "default"}})).await;
        assert!(matches!(made.status, 201 | 409), "{made:?}");
    }

    pub fn helm(&self, program: &'static str) -> Helm {
        Helm { site: self.clone(), program, home: tempfile::tempdir().unwrap() }
    }
}

/// Returns the directory of the chart.
pub fn chart() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/chart")
}

/// One version of Helm, with its own home directory.
pub struct Helm {
    site: Site,
    program: &'static str,
    home: TempDir,
}

/// Result of a Helm command.
#[derive(Debug)]
pub struct HelmOutput {
    pub success: bool,
    pub output: String,
    pub errors: String,
}

impl Helm {
    /// Runs a command without blocking other tasks. `line` is split at spaces, and `CHART` in it is replaced
    /// with the chart's directory.
    pub async fn try_run(&self, line: &str) -> HelmOutput {
        let mut command = Command::new(self.site.programs.join(self.program));
        let chart = chart().display().to_string();
        command.args(line.split(' ').map(|word| word.replace("CHART", &chart)));
        command.args(["--namespace", self.site.namespace]);
        command.env("KUBECONFIG", &self.site.kubeconfig).env("HOME", self.home.path());
        for directory in ["CACHE", "CONFIG", "DATA"] {
            command.env(format!("HELM_{directory}_HOME"), self.home.path().join(directory));
        }
        let Output { status, stdout, stderr } =
            tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        HelmOutput { success: status.success(), output: text(stdout), errors: text(stderr) }
    }

    pub async fn run(&self, line: &str) -> String {
        let printed = self.try_run(line).await;
        assert!(
            printed.success,
            "{} {line} with {}: {}",
            self.program,
            self.site.kubeconfig.display(),
            printed.errors
        );
        printed.output
    }

    pub async fn json(&self, line: &str) -> Value {
        serde_json::from_str(&self.run(&format!("{line} -o json")).await).unwrap()
    }
}
