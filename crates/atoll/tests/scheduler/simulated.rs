//! A control plane with simulated clusters that have joined it.

use std::collections::BTreeMap;

use atoll_testkit::wait::eventually;
use atoll_testkit::{Atoll, Client, Setup};
use serde_json::{Value, json};

use crate::fleet::{CLUSTERS, wait_for_clusters};

pub const POLICIES: &str = "/apis/atoll.dev/v1alpha1/namespaces/default/placementpolicies";

/// The control plane, its administrator, and the clusters by name.
pub struct SimulatedFleet {
    pub above: Atoll,
    pub admin: Client,
    pub below: BTreeMap<&'static str, Atoll>,
}

impl SimulatedFleet {
    /// Starts clusters of one node each, and waits until they are ready.
    pub async fn start(names: &[&'static str]) -> SimulatedFleet {
        SimulatedFleet::start_with(names, Setup::new()).await
    }

    /// The same with settings of the control plane.
    pub async fn start_with(names: &[&'static str], setup: Setup) -> SimulatedFleet {
        let clusters: Vec<_> = names.iter().map(|name| (*name, vec!["--nodes", "1"])).collect();
        SimulatedFleet::start_sized(&clusters, setup).await
    }

    /// The same with clusters that have arguments of their own.
    pub async fn start_sized(clusters: &[(&'static str, Vec<&str>)], setup: Setup) -> SimulatedFleet {
        let above = setup.start();
        let simulate = |(name, arguments): &(&'static str, Vec<&str>)| {
            let all: Vec<&str> = ["--name", name].iter().chain(arguments).copied().collect();
            (*name, Atoll::simulate(&all))
        };
        let below: BTreeMap<&str, Atoll> = clusters.iter().map(simulate).collect();
        for (name, cluster) in &below {
            let kubeconfig = cluster.kubeconfig();
            // With the rights to custom objects of a group.
            let join =
                format!("cluster join {name} --groups example.com --kubeconfig {}", kubeconfig.display());
            above.run(&join);
        }
        let admin = above.admin();
        eventually("all clusters are ready", async || {
            let list = admin.get(CLUSTERS).await.expect(200);
            let is_ready = |cluster: &Value| {
                let conditions = cluster["status"]["conditions"].as_array().into_iter().flatten();
                conditions.into_iter().any(|one| one["type"] == "Ready" && one["status"] == "True")
            };
            list["items"].as_array().unwrap().iter().filter(|cluster| is_ready(cluster)).count()
                == clusters.len()
        })
        .await;
        wait_for_clusters(&admin, clusters.len()).await;
        SimulatedFleet { above, admin, below }
    }

    /// Creates a policy, and waits until the scheduler knows it.
    pub async fn create_policy(&self, name: &str, spec: Value) {
        let policy = json!({
            "apiVersion": "atoll.dev/v1alpha1", "kind": "PlacementPolicy", "metadata": { "name": name }, "spec": spec,
        });
        self.admin.post(POLICIES, policy).await.expect(201);
        eventually("the policy is known", async || {
            let policy = self.admin.get(&format!("{POLICIES}/{name}")).await.expect(200);
            policy["status"]["observedGeneration"] == 1
        })
        .await;
    }

    /// The objects of a collection on each cluster.
    pub async fn objects(&self, collection: &str) -> BTreeMap<&'static str, Vec<Value>> {
        let mut found = BTreeMap::new();
        for (name, cluster) in &self.below {
            let list = cluster.admin().get(collection).await.expect(200);
            found.insert(*name, list["items"].as_array().unwrap().clone());
        }
        found
    }
}

/// A Pod template with a label and annotations.
pub fn template(app: &str, restart: &str, annotations: Value) -> Value {
    json!({
        "metadata": { "labels": { "app": app }, "annotations": annotations },
        "spec": {
            "restartPolicy": restart, "terminationGracePeriodSeconds": 0,
            "containers": [{
                "name": "main", "image": "example/app:1", "resources": { "requests": { "cpu": "10m" } },
            }],
        },
    })
}
