//! Placement without any intent: a namespace stays together, on the cluster with most room.

use std::collections::BTreeMap;

use atoll_testkit::Client;
use atoll_testkit::wait::eventually;
use serde_json::json;

use crate::fleet::{
    DEPLOYMENTS, annotate, condition, deployment, expect_placed, has_event, join_with, path, report,
    report_all_pods, scale, set_ready, start, wait_until, with_clusters,
};

const NAMESPACES: &str = "/api/v1/namespaces";

#[tokio::test(flavor = "multi_thread")]
async fn applied_workload_is_placed_where_most_room_is() {
    let (_atoll, admin) = with_clusters(&[("east", 4), ("west", 16), ("north", 8)]).await;
    let created = admin.post(DEPLOYMENTS, deployment("web", 3, 500)).await;
    created.expect(201);
    assert_eq!(created.header("warning"), None, "it is placed without further action");
    let web = expect_placed(&admin, &path("web"), "west=3 by default").await;
    assert_eq!(web["metadata"]["generation"], 1, "a placement is not a change of the object");
    eventually("an event tells where", async || has_event(&admin, "web", "Placed").await).await;
    wait_until(&admin, &path("web"), "nothing says that it is not placed", |web| {
        condition(web, "Placed").1 == "NotReported"
    })
    .await;

    // The namespace stays together, although there is more room elsewhere by now, and so do the namespaces of
    // the workspace.
    admin.post(DEPLOYMENTS, deployment("database", 10, 900)).await.expect(201);
    expect_placed(&admin, &path("database"), "west=10 by default").await;
    admin.post(DEPLOYMENTS, deployment("cache", 2, 100)).await.expect(201);
    expect_placed(&admin, &path("cache"), "west=2 by default").await;
    let other = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "other" } });
    admin.post(NAMESPACES, other).await.expect(201);
    let others = DEPLOYMENTS.replace("default", "other");
    admin.post(&others, deployment("web", 1, 100)).await.expect(201);
    expect_placed(&admin, &format!("{others}/web"), "west=1 by default").await;

    // Scaling is followed.
    scale(&admin, &path("web"), 5).await;
    expect_placed(&admin, &path("web"), "west=5 by default").await;
    scale(&admin, &path("web"), 0).await;
    expect_placed(&admin, &path("web"), "west=0 by default").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workload_that_outgrows_the_cluster_of_its_namespace_names_the_remedy() {
    let (_atoll, admin) = with_clusters(&[("east", 6), ("west", 5)]).await;
    for (name, replicas) in [("database", 2), ("web", 1)] {
        admin.post(DEPLOYMENTS, deployment(name, replicas, 1000)).await.expect(201);
        expect_placed(&admin, &path(name), &format!("east={replicas} by default")).await;
        report_all_pods(&admin, &path(name), "east", replicas).await;
    }
    let told = async |part: &str| {
        eventually(part, async || {
            let events = admin.get("/api/v1/namespaces/default/events").await.expect(200);
            events["items"].as_array().unwrap().iter().any(|event| {
                event["reason"] == "Unschedulable" && event["message"].as_str().unwrap().contains(part)
            })
        })
        .await;
    };
    scale(&admin, &path("web"), 7).await;
    told(
        "it stays beside the other workloads of its namespace, but several clusters together have room for it: kubectl \
         annotate deployment web atoll.dev/clusters=east=",
    )
    .await;
    scale(&admin, &path("web"), 5).await;
    let web = wait_until(&admin, &path("web"), "a part of it has no place", |web| {
        condition(web, "Placed")
            .2
            .starts_with("1 of 5 replicas have no place on east, where it is placed by default")
    })
    .await;
    let (_, _, message) = condition(&web, "Placed");
    assert!(message.contains("kubectl annotate deployment/web atoll.dev/clusters=NAME"), "{message}");
    told(
        "it stays beside the other workloads of its namespace, but west has room for all of it: kubectl annotate \
         deployment web atoll.dev/clusters=west",
    )
    .await;
    // The command leads to room for all of it.
    annotate(&admin, &path("web"), Some("west")).await;
    wait_until(&admin, &path("web"), "it moves to west", |web| {
        atoll_fleet::Placement::of(web).share("west").is_some_and(|share| share.replicas == Some(5))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cordoned_and_unready_clusters_are_not_chosen() {
    let (_atoll, admin) = with_clusters(&[("small", 2)]).await;
    join_with(&admin, "cordoned", 32, json!({ "unschedulable": true })).await;
    join_with(&admin, "observed", 32, json!({ "access": "observe" })).await;
    let taint = json!({ "key": "dedicated", "value": "gpu", "effect": "NoSchedule" });
    join_with(&admin, "tainted", 32, json!({ "taints": [taint] })).await;
    join_with(&admin, "broken", 32, json!({})).await;
    let broken =
        json!({ "status": { "conditions": [{ "type": "Ready", "status": "False", "reason": "TimedOut" }] } });
    admin.merge("/apis/atoll.dev/v1alpha1/clusters/broken/status", broken).await.expect(200);
    admin.post(DEPLOYMENTS, deployment("web", 2, 100)).await.expect(201);
    expect_placed(&admin, &path("web"), "small=2 by default").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn workloads_of_a_child_workspace_use_the_clusters_above() {
    let (_atoll, admin) = with_clusters(&[("east", 4)]).await;
    let team =
        json!({ "apiVersion": "atoll.dev/v1alpha1", "kind": "Workspace", "metadata": { "name": "team" } });
    admin.post("/apis/atoll.dev/v1alpha1/workspaces", team).await.expect(201);
    wait_until(&admin, "/apis/atoll.dev/v1alpha1/workspaces/team", "the workspace is ready", |team| {
        team["status"]["phase"] == "Ready"
    })
    .await;
    let team = admin.workspace("root:team");
    team.post(DEPLOYMENTS, deployment("web", 2, 100)).await.expect(201);
    expect_placed(&team, &path("web"), "east=2 by default").await;
}

/// Creates many Deployments of one replica at once, each with a tenth of a core.
async fn create_many(admin: &Client, count: usize) {
    let mut creating = tokio::task::JoinSet::new();
    for index in 0..count {
        let admin = admin.clone();
        creating.spawn(async move {
            admin.post(DEPLOYMENTS, deployment(&format!("web-{index}"), 1, 100)).await.expect(201);
        });
    }
    creating.join_all().await;
}

/// Replicas by cluster, and the number of Deployments that are unschedulable.
async fn shares(admin: &Client) -> (BTreeMap<String, i64>, usize) {
    let (mut shares, mut pending) = (BTreeMap::new(), 0);
    let all = admin.get(DEPLOYMENTS).await.expect(200);
    for object in all["items"].as_array().unwrap() {
        for share in atoll_fleet::Placement::of(object).clusters {
            *shares.entry(share.name).or_insert(0) += share.replicas.unwrap();
        }
        pending += usize::from(condition(object, "Placed").1 == "Unschedulable");
    }
    (shares, pending)
}

#[tokio::test(flavor = "multi_thread")]
async fn burst_of_workloads_does_not_overcommit() {
    const COUNT: usize = 200;
    // The clusters report nothing meanwhile, so only what was decided before is known.
    let (_atoll, admin) = with_clusters(&[("east", 10), ("west", 8), ("north", 6)]).await;
    let anywhere = json!({
        "apiVersion": "atoll.dev/v1alpha1", "kind": "ClusterPlacementPolicy", "metadata": { "name": "anywhere" }, "spec": {},
    });
    admin.post("/apis/atoll.dev/v1alpha1/clusterplacementpolicies", anywhere).await.expect(201);
    create_many(&admin, COUNT).await;
    eventually("all of them are placed", async || {
        let (shares, _) = shares(&admin).await;
        for (name, most) in [("east", 100), ("west", 80), ("north", 60)] {
            assert!(shares.get(name).is_none_or(|count| *count <= most), "{shares:?}");
        }
        shares.values().sum::<i64>() == 200
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn new_workloads_do_not_wait_for_a_full_cluster_of_their_namespace() {
    let (_atoll, admin) = with_clusters(&[("east", 2), ("west", 1)]).await;
    create_many(&admin, 35).await;
    eventually("all of them are placed or wait", async || {
        let (shares, pending) = shares(&admin).await;
        assert!(shares.get("east").is_none_or(|count| *count <= 20), "{shares:?}");
        shares.get("east") == Some(&20) && shares.get("west") == Some(&10) && pending == 5
    })
    .await;
    report(&admin, "east", 4).await;
    eventually("all of them are placed", async || shares(&admin).await.0.get("east") == Some(&25)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn new_workloads_do_not_wait_for_a_closed_cluster_of_their_namespace() {
    let (_atoll, admin) = with_clusters(&[("east", 8), ("west", 4)]).await;
    admin.post(DEPLOYMENTS, deployment("first", 1, 100)).await.expect(201);
    expect_placed(&admin, &path("first"), "east=1 by default").await;
    let east = "/apis/atoll.dev/v1alpha1/clusters/east";
    admin.merge(east, json!({ "spec": { "unschedulable": true } })).await.expect(200);
    admin.post(DEPLOYMENTS, deployment("second", 1, 100)).await.expect(201);
    expect_placed(&admin, &path("second"), "west=1 by default").await;
    admin.merge(east, json!({ "spec": { "unschedulable": false } })).await.expect(200);
    set_ready(&admin, "east", false, 0).await;
    admin.post(DEPLOYMENTS, deployment("third", 1, 100)).await.expect(201);
    expect_placed(&admin, &path("third"), "west=1 by default").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_happens_without_clusters_until_one_joins() {
    let atoll = start();
    let admin = atoll.admin();
    admin.post(DEPLOYMENTS, deployment("web", 2, 100)).await.expect(201);
    join_with(&admin, "east", 4, json!({})).await;
    expect_placed(&admin, &path("web"), "east=2 by default").await;
}
