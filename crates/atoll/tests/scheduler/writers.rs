//! Placements are written by the scheduler only; users set the annotation.

use atoll_testkit::Setup;
use serde_json::json;

use crate::fleet::{
    CONTROLLERS, DEPLOYMENTS, annotated, condition, deployment, expect_placed, join, path, summary,
    wait_until, with_clusters,
};

#[tokio::test(flavor = "multi_thread")]
async fn placements_of_workloads_are_not_written_directly() {
    let (_atoll, admin) = with_clusters(&[("east", 8), ("west", 4)]).await;
    admin.post(DEPLOYMENTS, deployment("web", 3, 100)).await.expect(201);
    expect_placed(&admin, &path("web"), "east=3 by default").await;
    let placement = format!("{}/placement", path("web"));
    let divided = json!([{ "name": "east", "replicas": 2 }, { "name": "west", "replicas": 1 }]);
    let command =
        |intent: &str| format!("kubectl annotate deployment web atoll.dev/clusters={intent} --overwrite");
    for (spec, intent) in [
        (json!({ "clusters": divided, "by": null }), "east=2,west=1"),
        (json!({ "clusters": divided, "by": "default" }), "east=2,west=1"),
        (json!({ "clusters": [{ "name": "west" }], "by": "hand" }), "west"),
        (json!({ "clusters": [{ "name": "west" }], "by": "annotation", "force": true }), "west"),
        (json!({ "clusters": [], "by": "hand" }), "none"),
    ] {
        let refused = admin.merge(&placement, json!({ "spec": spec })).await;
        let refused = refused.expect_status(403, "Forbidden");
        assert!(refused.ends_with(&command(intent)), "{refused}");
    }
    assert_eq!(summary(&admin.get(&path("web")).await.expect(200)), "east=3 by default");
    // The command that is given leads to what was wanted.
    let patch = json!({ "metadata": { "annotations": { "atoll.dev/clusters": "east=2,west=1" } } });
    admin.merge(&path("web"), patch).await.expect(200);
    expect_placed(&admin, &path("web"), "east=2 west=1 by annotation").await;
    // Objects that the scheduler does not place are placed directly.
    let maps = "/api/v1/namespaces/default/configmaps";
    admin.post(maps, json!({ "metadata": { "name": "settings" } })).await.expect(201);
    let on_west = json!({ "spec": { "clusters": [{ "name": "west" }] } });
    admin.merge(&format!("{maps}/settings/placement"), on_west.clone()).await.expect(200);
    let owner =
        json!({ "apiVersion": "apps/v1", "kind": "Deployment", "name": "a", "uid": "1", "controller": true });
    let mut owned = deployment("owned", 1, 100);
    owned["metadata"]["ownerReferences"] = json!([owner]);
    admin.post(DEPLOYMENTS, owned).await.expect(201);
    admin.merge(&format!("{}/placement", path("owned")), on_west).await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn forced_placements_follow_the_intent() {
    let (atoll, admin) = with_clusters(&[("east", 8), ("west", 4)]).await;
    admin.post(DEPLOYMENTS, annotated(deployment("web", 2, 100), "east")).await.expect(201);
    expect_placed(&admin, &path("web"), "east=2 by annotation").await;
    atoll.run("cluster cordon west");
    let printed = atoll.run("place deploy/web --on west --force");
    assert!(printed.starts_with("Deployment default/web is placed on west"), "{printed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_scheduler_placements_are_written_directly() {
    let controllers = CONTROLLERS.replace("placementscheduler,", "");
    let atoll = Setup::new().flag("--controllers", controllers).start();
    let admin = atoll.admin();
    join(&admin, "east", 8).await;
    admin.post(DEPLOYMENTS, deployment("web", 2, 100)).await.expect(201);
    let placement = json!({ "spec": { "clusters": [{ "name": "east" }] } });
    admin.merge(&format!("{}/placement", path("web")), placement).await.expect(200);
    expect_placed(&admin, &path("web"), "east by hand").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_deployments_are_progressing_until_their_deadline() {
    let (_atoll, admin) = with_clusters(&[("east", 1)]).await;
    let is_waiting = |web: &serde_json::Value| condition(web, "Placed").1 == "Unschedulable";
    admin.post(DEPLOYMENTS, deployment("patient", 1, 4000)).await.expect(201);
    wait_until(&admin, &path("patient"), "it waits for room", |web| {
        is_waiting(web) && condition(web, "Progressing").0 == "True"
    })
    .await;
    let mut hasty = deployment("hasty", 1, 4000);
    hasty["spec"]["progressDeadlineSeconds"] = 1.into();
    admin.post(DEPLOYMENTS, hasty).await.expect(201);
    wait_until(&admin, &path("hasty"), "its deadline has passed", |web| {
        is_waiting(web) && condition(web, "Progressing").1 == "ProgressDeadlineExceeded"
    })
    .await;
    admin.post(DEPLOYMENTS, annotated(deployment("above", 1, 100), "none")).await.expect(201);
    wait_until(&admin, &path("above"), "it stays above", |web| {
        condition(web, "Progressing").1 == "ProgressDeadlineExceeded"
    })
    .await;
    assert_eq!(condition(&admin.get(&path("patient")).await.expect(200), "Progressing").0, "True");
}
