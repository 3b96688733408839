//! Placement by the annotation `atoll.dev/clusters` of an object or its Namespace.

use serde_json::json;

use crate::fleet::{
    DEPLOYMENTS, annotate, annotated, condition, deployment, expect_placed, path, scale, summary, wait_until,
    with_clusters,
};

const DEFAULT: &str = "/api/v1/namespaces/default";

#[tokio::test(flavor = "multi_thread")]
async fn weights_divide_replicas_and_scaling_follows_them() {
    let (_atoll, admin) = with_clusters(&[("east", 4), ("west", 16)]).await;
    admin.post(DEPLOYMENTS, annotated(deployment("web", 3, 100), "east=2,west=1")).await.expect(201);
    let web = path("web");
    let placed = expect_placed(&admin, &web, "east=2 west=1 by annotation").await;
    scale(&admin, &web, 6).await;
    expect_placed(&admin, &web, "east=4 west=2 by annotation").await;
    // Other weights, exact numbers, and copies.
    annotate(&admin, &web, Some("east=1,west=1")).await;
    let changed = expect_placed(&admin, &web, "east=3 west=3 by annotation").await;
    assert_eq!(
        changed["metadata"]["generation"].as_i64(),
        placed["metadata"]["generation"].as_i64().map(|generation| generation + 1),
        "only scaling is a change of the object"
    );
    annotate(&admin, &web, Some("east==1,west==2")).await;
    expect_placed(&admin, &web, "east=1 west=2 by annotation").await;
    annotate(&admin, &web, Some("east=all,west=all")).await;
    expect_placed(&admin, &web, "east=6 west=6 by annotation").await;
    annotate(&admin, &web, Some("east")).await;
    expect_placed(&admin, &web, "east=6 by annotation").await;
    annotate(&admin, &web, None).await;
    expect_placed(&admin, &web, "east=6 by default").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn workloads_with_the_annotation_none_stay_above() {
    let (_atoll, admin) = with_clusters(&[("east", 4)]).await;
    let web = path("web");
    admin.post(DEPLOYMENTS, annotated(deployment("web", 3, 100), "none")).await.expect(201);
    let stays = wait_until(&admin, &web, "its condition says so", |web| {
        let (status, reason, message) = condition(web, "Placed");
        (status.as_str(), reason.as_str()) == ("False", "NotPlaced")
            && message.contains("atoll.dev/clusters is none")
    })
    .await;
    assert_eq!(summary(&stays), "nowhere");
    annotate(&admin, &web, Some("east")).await;
    expect_placed(&admin, &web, "east=3 by annotation").await;
    // A placed object leaves its clusters.
    annotate(&admin, &web, Some("none")).await;
    let gone = wait_until(&admin, &web, "it leaves", |web| summary(web) == "nowhere").await;
    assert_eq!(atoll_fleet::Placement::of(&gone).leaving.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn annotation_of_the_namespace_applies_to_its_workloads() {
    let (_atoll, admin) = with_clusters(&[("east", 4), ("west", 16)]).await;
    admin.post(DEPLOYMENTS, deployment("before", 3, 100)).await.expect(201);
    expect_placed(&admin, &path("before"), "west=3 by default").await;
    annotate(&admin, DEFAULT, Some("east=2,west=1")).await;
    expect_placed(&admin, &path("before"), "east=2 west=1 by namespace-annotation").await;
    admin.post(DEPLOYMENTS, deployment("after", 6, 100)).await.expect(201);
    expect_placed(&admin, &path("after"), "east=4 west=2 by namespace-annotation").await;
    // The annotation of an object has precedence.
    admin.post(DEPLOYMENTS, annotated(deployment("own", 2, 100), "west")).await.expect(201);
    expect_placed(&admin, &path("own"), "west=2 by annotation").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_of_the_manifest_do_not_disturb_the_placement() {
    let (_atoll, admin) = with_clusters(&[("east", 4), ("west", 16)]).await;
    let manifest = annotated(deployment("web", 3, 100), "east=2,west=1");
    admin.post(DEPLOYMENTS, manifest.clone()).await.expect(201);
    let web = path("web");
    expect_placed(&admin, &web, "east=2 west=1 by annotation").await;
    for _ in 0..3 {
        admin.put(&web, manifest.clone()).await.expect(200);
        admin.apply(&format!("{web}?fieldManager=gitops&force=true"), manifest.clone()).await.expect(200);
        let object = admin.merge(&web, json!({ "spec": { "paused": false } })).await.expect(200);
        assert_eq!(summary(&object), "east=2 west=1 by annotation");
    }
}
