//! `atoll move` and `atoll cluster drain`.

use serde_json::json;

use crate::fleet::{
    CLUSTERS, DEPLOYMENTS, annotated, deployment, expect_placed, has_event, path, report_all_pods,
    report_gone, report_pods, summary, with_clusters,
};
use atoll_testkit::wait::eventually;

#[tokio::test(flavor = "multi_thread")]
async fn workloads_are_moved_by_command() {
    let (atoll, admin) = with_clusters(&[("east", 4), ("west", 3)]).await;
    let web = path("web");
    admin.post(DEPLOYMENTS, deployment("web", 2, 100)).await.expect(201);
    expect_placed(&admin, &web, "east=2 by default").await;
    report_all_pods(&admin, &web, "east", 2).await;
    atoll.run("move deploy/web --to west --timeout 0");
    expect_placed(&admin, &web, "east=2 west=2 by annotation").await;
    report_pods(&admin, &web, "west", 2).await;
    let arrived = atoll.run("move deploy/web --to west");
    assert!(arrived.contains("Deployment default/web runs on west (2)."), "{arrived}");
    assert_eq!(summary(&admin.get(&web).await.expect(200)), "west=2 by annotation");
    let unknown = atoll.run_failing("move deploy/web --to nowhere");
    assert!(unknown.contains("there is no cluster nowhere"), "{unknown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn drained_cluster_names_what_stays() {
    let (atoll, admin) = with_clusters(&[("east", 4), ("west", 3)]).await;
    let (web, pinned) = (path("web"), path("pinned"));
    admin.post(DEPLOYMENTS, deployment("web", 2, 100)).await.expect(201);
    expect_placed(&admin, &web, "east=2 by default").await;
    admin.post(DEPLOYMENTS, annotated(deployment("pinned", 1, 100), "east==1")).await.expect(201);
    expect_placed(&admin, &pinned, "east=1 by annotation").await;
    let mut agent = deployment("agent", 1, 100);
    agent["kind"] = "DaemonSet".into();
    agent["spec"].as_object_mut().unwrap().remove("replicas");
    let agents = "/apis/apps/v1/namespaces/default/daemonsets";
    admin.post(agents, agent).await.expect(201);
    let agent = format!("{agents}/agent");
    expect_placed(&admin, &agent, "east by default").await;
    for (path, pods) in [(&web, 2), (&pinned, 1)] {
        report_all_pods(&admin, path, "east", pods).await;
    }

    let shown = atoll.run("cluster drain east --dry-run");
    assert!(shown.contains("1 object would move off east:"), "{shown}");
    assert!(shown.contains("web    east=2   west=2"), "{shown}");
    assert!(shown.contains("Deployment default/pinned would stay on east=1: "), "{shown}");
    assert!(shown.contains("Nothing was changed."), "{shown}");
    assert!(shown.contains("DaemonSets stay until the cluster is removed: daemonsets/agent"), "{shown}");
    assert_eq!(summary(&admin.get(&web).await.expect(200)), "east=2 by default");
    atoll.run("cluster drain east --timeout 0");
    expect_placed(&admin, &web, "east=2 west=2 by default").await;
    report_pods(&admin, &web, "west", 2).await;
    expect_placed(&admin, &web, "west=2 by default").await;
    report_gone(&admin, &web, "east").await;
    eventually("it is told that the pin keeps it", async || has_event(&admin, "pinned", "MoveBlocked").await)
        .await;
    let blocked = atoll.run_failing("cluster drain east --timeout 1");
    assert!(blocked.contains("1 object could not leave east in time"), "{blocked}");
    assert_eq!(summary(&admin.get(&pinned).await.expect(200)), "east=1 by annotation");
    assert_eq!(summary(&admin.get(&agent).await.expect(200)), "east by default");
    // Without the pin it can leave.
    admin
        .merge(&pinned, json!({ "metadata": { "annotations": { "atoll.dev/clusters": null } } }))
        .await
        .expect(200);
    expect_placed(&admin, &pinned, "east=1 west=1 by default").await;
    report_pods(&admin, &pinned, "west", 1).await;
    expect_placed(&admin, &pinned, "west=1 by default").await;
    report_gone(&admin, &pinned, "east").await;
    let drained = atoll.run("cluster drain east");
    assert!(drained.contains("Cluster east is drained."), "{drained}");
    atoll.run("cluster uncordon east");
    let east = admin.get(&format!("{CLUSTERS}/east")).await.expect(200);
    assert_eq!(east["spec"]["taints"], json!([]));
}
