//! Work that is to leave a cluster and stays there.

use serde_json::{Value, json};

use crate::fleet::{
    CLUSTERS, annotate, condition, deployment, expect_placed, join, report_all_pods, scale, wait_until,
    with_clusters,
};

const POLICIES: &str = "/apis/atoll.dev/v1alpha1/namespaces/default/placementpolicies";
const STATEFUL_SETS: &str = "/apis/apps/v1/namespaces/default/statefulsets";

fn stateful_set(name: &str, replicas: i64) -> Value {
    let mut set = deployment(name, replicas, 100);
    set["kind"] = "StatefulSet".into();
    set["spec"]["serviceName"] = name.into();
    set["spec"]["podManagementPolicy"] = "Parallel".into();
    set
}

async fn taint(admin: &atoll_testkit::Client, cluster: &str) {
    let taint = json!({ "spec": { "taints": [{ "key": "old", "effect": "NoExecute" }] } });
    admin.merge(&format!("{CLUSTERS}/{cluster}"), taint).await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_segment_stays_until_another_cluster_takes_it() {
    let (_atoll, admin) = with_clusters(&[("east", 8), ("west", 8)]).await;
    let policy = json!({
        "apiVersion": "atoll.dev/v1alpha1", "kind": "PlacementPolicy", "metadata": { "name": "even" },
        "spec": { "replicas": { "division": "Even" } },
    });
    admin.post(POLICIES, policy).await.expect(201);
    let (db, by) = (format!("{STATEFUL_SETS}/db"), "by placementpolicy/even");
    admin.post(STATEFUL_SETS, stateful_set("db", 3)).await.expect(201);
    expect_placed(&admin, &db, &format!("east=2=0 west=1=2 {by}")).await;
    crate::fleet::report_pods(&admin, &db, "east", 2).await;
    crate::fleet::report_pods(&admin, &db, "west", 1).await;
    taint(&admin, "west").await;
    let stays = |db: &Value| condition(db, "Placed").1 == "MoveBlocked";
    wait_until(&admin, &db, "it is told that a segment stays", stays).await;
    expect_placed(&admin, &db, &format!("east=2=0 west=1=2 {by}")).await;
    // It moves when there is another place.
    join(&admin, "north", 8).await;
    expect_placed(&admin, &db, &format!("east=2=0 {by}")).await;
    crate::fleet::report_gone(&admin, &db, "west").await;
    expect_placed(&admin, &db, &format!("east=2=0 north=1=2 {by}")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_divided_stateful_set_says_that_it_stays_divided() {
    let (atoll, admin) = with_clusters(&[("east", 8), ("west", 8)]).await;
    let db = format!("{STATEFUL_SETS}/db");
    admin
        .post(STATEFUL_SETS, crate::fleet::annotated(stateful_set("db", 3), "east=2,west=1"))
        .await
        .expect(201);
    expect_placed(&admin, &db, "east=2=0 west=1=2 by annotation").await;
    crate::fleet::report_pods(&admin, &db, "east", 2).await;
    crate::fleet::report_pods(&admin, &db, "west", 1).await;
    annotate(&admin, &db, None).await;
    wait_until(&admin, &db, "it is told", |db| condition(db, "Placed").1 == "StaysDivided").await;
    expect_placed(&admin, &db, "east=2=0 west=1=2 by default").await;
    let explained = atoll.run("explain statefulset/db");
    assert!(explained.contains("a divided StatefulSet stays divided, because"), "{explained}");
    annotate(&admin, &db, Some("east=2,west=1")).await;
    wait_until(&admin, &db, "it may stay", |db| condition(db, "Placed").1 == "Applied").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn volumes_that_stay_do_not_keep_it_from_shrinking() {
    let (_atoll, admin) = with_clusters(&[("east", 8), ("west", 8)]).await;
    let db = format!("{STATEFUL_SETS}/db");
    let mut set = crate::fleet::annotated(stateful_set("db", 3), "east");
    set["spec"]["volumeClaimTemplates"] = json!([{
        "metadata": { "name": "data" },
        "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } },
    }]);
    admin.post(STATEFUL_SETS, set).await.expect(201);
    expect_placed(&admin, &db, "east=3 by annotation").await;
    report_all_pods(&admin, &db, "east", 3).await;
    annotate(&admin, &db, Some("west")).await;
    let stays = |db: &Value| condition(db, "Placed").1 == "VolumesStay";
    wait_until(&admin, &db, "its volumes stay", stays).await;
    scale(&admin, &db, 1).await;
    wait_until(&admin, &db, "it has shrunk where it is", |db| {
        crate::fleet::summary(db) == "east=1 by annotation" && stays(db)
    })
    .await;
    // Growth passes as soon as it may stay.
    annotate(&admin, &db, Some("east")).await;
    for replicas in [5, 1] {
        scale(&admin, &db, replicas).await;
        expect_placed(&admin, &db, &format!("east={replicas} by annotation")).await;
        report_all_pods(&admin, &db, "east", replicas).await;
    }
}
