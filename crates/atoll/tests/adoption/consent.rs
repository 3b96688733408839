//! A namespace that exists in a cluster is adopted from a child workspace only with the consent of an administrator
//! of the cluster.

use serde_json::json;

use crate::harness::{TestFleet, create, object, plain_pods, wait_for, web};

const SHOP: &str = "/api/v1/namespaces/shop";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/shop/deployments";

#[tokio::test(flavor = "multi_thread")]
async fn child_workspaces_adopt_only_from_namespaces_that_are_labelled_for_them() {
    let fleet = TestFleet::start();
    let (above, below) = (fleet.admin(), fleet.east.admin());
    let path = format!("{DEPLOYMENTS}/web");
    create(&below, "/api/v1/namespaces", object("v1", "Namespace", "shop", json!({}))).await;
    create(&below, DEPLOYMENTS, web(1, plain_pods())).await;
    let before =
        wait_for("the workload is available", &below, &path, |web| web["status"]["availableReplicas"] == 1)
            .await;
    let mut ids = Vec::new();
    for name in ["other", "team"] {
        fleet.run(&format!("workspace create {name}"));
        let workspace = above.get(&format!("/apis/atoll.dev/v1alpha1/workspaces/{name}")).await.expect(200);
        ids.push(workspace["status"]["id"].as_str().unwrap().to_string());
    }
    fleet.run("workspace use root:team");
    let team = above.workspace("root:team");

    // Without the label, with a label that its own workspace has not got, and with the one of another workspace.
    let commands = ["adopt deploy/web -n shop --cluster east", "adopt namespace/shop --cluster east"];
    for label in [None, Some("true"), Some("root"), Some("root:team"), Some(ids[0].as_str())] {
        // `:` is not allowed in the value of a label.
        let labels = json!({ "atoll.dev/workspace": label.map(|label| label.replace(':', ".")) });
        below.merge(SHOP, json!({ "metadata": { "labels": labels } })).await.expect(200);
        for command in commands {
            let errors = fleet.run_failing(command);
            let refused =
                "namespace shop of east may not be used by root:team: the cluster is registered in root\n";
            assert!(errors.contains(refused), "{label:?}: {errors}");
            let command = format!("kubectl label namespace shop atoll.dev/workspace={}", ids[1]);
            assert!(errors.contains(&command), "{label:?}: {errors}");
        }
        assert_eq!(team.get(SHOP).await.status, 404, "{label:?}");
        let untouched = below.get(&path).await.expect(200);
        assert_eq!(untouched["metadata"]["labels"], before["metadata"]["labels"], "{label:?}");
    }

    let labels = json!({ "metadata": { "labels": { "atoll.dev/workspace": ids[1] } } });
    below.merge(SHOP, labels).await.expect(200);
    let printed = fleet.run(commands[0]);
    assert!(printed.ends_with("1 object is adopted. Nothing was restarted.\n"), "{printed}");
    wait_for("the status is reported above", &team, &path, |web| web["status"]["availableReplicas"] == 1)
        .await;
    // Changes are applied to the same object below.
    team.merge(&path, json!({ "spec": { "replicas": 2 } })).await.expect(200);
    let after =
        wait_for("the change is applied below", &below, &path, |web| web["status"]["availableReplicas"] == 2)
            .await;
    assert_eq!(after["metadata"]["uid"], before["metadata"]["uid"]);
}
