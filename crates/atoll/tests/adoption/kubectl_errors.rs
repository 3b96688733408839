//! kubectl logs, exec and port-forward fail immediately for a workload whose pods run in another cluster or
//! nowhere, instead of waiting for pods.

use atoll_testkit::Kubectl;
use serde_json::json;

use crate::harness::{TestFleet, create, plain_pods, unplaced, web};

const LINES: [&str; 3] =
    ["logs deployment/web", "exec deployment/web -- true", "port-forward deployment/web 0:80"];

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_gets_an_error_that_names_the_cluster_of_the_pods() {
    let fleet = TestFleet::start();
    let Some(kubectl) = Kubectl::new(&fleet.above.kubeconfig()) else { return };
    let above = fleet.admin();
    let web_above = unplaced(web(1, plain_pods()));
    create(&above, "/apis/apps/v1/namespaces/default/deployments", web_above).await;
    let check = |expected: &[&str]| {
        for line in LINES {
            let errors = kubectl.run_failing(line);
            assert!(expected.iter().all(|words| errors.contains(words)), "{line}: {errors}");
        }
    };
    let nowhere = "Deployment default/web runs nowhere, because it is placed on no cluster; ";
    check(&[nowhere, "place it with: atoll place deployment/web --namespace default --on east"]);
    fleet.run("cluster cordon east");
    check(&[nowhere, "no cluster accepts the object: east is cordoned (atoll cluster uncordon east)"]);
    fleet.run("cluster uncordon east");
    fleet.run("place deployment/web --on east");
    check(&["the pods of Deployment default/web run in cluster east"]);

    // Pods with grain `pod` may still be created above.
    let grain = json!({ "metadata": { "name": "here", "labels": { "atoll.dev/grain": "pod" } } });
    create(&above, "/api/v1/namespaces", grain).await;
    create(&above, "/apis/apps/v1/namespaces/here/deployments", web(0, plain_pods())).await;
    let errors = kubectl.run_failing("logs deployment/web --namespace here --pod-running-timeout 1s");
    assert!(errors.contains("timed out waiting"), "{errors}");
}

/// Without any joined cluster there are no pods to wait for either.
#[tokio::test(flavor = "multi_thread")]
async fn without_clusters_kubectl_gets_an_error_immediately() {
    let fleet = TestFleet::not_joined();
    let above = fleet.admin();
    create(&above, "/apis/apps/v1/namespaces/default/deployments", web(1, plain_pods())).await;
    let pods = "/api/v1/namespaces/default/pods?labelSelector=app%3Dweb";
    let asking = above.with_header("kubectl-command", "kubectl logs");
    let message = asking.get(pods).await.expect_status(400, "BadRequest");
    assert!(message.contains("join one with: atoll cluster join"), "{message}");
    // A simulated cluster runs its own workloads, so clients may wait for their pods.
    let below = fleet.east.admin();
    create(&below, "/apis/apps/v1/namespaces/default/deployments", web(0, plain_pods())).await;
    below.with_header("kubectl-command", "kubectl logs").get(pods).await.expect(200);
}
