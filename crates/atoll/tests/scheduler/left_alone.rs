//! Objects that the scheduler leaves alone, and placements that stay.

use serde_json::json;

use crate::fleet::{
    DEPLOYMENTS, annotate, annotated, deployment, expect_placed, join, path, scale, summary, with_clusters,
};

#[tokio::test(flavor = "multi_thread")]
async fn objects_of_others_are_left_alone() {
    let (_atoll, admin) = with_clusters(&[("east", 4), ("west", 16)]).await;
    // Being released, owned by another workload, created pod by pod, and in a system namespace.
    admin.post(DEPLOYMENTS, annotated(deployment("released", 2, 100), "east")).await.expect(201);
    expect_placed(&admin, &path("released"), "east=2 by annotation").await;
    let release = json!({ "spec": { "by": "release" } });
    admin.merge(&format!("{}/placement", path("released")), release).await.expect(200);
    annotate(&admin, &path("released"), Some("none")).await;
    for (name, version, kind) in [("owned", "apps/v1", "Deployment"), ("made", "example.com/v1", "Thing")] {
        let owner =
            json!({ "apiVersion": version, "kind": kind, "name": "owner", "uid": "1", "controller": true });
        let mut owned = deployment(name, 2, 100);
        owned["metadata"]["ownerReferences"] = json!([owner]);
        admin.post(DEPLOYMENTS, owned).await.expect(201);
    }
    let system = DEPLOYMENTS.replace("default", "kube-system");
    admin.post(&system, deployment("web", 2, 100)).await.expect(201);
    scale(&admin, &path("released"), 3).await;
    // Decisions are made in order, so these were not placed if a later one was.
    admin.post(DEPLOYMENTS, deployment("last", 1, 100)).await.expect(201);
    expect_placed(&admin, &path("last"), "east=1 by default").await;
    assert_eq!(summary(&admin.get(&path("released")).await.expect(200)), "east=2 by release");
    assert_eq!(summary(&admin.get(&path("owned")).await.expect(200)), "nowhere");
    // An operator made this one, from an object that stays in the control plane.
    assert_eq!(summary(&admin.get(&path("made")).await.expect(200)), "east=2 by default");
    assert_eq!(summary(&admin.get(&format!("{system}/web")).await.expect(200)), "nowhere");
}

#[tokio::test(flavor = "multi_thread")]
async fn placements_stay_after_a_restart_and_when_clusters_join() {
    let (mut atoll, admin) = with_clusters(&[("east", 4), ("west", 3)]).await;
    for name in ["a", "b", "c"] {
        admin.post(DEPLOYMENTS, deployment(name, 2, 100)).await.expect(201);
        expect_placed(&admin, &path(name), "east=2 by default").await;
    }
    let revision = |object: &serde_json::Value| object["metadata"]["resourceVersion"].clone();
    join(&admin, "large", 64).await;
    atoll.restart();
    let admin = atoll.admin();
    let before = admin.get(&path("a")).await.expect(200);
    admin.post(DEPLOYMENTS, deployment("d", 1, 100)).await.expect(201);
    expect_placed(&admin, &path("d"), "east=1 by default").await;
    let after = admin.get(&path("a")).await.expect(200);
    assert_eq!(summary(&after), "east=2 by default");
    assert_eq!(revision(&before), revision(&after), "nothing was written");
}
