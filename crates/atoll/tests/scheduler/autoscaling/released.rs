//! Workloads whose replicas no autoscaler of the control plane sets: pinned, or released with their autoscaler.

use atoll_fleet::Placement;
use atoll_testkit::wait::eventually;
use serde_json::{Value, json};

use super::{AUTOSCALERS, Fleet, PODS, REQUEST, WEB, autoscaler, cpu, rescales, web};
use crate::fleet::{DEPLOYMENTS, annotate, condition, has_event, path, summary, wait_until};

#[tokio::test(flavor = "multi_thread")]
async fn pinned_replicas_are_not_scaled_and_the_autoscaler_says_so() {
    let fleet = Fleet::start(&["east", "west"]);
    let admin = fleet.admin();
    admin.post(DEPLOYMENTS, web("east==2")).await.expect(201);
    admin.post(AUTOSCALERS, autoscaler(cpu())).await.expect(201);
    let shown =
        wait_until(&admin, WEB, "it says so", |shown| condition(shown, "ScalingActive").1 == "TargetPinned")
            .await;
    let (status, _, message) = condition(&shown, "ScalingActive");
    assert_eq!(status, "False");
    for part in ["Deployment web", "(east==2)", "as in east=2"] {
        assert!(message.contains(part), "{message}");
    }
    eventually("an event of the Deployment says so", async || has_event(&admin, "web", "Autoscaling").await)
        .await;
    // However much they use.
    fleet.until(8 * REQUEST, 0, "both replicas are ready", |web| web["status"]["readyReplicas"] == 2).await;
    annotate(&admin, &path("web"), Some("east==2,west==1")).await;
    let pinned = fleet.until(8 * REQUEST, 2, "the other pin is followed", |web| {
        summary(web) == "east=2 west=1 by annotation" && web["status"]["readyReplicas"] == 3
    });
    let pinned = pinned.await;
    assert_eq!(
        (Placement::of(&pinned).autoscaler.as_str(), &pinned["spec"]["replicas"]),
        ("pinned", &json!(4))
    );
    assert_eq!((rescales(&admin).await, fleet.autoscalers_below().await), (0, Vec::new()));

    // Weights can be scaled.
    annotate(&admin, &path("web"), Some("east=2,west=1")).await;
    let eight = 8 * REQUEST * 80 / 100;
    fleet
        .until(eight, 3, "weights are scaled", |web| {
            Placement::of(web).autoscaler == "above" && web["status"]["readyReplicas"] == 8
        })
        .await;
    wait_until(&admin, WEB, "the condition is over", |shown| condition(shown, "ScalingActive").0 == "True")
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn released_workload_keeps_the_autoscaler_of_its_cluster() {
    let fleet = Fleet::start(&["east", "west"]);
    let admin = fleet.admin();
    let (four, eight) = (4 * REQUEST * 80 / 100, 8 * REQUEST * 80 / 100);
    admin.post(DEPLOYMENTS, web("east")).await.expect(201);
    admin.post(AUTOSCALERS, autoscaler(cpu())).await.expect(201);
    fleet
        .until(four, 0, "its cluster scales it", |web| {
            Placement::of(web).autoscaler == "below" && web["status"]["readyReplicas"] == 4
        })
        .await;
    eventually("the autoscaler is there", async || fleet.autoscalers_below().await == ["east"]).await;
    let east = fleet.cluster("east");
    let uids = |list: &Value| -> Vec<String> {
        let all = list["items"].as_array().unwrap().iter();
        all.map(|pod| pod["metadata"]["uid"].as_str().unwrap().to_string()).collect()
    };
    let before = (east.get(WEB).await.expect(200), east.get(PODS).await.expect(200));
    let printed = fleet.atoll.run("release deploy/web");
    for part in [
        "HorizontalPodAutoscaler default/web is released as well: only Deployment default/web needs it.",
        "Deployment default/web keeps running in east and is no longer managed by Atoll.",
    ] {
        assert!(printed.contains(part), "{printed}");
    }
    let after = (east.get(WEB).await.expect(200), east.get(PODS).await.expect(200));
    assert_eq!(before.0["metadata"]["uid"], after.0["metadata"]["uid"], "the autoscaler was not deleted");
    assert_eq!(uids(&before.1), uids(&after.1), "no Pod was restarted");
    for object in [&after.0, &east.get(&path("web")).await.expect(200)] {
        let text = [&object["metadata"]["annotations"], &object["metadata"]["labels"]].map(Value::to_string);
        assert!(!text.concat().contains("atoll.dev/uid"), "{text:?}");
    }
    // The cluster scales it on its own.
    eventually("the cluster scales it", async || {
        fleet.load(eight).await;
        east.get(&path("web")).await.expect(200)["status"]["readyReplicas"] == 8
    })
    .await;
    let web = admin.get(&path("web")).await.expect(200);
    assert_eq!((summary(&web).as_str(), &web["spec"]["replicas"]), ("nowhere", &json!(4)));
    wait_until(&admin, WEB, "nothing is scaled above", |shown| {
        condition(shown, "ScalingActive").1 == "TargetNotPlaced" && summary(shown) == "nowhere"
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn release_tells_about_an_autoscaler_of_the_control_plane() {
    let fleet = Fleet::start(&["east", "west"]);
    let admin = fleet.admin();
    admin.post(DEPLOYMENTS, web("east=1,west=1")).await.expect(201);
    admin.post(AUTOSCALERS, autoscaler(cpu())).await.expect(201);
    let four = 4 * REQUEST * 80 / 100;
    fleet
        .until(four, 0, "the control plane scales it", |web| {
            Placement::of(web).autoscaler == "above" && web["status"]["readyReplicas"] == 4
        })
        .await;
    let printed = fleet.atoll.run("release deploy/web");
    assert!(
        printed.contains("HorizontalPodAutoscaler default/web acted in root and is in no cluster"),
        "{printed}"
    );
    for (name, below) in fleet.below() {
        let web = below.get(&path("web")).await.expect(200);
        assert_eq!(web["spec"]["replicas"], 2, "{name}");
        assert_eq!(below.get(WEB).await.status, 404, "{name}");
    }
}
