//! A control plane, and clusters beside it.

use std::path::Path;
use std::process::Output;

use serde_json::{Value, json};

use crate::running::Cluster;
use crate::support::access::Access;
use crate::support::process::{Atoll, atoll};
use crate::support::programs::{fail, succeed};

pub const CLUSTERS: &str = "/apis/atoll.dev/v1alpha1/clusters";

pub struct World {
    pub above: Atoll,
}

impl World {
    /// Nobody but the test itself syncs, and nobody judges clusters.
    pub fn start() -> World {
        World { above: Atoll::start_bare() }
    }

    pub fn admin(&self) -> Access {
        self.above.admin()
    }

    pub fn command(&self, line: &str) -> std::process::Command {
        let mut command = atoll(&line.split(' ').collect::<Vec<_>>());
        command.env("KUBECONFIG", self.above.admin_kubeconfig()).stdin(std::process::Stdio::null());
        command
    }

    /// What a command prints that must succeed.
    #[track_caller]
    pub fn says(&self, line: &str) -> String {
        succeed(&mut self.command(line))
    }

    /// What a command complains of that must fail.
    #[track_caller]
    pub fn refuses(&self, line: &str) -> String {
        fail(&mut self.command(line))
    }

    pub fn output(&self, line: &str) -> Output {
        self.command(line).output().unwrap()
    }

    /// Joins a cluster; `more` are further flags.
    #[track_caller]
    pub fn join(&self, name: &str, cluster: &Cluster, more: &str) -> String {
        self.says(&joining(name, &cluster.kubeconfig(), more))
    }
}

/// A line that joins a cluster, without waiting for a heartbeat: nobody syncs here.
pub fn joining(name: &str, kubeconfig: &Path, more: &str) -> String {
    format!("cluster join {name} --wait 0 --kubeconfig {}{more}", kubeconfig.display())
}

/// A cluster without nodes: what matters is its API.
pub fn cluster() -> Cluster {
    Cluster::start(&["--nodes", "0"])
}

/// Where the credential of a cluster is.
pub fn secret(name: &str) -> String {
    format!("/api/v1/namespaces/atoll-system/secrets/cluster-{name}")
}

/// Says what whoever syncs would say: that these are gone from the cluster.
pub async fn let_go(admin: &Access, cluster: &str, target: Value) {
    let mut record = target;
    record["state"] = "Gone".into();
    let report = json!({ "records": [record] });
    admin.post(&format!("/services/sync/{cluster}"), report).await.expect(200);
}
