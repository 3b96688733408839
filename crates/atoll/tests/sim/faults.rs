//! Faults through the API, and clients without the right.

use atoll_testkit::{Atoll, Client, Process, atoll, fail};
use serde_json::json;

const FAULTS: &str = "/atoll/sim/faults";

#[tokio::test(flavor = "multi_thread")]
async fn faults_are_added_and_removed_through_the_api() {
    let cluster = Atoll::simulate(&["--nodes=0", "--name=far"]);
    let admin = cluster.admin();
    assert_eq!(admin.get(FAULTS).await.expect(200), json!({ "faults": [] }));
    let added = admin.post(FAULTS, json!({ "kind": "dead-node", "node": "far-node-1" })).await.expect(200);
    assert_eq!(
        added,
        json!({ "id": 1, "kind": "dead-node", "node": "far-node-1", "description": "dead-node far-node-1" })
    );
    let message = admin.post(FAULTS, json!({ "kind": "lossy" })).await.expect_status(400, "BadRequest");
    assert!(message.starts_with("rate: "), "{message}");
    assert_eq!(admin.delete(&format!("{FAULTS}/7")).await.status, 404);
    assert_eq!(admin.get(&format!("{FAULTS}/1")).await.status, 405);
    assert_eq!(admin.delete(&format!("{FAULTS}/1")).await.expect(200), json!({ "removed": 1 }));
    admin.post(FAULTS, json!({ "kind": "crash-loop", "image": "*" })).await.expect(200);
    assert_eq!(cluster.fault("list"), "2  crash-loop of images like *\n");
    assert_eq!(admin.delete(FAULTS).await.expect(200), json!({ "removed": 1 }));
    assert_eq!(cluster.fault("list"), "There are no faults.\n");
    // Only administrators may use it.
    for stranger in [admin.anonymous(), admin.acting_as("ann", &["system:authenticated"])] {
        assert!(matches!(stranger.get(FAULTS).await.status, 401 | 403));
        assert!(matches!(stranger.post(FAULTS, json!({ "kind": "dead-cluster" })).await.status, 401 | 403));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn simulated_cluster_serves_the_kubernetes_api() {
    let cluster = Atoll::simulate(&["--nodes=0"]);
    let admin = cluster.admin();
    for path in ["/apis/atoll.dev", "/apis/atoll.dev/v1alpha1/workspaces", "/clusters/root/api/v1/namespaces"]
    {
        assert_eq!(admin.get(path).await.status, 404, "{path}");
    }
    for path in ["/apis", "/openapi/v3", "/openapi/v2", "/"] {
        assert!(!admin.get(path).await.text().contains("atoll.dev"), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_report_errors() {
    let control_plane = Atoll::start();
    let at = control_plane.kubeconfig();
    let printed = fail(atoll(&["sim", "fault", "list"]).env("KUBECONFIG", &at));
    assert!(
        printed.contains(
            "is not a simulated cluster and has no simulated nodes\nhint: choose one with --context"
        ),
        "{printed}"
    );
    let cluster = Atoll::simulate(&["--nodes=0"]);
    for (line, expected) in [
        (vec!["add", "slow", "--latency", "soon"], "latency: \"soon\" is not a duration"),
        (vec!["add", "lossy", "--rate", "2"], "rate: required for lossy, above 0 and at most 1"),
        (vec!["add", "clock-skew", "later"], "skew: \"later\" is not a duration"),
        (vec!["remove", "9"], "faults \"9\" not found"),
    ] {
        let mut command = atoll(&["sim", "fault"]);
        let printed = fail(command.args(&line).env("KUBECONFIG", cluster.kubeconfig()));
        assert!(printed.contains(expected), "{line:?}: {printed}");
    }
    let refused = Process::start(&mut atoll(&["sim", "--name", "Not_A_Name"]), "ready").err().unwrap().errors;
    assert!(refused.contains("--name"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn temporary_data_is_removed() {
    let running = Process::start(&mut atoll(&["sim", "--nodes=0"]), "is ready at").unwrap();
    let line = running.printed.last().unwrap().clone();
    let kubeconfig = line.split("--kubeconfig ").nth(1).unwrap().split(' ').next().unwrap();
    let kubeconfig = std::path::PathBuf::from(kubeconfig);
    Client::from_kubeconfig(&kubeconfig).get("/api/v1/nodes").await.expect(200);
    running.stop();
    assert!(!kubeconfig.exists() && !kubeconfig.parent().unwrap().exists());
}
