//! A syncer between a fake control plane with fixed view lines and a real server.

// Clippy treats only functions marked as tests as test code.
#![allow(clippy::unwrap_used)]

mod budget;
mod fake_control_plane;
mod faults;
mod held;
mod kinds;
mod namespace_deletion;
mod prescribed_names;
mod unserved;

use std::sync::Arc;
use std::time::Duration;

use atoll_client::https::Https;
use atoll_client::{Client, PatchType};
use atoll_fleet::view::{ObjectTarget, State, SyncLine, SyncResource};
use atoll_syncer::{Drift, Settings};
use atoll_testkit::wait::eventually;
use atoll_testkit::{Atoll, Upstream};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use fake_control_plane::FakeControlPlane;

struct RunningSyncer {
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

impl RunningSyncer {
    fn start(
        above: &Arc<FakeControlPlane>,
        below: &Client,
        change: impl FnOnce(&mut Settings),
    ) -> RunningSyncer {
        let mut settings = Settings::new("east", "one", Arc::new(|| 500));
        settings.interval = Duration::from_millis(500);
        change(&mut settings);
        let (stop, stopped) = oneshot::channel();
        let (above, below) = (Client::new(above.clone()), below.clone());
        let task = tokio::spawn(async move {
            atoll_syncer::run(settings, above, below, async { drop(stopped.await) }).await;
        });
        RunningSyncer { stop: Some(stop), task }
    }

    async fn stop(mut self) {
        self.stop.take().unwrap().send(()).unwrap();
        self.task.await.unwrap();
    }
}

fn transport(user: &atoll_testkit::Client) -> Https {
    Https::new(user.endpoint()).unwrap()
}

fn client(user: &atoll_testkit::Client) -> Client {
    Client::new(Arc::new(transport(user)))
}

fn target(group: &str, resource: &str, kind: &str, name: &str) -> ObjectTarget {
    let namespaced = true;
    let resource = SyncResource {
        group: group.into(),
        version: "v1".into(),
        resource: resource.into(),
        kind: kind.into(),
        namespaced,
    };
    ObjectTarget {
        resource,
        workspace: "w".into(),
        namespace: "shop".into(),
        name: name.into(),
        uid: format!("uid-{name}"),
    }
}

fn map(name: &str) -> ObjectTarget {
    target("", "configmaps", "ConfigMap", name)
}

fn map_line(name: &str, generation: i64, value: &str) -> SyncLine {
    let object =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"key": value}});
    SyncLine::Object { target: map(name), generation, object, drift: Drift::Correct, held: false }
}

fn deployment_line(replicas: i64, image: &str) -> SyncLine {
    let object = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "labels": {"app": "web"}},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": image, "env": [{"name": "A", "value": "1"}]}]},
            },
        },
    });
    SyncLine::Object {
        target: target("apps", "deployments", "Deployment", "web"),
        generation: replicas,
        object,
        drift: Drift::Correct,
        held: false,
    }
}

fn at(name: &str) -> String {
    format!("/api/v1/namespaces/shop/configmaps/{name}")
}

const WEB: &str = "/apis/apps/v1/namespaces/shop/deployments/web";

fn start_without_controllers() -> Atoll {
    Atoll::start_with(&["--controllers=false"])
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_are_applied_and_their_status_is_reported() {
    let atoll = start_without_controllers();
    check_applying_and_reporting(&client(&atoll.admin())).await;
}

async fn check_applying_and_reporting(below: &Client) {
    let above = FakeControlPlane::with_lines(
        "plane",
        vec![deployment_line(2, "a:1"), map_line("settings", 1, "one")],
    );
    let running = RunningSyncer::start(&above, below, |_| {});
    above.wait_for_record("web", State::Applied).await;
    above.wait_for_record("settings", State::Applied).await;
    let namespace = below.get("/api/v1/namespaces/shop").await.unwrap();
    assert_eq!(namespace["metadata"]["labels"]["atoll.dev/control-plane"], "plane");
    let web = below.get(WEB).await.unwrap();
    let annotations = &web["metadata"]["annotations"];
    assert_eq!(web["metadata"]["labels"]["atoll.dev/control-plane"], "plane");
    assert_eq!(annotations["atoll.dev/uid"], "uid-web");
    assert_eq!(annotations["atoll.dev/source"], "shop/web");
    assert_eq!(annotations["atoll.dev/generation"], "2");

    // The status that controllers write is reported.
    let status = json!({"status": {"replicas": 2, "readyReplicas": 1, "observedGeneration": 1}});
    below.patch(&format!("{WEB}/status"), PatchType::Merge, &status).await.unwrap();
    eventually("the status is reported", async || {
        above.record("web").is_some_and(|record| record.status["readyReplicas"] == 1 && record.observed)
    })
    .await;
    assert_eq!(above.record("web").unwrap().generation, 2);

    // Changes are applied, and omitted fields are removed.
    let SyncLine::Object { target, mut object, .. } = deployment_line(3, "a:2") else { unreachable!() };
    object["spec"]["template"]["spec"]["containers"][0].as_object_mut().unwrap().remove("env");
    above.send_line(&SyncLine::Object {
        target: target.clone(),
        generation: 3,
        object,
        drift: Drift::Correct,
        held: false,
    });
    eventually("the change is applied", async || {
        let web = below.get(WEB).await.unwrap();
        let container = &web["spec"]["template"]["spec"]["containers"][0];
        web["spec"]["replicas"] == 3 && container["image"] == "a:2" && container["env"].is_null()
    })
    .await;
    eventually("the status is reported as not observed yet", async || {
        above.record("web").is_some_and(|record| record.generation == 3 && !record.observed)
    })
    .await;

    // A removed object is deleted, and that is reported.
    above.send_line(&SyncLine::Remove { target, since: 0 });
    above.wait_for_record("web", State::Gone).await;
    assert_eq!(below.get(WEB).await.unwrap_err().code(), 404);
    assert!(below.get(&at("settings")).await.is_ok(), "no other object may be deleted");

    let beat = above.heartbeat();
    let system = below.get("/api/v1/namespaces/kube-system").await.unwrap();
    assert_eq!(beat["id"], system["metadata"]["uid"]);
    assert_eq!(beat["reason"], Value::Null, "{beat}");
    assert!(beat["kubernetesVersion"].as_str().unwrap().starts_with("v1."), "{beat}");
    eventually("nodes and pods are counted", async || {
        let beat = above.heartbeat();
        beat["nodes"]["total"] == 0 && beat["requested"]["pods"] == "0"
    })
    .await;
    let claim = below.get("/api/v1/namespaces/atoll-system/configmaps/atoll-claim").await.unwrap();
    assert_eq!(
        (&claim["data"]["controlPlane"], &claim["data"]["cluster"]),
        (&json!("plane"), &json!("cluster"))
    );
    let path = "/apis/coordination.k8s.io/v1/namespaces/atoll-system/leases/atoll-syncer";
    assert_eq!(below.get(path).await.unwrap()["spec"]["holderIdentity"], "plane/one");
    running.stop().await;
    assert_eq!(
        below.get(path).await.unwrap()["spec"]["holderIdentity"],
        "",
        "the lease must be released on shutdown"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_objects_are_kept_and_unchanged_ones_not_written() {
    let atoll = start_without_controllers();
    let below = client(&atoll.admin());
    let above =
        FakeControlPlane::with_lines("plane", vec![map_line("kept", 1, "one"), map_line("unsaid", 1, "one")]);
    let running = RunningSyncer::start(&above, &below, |_| {});
    above.wait_for_record("kept", State::Applied).await;
    above.wait_for_record("unsaid", State::Applied).await;
    let before = [below.get(&at("kept")).await.unwrap(), below.get(&at("unsaid")).await.unwrap()];
    // A control plane that has lost half of its data.
    let views = above.views();
    above.forget_records();
    above.end_views(vec![map_line("kept", 1, "one"), map_line("new", 1, "one")]);
    above.wait_for_record("new", State::Applied).await;
    above.wait_for_record("kept", State::Applied).await;
    assert!(above.views() > views);
    running.stop().await;
    // Another syncer finds nothing to change.
    above.forget_records();
    let running = RunningSyncer::start(&above, &below, |settings| settings.instance = "two".into());
    above.wait_for_record("kept", State::Applied).await;
    above.send_line(&map_line("last", 1, "one"));
    above.wait_for_record("last", State::Applied).await;
    let after = [below.get(&at("kept")).await.unwrap(), below.get(&at("unsaid")).await.unwrap()];
    assert_eq!(before, after);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_of_other_users_are_not_changed() {
    let atoll = start_without_controllers();
    check_objects_of_other_users(&client(&atoll.admin())).await;
}

async fn check_objects_of_other_users(below: &Client) {
    let above = FakeControlPlane::with_lines("plane", vec![map_line("ours", 1, "one")]);
    let running = RunningSyncer::start(&above, below, |_| {});
    above.wait_for_record("ours", State::Applied).await;
    let foreign = |name: &str| json!({"metadata": {"name": name}, "data": {"key": "theirs"}});
    let maps = "/api/v1/namespaces/shop/configmaps";
    below.create(maps, &foreign("taken")).await.unwrap();
    above.send_line(&map_line("taken", 1, "one"));
    let record = above.wait_for_record("taken", State::Conflict).await;
    assert!(record.message.contains("was not made by Atoll"), "{}", record.message);
    above.send_line(&SyncLine::Remove { target: map("taken"), since: 0 });
    let record = above.wait_for_record("taken", State::Gone).await;
    assert!(record.message.contains("was not made by Atoll"), "{}", record.message);
    // An object that was created for another object of the same name.
    let mut other = map("ours");
    other.uid = "another".into();
    above.send_line(&SyncLine::Remove { target: other, since: 0 });
    above.wait_for_record("ours", State::Gone).await;
    above.send_line(&SyncLine::Remove { target: map("never"), since: 0 });
    above.wait_for_record("never", State::Gone).await;
    for (name, value) in [("taken", "theirs"), ("ours", "one")] {
        assert_eq!(below.get(&at(name)).await.unwrap()["data"]["key"], value);
    }
    // A namespace of another user is not used.
    below.create("/api/v1/namespaces", &json!({"metadata": {"name": "people"}})).await.unwrap();
    let SyncLine::Object { mut target, object, generation, drift, held } = map_line("visitor", 1, "one")
    else {
        unreachable!()
    };
    target.namespace = "people".into();
    above.send_line(&SyncLine::Object { target, object, generation, drift, held });
    above.wait_for_record("visitor", State::Conflict).await;
    // A rejected change of an immutable field is reported, and the object is not recreated.
    let fixed = |value: &str| {
        let SyncLine::Object { target, mut object, generation, drift, held } = map_line("fixed", 1, value)
        else {
            unreachable!()
        };
        object["immutable"] = true.into();
        SyncLine::Object { target, object, generation, drift, held }
    };
    above.send_line(&fixed("one"));
    above.wait_for_record("fixed", State::Applied).await;
    above.send_line(&fixed("two"));
    let record = above.wait_for_record("fixed", State::Refused).await;
    assert!(record.message.contains("immutable"), "{}", record.message);
    assert_eq!(below.get(&at("fixed")).await.unwrap()["data"]["key"], "one");
    // A rejection by the cluster is reported.
    let SyncLine::Object { target, mut object, generation, drift, held } = map_line("wrong", 1, "one") else {
        unreachable!()
    };
    object["data"] = json!({"no such key!": "x"});
    above.send_line(&SyncLine::Object { target, object, generation, drift, held });
    let record = above.wait_for_record("wrong", State::Refused).await;
    assert!(record.message.contains("no such key!"), "{}", record.message);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn drift_is_corrected_or_reported() {
    let atoll = start_without_controllers();
    check_drift(&client(&atoll.admin())).await;
}

async fn check_drift(below: &Client) {
    let above = FakeControlPlane::with_lines(
        "plane",
        vec![deployment_line(2, "a:1"), map_line("settings", 1, "one")],
    );
    let running = RunningSyncer::start(&above, below, |_| {});
    above.wait_for_record("web", State::Applied).await;
    above.wait_for_record("settings", State::Applied).await;
    let edit = |manager: &str| format!("{}?fieldManager={manager}", at("settings"));
    below.patch(&edit("kubectl-edit"), PatchType::Merge, &json!({"data": {"key": "mine"}})).await.unwrap();
    let is = async |value: &str| below.get(&at("settings")).await.unwrap()["data"]["key"] == value;
    eventually("the drift is corrected", async || is("one").await).await;
    let unmarked = json!({"metadata": {"annotations": {"atoll.dev/uid": null}}});
    below.patch(&edit("kubectl-edit"), PatchType::Merge, &unmarked).await.unwrap();
    eventually("the mark is restored", async || {
        below.get(&at("settings")).await.unwrap()["metadata"]["annotations"]["atoll.dev/uid"]
            == "uid-settings"
    })
    .await;
    // Fields of other managers are kept, and so are values that controllers of the cluster set.
    let scaled = json!({"spec": {"replicas": 5}});
    let scale = format!("{WEB}?fieldManager=kube-controller-manager");
    below.patch(&scale, PatchType::Merge, &scaled).await.unwrap();
    above.send_line(&deployment_line(3, "a:2"));
    eventually("the other change is applied", async || {
        let web = below.get(WEB).await.unwrap();
        web["spec"]["template"]["spec"]["containers"][0]["image"] == "a:2"
    })
    .await;
    assert_eq!(below.get(WEB).await.unwrap()["spec"]["replicas"], 5);
    // An object that was deleted below is created again.
    let before = below.get(&at("settings")).await.unwrap();
    below.delete(&at("settings")).await.unwrap();
    eventually("the object is created again", async || {
        below.get(&at("settings")).await.is_ok_and(|map| map["metadata"]["uid"] != before["metadata"]["uid"])
    })
    .await;
    running.stop().await;

    below.patch(&edit("kubectl-edit"), PatchType::Merge, &json!({"data": {"key": "mine"}})).await.unwrap();
    above.forget_records();
    let running = RunningSyncer::start(&above, below, |settings| settings.drift = Drift::Report);
    eventually("the drift is reported", async || {
        above
            .record("settings")
            .is_some_and(|record| record.message.contains("kubectl-edit changed .data.key"))
    })
    .await;
    assert!(is("mine").await);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_cluster_lease_or_claim_prevents_writes() {
    let atoll = start_without_controllers();
    let below = client(&atoll.admin());
    let heartbeat = async |above: &FakeControlPlane, reason: &str| {
        eventually(reason, async || above.heartbeat()["reason"] == reason).await;
    };
    let is_unwritten = async || below.get("/api/v1/namespaces/shop").await.is_err();
    let above = FakeControlPlane::with_lines("plane", vec![map_line("settings", 1, "one")]);
    let running = RunningSyncer::start(&above, &below, |settings| settings.identity = Some("another".into()));
    heartbeat(&above, "AnotherCluster").await;
    assert!(is_unwritten().await);
    assert!(below.get("/api/v1/namespaces/atoll-system").await.is_err());
    running.stop().await;

    // Long enough to keep the lease on a busy machine.
    let running =
        RunningSyncer::start(&above, &below, |settings| settings.interval = Duration::from_secs(60));
    above.wait_for_record("settings", State::Applied).await;
    // A second syncer of the same control plane waits, and continues when the first has stopped.
    let second = FakeControlPlane::with_lines("plane", vec![map_line("second", 1, "one")]);
    let waiting = RunningSyncer::start(&second, &below, |settings| settings.instance = "two".into());
    heartbeat(&second, "HeldByAnother").await;
    assert!(below.get(&at("second")).await.is_err());
    running.stop().await;
    second.wait_for_record("second", State::Applied).await;
    waiting.stop().await;

    let other_plane = FakeControlPlane::with_lines("another plane", vec![map_line("stolen", 1, "one")]);
    let running = RunningSyncer::start(&other_plane, &below, |_| {});
    heartbeat(&other_plane, "ClaimedByAnother").await;
    assert!(below.get(&at("stolen")).await.is_err());
    running.stop().await;
}

/// The default interval may be longer than the grace period of the control plane.
#[tokio::test(flavor = "multi_thread")]
async fn requested_heartbeat_interval_is_used_at_once() {
    let atoll = start_without_controllers();
    let below = client(&atoll.admin());
    let above = FakeControlPlane::with_lines("plane", Vec::new());
    above.set_heartbeat_interval(Duration::from_millis(500));
    let running =
        RunningSyncer::start(&above, &below, |settings| settings.interval = Duration::from_hours(1));
    eventually("two heartbeats arrive", async || above.heartbeats() >= 2).await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kube_apiserver_can_be_synced() {
    let Some(upstream) = Upstream::start(&[]) else { return };
    let below = client(&upstream.admin());
    // No controllers run that would create it.
    let system = json!({"metadata": {"name": "kube-system"}});
    let _ = below.create("/api/v1/namespaces", &system).await;
    check_applying_and_reporting(&below).await;
    check_objects_of_other_users(&below).await;
    check_drift(&below).await;
    kinds::check_objects_that_cannot_be_applied(&below).await;
    kinds::check_reported_drift_of_objects_that_cannot_be_applied(&below).await;
    kinds::check_custom_objects_wait_for_their_definition(&below).await;
}
