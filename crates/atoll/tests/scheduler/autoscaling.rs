//! Autoscalers: one side scales a workload, its only cluster or the control plane, and changing sides keeps what runs.

mod faults;
mod released;

use std::collections::BTreeSet;
use std::path::Path;

use atoll_fleet::Placement;
use atoll_testkit::wait::{Waiting, eventually};
use atoll_testkit::{Atoll, Client, Setup, names};
use serde_json::{Value, json};

use crate::fleet::{DEPLOYMENTS, annotate, condition, deployment, has_event, path, summary, wait_until};

const AUTOSCALERS: &str = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";
const WEB: &str = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers/web";
const PODS: &str = "/api/v1/namespaces/default/pods";
const EVENTS: &str = "/api/v1/namespaces/default/events";
/// The CPU request of each pod, in millicores.
const REQUEST: i64 = 200;

/// A control plane and simulated clusters with metrics that have joined it.
struct Fleet {
    atoll: Atoll,
    clusters: Vec<(String, Atoll)>,
    /// Names of clusters that do not answer.
    dead: BTreeSet<String>,
}

impl Fleet {
    fn start(clusters: &[&str]) -> Fleet {
        let atoll = Setup::new()
            .flag("--cluster-heartbeat-interval", 1)
            .flag("--horizontal-pod-autoscaler-sync-period", "1s")
            .start();
        let join = |name: &&str| {
            let cluster =
                Atoll::simulate(&["--name", name, "--nodes=3", "--horizontal-pod-autoscaler-sync-period=1s"]);
            let kubeconfig = cluster.kubeconfig();
            let kubeconfig: &Path = kubeconfig.as_ref();
            atoll.run(&format!("cluster join {name} --kubeconfig {}", kubeconfig.display()));
            ((*name).to_string(), cluster)
        };
        let clusters = clusters.iter().map(join).collect();
        Fleet { atoll, clusters, dead: BTreeSet::new() }
    }

    fn admin(&self) -> Client {
        self.atoll.admin()
    }

    /// The clusters that answer.
    fn below(&self) -> impl Iterator<Item = (&str, Client)> {
        let alive = self.clusters.iter().filter(|(name, _)| !self.dead.contains(name));
        alive.map(|(name, cluster)| (name.as_str(), cluster.admin()))
    }

    /// The administrator of a cluster.
    fn cluster(&self, name: &str) -> Client {
        self.below().find(|(found, _)| *found == name).unwrap().1
    }

    /// Divides a load, in millicores, between all pods of all clusters.
    async fn load(&self, millicores: i64) {
        let mut pods = Vec::new();
        for (_, below) in self.below() {
            let list = below.get(PODS).await.expect(200);
            pods.extend(names(&list).into_iter().map(|name| (below.clone(), name)));
        }
        let each = millicores / i64::try_from(pods.len().max(1)).unwrap();
        let usage =
            json!({ "metadata": { "annotations": { "sim.atoll.dev/usage": format!("cpu={each}m") } } });
        for (below, name) in pods {
            let answer = below.merge(&format!("{PODS}/{name}"), usage.clone()).await;
            // Pods may be deleted meanwhile.
            assert!(matches!(answer.status, 200 | 404), "{}", answer.text());
        }
    }

    /// The replicas that the clusters ask for, all together.
    async fn replicas_below(&self) -> i64 {
        let mut sum = 0;
        for (_, below) in self.below() {
            let found = below.get(&path("web")).await;
            sum += found.json_or_null()["spec"]["replicas"].as_i64().unwrap_or(0);
        }
        sum
    }

    /// Names of the clusters that have the autoscaler.
    async fn autoscalers_below(&self) -> Vec<String> {
        let mut found = Vec::new();
        for (name, below) in self.below() {
            if below.get(WEB).await.status == 200 {
                found.push(name.to_string());
            }
        }
        found
    }

    /// Waits under a load until the Deployment meets a condition. Meanwhile no replica is lost, and the control plane
    /// never acts while a cluster has the autoscaler.
    async fn until(&self, load: i64, at_least: i64, what: &str, is_met: impl Fn(&Value) -> bool) -> Value {
        let (admin, waiting, mut last) = (self.admin(), Waiting::until(what), String::new());
        loop {
            self.load(load).await;
            let web = admin.get(&path("web")).await.expect(200);
            let (side, running) = (Placement::of(&web).autoscaler, self.replicas_below().await);
            let below = self.autoscalers_below().await;
            let now = format!(
                "{} side {side:?} of {} with {running} below, HPA in {below:?}",
                summary(&web),
                web["spec"]["replicas"]
            );
            assert!(below.len() < 2, "two clusters have the autoscaler: {now}");
            // The side may have changed since it was read.
            let still = Placement::of(&admin.get(&path("web")).await.expect(200)).autoscaler;
            let is_above = side == "above" && still == "above";
            assert!(!is_above || below.is_empty(), "both sides act: {now}");
            assert!(running >= at_least, "replicas are lost: {now}");
            if is_met(&web) {
                return web;
            }
            if now != last {
                eprintln!("{now}");
                last = now;
            }
            waiting.again().await;
        }
    }
}

fn autoscaler(metrics: Value) -> Value {
    let at_once = json!({ "stabilizationWindowSeconds": 0 });
    json!({
        "metadata": { "name": "web" },
        "spec": {
            "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" },
            "minReplicas": 2,
            "maxReplicas": 12,
            "metrics": metrics,
            "behavior": { "scaleDown": at_once, "scaleUp": at_once },
        },
    })
}

/// A metric of 80% of the CPU request.
fn cpu() -> Value {
    let target = json!({ "type": "Utilization", "averageUtilization": 80 });
    json!([{ "type": "Resource", "resource": { "name": "cpu", "target": target } }])
}

fn web(clusters: &str) -> Value {
    let mut web = deployment("web", 4, REQUEST);
    web["metadata"]["annotations"] = json!({ "atoll.dev/clusters": clusters });
    web["spec"]["template"]["metadata"]["annotations"] = json!({ "sim.atoll.dev/usage": "cpu=80%" });
    web["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 0.into();
    web
}

/// Events of a server about rescaling by the autoscaler.
async fn rescales(client: &Client) -> usize {
    let events = client.get(EVENTS).await.expect(200);
    let all = events["items"].as_array().unwrap().iter();
    all.filter(|event| event["reason"] == "SuccessfulRescale").count()
}

/// The replicas in the status of the Deployment, and the utilization that its autoscaler shows.
async fn scaled(admin: &Client) -> (i64, i64) {
    let web = admin.get(&path("web")).await.expect(200);
    let shown = admin.get(WEB).await.expect(200);
    let utilization = &shown["status"]["currentMetrics"][0]["resource"]["current"]["averageUtilization"];
    (web["status"]["readyReplicas"].as_i64().unwrap_or(0), utilization.as_i64().unwrap_or(0))
}

#[tokio::test(flavor = "multi_thread")]
async fn divided_workload_converges_at_its_target_and_only_the_control_plane_scales_it() {
    let fleet = Fleet::start(&["east", "west"]);
    let admin = fleet.admin();
    admin.post(DEPLOYMENTS, web("east=1,west=1")).await.expect(201);
    admin.post(AUTOSCALERS, autoscaler(cpu())).await.expect(201);
    let four = 4 * REQUEST * 80 / 100;
    fleet.until(four, 0, "the control plane scales it", |web| Placement::of(web).autoscaler == "above").await;
    eventually("four replicas are at 80%", async || {
        fleet.load(four).await;
        scaled(&admin).await == (4, 80)
    })
    .await;
    // Twice the load needs twice the replicas.
    fleet.until(2 * four, 4, "it has eight replicas", |web| web["status"]["readyReplicas"] == 8).await;
    eventually("eight replicas are at 80%", async || {
        fleet.load(2 * four).await;
        scaled(&admin).await == (8, 80)
    })
    .await;
    let found = admin.get(&path("web")).await.expect(200);
    assert_eq!(
        (found["spec"]["replicas"].as_i64(), summary(&found).as_str()),
        (Some(8), "east=4 west=4 by annotation")
    );
    let shown = admin.get(WEB).await.expect(200);
    assert_eq!(condition(&shown, "ScalingActive").0, "True", "{shown}");
    assert_eq!(Placement::of(&shown), Placement::default());
    eventually("an event tells about it", async || has_event(&admin, "web", "SuccessfulRescale").await).await;

    fleet.until(four / 2, 2, "the load has ended", |web| web["status"]["replicas"] == 2).await;
    assert!(rescales(&admin).await >= 1);
    for (name, below) in fleet.below() {
        assert_eq!(rescales(&below).await, 0, "the autoscaler is not in {name}");
        let web = below.get(&path("web")).await.expect(200);
        let managers = web["metadata"]["managedFields"].as_array().unwrap();
        let scaling = managers.iter().filter(|entry| entry["subresource"] == "scale");
        assert_eq!(scaling.count(), 0, "only the syncer sets replicas in {name}: {managers:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn undivided_workload_is_scaled_by_its_cluster_and_changing_sides_keeps_what_runs() {
    let fleet = Fleet::start(&["east", "west"]);
    let admin = fleet.admin();
    admin.post(DEPLOYMENTS, web("east")).await.expect(201);
    // It scales to eight replicas and not back, so that only a change of sides could lose some.
    let mut growing = autoscaler(cpu());
    growing["spec"]["maxReplicas"] = 8.into();
    growing["spec"]["behavior"]["scaleDown"] = json!({ "selectPolicy": "Disabled" });
    admin.post(AUTOSCALERS, growing).await.expect(201);
    let eight = 8 * REQUEST * 80 / 100;
    let placed = |expected: &'static str, side: &'static str| {
        move |web: &Value| {
            let placement = Placement::of(web);
            summary(web) == expected && placement.autoscaler == side && web["status"]["readyReplicas"] == 8
        }
    };
    // The cluster scales, and the control plane shows what runs.
    let below = fleet.until(eight, 0, "its cluster scales it", placed("east=8 by annotation", "below")).await;
    assert_eq!(below["spec"]["replicas"], 8, "what runs is also what the user sees");
    assert_eq!(fleet.autoscalers_below().await, ["east"]);
    wait_until(&admin, WEB, "the autoscaler shows what its cluster does", |shown| {
        shown["status"]["desiredReplicas"] == 8 && summary(shown) == "east by reference"
    })
    .await;
    let (_, east) = fleet.below().next().unwrap();
    assert!(rescales(&east).await >= 1);
    let scaling = |web: &Value, manager: &str| {
        let managers = web["metadata"]["managedFields"].as_array().unwrap();
        managers.iter().any(|entry| entry["subresource"] == "scale" && entry["manager"] == manager)
    };
    let in_east = east.get(&path("web")).await.expect(200);
    assert!(scaling(&in_east, "atoll-controllers"), "{}", in_east["metadata"]["managedFields"]);

    // A user who applies the manifest again changes nothing below.
    let patch = json!({ "spec": { "replicas": 4 } });
    admin.merge(&path("web"), patch).await.expect(200);
    fleet.until(eight, 8, "what runs is shown again", |web| web["spec"]["replicas"] == 8).await;

    // Divided, the control plane scales it, with all eight replicas from the first moment.
    annotate(&admin, &path("web"), Some("east=1,west=1")).await;
    fleet.until(eight, 8, "it is divided", placed("east=4 west=4 by annotation", "above")).await;
    eventually("the control plane sees all clusters", async || {
        fleet.load(eight).await;
        scaled(&admin).await == (8, 80)
    })
    .await;
    let above = admin.get(WEB).await.expect(200);
    assert_eq!(condition(&above, "ScalingActive").0, "True", "{above}");

    // And back to one cluster.
    annotate(&admin, &path("web"), Some("west")).await;
    fleet.until(eight, 8, "it is on one cluster", placed("west=8 by annotation", "below")).await;
    eventually("the autoscaler is there", async || fleet.autoscalers_below().await == ["west"]).await;
    eventually("nothing is left in east", async || fleet.replicas_below().await == 8).await;

    // A move to another cluster carries the replicas, and the autoscaler follows.
    annotate(&admin, &path("web"), Some("east")).await;
    fleet.until(eight, 8, "it has moved", placed("east=8 by annotation", "below")).await;
    eventually("the autoscaler has moved", async || fleet.autoscalers_below().await == ["east"]).await;

    // Without the autoscaler, what runs stays.
    admin.delete(WEB).await.expect(200);
    fleet.until(eight, 8, "no side scales it", placed("east=8 by annotation", "")).await;
    assert_eq!(fleet.autoscalers_below().await, Vec::<String>::new());
    admin.merge(&format!("{}/scale", path("web")), json!({ "spec": { "replicas": 3 } })).await.expect(200);
    fleet.until(eight, 3, "users scale it again", |web| web["status"]["replicas"] == 3).await;
    eventually("its cluster follows", async || fleet.replicas_below().await == 3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_that_clusters_do_not_report_are_named() {
    let fleet = Fleet::start(&["east", "west"]);
    let admin = fleet.admin();
    admin.post(DEPLOYMENTS, web("east=1,west=1")).await.expect(201);
    let target = json!({ "type": "AverageValue", "averageValue": "10" });
    let requests =
        json!([{ "type": "Pods", "pods": { "metric": { "name": "requests" }, "target": target } }]);
    admin.post(AUTOSCALERS, autoscaler(requests)).await.expect(201);
    let shown = wait_until(&admin, WEB, "the metric is refused", |shown| {
        condition(shown, "ScalingActive").1 == "PodsMetricNotSupported"
    })
    .await;
    let (status, _, message) = condition(&shown, "ScalingActive");
    assert!(
        status == "False" && message.contains("clusters report the CPU and memory of whole pods"),
        "{message}"
    );
    // An autoscaler whose target does not exist says so.
    let mut other = autoscaler(cpu());
    other["metadata"]["name"] = "other".into();
    other["spec"]["scaleTargetRef"]["name"] = "other".into();
    admin.post(AUTOSCALERS, other).await.expect(201);
    wait_until(&admin, &format!("{AUTOSCALERS}/other"), "the target is missing", |shown| {
        condition(shown, "AbleToScale").1 == "FailedGetScale"
    })
    .await;
    let web = admin.get(&path("web")).await.expect(200);
    assert_eq!(web["spec"]["replicas"], 4, "nothing is scaled");
}
