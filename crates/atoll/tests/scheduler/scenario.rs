//! The life of an application in the playground: spread, moved, drained, failed over, grown and updated, with an
//! autoscaler and a volume claim.

mod playground;
mod sampling;

use std::collections::BTreeMap;
use std::time::Instant;

use atoll_fleet::Placement;
use atoll_testkit::wait::Waiting;
use atoll_testkit::{Client, Kubectl, RequestContent};
use serde_json::{Value, json};

use self::playground::Playground;
use self::sampling::Sampling;
use crate::fleet::{DEPLOYMENTS, annotate, condition, path, scale, summary, wait_until};
use crate::simulated::POLICIES;

const CORE: &str = "/api/v1/namespaces/default";
const AUTOSCALERS: &str = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";
const REPLICAS: i64 = 10;
/// The most replicas that the autoscaler allows.
const MOST: i64 = 100;
const IMAGES: [&str; 2] = ["example/web:1", "example/web:2"];

fn named(more: Value) -> Value {
    let mut object = json!({ "metadata": { "name": "web" } });
    for (field, value) in more.as_object().unwrap() {
        object[field] = value.clone();
    }
    object
}

/// Ten replicas under a policy that divides them evenly, with everything that they need. Their usage is what the
/// autoscaler aims at, so that it keeps any number of replicas.
async fn create(admin: &Client) {
    let policy = named(json!({ "spec": {
        "objects": [{ "kind": "Deployment", "name": "web" }],
        "replicas": { "division": "Even" },
        "failover": { "after": "2s" },
        "failback": { "after": "2s" },
    } }));
    admin.post(POLICIES, policy).await.expect(201);
    admin.post(&format!("{CORE}/configmaps"), named(json!({ "data": { "a": "b" } }))).await.expect(201);
    admin.post(&format!("{CORE}/secrets"), named(json!({ "stringData": { "c": "d" } }))).await.expect(201);
    let claim = named(json!({ "spec": {
        "accessModes": ["ReadWriteMany"], "resources": { "requests": { "storage": "1Gi" } },
    } }));
    admin.post(&format!("{CORE}/persistentvolumeclaims"), claim).await.expect(201);
    let labels = json!({ "app": "web" });
    let ports = json!([{ "name": "http", "port": 80, "targetPort": 8080 }]);
    let service = named(json!({ "spec": { "selector": labels, "ports": ports } }));
    admin.post(&format!("{CORE}/services"), service).await.expect(201);
    let container = json!({
        "name": "main",
        "image": IMAGES[0],
        "ports": [{ "containerPort": 8080 }],
        "envFrom": [{ "configMapRef": { "name": "web" } }, { "secretRef": { "name": "web" } }],
        "resources": { "requests": { "cpu": "60m", "memory": "16Mi" } },
        "volumeMounts": [{ "name": "cache", "mountPath": "/cache" }],
    });
    let pod = json!({
        "containers": [container],
        "volumes": [{ "name": "cache", "persistentVolumeClaim": { "claimName": "web" } }],
        "terminationGracePeriodSeconds": 1,
    });
    let metadata = json!({ "labels": labels, "annotations": { "sim.atoll.dev/usage": "cpu=80%" } });
    let deployment = named(json!({ "spec": {
        "replicas": REPLICAS,
        "selector": { "matchLabels": labels },
        "template": { "metadata": metadata, "spec": pod },
    } }));
    admin.post(DEPLOYMENTS, deployment).await.expect(201);
    let target = json!({ "type": "Utilization", "averageUtilization": 80 });
    let autoscaler = named(json!({ "spec": {
        "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" },
        "minReplicas": REPLICAS,
        "maxReplicas": MOST,
        "metrics": [{ "type": "Resource", "resource": { "name": "cpu", "target": target } }],
    } }));
    admin.post(AUTOSCALERS, autoscaler).await.expect(201);
}

/// Waits until the placement has come to rest with replicas divided evenly between clusters, and this side of the
/// autoscaler. Returns the replicas of each.
async fn expect_even(
    admin: &Client,
    clusters: &[&'static str],
    replicas: i64,
    side: &str,
) -> BTreeMap<&'static str, i64> {
    let what = format!("{replicas} replicas are divided between {clusters:?}, with the autoscaler {side}");
    let (waiting, mut last) = (Waiting::until(&what), String::new());
    let count = i64::try_from(clusters.len()).unwrap();
    loop {
        let web = admin.get(&path("web")).await.expect(200);
        let placement = Placement::of(&web);
        let share = |name: &str| placement.share(name).and_then(|share| share.replicas).unwrap_or(0);
        let shares: BTreeMap<&str, i64> = clusters.iter().map(|name| (*name, share(name))).collect();
        let is_even =
            shares.values().all(|share| (replicas / count..=(replicas + count - 1) / count).contains(share))
                && shares.values().sum::<i64>() == replicas
                && placement.clusters.len() == clusters.len();
        let is_at_rest = placement.phase.is_empty()
            && placement.blocked.is_empty()
            && placement.missing == 0
            && placement.autoscaler == side;
        let is_available = web["status"]["availableReplicas"] == replicas
            && web["status"]["replicas"] == replicas
            && condition(&web, "Placed").0 == "True";
        if is_even && is_at_rest && is_available {
            return shares;
        }
        let now = format!("{} {placement:?} {}", summary(&web), web["status"]);
        if now != last {
            eprintln!(
                "{} {:?} {:?} {}",
                summary(&web),
                placement.phase,
                placement.autoscaler,
                web["status"]["availableReplicas"]
            );
            last = now;
        }
        waiting.again().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_application_is_spread_moved_drained_failed_over_grown_and_updated() {
    let began = Instant::now();
    let report_progress = |what: &str| println!("{what} after {:?}", began.elapsed());
    let mut playground = Playground::start();
    let (admin, web) = (playground.admin.clone(), path("web"));
    create(&admin).await;
    let both = ["east", "west"];
    let shares = expect_even(&admin, &both, REPLICAS, "above").await;
    playground.expect_below(&shares, IMAGES[0], None).await;
    report_progress("it is spread");

    // Its data would stay behind, so that it moves only with consent, and then make before break.
    let refused = playground.run_failing("move deploy/web --to west --timeout 3");
    assert!(refused.contains("its volumes are on east and would be empty elsewhere"), "{refused}");
    wait_until(&admin, &web, "its condition says so", |web| condition(web, "Placed").1 == "VolumesStay")
        .await;
    let explained = playground.run("explain deploy/web");
    assert!(explained.contains("it is to leave a cluster and stays (VolumesStay)"), "{explained}");
    assert!(explained.contains("--accept-empty-volumes"), "{explained}");
    playground.expect_below(&shares, IMAGES[0], None).await;
    let sampling = Sampling::start(&admin, REPLICAS).await;
    let moved = playground.run("move deploy/web --to west --accept-empty-volumes");
    assert!(moved.contains("Deployment default/web runs on west (10)."), "{moved}");
    // On one cluster, the autoscaler acts there.
    let shares = expect_even(&admin, &["west"], REPLICAS, "below").await;
    playground.expect_below(&shares, IMAGES[0], Some("west")).await;
    report_progress("it has moved to west");
    annotate(&admin, &web, None).await;
    let shares = expect_even(&admin, &both, REPLICAS, "above").await;
    playground.expect_below(&shares, IMAGES[0], None).await;
    report_progress("it is spread again");

    let drained = playground.run("cluster drain east");
    assert!(drained.contains("Cluster east is drained."), "{drained}");
    let shares = expect_even(&admin, &["west"], REPLICAS, "above").await;
    playground.expect_below(&shares, IMAGES[0], None).await;
    playground.run("cluster uncordon east");
    let shares = expect_even(&admin, &both, REPLICAS, "above").await;
    playground.expect_below(&shares, IMAGES[0], None).await;
    sampling.finish(REPLICAS, "moving and draining").await;
    report_progress("east is drained, and open again");

    playground.kill("west");
    playground.wait_until_ready("west", false).await;
    let replaced = wait_until(&admin, &web, "east runs all of it", |web| {
        web["status"]["availableReplicas"] == REPLICAS && summary(web).starts_with("east=10 by")
    })
    .await;
    assert_eq!(Placement::of(&replaced).leaving[0].name, "west", "it may still run there");
    report_progress("west is lost, and its share was replaced");
    playground.bring_back("west");
    playground.wait_until_ready("west", true).await;
    let shares = expect_even(&admin, &both, REPLICAS, "above").await;
    playground.expect_below(&shares, IMAGES[0], None).await;
    report_progress("west is back");

    playground.add("north");
    let all = ["east", "north", "west"];
    let shares = expect_even(&admin, &all, REPLICAS, "above").await;
    playground.expect_below(&shares, IMAGES[0], None).await;
    report_progress("a third cluster has its share");

    scale(&admin, &web, MOST).await;
    let shares = expect_even(&admin, &all, MOST, "above").await;
    playground.expect_below(&shares, IMAGES[0], None).await;
    let autoscaler = format!("{AUTOSCALERS}/web");
    wait_until(&admin, &autoscaler, "the autoscaler keeps them", |shown| {
        shown["status"]["desiredReplicas"] == MOST && condition(shown, "ScalingActive").0 == "True"
    })
    .await;
    report_progress("it has a hundred replicas");

    let sampling = Sampling::start(&admin, MOST).await;
    let changed = json!({ "spec": { "template": { "spec": {
        "containers": [{ "name": "main", "image": IMAGES[1] }],
    } } } });
    let changed = RequestContent::Raw("application/strategic-merge-patch+json", changed.to_string().into());
    admin.request(http::Method::PATCH, &web, changed).await.expect(200);
    wait_until(&admin, &web, "all replicas have the new image", |web| {
        let status = &web["status"];
        let is_whole = |field: &str| status[field] == MOST;
        status["observedGeneration"] == web["metadata"]["generation"]
            && ["updatedReplicas", "availableReplicas", "replicas"].into_iter().all(is_whole)
    })
    .await;
    let shares = expect_even(&admin, &all, MOST, "above").await;
    playground.expect_below(&shares, IMAGES[1], None).await;
    // Within the default budget, 25% may be missing.
    sampling.finish(MOST - 25, "changing the image").await;
    report_progress("it has a new image");
    blocked_without_room(&playground, &all).await;
    report_progress("moves without room were blocked");
}

/// West has 4 cores, which are 61 replicas besides the sample application.
async fn blocked_without_room(playground: &Playground, all: &[&'static str]) {
    let (admin, web) = (&playground.admin, path("web"));
    let sampling = Sampling::start(admin, MOST).await;
    let refused = playground.run_failing("move deploy/web --to west --timeout 20");
    assert!(refused.contains("has not arrived on west in time"), "{refused}");
    let blocked = wait_until(admin, &web, "its condition says so", |web| {
        condition(web, "Placed").1 == "MoveBlocked" && Placement::of(web).phase.is_empty()
    })
    .await;
    let on_west = Placement::of(&blocked).share("west").and_then(|share| share.replicas).unwrap();
    assert!((50..MOST).contains(&on_west), "{}", summary(&blocked));
    let (status, _, message) = condition(&blocked, "Placed");
    assert!(status == "False" && message.contains("no other cluster takes all of its replicas"), "{message}");
    let explained = playground.run("explain deploy/web");
    assert!(explained.contains("it is to leave a cluster and stays (MoveBlocked)"), "{explained}");
    assert!(explained.contains("west"), "{explained}");
    if let Some(kubectl) = Kubectl::new(&playground.kubeconfig()) {
        let events = kubectl.run("get events --field-selector reason=MoveBlocked");
        assert!(events.contains("stay where they are"), "{events}");
    }
    annotate(admin, &web, None).await;
    expect_even(admin, all, MOST, "above").await;

    // Only west takes more, and not all of it.
    playground.run("cluster cordon east");
    let refused = playground.run_failing("cluster drain north --timeout 20");
    assert!(refused.contains("could not leave north in time"), "{refused}");
    assert!(refused.contains("deployments/web in default is blocked"), "{refused}");
    wait_until(admin, &web, "its condition says so", |web| condition(web, "Placed").1 == "MoveBlocked").await;
    for cluster in ["east", "north"] {
        playground.run(&format!("cluster uncordon {cluster}"));
    }
    expect_even(admin, all, MOST, "above").await;
    sampling.finish(MOST, "moves are blocked").await;
}
