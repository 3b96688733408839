//! A server and a Helm that is pointed at it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use atoll_testkit::{Atoll, Client, Upstream};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::programs;

/// Both majors, by the names that `upstream/build` gives them.
pub const HELM_3: &str = "helm3";
pub const HELM_4: &str = "helm";

pub const RELEASE: &str = "demo";
/// What the chart calls most of its objects.
pub const NAME: &str = "demo-shop";

/// Where releases are installed: a server, and a namespace for one test.
#[derive(Clone)]
pub struct Site {
    programs: PathBuf,
    url: String,
    authority: PathBuf,
    kubeconfig: PathBuf,
    pub namespace: &'static str,
}

/// Both servers.
pub struct Sites {
    pub ours: Site,
    pub theirs: Site,
    _atoll: Atoll,
}

impl Sites {
    /// `None` where there is no Go; the reason has been printed.
    pub fn start(namespace: &'static str) -> Option<Sites> {
        let programs = programs::upstream(&[HELM_3, HELM_4])?;
        let upstream = Upstream::shared()?;
        let theirs = Site {
            programs: programs.clone(),
            url: upstream.url().to_owned(),
            authority: upstream.authority(),
            kubeconfig: upstream.kubeconfig(),
            namespace,
        };
        let atoll = Atoll::start();
        let ours = Site {
            programs,
            url: atoll.url().to_owned(),
            authority: atoll.authority(),
            kubeconfig: atoll.kubeconfig(),
            namespace,
        };
        Some(Sites { ours, theirs, _atoll: atoll })
    }
}

impl Site {
    pub fn client(&self) -> Client {
        Client::new(&self.url, &self.authority, Some(atoll_testkit::TOKEN))
    }

    /// Pods run as their namespace's default account, which a server without controllers does not make.
    pub async fn provide_account(&self) {
        let path = format!("/api/v1/namespaces/{}/serviceaccounts", self.namespace);
        let made = self.client().post(&path, &json!({"metadata": {"name": "default"}})).await.unwrap();
        assert!(matches!(made.status, 201 | 409), "{made:?}");
    }

    pub fn helm(&self, program: &'static str) -> Helm {
        Helm { site: self.clone(), program, home: tempfile::tempdir().unwrap() }
    }
}

/// The directory of the chart.
pub fn chart() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/chart")
}

/// One Helm, with a home of its own.
pub struct Helm {
    site: Site,
    program: &'static str,
    home: TempDir,
}

/// What Helm said.
#[derive(Debug)]
pub struct Said {
    pub success: bool,
    pub output: String,
    pub errors: String,
}

impl Helm {
    /// Runs a command; `line` is split at spaces, and `CHART` in it is the chart's directory. Other tasks go on meanwhile.
    pub async fn try_run(&self, line: &str) -> Said {
        let mut command = Command::new(self.site.programs.join(self.program));
        let chart = chart().display().to_string();
        command.args(line.split(' ').map(|word| word.replace("CHART", &chart)));
        command.args(["--namespace", self.site.namespace]);
        command.env("KUBECONFIG", &self.site.kubeconfig).env("HOME", self.home.path());
        for place in ["CACHE", "CONFIG", "DATA"] {
            command.env(format!("HELM_{place}_HOME"), self.home.path().join(place));
        }
        let Output { status, stdout, stderr } =
            tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Said { success: status.success(), output: text(stdout), errors: text(stderr) }
    }

    pub async fn run(&self, line: &str) -> String {
        let said = self.try_run(line).await;
        assert!(said.success, "{} {line} at {}: {}", self.program, self.site.url, said.errors);
        said.output
    }

    pub async fn json(&self, line: &str) -> Value {
        serde_json::from_str(&self.run(&format!("{line} -o json")).await).unwrap()
    }
}
