//! A cluster that is only looked at.

use serde_json::{Value, json};

use crate::support::eventually;
use crate::world::{World, becomes, create, object, plain_pods, web};

const EAST: &str = "/apis/atoll.dev/v1alpha1/clusters/east";
const SECRET: &str = "/api/v1/namespaces/atoll-system/secrets/cluster-east";

#[tokio::test(flavor = "multi_thread")]
async fn what_runs_there_is_listed_and_the_token_renewed() {
    let world = World::apart();
    let (above, below) = (world.admin(), world.east.admin());
    create(&below, "/api/v1/namespaces", object("v1", "Namespace", "shop", json!({}))).await;
    create(&below, "/apis/apps/v1/namespaces/shop/deployments", web(2, plain_pods())).await;
    let path = "/apis/apps/v1/namespaces/shop/deployments/web";
    becomes("it runs", &below, path, |web| web["status"]["readyReplicas"] == 2).await;

    let said = world
        .says(&format!("cluster join east --observe --kubeconfig {}", world.east.kubeconfig().display()));
    // What it may do is shown before, and is no more than to read and to have its token renewed.
    let shown = said.split("making the namespace").next().unwrap();
    assert!(shown.contains("kind: ClusterRole") && shown.contains("serviceaccounts/token"), "{said}");
    let ready = |cluster: &Value| {
        let conditions = cluster["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
    };
    becomes("it is ready", &above, EAST, ready).await;
    let described = world.says("cluster describe east");
    let runs = described.split("Running there:\n").nth(1).unwrap_or_default();
    let row: Vec<&str> =
        runs.lines().find(|line| line.contains("web")).unwrap_or_default().split_whitespace().collect();
    assert_eq!(row.get(..4), Some(&["shop", "Deployment", "web", "2/2"][..]), "{described}");
    assert!(!runs.contains("ReplicaSet") && !runs.contains("Pod "), "{described}");

    let before = above.get(SECRET).await.expect(200)["data"]["kubeconfig"].clone();
    let past = json!({ "metadata": { "annotations": { "atoll.dev/expires": "2020-01-01T00:00:00Z" } } });
    above.merge(SECRET, past).await.expect(200);
    eventually("there is another token", async || {
        above.get(SECRET).await.expect(200)["data"]["kubeconfig"] != before
    })
    .await;
    // Nobody else's, and nothing is written to what runs there.
    let role = "/apis/rbac.authorization.k8s.io/v1/namespaces/atoll-system/roles/atoll-syncer";
    let role = below.get(role).await.expect(200);
    let rules = role["rules"].as_array().unwrap();
    let token = rules.iter().find(|rule| rule["resources"] == json!(["serviceaccounts/token"])).unwrap();
    assert_eq!((&token["resourceNames"], &token["verbs"]), (&json!(["atoll-syncer"]), &json!(["create"])));
    assert!(!below.get(path).await.expect(200).to_string().contains("atoll.dev"));
}
