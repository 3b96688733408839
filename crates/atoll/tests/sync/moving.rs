//! Workloads that the scheduler has placed, and that a user places elsewhere at once.

use serde_json::{Value, json};

use crate::{Fleet, Mode, create, object, wait_for};

const STATEFUL_SETS: &str = "/apis/apps/v1/namespaces/default/statefulsets";

#[tokio::test(flavor = "multi_thread")]
async fn workload_that_is_placed_elsewhere_after_its_creation_runs_there_only() {
    let fleet = Fleet::start(Mode::Push, &["east", "west"]);
    let above = fleet.admin();
    for round in 0..12 {
        let (name, to) = (format!("store-{round}"), round % 2);
        let labels = json!({ "app": name });
        let container = json!({ "name": "main", "image": "example/app:1" });
        let spec = json!({
            "replicas": 2, "serviceName": "store", "selector": { "matchLabels": labels },
            "template": { "metadata": { "labels": labels }, "spec": { "containers": [container] } },
        });
        create(&above, STATEFUL_SETS, object("apps/v1", "StatefulSet", &name, json!({ "spec": spec }))).await;
        fleet.place(&format!("statefulset/{name}"), ["east", "west"][to]);
        let path = format!("{STATEFUL_SETS}/{name}");
        let is_ready = |set: &Value| set["status"]["readyReplicas"] == 2;
        wait_for(&format!("{name} is ready below"), &fleet.clusters[to].admin(), &path, is_ready).await;
        assert_eq!(
            fleet.clusters[1 - to].admin().get(&path).await.status,
            404,
            "{name} must have left first"
        );
        wait_for(&format!("{name} is ready above"), &above, &path, is_ready).await;
    }
}
