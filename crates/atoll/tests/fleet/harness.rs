//! A control plane, and helpers for clusters that join it.

use std::path::Path;
use std::process::Output;

use atoll_testkit::{Atoll, Client};
use serde_json::{Value, json};

pub const CLUSTERS: &str = "/apis/atoll.dev/v1alpha1/clusters";

pub struct TestFleet {
    pub above: Atoll,
}

impl TestFleet {
    /// Starts a control plane without controllers: only the test reports about clusters.
    pub fn start() -> TestFleet {
        TestFleet { above: Atoll::start_bare() }
    }

    pub fn admin(&self) -> Client {
        self.above.admin()
    }

    /// Runs a command that must succeed and returns its standard output.
    #[track_caller]
    pub fn run(&self, line: &str) -> String {
        self.above.run(line)
    }

    /// Runs a command that must fail and returns its standard error.
    #[track_caller]
    pub fn run_failing(&self, line: &str) -> String {
        self.above.run_failing(line)
    }

    pub fn output(&self, line: &str) -> Output {
        self.above.command(line).output().unwrap()
    }

    /// Joins a cluster with the additional flags `more`.
    #[track_caller]
    pub fn join(&self, name: &str, cluster: &Atoll, more: &str) -> String {
        self.run(&join_command(name, &cluster.kubeconfig(), more))
    }
}

/// Returns a command line that joins a cluster without waiting for a heartbeat, because no syncer runs.
pub fn join_command(name: &str, kubeconfig: &Path, more: &str) -> String {
    format!("cluster join {name} --wait 0 --kubeconfig {}{more}", kubeconfig.display())
}

/// Starts a cluster without nodes: the tests use only its API.
pub fn cluster() -> Atoll {
    Atoll::simulate(&["--nodes", "0"])
}

/// Returns the path of the Secret with a cluster's credential.
pub fn secret_path(name: &str) -> String {
    format!("/api/v1/namespaces/atoll-system/secrets/cluster-{name}")
}

/// Reports, as a syncer would, that an object is gone from a cluster.
pub async fn report_gone(admin: &Client, cluster: &str, target: Value) {
    let mut record = target;
    record["state"] = "Gone".into();
    let report = json!({ "records": [record] });
    admin.post(&format!("/services/sync/{cluster}"), report).await.expect(200);
}
