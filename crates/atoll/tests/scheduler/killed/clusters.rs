//! SIGKILL of the control plane after every recorded step of a change, while simulated clusters go on running what they
//! were told: no replica is lost, nothing runs twice, and the change ends.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use atoll_fleet::Placement;
use atoll_testkit::wait::eventually;
use atoll_testkit::{Client, Setup, Watch, revision};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::STATEFUL_SETS;
use crate::fleet::{DEPLOYMENTS, annotated, condition, deployment, expect_placed, path, summary, wait_until};
use crate::simulated::SimulatedFleet;

const PODS: &str = "/api/v1/namespaces/default/pods";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const REPLICAS: i64 = 3;

/// The part of a placement that a step changes.
fn step(object: &Value) -> String {
    let placement = Placement::of(object);
    let leaving: Vec<&str> = placement.leaving.iter().map(|one| one.name.as_str()).collect();
    format!("{} {:?} leaving {leaving:?}", summary(object), placement.phase)
}

/// Whether a placement has come to rest with these shares.
fn is_at_rest(object: &Value, expected: &str) -> bool {
    let placement = Placement::of(object);
    summary(object) == expected && placement.phase.is_empty() && placement.leaving.is_empty()
}

/// The names of Pods of an application in a cluster.
async fn pods(cluster: &Client, app: &str, is_counted: impl Fn(&Value) -> bool) -> BTreeSet<String> {
    let list = cluster.get(&format!("{PODS}?labelSelector=app%3D{app}")).await.expect(200);
    let counted = list["items"].as_array().unwrap().iter().filter(|pod| is_counted(pod));
    counted.map(|pod| pod["metadata"]["name"].as_str().unwrap().to_string()).collect()
}

fn is_serving(pod: &Value) -> bool {
    pod["metadata"]["deletionTimestamp"].is_null() && condition(pod, "Ready").0 == "True"
}

/// Looks into the clusters all the time, also while there is no control plane.
struct Looking {
    is_finished: Arc<AtomicBool>,
    looks: Arc<AtomicUsize>,
    violations: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

impl Looking {
    fn start<F: Future<Output = Option<String>> + Send>(look: impl Fn() -> F + Send + 'static) -> Looking {
        let (is_finished, looks) = <(Arc<AtomicBool>, Arc<AtomicUsize>)>::default();
        let violations = Arc::<Mutex<Vec<String>>>::default();
        let (ends, count, found) = (is_finished.clone(), looks.clone(), violations.clone());
        let task = tokio::spawn(async move {
            while !ends.load(Ordering::Relaxed) {
                let violation = look().await;
                found.lock().unwrap().extend(violation);
                count.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
            }
        });
        Looking { is_finished, looks, violations, task }
    }

    async fn finish(self) {
        self.is_finished.store(true, Ordering::Relaxed);
        self.task.await.unwrap();
        let violations = self.violations.lock().unwrap();
        assert!(violations.is_empty(), "{violations:#?}");
        assert!(self.looks.load(Ordering::Relaxed) > 10, "it was looked at too rarely");
    }
}

/// Interchangeable replicas on the way from one cluster to another. The old cluster is read first, so that a replica
/// that is replaced meanwhile is counted twice, and never missed.
fn never_fewer(from: &Client, to: &Client, app: &'static str) -> Looking {
    let (from, to) = (from.clone(), to.clone());
    Looking::start(move || {
        let (from, to) = (from.clone(), to.clone());
        async move {
            let old = pods(&from, app, is_serving).await;
            let new = pods(&to, app, is_serving).await;
            let is_enough = (old.len() + new.len()) as i64 >= REPLICAS;
            (!is_enough).then(|| format!("only {old:?} and {new:?} are ready"))
        }
    })
}

/// Work that runs once on its way from one cluster to another. The new cluster is read first: what ended in the old one
/// before is not found there any more.
fn never_twice(from: &Client, to: &Client, app: &'static str) -> Looking {
    let (from, to) = (from.clone(), to.clone());
    Looking::start(move || {
        let (from, to) = (from.clone(), to.clone());
        async move {
            let new = pods(&to, app, |_| true).await;
            let old = pods(&from, app, |_| true).await;
            (!new.is_empty() && !old.is_empty()).then(|| format!("{old:?} run, and {new:?} too"))
        }
    })
}

/// Reads every version of an object since a revision, and kills the control plane after each step that was not seen
/// before, until the object meets a condition. Returns the steps.
async fn kill_at_every_step(
    fleet: &mut SimulatedFleet,
    at: &str,
    mut since: u64,
    check: impl Fn(&Value) -> Option<String>,
    is_met: impl Fn(&Value) -> bool,
) -> Vec<String> {
    let (collection, name) = at.rsplit_once('/').unwrap();
    let mut steps = Vec::new();
    loop {
        let changes =
            format!("{collection}?watch=true&fieldSelector=metadata.name%3D{name}&resourceVersion={since}");
        let mut watch = Watch::open(&fleet.above.admin(), &changes).await;
        loop {
            let event = watch.event().await;
            since = event.revision();
            assert_eq!(event.kind, "MODIFIED", "{}", event.object);
            let step = step(&event.object);
            assert_eq!(check(&event.object), None, "{step}");
            if is_met(&event.object) {
                return steps;
            }
            if !steps.contains(&step) {
                eprintln!("killed after: {step}");
                steps.push(step);
                break;
            }
        }
        fleet.above.kill();
        fleet.above.restart();
    }
}

/// Names the clusters that an object is to be on, and returns the revision before.
async fn move_to(fleet: &SimulatedFleet, at: &str, clusters: &str) -> u64 {
    let before = revision(&fleet.admin.get(at).await.expect(200));
    crate::fleet::annotate(&fleet.above.admin(), at, Some(clusters)).await;
    before
}

fn assert_phases(steps: &[String], phases: &[&str]) {
    for phase in phases {
        assert!(steps.iter().any(|step| step.contains(&format!("{phase:?}"))), "{phase} of {steps:#?}");
    }
}

fn too_few_are_placed(object: &Value) -> Option<String> {
    let placed: i64 = Placement::of(object).clusters.iter().filter_map(|share| share.replicas).sum();
    (placed < REPLICAS).then(|| format!("{placed} replicas are placed"))
}

#[tokio::test(flavor = "multi_thread")]
async fn moves_between_clusters_continue_after_a_kill_at_every_step() {
    let mut fleet = SimulatedFleet::start(&["east", "west"]).await;
    let [east, west] = ["east", "west"].map(|name| fleet.below[name].admin());
    fleet.create_policy("slow", json!({ "disruption": { "maxMoving": 1 } })).await;

    // Replicas, one after the other, with what they need.
    let admin = fleet.admin.clone();
    admin.post(CONFIG_MAPS, json!({ "metadata": { "name": "web" } })).await.expect(201);
    let mut web = annotated(deployment("web", REPLICAS, 10), "east");
    web["spec"]["template"]["spec"]["containers"][0]["envFrom"] =
        json!([{ "configMapRef": { "name": "web" } }]);
    admin.post(DEPLOYMENTS, web).await.expect(201);
    let at = path("web");
    let is_available = |web: &Value| web["status"]["availableReplicas"] == REPLICAS;
    wait_until(&admin, &at, "its replicas are available", is_available).await;
    let looking = never_fewer(&east, &west, "web");
    let since = move_to(&fleet, &at, "west").await;
    let is_moved = |web: &Value| is_at_rest(web, "west=3 by annotation");
    let steps = kill_at_every_step(&mut fleet, &at, since, too_few_are_placed, is_moved).await;
    looking.finish().await;
    assert_phases(&steps, &["adding", "removing"]);
    assert!(steps.len() >= 5, "{steps:#?}");
    let config_map = format!("{CONFIG_MAPS}/web");
    eventually("nothing is left in east", async || {
        east.get(&at).await.status == 404 && east.get(&config_map).await.status == 404
    })
    .await;
    west.get(&config_map).await.expect(200);
    assert_eq!(pods(&west, "web", is_serving).await.len() as i64, REPLICAS);

    // Work that runs once ends before it starts elsewhere.
    let admin = fleet.above.admin();
    let mut set = annotated(super::stateful_set("db", 2), "east");
    set["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 1.into();
    admin.post(STATEFUL_SETS, set).await.expect(201);
    let at = format!("{STATEFUL_SETS}/db");
    wait_until(&admin, &at, "its Pods are ready", |db| db["status"]["readyReplicas"] == 2).await;
    let looking = never_twice(&east, &west, "db");
    let since = move_to(&fleet, &at, "west").await;
    let is_moved = |db: &Value| is_at_rest(db, "west=2 by annotation");
    let steps = kill_at_every_step(&mut fleet, &at, since, |_| None, is_moved).await;
    eventually("its Pods are ready again", async || pods(&west, "db", is_serving).await.len() == 2).await;
    looking.finish().await;
    assert_phases(&steps, &["stopping"]);
    assert_eq!(pods(&east, "db", |_| true).await.len(), 0);
}

/// Replicas of a lost cluster are replaced in the others, and return with it.
#[tokio::test(flavor = "multi_thread")]
async fn replaced_replicas_return_after_a_kill_at_every_step() {
    let setup = Setup::new().flag("--cluster-grace-period", 10).flag("--cluster-heartbeat-interval", 2);
    let mut fleet = SimulatedFleet::start_with(&["east", "north", "west"], setup).await;
    let policy = json!({
        "replicas": { "division": "Even" }, "failover": { "after": "1s" }, "failback": { "after": "1s" },
    });
    fleet.create_policy("spread", policy).await;
    let (admin, at) = (fleet.admin.clone(), path("web"));
    admin.post(DEPLOYMENTS, deployment("web", REPLICAS, 10)).await.expect(201);
    let spread = "east=1 north=1 west=1 by placementpolicy/spread";
    expect_placed(&admin, &at, spread).await;
    let is_available = |web: &Value| web["status"]["availableReplicas"] == REPLICAS;
    let ready = wait_until(&admin, &at, "its replicas are available", is_available).await;

    fleet.below.get_mut("west").unwrap().kill();
    let has_left = |web: &Value| {
        let placement = Placement::of(web);
        placement.share("west").is_none() && web["status"]["availableReplicas"] == REPLICAS
    };
    let lost = kill_at_every_step(&mut fleet, &at, revision(&ready), too_few_are_placed, has_left).await;
    assert!(lost.iter().any(|step| !step.contains("west=1")), "{lost:#?}");

    let replaced = revision(&fleet.above.admin().get(&at).await.expect(200));
    fleet.below.get_mut("west").unwrap().restart();
    let is_back = |web: &Value| is_at_rest(web, spread) && is_available(web);
    let returned = kill_at_every_step(&mut fleet, &at, replaced, too_few_are_placed, is_back).await;
    assert!(returned.len() >= 2, "{returned:#?}");
    for (name, cluster) in &fleet.below {
        let what = format!("{name} has its replica");
        eventually(&what, async || pods(&cluster.admin(), "web", is_serving).await.len() == 1).await;
    }
}
