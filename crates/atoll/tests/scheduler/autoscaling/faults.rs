//! Autoscalers when clusters are lost and the control plane is killed.

use atoll_fleet::Placement;
use atoll_testkit::wait::{Waiting, eventually};
use atoll_testkit::{RequestContent, Watch, revision};
use http::Method;
use serde_json::{Value, json};

use super::{AUTOSCALERS, Fleet, REQUEST, WEB, autoscaler, cpu, web};
use crate::fleet::{CLUSTERS, DEPLOYMENTS, path, summary};
use crate::simulated::POLICIES;

/// The load of eight replicas.
const EIGHT: i64 = 8 * REQUEST * 80 / 100;
/// Most times that the control plane is killed during one change.
const KILLS: usize = 12;

impl Fleet {
    fn kill_cluster(&mut self, name: &str) {
        self.found(name).fault("add dead-cluster");
        self.dead.insert(name.to_string());
    }

    fn bring_back(&mut self, name: &str) {
        self.found(name).fault("clear");
        self.dead.remove(name);
    }

    fn found(&self, name: &str) -> &atoll_testkit::Atoll {
        &self.clusters.iter().find(|(found, _)| found == name).unwrap().1
    }

    /// Waits under a load until a cluster has eight replicas, set by its own autoscaler.
    async fn until_scaled_in(&self, cluster: &str, at_least: i64) {
        let expected = format!("{cluster}=8 by ");
        self.until(EIGHT, at_least, &format!("{cluster} scales it"), |web| {
            let placement = Placement::of(web);
            summary(web).starts_with(&expected)
                && placement.autoscaler == "below"
                && web["status"]["availableReplicas"] == 8
        })
        .await;
        let what = format!("the autoscaler is in {cluster}");
        eventually(&what, async || self.autoscalers_below().await == [cluster]).await;
    }

    /// Changes the Deployment, and kills the control plane whenever the change has made a step, until it has ended.
    /// Meanwhile no replica is lost, and never both sides act. Returns the side that scaled it, of each change of the
    /// Deployment, with its replicas.
    async fn kill_at_every_step(
        &mut self,
        patch: Value,
        is_met: impl Fn(&Value) -> bool,
    ) -> Vec<(String, i64)> {
        let changed = self.admin().merge(&path("web"), patch).await.expect(200);
        let (waiting, mut steps) = (Waiting::until("the change has ended"), Vec::<String>::new());
        let mut status = Value::Null;
        loop {
            let admin = self.admin();
            let web = admin.get(&path("web")).await.expect(200);
            let placement = Placement::of(&web);
            let scaler = Placement::of(&admin.get(WEB).await.expect(200));
            let (running, below) = (self.replicas_below().await, self.autoscalers_below().await);
            let step = format!(
                "{} {:?} of {}, {:?}, autoscaler on {:?}, leaving {}",
                summary(&web),
                placement.autoscaler,
                web["spec"]["replicas"],
                placement.phase,
                scaler.clusters.iter().map(|share| share.name.as_str()).collect::<Vec<_>>(),
                scaler.leaving.len(),
            );
            assert!(below.len() < 2, "{below:?} have the autoscaler: {step}");
            let still = Placement::of(&admin.get(&path("web")).await.expect(200)).autoscaler;
            let is_above = [&placement.autoscaler, &still].iter().all(|side| *side == "above");
            assert!(!is_above || below.is_empty(), "both sides act: {step}");
            assert!(running >= 8, "{running} replicas are left: {step}");
            if is_met(&web) {
                assert!(!steps.is_empty(), "the change had ended before the first kill");
                return self.sides(revision(&changed), revision(&web)).await;
            }
            if web["status"] != status {
                eprintln!("its status: {}", web["status"]);
                status = web["status"].clone();
            }
            if !steps.contains(&step) && steps.len() < KILLS {
                eprintln!("killed at: {step}");
                steps.push(step);
                self.atoll.kill();
                self.atoll.restart();
            }
            waiting.again().await;
        }
    }

    /// The side that scales the Deployment and its replicas, in each of its versions between two revisions. Some
    /// versions last only for a moment, so that readers would miss them.
    async fn sides(&self, from: u64, to: u64) -> Vec<(String, i64)> {
        let changes =
            format!("{DEPLOYMENTS}?watch=true&fieldSelector=metadata.name%3Dweb&resourceVersion={from}");
        let (mut watch, mut sides) = (Watch::open(&self.admin(), &changes).await, Vec::new());
        loop {
            let event = watch.event().await;
            let replicas = event.object["spec"]["replicas"].as_i64().unwrap();
            sides.push((Placement::of(&event.object).autoscaler, replicas));
            if event.revision() >= to {
                return sides;
            }
        }
    }
}

/// Grows to eight replicas, and never shrinks.
fn growing() -> Value {
    let mut growing = autoscaler(cpu());
    growing["spec"]["maxReplicas"] = 8.into();
    growing["spec"]["behavior"]["scaleDown"] = json!({ "selectPolicy": "Disabled" });
    growing
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_cluster_takes_neither_the_autoscaler_nor_its_replicas_along() {
    let mut fleet = Fleet::start(&["east", "west"]);
    let admin = fleet.admin();
    let soon = json!({ "after": "2s" });
    let policy = json!({
        "metadata": { "name": "one" },
        "spec": { "replicas": { "division": "Single" }, "failover": soon, "failback": soon },
    });
    admin.post(POLICIES, policy).await.expect(201);
    let mut undivided = web("");
    undivided["metadata"]["annotations"] = json!({});
    admin.post(DEPLOYMENTS, undivided).await.expect(201);
    admin.post(AUTOSCALERS, growing()).await.expect(201);
    let placed = fleet.until(EIGHT, 0, "it is placed", |web| summary(web) != "nowhere").await;
    let home = Placement::of(&placed).clusters[0].name.clone();
    let other = if home == "east" { "west" } else { "east" };
    fleet.until_scaled_in(&home, 0).await;

    fleet.kill_cluster(&home);
    // The other cluster begins with as many replicas as ran.
    let there = fleet.cluster(other);
    eventually("the other cluster has it", async || there.get(&path("web")).await.status == 200).await;
    assert_eq!(there.get(&path("web")).await.expect(200)["spec"]["replicas"], 8);
    fleet.until_scaled_in(other, 8).await;
    let away = admin.get(&path("web")).await.expect(200);
    assert_eq!((Placement::of(&away).phase.as_str(), &away["spec"]["replicas"]), ("away", &json!(8)));

    fleet.bring_back(&home);
    let returned = fleet.cluster(&home);
    // It may not listen yet.
    let is_there = async || returned.try_request(Method::GET, WEB, RequestContent::None).await.is_ok();
    eventually("the cluster is back", is_there).await;
    // The objects of the returned cluster are outdated, its autoscaler included.
    eventually("the old autoscaler is gone", async || returned.get(WEB).await.status == 404).await;
    fleet.until_scaled_in(&home, 8).await;
    let found = admin.get(&path("web")).await.expect(200);
    assert_eq!(Placement::of(&found).phase, "", "{}", summary(&found));
    eventually("the object is gone from the other cluster", async || {
        there.get(&path("web")).await.status == 404
    })
    .await;
    let ready = admin.get(&format!("{CLUSTERS}/{home}")).await.expect(200);
    assert_eq!(crate::fleet::condition(&ready, "Ready").0, "True");
}

#[tokio::test(flavor = "multi_thread")]
async fn changing_sides_continues_after_a_kill_at_every_step() {
    let mut fleet = Fleet::start(&["east", "west"]);
    let admin = fleet.admin();
    admin.post(DEPLOYMENTS, web("east")).await.expect(201);
    admin.post(AUTOSCALERS, growing()).await.expect(201);
    fleet.until_scaled_in("east", 0).await;
    let is_settled = |expected: &'static str, side: &'static str| {
        move |web: &Value| {
            let placement = Placement::of(web);
            summary(web) == expected
                && (placement.autoscaler.as_str(), placement.phase.as_str()) == (side, "")
                && web["status"]["availableReplicas"] == 8
        }
    };
    // Divided, and at the same time scaled to a number that is not what runs.
    let divided = json!({
        "metadata": { "annotations": { "atoll.dev/clusters": "east=1,west=1" } }, "spec": { "replicas": 3 },
    });
    let sides = fleet.kill_at_every_step(divided, is_settled("east=4 west=4 by annotation", "above")).await;
    assert!(sides.iter().any(|(side, _)| side == "stopping"), "{sides:?}");
    let is_scaled_above = |(side, replicas): &(String, i64)| side == "above" && *replicas != 8;
    assert!(!sides.iter().any(is_scaled_above), "replicas are set to what runs first: {sides:?}");
    let undivided = json!({ "metadata": { "annotations": { "atoll.dev/clusters": "west" } } });
    let sides = fleet.kill_at_every_step(undivided, is_settled("west=8 by annotation", "below")).await;
    assert!(sides.iter().all(|(_, replicas)| *replicas == 8), "{sides:?}");
    eventually("the autoscaler is in west", async || fleet.autoscalers_below().await == ["west"]).await;
    eventually("nothing is left in east", async || {
        fleet.cluster("east").get(&path("web")).await.status == 404
    })
    .await;
}
