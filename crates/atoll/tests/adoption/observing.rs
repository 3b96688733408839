//! A cluster that is only observed.

use atoll_testkit::wait::eventually;
use serde_json::{Value, json};

use crate::harness::{TestFleet, create, object, plain_pods, wait_for, web};

const EAST: &str = "/apis/atoll.dev/v1alpha1/clusters/east";
const SECRET: &str = "/api/v1/namespaces/atoll-system/secrets/cluster-east";

#[tokio::test(flavor = "multi_thread")]
async fn workloads_are_listed_and_the_token_is_renewed() {
    let fleet = TestFleet::not_joined();
    let (above, below) = (fleet.admin(), fleet.east.admin());
    create(&below, "/api/v1/namespaces", object("v1", "Namespace", "shop", json!({}))).await;
    create(&below, "/apis/apps/v1/namespaces/shop/deployments", web(2, plain_pods())).await;
    let path = "/apis/apps/v1/namespaces/shop/deployments/web";
    wait_for("the workload is available", &below, path, |web| web["status"]["readyReplicas"] == 2).await;

    let printed =
        fleet.run(&format!("cluster join east --observe --kubeconfig {}", fleet.east.kubeconfig().display()));
    // The rights are printed before joining: only to read, and to renew the token.
    let shown = printed.split("creating the namespace").next().unwrap();
    assert!(shown.contains("kind: ClusterRole") && shown.contains("serviceaccounts/token"), "{printed}");
    let ready = |cluster: &Value| {
        let conditions = cluster["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
    };
    wait_for("the cluster is ready", &above, EAST, ready).await;
    let described = fleet.run("cluster describe east");
    let runs = described.split("Running there:\n").nth(1).unwrap_or_default();
    let row: Vec<&str> =
        runs.lines().find(|line| line.contains("web")).unwrap_or_default().split_whitespace().collect();
    assert_eq!(row.get(..4), Some(&["shop", "Deployment", "web", "2/2"][..]), "{described}");
    assert!(!runs.contains("ReplicaSet") && !runs.contains("Pod "), "{described}");

    let before = above.get(SECRET).await.expect(200)["data"]["kubeconfig"].clone();
    let past = json!({ "metadata": { "annotations": { "atoll.dev/expires": "2020-01-01T00:00:00Z" } } });
    above.merge(SECRET, past).await.expect(200);
    eventually("the token is renewed", async || {
        above.get(SECRET).await.expect(200)["data"]["kubeconfig"] != before
    })
    .await;
    // Only the token of this account, and no object of the cluster is written.
    let role = "/apis/rbac.authorization.k8s.io/v1/namespaces/atoll-system/roles/atoll-syncer";
    let role = below.get(role).await.expect(200);
    let rules = role["rules"].as_array().unwrap();
    let token = rules.iter().find(|rule| rule["resources"] == json!(["serviceaccounts/token"])).unwrap();
    assert_eq!((&token["resourceNames"], &token["verbs"]), (&json!(["atoll-syncer"]), &json!(["create"])));
    assert!(!below.get(path).await.expect(200).to_string().contains("atoll.dev"));
}
