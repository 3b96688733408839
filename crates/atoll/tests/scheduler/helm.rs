//! `helm install --wait` and `helm upgrade --wait` of workloads that are divided between two simulated clusters.

use std::path::Path;

use atoll_testkit::{Programs, succeed};
use serde_json::json;

use crate::fleet::{path, summary};
use crate::simulated::SimulatedFleet;

const DEPLOYMENT: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: { name: shop }
spec:
  replicas: 4
  selector: { matchLabels: { app: shop } }
  template:
    metadata: { labels: { app: shop } }
    spec: { containers: [{ name: main, image: 'example/app:{{ .Values.version }}' }] }
";
const STATEFUL_SET: &str = "
apiVersion: apps/v1
kind: StatefulSet
metadata: { name: store }
spec:
  replicas: 3
  serviceName: store
  selector: { matchLabels: { app: store } }
  template:
    metadata: { labels: { app: store } }
    spec: { containers: [{ name: main, image: 'example/app:{{ .Values.version }}' }] }
";

fn write_chart(directory: &Path) {
    std::fs::create_dir(directory.join("templates")).unwrap();
    for (file, text) in [
        ("Chart.yaml", "apiVersion: v2\nname: shop\nversion: 1.0.0\n"),
        ("values.yaml", "version: 1\n"),
        ("templates/deployment.yaml", DEPLOYMENT),
        ("templates/statefulset.yaml", STATEFUL_SET),
    ] {
        std::fs::write(directory.join(file), text).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn helm_waits_for_divided_workloads() {
    let Some(programs) = Programs::build(&["helm"]) else { return };
    let fleet = SimulatedFleet::start(&["east", "west"]).await;
    fleet.create_policy("spread", json!({ "replicas": { "division": "Even" } })).await;
    let directory = tempfile::tempdir().unwrap();
    let chart = directory.path().join("shop");
    std::fs::create_dir(&chart).unwrap();
    write_chart(&chart);
    for (verb, version) in [("install", 1), ("upgrade", 2)] {
        let mut command = programs.command("helm");
        command.env("HOME", directory.path()).env("KUBECONFIG", fleet.above.kubeconfig());
        command.args([verb, "shop"]).arg(&chart).args(["--wait", "--timeout", "2m"]);
        succeed(command.args(["--set", &format!("version={version}")]));
        // Helm returns when all clusters run the version.
        let sets = "/apis/apps/v1/namespaces/default/statefulsets/store";
        for (at, replicas, shares) in
            [(path("shop").as_str(), 4, "east=2 west=2"), (sets, 3, "east=2=0 west=1=2")]
        {
            let found = fleet.admin.get(at).await.expect(200);
            assert_eq!(summary(&found), format!("{shares} by placementpolicy/spread"));
            let counts =
                ["replicas", "updatedReplicas", "availableReplicas"].map(|name| &found["status"][name]);
            assert_eq!(counts, [replicas; 3], "{verb}: {}", found["status"]);
        }
        let pods = fleet.objects("/api/v1/namespaces/default/pods").await;
        for pod in pods.values().flatten().filter(|pod| pod["metadata"].get("deletionTimestamp").is_none()) {
            let image = &pod["spec"]["containers"][0]["image"];
            assert_eq!(*image, format!("example/app:{version}"), "{}", pod["metadata"]["name"]);
        }
    }
}
