//! A syncer between a control plane that is only a list of lines and a server that is real.

// Clippy treats only functions marked as tests as test code.
#![allow(clippy::unwrap_used)]

mod above;
mod busy;
mod faults;
mod kinds;
mod retiring;
mod unserved;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use atoll_client::https::{Endpoint, Https};
use atoll_client::{Client, PatchType};
use atoll_fleet::view::{Line, Resource, State, Target};
use atoll_syncer::{Drift, Settings};
use atoll_testkit::wait::eventually;
use atoll_testkit::{Atoll, TOKEN, Upstream};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use above::Above;

struct Running {
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

impl Running {
    fn start(above: &Arc<Above>, below: &Client, change: impl FnOnce(&mut Settings)) -> Running {
        let mut settings = Settings::new("east", "one", Arc::new(|| 500));
        settings.interval = Duration::from_millis(500);
        change(&mut settings);
        let (stop, stopped) = oneshot::channel();
        let (above, below) = (Client::new(above.clone()), below.clone());
        let task = tokio::spawn(async move {
            atoll_syncer::run(settings, above, below, async { drop(stopped.await) }).await;
        });
        Running { stop: Some(stop), task }
    }

    async fn stop(mut self) {
        self.stop.take().unwrap().send(()).unwrap();
        self.task.await.unwrap();
    }
}

fn transport(url: &str, authority: &Path) -> Https {
    let endpoint = Endpoint {
        server: url.into(),
        authority_pem: std::fs::read(authority).unwrap(),
        token: Some(TOKEN.into()),
        ..Endpoint::default()
    };
    Https::new(&endpoint).unwrap()
}

fn client(url: &str, authority: &Path) -> Client {
    Client::new(Arc::new(transport(url, authority)))
}

fn target(group: &str, resource: &str, kind: &str, name: &str) -> Target {
    let namespaced = true;
    let resource = Resource {
        group: group.into(),
        version: "v1".into(),
        resource: resource.into(),
        kind: kind.into(),
        namespaced,
    };
    Target {
        resource,
        workspace: "w".into(),
        namespace: "shop".into(),
        name: name.into(),
        uid: format!("uid-{name}"),
    }
}

fn map(name: &str) -> Target {
    target("", "configmaps", "ConfigMap", name)
}

fn map_line(name: &str, generation: i64, value: &str) -> Line {
    let object =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"key": value}});
    Line::Object { target: map(name), generation, object, drift: Drift::Correct }
}

fn deployment_line(replicas: i64, image: &str) -> Line {
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
    Line::Object {
        target: target("apps", "deployments", "Deployment", "web"),
        generation: replicas,
        object,
        drift: Drift::Correct,
    }
}

fn at(name: &str) -> String {
    format!("/api/v1/namespaces/shop/configmaps/{name}")
}

const WEB: &str = "/apis/apps/v1/namespaces/shop/deployments/web";

fn bare() -> Atoll {
    Atoll::start_with(&["--controllers=false"])
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_go_down_and_status_comes_up() {
    let atoll = bare();
    objects_go_down(&client(atoll.url(), &atoll.authority())).await;
}

async fn objects_go_down(below: &Client) {
    let above = Above::saying("plane", vec![deployment_line(2, "a:1"), map_line("settings", 1, "one")]);
    let running = Running::start(&above, below, |_| {});
    above.hears("web", State::Applied).await;
    above.hears("settings", State::Applied).await;
    let namespace = below.get("/api/v1/namespaces/shop").await.unwrap();
    assert_eq!(namespace["metadata"]["labels"]["atoll.dev/control-plane"], "plane");
    let web = below.get(WEB).await.unwrap();
    let annotations = &web["metadata"]["annotations"];
    assert_eq!(web["metadata"]["labels"]["atoll.dev/control-plane"], "plane");
    assert_eq!(annotations["atoll.dev/uid"], "uid-web");
    assert_eq!(annotations["atoll.dev/source"], "shop/web");
    assert_eq!(annotations["atoll.dev/generation"], "2");

    // What its controllers say is heard.
    let status = json!({"status": {"replicas": 2, "readyReplicas": 1, "observedGeneration": 1}});
    below.patch(&format!("{WEB}/status"), PatchType::Merge, &status).await.unwrap();
    eventually("the status is heard", async || {
        above.record("web").is_some_and(|record| record.status["readyReplicas"] == 1 && record.observed)
    })
    .await;
    assert_eq!(above.record("web").unwrap().generation, 2);

    // Changes follow, and what is left out goes.
    let Line::Object { target, mut object, .. } = deployment_line(3, "a:2") else { unreachable!() };
    object["spec"]["template"]["spec"]["containers"][0].as_object_mut().unwrap().remove("env");
    above.say(&Line::Object { target: target.clone(), generation: 3, object, drift: Drift::Correct });
    eventually("the change is there", async || {
        let web = below.get(WEB).await.unwrap();
        let container = &web["spec"]["template"]["spec"]["containers"][0];
        web["spec"]["replicas"] == 3 && container["image"] == "a:2" && container["env"].is_null()
    })
    .await;
    eventually("the status is not about that yet", async || {
        above.record("web").is_some_and(|record| record.generation == 3 && !record.observed)
    })
    .await;

    // What is to go goes, and that is told.
    above.say(&Line::Remove { target, since: 0 });
    above.hears("web", State::Gone).await;
    assert_eq!(below.get(WEB).await.unwrap_err().code(), 404);
    assert!(below.get(&at("settings")).await.is_ok(), "nothing else goes");

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
    assert_eq!(below.get(path).await.unwrap()["spec"]["holderIdentity"], "", "others may have it at once");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_said_any_longer_stays_and_what_has_not_changed_is_not_touched() {
    let atoll = bare();
    let below = client(atoll.url(), &atoll.authority());
    let above = Above::saying("plane", vec![map_line("kept", 1, "one"), map_line("unsaid", 1, "one")]);
    let running = Running::start(&above, &below, |_| {});
    above.hears("kept", State::Applied).await;
    above.hears("unsaid", State::Applied).await;
    let before = [below.get(&at("kept")).await.unwrap(), below.get(&at("unsaid")).await.unwrap()];
    // A control plane that has forgotten half of it.
    let views = above.views();
    above.forget_records();
    above.cut(vec![map_line("kept", 1, "one"), map_line("new", 1, "one")]);
    above.hears("new", State::Applied).await;
    above.hears("kept", State::Applied).await;
    assert!(above.views() > views);
    running.stop().await;
    // Another syncer finds everything as it should be.
    above.forget_records();
    let running = Running::start(&above, &below, |settings| settings.instance = "two".into());
    above.hears("kept", State::Applied).await;
    above.say(&map_line("last", 1, "one"));
    above.hears("last", State::Applied).await;
    let after = [below.get(&at("kept")).await.unwrap(), below.get(&at("unsaid")).await.unwrap()];
    assert_eq!(before, after);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_ours_is_left_alone() {
    let atoll = bare();
    others_are_left_alone(&client(atoll.url(), &atoll.authority())).await;
}

async fn others_are_left_alone(below: &Client) {
    let above = Above::saying("plane", vec![map_line("ours", 1, "one")]);
    let running = Running::start(&above, below, |_| {});
    above.hears("ours", State::Applied).await;
    let foreign = |name: &str| json!({"metadata": {"name": name}, "data": {"key": "theirs"}});
    let maps = "/api/v1/namespaces/shop/configmaps";
    below.create(maps, &foreign("taken")).await.unwrap();
    above.say(&map_line("taken", 1, "one"));
    let record = above.hears("taken", State::Conflict).await;
    assert!(record.message.contains("was not made by Atoll"), "{}", record.message);
    above.say(&Line::Remove { target: map("taken"), since: 0 });
    let record = above.hears("taken", State::Gone).await;
    assert!(record.message.contains("was not made by Atoll"), "{}", record.message);
    // One that was made for another of the same name.
    let mut other = map("ours");
    other.uid = "another".into();
    above.say(&Line::Remove { target: other, since: 0 });
    above.hears("ours", State::Gone).await;
    above.say(&Line::Remove { target: map("never"), since: 0 });
    above.hears("never", State::Gone).await;
    for (name, value) in [("taken", "theirs"), ("ours", "one")] {
        assert_eq!(below.get(&at(name)).await.unwrap()["data"]["key"], value);
    }
    // Nor is a namespace that people made.
    below.create("/api/v1/namespaces", &json!({"metadata": {"name": "people"}})).await.unwrap();
    let Line::Object { mut target, object, generation, drift } = map_line("visitor", 1, "one") else {
        unreachable!()
    };
    target.namespace = "people".into();
    above.say(&Line::Object { target, object, generation, drift });
    above.hears("visitor", State::Conflict).await;
    // What cannot be changed is told, and not made anew.
    let fixed = |value: &str| {
        let Line::Object { target, mut object, generation, drift } = map_line("fixed", 1, value) else {
            unreachable!()
        };
        object["immutable"] = true.into();
        Line::Object { target, object, generation, drift }
    };
    above.say(&fixed("one"));
    above.hears("fixed", State::Applied).await;
    above.say(&fixed("two"));
    let record = above.hears("fixed", State::Refused).await;
    assert!(record.message.contains("immutable"), "{}", record.message);
    assert_eq!(below.get(&at("fixed")).await.unwrap()["data"]["key"], "one");
    // What the cluster does not take is told.
    let Line::Object { target, mut object, generation, drift } = map_line("wrong", 1, "one") else {
        unreachable!()
    };
    object["data"] = json!({"no such key!": "x"});
    above.say(&Line::Object { target, object, generation, drift });
    let record = above.hears("wrong", State::Refused).await;
    assert!(record.message.contains("no such key!"), "{}", record.message);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_others_change_is_corrected_or_left() {
    let atoll = bare();
    drift_is_corrected(&client(atoll.url(), &atoll.authority())).await;
}

async fn drift_is_corrected(below: &Client) {
    let above = Above::saying("plane", vec![deployment_line(2, "a:1"), map_line("settings", 1, "one")]);
    let running = Running::start(&above, below, |_| {});
    above.hears("web", State::Applied).await;
    above.hears("settings", State::Applied).await;
    let edit = |manager: &str| format!("{}?fieldManager={manager}", at("settings"));
    below.patch(&edit("kubectl-edit"), PatchType::Merge, &json!({"data": {"key": "mine"}})).await.unwrap();
    let is = async |value: &str| below.get(&at("settings")).await.unwrap()["data"]["key"] == value;
    eventually("it is corrected", async || is("one").await).await;
    let unmarked = json!({"metadata": {"annotations": {"atoll.dev/uid": null}}});
    below.patch(&edit("kubectl-edit"), PatchType::Merge, &unmarked).await.unwrap();
    eventually("its mark is put back", async || {
        below.get(&at("settings")).await.unwrap()["metadata"]["annotations"]["atoll.dev/uid"]
            == "uid-settings"
    })
    .await;
    // Others' fields are theirs, and what controllers of the cluster set stays.
    let scaled = json!({"spec": {"replicas": 5}});
    let scale = format!("{WEB}?fieldManager=kube-controller-manager");
    below.patch(&scale, PatchType::Merge, &scaled).await.unwrap();
    above.say(&deployment_line(3, "a:2"));
    eventually("the rest is applied", async || {
        let web = below.get(WEB).await.unwrap();
        web["spec"]["template"]["spec"]["containers"][0]["image"] == "a:2"
    })
    .await;
    assert_eq!(below.get(WEB).await.unwrap()["spec"]["replicas"], 5);
    // What is deleted below is made again.
    let before = below.get(&at("settings")).await.unwrap();
    below.delete(&at("settings")).await.unwrap();
    eventually("it is made again", async || {
        below.get(&at("settings")).await.is_ok_and(|map| map["metadata"]["uid"] != before["metadata"]["uid"])
    })
    .await;
    running.stop().await;

    below.patch(&edit("kubectl-edit"), PatchType::Merge, &json!({"data": {"key": "mine"}})).await.unwrap();
    above.forget_records();
    let running = Running::start(&above, below, |settings| settings.drift = Drift::Report);
    eventually("it is told", async || {
        above
            .record("settings")
            .is_some_and(|record| record.message.contains("kubectl-edit changed .data.key"))
    })
    .await;
    assert!(is("mine").await);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_written_to_a_cluster_that_is_not_ours() {
    let atoll = bare();
    let below = client(atoll.url(), &atoll.authority());
    let heartbeat = async |above: &Above, reason: &str| {
        eventually(reason, async || above.heartbeat()["reason"] == reason).await;
    };
    let untouched = async || below.get("/api/v1/namespaces/shop").await.is_err();
    let above = Above::saying("plane", vec![map_line("settings", 1, "one")]);
    let running = Running::start(&above, &below, |settings| settings.identity = Some("another".into()));
    heartbeat(&above, "AnotherCluster").await;
    assert!(untouched().await);
    assert!(below.get("/api/v1/namespaces/atoll-system").await.is_err());
    running.stop().await;

    // Long enough that it does not lose the lease on a machine that is busy.
    let running = Running::start(&above, &below, |settings| settings.interval = Duration::from_secs(60));
    above.hears("settings", State::Applied).await;
    // A second syncer of the same control plane waits, and goes on when the first is done.
    let second = Above::saying("plane", vec![map_line("second", 1, "one")]);
    let waiting = Running::start(&second, &below, |settings| settings.instance = "two".into());
    heartbeat(&second, "HeldByAnother").await;
    assert!(below.get(&at("second")).await.is_err());
    running.stop().await;
    second.hears("second", State::Applied).await;
    waiting.stop().await;

    let thief = Above::saying("another plane", vec![map_line("stolen", 1, "one")]);
    let running = Running::start(&thief, &below, |_| {});
    heartbeat(&thief, "ClaimedByAnother").await;
    assert!(below.get(&at("stolen")).await.is_err());
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kube_apiserver_is_synced_as_well() {
    let Some(upstream) = Upstream::start(&[]) else { return };
    let below = client(upstream.url(), &upstream.authority());
    // There are no controllers to do this.
    let system = json!({"metadata": {"name": "kube-system"}});
    let _ = below.create("/api/v1/namespaces", &system).await;
    objects_go_down(&below).await;
    others_are_left_alone(&below).await;
    drift_is_corrected(&below).await;
    kinds::what_cannot_be_applied_follows(&below).await;
    kinds::what_cannot_be_applied_is_left_to_others(&below).await;
    kinds::custom_objects_wait_for_their_definition(&below).await;
}
