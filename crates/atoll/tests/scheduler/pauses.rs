//! Pauses: shares follow the number of replicas, and no cluster enters or leaves.

use atoll_testkit::wait::eventually;

use crate::fleet::{
    DEPLOYMENTS, annotate, annotated, deployment, expect_placed, has_event, path, report_all_pods,
    report_pods, scale, summary, with_clusters,
};

#[tokio::test(flavor = "multi_thread")]
async fn shares_of_present_clusters_follow_the_replicas() {
    let (atoll, admin) = with_clusters(&[("east", 4), ("west", 4)]).await;
    let web = path("web");
    admin.post(DEPLOYMENTS, annotated(deployment("web", 2, 100), "east")).await.expect(201);
    expect_placed(&admin, &web, "east=2 by annotation").await;
    report_all_pods(&admin, &web, "east", 2).await;
    atoll.run("pause --reason maintenance");
    annotate(&admin, &web, Some("west")).await;
    eventually("an event tells about the pause", async || has_event(&admin, "web", "Paused").await).await;
    scale(&admin, &web, 5).await;
    expect_placed(&admin, &web, "east=5 by annotation").await;
    assert_eq!(summary(&admin.get(&web).await.expect(200)), "east=5 by annotation");
    report_all_pods(&admin, &web, "east", 5).await;
    atoll.run("resume");
    expect_placed(&admin, &web, "east=5 west=5 by annotation").await;
    report_pods(&admin, &web, "west", 5).await;
    expect_placed(&admin, &web, "west=5 by annotation").await;
}
