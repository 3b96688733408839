//! Manifests that a tool applies again and again, as GitOps does, while their objects move.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use atoll_fleet::Placement;
use atoll_fleet::scheduled::CLUSTERS as INTENT;
use atoll_meta::object;
use atoll_testkit::wait::{Waiting, eventually};
use atoll_testkit::{Client, Kubectl, Setup, Watch};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::fleet::{
    CLUSTERS, DEPLOYMENTS, annotated, condition, deployment, expect_placed, join, path, start, summary,
    wait_until,
};
use crate::simulated::{SimulatedFleet, template};

const REPLICAS: i64 = 6;
const CORE: &str = "/api/v1/namespaces/default";
/// The commands of such tools. Each of them gets the original manifests.
const COMMANDS: [&str; 3] =
    ["replace -f -", "apply -f -", "apply --server-side --force-conflicts --field-manager=gitops -f -"];

/// A Deployment with what it needs.
fn manifests() -> Value {
    let mut pod = template("web", "Always", json!({}));
    pod["spec"]["containers"][0]["envFrom"] = json!([{ "configMapRef": { "name": "web" } }]);
    let metadata = json!({ "name": "web", "namespace": "default" });
    let labels = json!({ "app": "web" });
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata,
        "spec": { "replicas": REPLICAS, "selector": { "matchLabels": labels }, "template": pod },
    });
    let settings =
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": { "a": "b" } });
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": metadata,
        "spec": { "selector": labels, "ports": [{ "port": 80 }] },
    });
    json!({ "apiVersion": "v1", "kind": "List", "items": [settings, service, deployment] })
}

/// Runs the commands, one after the other, for as long as it exists.
struct Reapplying {
    is_finished: Arc<AtomicBool>,
    /// How often all commands were run.
    rounds: Arc<AtomicUsize>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Reapplying {
    fn start(kubectl: &Kubectl) -> Reapplying {
        let (is_finished, rounds) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (kubectl, finished, count) = (kubectl.clone(), is_finished.clone(), rounds.clone());
        let thread = std::thread::spawn(move || {
            let manifests = manifests().to_string();
            while !finished.load(Ordering::Relaxed) {
                COMMANDS.iter().for_each(|command| reapply(&kubectl, command, &manifests));
                count.fetch_add(1, Ordering::Relaxed);
            }
        });
        Reapplying { is_finished, rounds, thread: Some(thread) }
    }

    /// Waits until all manifests were applied again, by every command.
    async fn expect_another_round(&self) {
        assert!(self.thread.as_ref().is_some_and(|thread| !thread.is_finished()), "a command has failed");
        let before = self.rounds.load(Ordering::Relaxed);
        eventually("everything is applied again", async || self.rounds.load(Ordering::Relaxed) >= before + 2)
            .await;
    }

    fn finish(mut self) {
        self.is_finished.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

impl Drop for Reapplying {
    fn drop(&mut self) {
        self.is_finished.store(true, Ordering::Relaxed);
    }
}

/// Runs a command until no other writer is faster.
fn reapply(kubectl: &Kubectl, command: &str, manifests: &str) {
    for _ in 0..100 {
        let output = kubectl.run_with_input(command, manifests);
        if output.status.success() {
            return;
        }
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(errors.contains("the object has been modified"), "{command}: {errors}");
    }
    panic!("other writers are always faster than {command}");
}

/// Everything that must hold at every moment.
#[derive(Default)]
struct Expected {
    /// The fewest available replicas.
    available: i64,
    /// Whether a command has said where the Deployment runs.
    has_intent: bool,
}

/// Follows every state of the Deployment.
struct Following {
    expected: Arc<Mutex<Expected>>,
    violations: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

impl Following {
    async fn start(admin: &Client) -> Following {
        let list = admin.get(DEPLOYMENTS).await.expect(200);
        let revision = list["metadata"]["resourceVersion"].as_str().unwrap();
        let watched = format!("{DEPLOYMENTS}?watch=true&resourceVersion={revision}");
        let mut watch = Watch::open(admin, &watched).await;
        let (expected, violations) =
            (Arc::<Mutex<Expected>>::default(), Arc::<Mutex<Vec<String>>>::default());
        let (rules, found) = (expected.clone(), violations.clone());
        let task = tokio::spawn(async move {
            loop {
                let event = watch.event().await;
                if let Some(violation) = violation(&event.kind, &event.object, &rules.lock().unwrap()) {
                    found.lock().unwrap().push(violation);
                }
            }
        });
        Following { expected, violations, task }
    }

    fn expect(&self, available: i64, has_intent: bool) {
        *self.expected.lock().unwrap() = Expected { available, has_intent };
    }

    fn assert_undisturbed(&self, meanwhile: &str) {
        let violations = self.violations.lock().unwrap();
        assert!(!self.task.is_finished(), "the watch has ended");
        assert!(violations.is_empty(), "while {meanwhile}: {violations:#?}");
    }
}

fn violation(kind: &str, web: &Value, expected: &Expected) -> Option<String> {
    let placement = Placement::of(web);
    let replicas: i64 = placement.clusters.iter().map(|share| share.replicas.unwrap_or(REPLICAS)).sum();
    let available = web["status"]["availableReplicas"].as_i64().unwrap_or(0);
    let told = match () {
        () if kind != "MODIFIED" => format!("an event {kind}"),
        () if web["spec"]["replicas"] != REPLICAS => "other replicas are asked for".to_string(),
        () if replicas < REPLICAS => format!("{replicas} replicas are placed"),
        () if available < expected.available => format!("{available} replicas are available"),
        () if expected.has_intent && object::annotation(web, INTENT).is_none() => {
            "the annotation of the command is gone".to_string()
        }
        () => return None,
    };
    Some(format!("{told}: {} {} {}", summary(web), web["metadata"]["annotations"], web["status"]))
}

/// Waits until the Deployment has arrived, and so has what it needs, and everything has left other clusters.
async fn expect_at_rest(fleet: &SimulatedFleet, expected: &str) {
    let web = wait_until(&fleet.admin, &path("web"), &format!("it is at rest on {expected}"), |web| {
        let placement = Placement::of(web);
        let is_settled = placement.phase.is_empty() && placement.leaving.is_empty();
        is_settled
            && summary(web).starts_with(&format!("{expected} by "))
            && web["status"]["availableReplicas"] == REPLICAS
            && web["status"]["replicas"] == REPLICAS
    })
    .await;
    let placement = Placement::of(&web);
    let waiting = Waiting::until("its dependents and Pods are with it");
    loop {
        let mut wrong = Vec::new();
        for name in fleet.below.keys() {
            let share = placement.share(name);
            let below = fleet.below[name].admin();
            for kind in ["configmaps", "services"] {
                let found = below.get(&format!("{CORE}/{kind}/web")).await.status == 200;
                wrong.extend((found != share.is_some()).then(|| format!("{kind} of {name}: {found}")));
            }
            let pods = below.get(&format!("{CORE}/pods")).await.expect(200);
            let pods = pods["items"].as_array().unwrap().iter();
            let count = pods.filter(|pod| pod["metadata"]["labels"]["app"] == "web").count() as i64;
            let wanted = share.map_or(0, |share| share.replicas.unwrap_or(REPLICAS));
            wrong.extend((count != wanted).then(|| format!("Pods of {name}: {count} of {wanted}")));
        }
        if wrong.is_empty() {
            return;
        }
        eprintln!("{wrong:?}");
        waiting.again().await;
    }
}

async fn expect_ready(admin: &Client, cluster: &str, status: &str) {
    let at = format!("{CLUSTERS}/{cluster}");
    wait_until(admin, &at, "its health is known", |cluster| condition(cluster, "Ready").0 == status).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn manifests_that_are_applied_again_disturb_no_move() {
    let setup = Setup::new().flag("--cluster-grace-period", 20).flag("--cluster-heartbeat-interval", 2);
    let mut fleet = SimulatedFleet::start_with(&["east", "north", "west"], setup).await;
    let Some(kubectl) = Kubectl::new(&fleet.above.kubeconfig()) else { return };
    let policy = json!({
        "replicas": { "division": "Even" }, "failover": { "after": "2s" }, "failback": { "after": "2s" },
    });
    fleet.create_policy("spread", policy).await;
    reapply(&kubectl, COMMANDS[1], &manifests().to_string());
    let spread = "east=2 north=2 west=2";
    expect_at_rest(&fleet, spread).await;

    let following = Following::start(&fleet.admin).await;
    following.expect(REPLICAS, false);
    let reapplying = Reapplying::start(&kubectl);
    reapplying.expect_another_round().await;
    let moved = fleet.above.run("move deploy/web --to west --timeout 120");
    assert!(moved.contains("Deployment default/web runs on west (6)."), "{moved}");
    following.expect(REPLICAS, true);
    reapplying.expect_another_round().await;
    expect_at_rest(&fleet, "west=6").await;
    following.assert_undisturbed("it moves to one cluster");

    // Another move, whose beginning meets any of the commands.
    fleet.above.run("move deploy/web --to east=1,north=2 --timeout 120");
    reapplying.expect_another_round().await;
    expect_at_rest(&fleet, "east=2 north=4").await;
    following.assert_undisturbed("it moves to two clusters");
    following.expect(REPLICAS, false);
    kubectl.run("annotate deployment web atoll.dev/clusters-");
    expect_at_rest(&fleet, spread).await;

    let drained = fleet.above.run("cluster drain east --timeout 120");
    assert!(drained.contains("Cluster east is drained."), "{drained}");
    reapplying.expect_another_round().await;
    expect_at_rest(&fleet, "north=3 west=3").await;
    fleet.above.run("cluster uncordon east");
    expect_at_rest(&fleet, spread).await;
    following.assert_undisturbed("a cluster is drained");

    // Pods on a lost cluster are not available, but the share stays or is replaced.
    following.expect(0, false);
    fleet.below.get_mut("east").unwrap().kill();
    expect_ready(&fleet.admin, "east", "False").await;
    wait_until(&fleet.admin, &path("web"), "the share is replaced", |web| {
        summary(web).starts_with("north=3 west=3 by ") && web["status"]["availableReplicas"] == REPLICAS
    })
    .await;
    reapplying.expect_another_round().await;
    fleet.below.get_mut("east").unwrap().restart();
    expect_ready(&fleet.admin, "east", "True").await;
    following.expect(REPLICAS, false);
    expect_at_rest(&fleet, spread).await;
    reapplying.expect_another_round().await;
    expect_at_rest(&fleet, spread).await;
    following.assert_undisturbed("a cluster is lost and returns");
    reapplying.finish();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_annotation_by_hand_survives_manifests_without_it() {
    // Without clusters, objects are deleted at once.
    let atoll = start();
    let admin = atoll.admin();
    let Some(kubectl) = Kubectl::new(&atoll.kubeconfig()) else { return };
    let web = path("web");
    let without = deployment("web", 0, 100);
    let with = annotated(without.clone(), "east");
    let intent = async || object::annotation(&admin.get(&web).await.expect(200), INTENT).map(str::to_string);
    for command in ["create -f -", COMMANDS[1], COMMANDS[2]] {
        reapply(&kubectl, command, &without.to_string());
        kubectl.run("annotate deployment web atoll.dev/clusters=east");
        for again in COMMANDS {
            let output = kubectl.run_with_input(again, &without.to_string());
            let told = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{again} after {command}: {told}");
            assert_eq!(intent().await.as_deref(), Some("east"), "{again} after {command}");
            let remedy = "another field manager (kubectl-annotate) has set it; remove it with: kubectl annotate \
                          deployments web --namespace default atoll.dev/clusters-";
            assert_eq!(told.contains(remedy), again.starts_with("replace"), "{again}: {told}");
        }
        // An explicit removal.
        kubectl.run("annotate deployment web atoll.dev/clusters-");
        reapply(&kubectl, COMMANDS[0], &without.to_string());
        assert_eq!(intent().await, None, "{command}");
        kubectl.run("delete deployment web");
    }
    // A manifest takes back what one has said.
    for (command, again) in [
        ("create -f -", COMMANDS[0]),
        (COMMANDS[1], COMMANDS[0]),
        (COMMANDS[1], COMMANDS[1]),
        (COMMANDS[2], COMMANDS[2]),
    ] {
        reapply(&kubectl, command, &with.to_string());
        reapply(&kubectl, again, &without.to_string());
        assert_eq!(intent().await, None, "{again} after {command}");
        kubectl.run("delete deployment web");
    }
    // The workload goes where the annotation says.
    join(&admin, "east", 4).await;
    join(&admin, "west", 16).await;
    reapply(&kubectl, COMMANDS[1], &without.to_string());
    kubectl.run("annotate deployment web atoll.dev/clusters=east");
    reapply(&kubectl, COMMANDS[0], &without.to_string());
    kubectl.run("scale deployment web --replicas 2");
    expect_placed(&admin, &web, "east=2 by annotation").await;
}
