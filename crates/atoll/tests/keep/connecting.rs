//! kubectl does not wait for pods that never come: not for those of a workload that runs elsewhere, nor that runs nowhere.

use std::process::Command;

use serde_json::json;

use crate::support::programs::{fail, kubectl};
use crate::world::{World, create, plain_pods, web};

const LINES: [&str; 3] =
    ["logs deployment/web", "exec deployment/web -- true", "port-forward deployment/web 0:80"];

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_is_told_at_once_where_pods_are() {
    let Some(programs) = kubectl() else { return };
    let world = World::start();
    let above = world.admin();
    create(&above, "/apis/apps/v1/namespaces/default/deployments", web(1, plain_pods())).await;
    let fails = |line: &str| {
        let mut command = Command::new(programs.join("kubectl"));
        fail(command.env("KUBECONFIG", world.above.admin_kubeconfig()).args(line.split(' ')))
    };
    let check = |expected: &[&str]| {
        for line in LINES {
            let errors = fails(line);
            assert!(expected.iter().all(|words| errors.contains(words)), "{line}: {errors}");
        }
    };
    let nowhere = "Deployment default/web runs nowhere, since it is placed on no cluster; ";
    check(&[nowhere, "place it with: atoll place deployment/web --namespace default --on east"]);
    world.says("cluster cordon east");
    check(&[nowhere, "no cluster takes it: east is cordoned (atoll cluster uncordon east)"]);
    world.says("cluster uncordon east");
    world.says("place deployment/web --on east");
    check(&["the pods of Deployment default/web run in cluster east"]);

    // Pods that are made here may still come.
    let grain = json!({ "metadata": { "name": "here", "labels": { "atoll.dev/grain": "pod" } } });
    create(&above, "/api/v1/namespaces", grain).await;
    create(&above, "/apis/apps/v1/namespaces/here/deployments", web(0, plain_pods())).await;
    let errors = fails("logs deployment/web --namespace here --pod-running-timeout 1s");
    assert!(errors.contains("timed out waiting"), "{errors}");
}

/// There is nothing to wait for where no cluster has joined either.
#[tokio::test(flavor = "multi_thread")]
async fn without_clusters_nothing_is_waited_for() {
    let world = World::apart();
    let above = world.admin();
    create(&above, "/apis/apps/v1/namespaces/default/deployments", web(1, plain_pods())).await;
    let pods = "/api/v1/namespaces/default/pods?labelSelector=app%3Dweb";
    let asking = above.saying("kubectl-command", "kubectl logs");
    let message = asking.get(pods).await.expect_status(400, "BadRequest");
    assert!(message.contains("join one with: atoll cluster join"), "{message}");
    // A cluster that runs its workloads itself is waited for.
    let below = world.east.admin();
    create(&below, "/apis/apps/v1/namespaces/default/deployments", web(0, plain_pods())).await;
    below.saying("kubectl-command", "kubectl logs").get(pods).await.expect(200);
}
