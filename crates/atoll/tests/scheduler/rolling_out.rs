//! Rollouts: the budget of the update strategy holds for all clusters together.

use atoll_fleet::Placement;
use atoll_testkit::wait::{Waiting, eventually};
use atoll_testkit::{Atoll, Client, Setup, Watch, revision};
use serde_json::{Value, json};

use crate::fleet::{
    CLUSTERS, DEPLOYMENTS, annotated, condition, deployment, expect_placed, has_event, path, report_object,
    wait_until, with_clusters,
};

/// Clusters of a placement whose share is held, and those that have a part of the budget.
fn turns(object: &Value) -> (String, String) {
    let placement = Placement::of(object);
    let names = |is: &dyn Fn(&atoll_fleet::placement::Share) -> bool| {
        let mut names: Vec<&str> =
            placement.clusters.iter().filter(|share| is(share)).map(|share| share.name.as_str()).collect();
        names.sort_unstable();
        names.join(" ")
    };
    (names(&|share| share.held), names(&|share| !share.held && share.is_rolling_out()))
}

async fn expect_turns(admin: &Client, path: &str, held: &str, now: &str) -> Value {
    let what = format!("{held:?} is held and {now:?} rolls out");
    wait_until(admin, path, &what, |object| turns(object) == (held.to_string(), now.to_string())).await
}

async fn report(admin: &Client, path: &str, cluster: &str, (updated, available): (i64, i64), held: bool) {
    let status = json!({ "replicas": 2, "updatedReplicas": updated, "availableReplicas": available });
    report_object(admin, path, cluster, json!({ "state": "Applied", "status": status, "held": held })).await;
}

/// A new Pod template.
fn with_image(image: &str) -> Value {
    json!({ "spec": { "template": { "spec": { "containers": [{ "name": "main", "image": image }] } } } })
}

fn web() -> Value {
    let mut web = annotated(deployment("web", 4, 100), "east=1,west=1");
    web["spec"]["strategy"] = json!({ "rollingUpdate": { "maxUnavailable": 1, "maxSurge": 0 } });
    web
}

#[tokio::test(flavor = "multi_thread")]
async fn one_cluster_after_the_other_rolls_out_within_the_budget() {
    let (mut atoll, admin) = with_clusters(&[("east", 4), ("west", 4)]).await;
    let at = path("web");
    admin.post(DEPLOYMENTS, web()).await.expect(201);
    expect_placed(&admin, &at, "east=2 west=2 by annotation").await;
    for cluster in ["east", "west"] {
        report(&admin, &at, cluster, (2, 2), false).await;
    }
    // No cluster may see the template before its turn, not even for a moment.
    let written = admin.merge(&at, with_image("example/app:2")).await.expect(200);
    assert_eq!(turns(&written), ("east west".into(), String::new()));
    let first = expect_turns(&admin, &at, "west", "east").await;
    let shares = Placement::of(&first).clusters;
    let east = shares.iter().find(|share| share.name == "east").unwrap();
    assert_eq!((east.max_unavailable, east.max_surge), (Some(1), Some(0)));
    // The scheduler answers with what it has seen of the placement.
    eventually("only west is held in the explanation", async || {
        let explained = admin.get(&format!("{at}/placement?explain=true")).await.expect(200);
        let clusters = explained["status"]["explanation"]["clusters"].as_array().unwrap().clone();
        let held = clusters.iter().filter(|cluster| cluster["code"] == "Held");
        held.map(|cluster| &cluster["name"]).eq([&json!("west")])
    })
    .await;
    // West reports that it keeps its template, east that it has replaced one Pod.
    report(&admin, &at, "west", (0, 2), true).await;
    report(&admin, &at, "east", (1, 1), false).await;
    atoll.kill();
    atoll.restart();
    let admin = atoll.admin();
    expect_turns(&admin, &at, "west", "east").await;
    // It is not finished before its Pods are available.
    report(&admin, &at, "east", (2, 1), false).await;
    expect_turns(&admin, &at, "west", "").await;
    report(&admin, &at, "east", (2, 2), false).await;
    expect_turns(&admin, &at, "", "west").await;
    // Another template begins where the last rollout is under way.
    report(&admin, &at, "west", (1, 1), false).await;
    admin.merge(&at, with_image("example/app:3")).await.expect(200);
    expect_turns(&admin, &at, "east", "west").await;
    report(&admin, &at, "west", (2, 2), false).await;
    expect_turns(&admin, &at, "", "east").await;
    report(&admin, &at, "east", (2, 2), false).await;
    expect_turns(&admin, &at, "", "").await;
    eventually("an event tells about the turns", async || has_event(&admin, "web", "RollingOut").await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_placed_otherwise_is_not_held() {
    let (_atoll, admin) = with_clusters(&[("east", 4), ("west", 4)]).await;
    let at = path("web");
    let mut single = web();
    single["metadata"]["annotations"]["atoll.dev/clusters"] = "east".into();
    admin.post(DEPLOYMENTS, single).await.expect(201);
    expect_placed(&admin, &at, "east=4 by annotation").await;
    let written = admin.merge(&at, with_image("example/app:2")).await.expect(200);
    assert_eq!(turns(&written), (String::new(), String::new()));
}

/// Five simulated clusters that have joined.
fn five_clusters(above: &Atoll) -> Vec<Atoll> {
    let below: Vec<Atoll> = (0..5).map(|_| Atoll::simulate(&["--nodes", "1"])).collect();
    for (number, cluster) in below.iter().enumerate() {
        above.run(&format!("cluster join c{number} --kubeconfig {}", cluster.kubeconfig().display()));
    }
    below
}

/// Ready Pods of all clusters at the same time. The clusters are read one after the other, so nothing may have changed
/// when they are read again.
async fn available_at_once(clusters: &[Atoll]) -> usize {
    let waiting = Waiting::until("two readings of all clusters are equal");
    let mut before = Vec::new();
    loop {
        let mut now = Vec::new();
        for cluster in clusters {
            let list = cluster.admin().get("/api/v1/namespaces/default/pods").await.expect(200);
            now.extend(list["items"].as_array().unwrap().clone());
        }
        if now == before {
            let is_available = |pod: &&Value| {
                pod["metadata"]["deletionTimestamp"].is_null() && condition(pod, "Ready").0 == "True"
            };
            return now.iter().filter(is_available).count();
        }
        before = now;
        waiting.again().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_image_on_five_clusters_never_takes_more_than_one_pod_away() {
    let above = Setup::new().start();
    let below = five_clusters(&above);
    let admin = above.admin();
    eventually("all clusters are ready", async || {
        let list = admin.get(CLUSTERS).await.expect(200);
        let is_ready = |cluster: &Value| {
            let conditions = cluster["status"]["conditions"].as_array().into_iter().flatten();
            conditions.into_iter().any(|one| one["type"] == "Ready" && one["status"] == "True")
        };
        list["items"].as_array().unwrap().iter().filter(|cluster| is_ready(cluster)).count() == 5
    })
    .await;
    let at = path("web");
    let mut web = annotated(deployment("web", 10, 10), "c0=1,c1=1,c2=1,c3=1,c4=1");
    web["spec"]["strategy"] = json!({ "rollingUpdate": { "maxUnavailable": 1, "maxSurge": 0 } });
    admin.post(DEPLOYMENTS, web).await.expect(201);
    let is_available = |object: &Value| object["status"]["availableReplicas"] == 10;
    wait_until(&admin, &at, "all replicas are available", is_available).await;
    let changed = admin.merge(&at, with_image("example/app:2")).await.expect(200);
    let ended = |object: &Value| {
        let status = &object["status"];
        status["observedGeneration"] == object["metadata"]["generation"]
            && status["updatedReplicas"] == 10
            && status["availableReplicas"] == 10
            && turns(object) == (String::new(), String::new())
    };
    // Every version of the status counts, and so do the Pods in the clusters.
    let versions = format!(
        "{DEPLOYMENTS}?watch=true&fieldSelector=metadata.name%3Dweb&resourceVersion={}",
        revision(&changed)
    );
    let mut watch = Watch::open(&admin, &versions).await;
    let (mut in_status, mut in_clusters) = (10, 10);
    loop {
        let web = watch.event().await.object;
        in_status = in_status.min(web["status"]["availableReplicas"].as_i64().unwrap_or(0));
        in_clusters = in_clusters.min(available_at_once(&below).await);
        if ended(&web) {
            break;
        }
    }
    let fewest = (in_status, in_clusters);
    assert!(in_status >= 9 && in_clusters >= 9, "fewest in the status and in the clusters: {fewest:?}");
}
