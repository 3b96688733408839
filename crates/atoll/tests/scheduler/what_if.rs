//! `atoll what-if`: the answer is what then happens, and asking changes nothing.

use std::collections::BTreeMap;

use atoll_fleet::Placement;
use atoll_testkit::wait::Waiting;
use atoll_testkit::{Client, Setup};
use serde_json::{Value, json};

use crate::fleet::{
    CLUSTERS, DEPLOYMENTS, annotated, condition, deployment, expect_placed, path, report_all_pods,
    report_gone, report_pods, scale, set_ready, summary, wait_until, with_clusters,
};

const POLICIES: &str = "/apis/atoll.dev/v1alpha1/namespaces/default/placementpolicies";
const NAMES: [&str; 3] = ["api", "web", "worker"];

const DIVISIONS: [&str; 3] = ["Even", "Capacity", "Pack"];

/// The seeds of random fleets: `ATOLL_SEED=7` repeats one, `ATOLL_SEEDS=50` runs that many.
fn seeds(usual: [u64; 3]) -> Vec<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    match (number("ATOLL_SEED"), number("ATOLL_SEEDS")) {
        (Some(seed), _) => vec![seed],
        (None, Some(count)) => (0..count).collect(),
        (None, None) => usual.to_vec(),
    }
}

/// A small random number generator: the same seed leads to the same fleet.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, from: i64, to: i64) -> i64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        from + i64::try_from((self.0 >> 33) % u64::try_from(to - from + 1).unwrap()).unwrap()
    }
}

fn policy(division: &str) -> Value {
    json!({
        "apiVersion": "atoll.dev/v1alpha1", "kind": "PlacementPolicy",
        "metadata": { "name": "spread", "namespace": "default" }, "spec": { "replicas": { "division": division } },
    })
}

/// Shares as `east=2 west=1`, in the order of names.
fn shares(list: &Value) -> String {
    let share = |share: &Value| (share["name"].as_str().unwrap().to_string(), share["replicas"].clone());
    let shares: BTreeMap<String, Value> = list.as_array().unwrap().iter().map(share).collect();
    shares.iter().map(|(name, replicas)| format!("{name}={replicas}")).collect::<Vec<_>>().join(" ")
}

/// Where every Deployment is.
async fn placed(admin: &Client) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for name in NAMES {
        let object = admin.get(&path(name)).await.expect(200);
        let clusters = json!(Placement::of(&object).clusters);
        found.insert(name.to_string(), shares(&clusters));
    }
    found
}

/// Where every Deployment would be.
async fn predicted(admin: &Client, change: Value) -> BTreeMap<String, String> {
    let mut expected = placed(admin).await;
    let before = expected.clone();
    let answer = admin.post("/services/what-if", change).await.expect(200);
    for effect in answer["changes"].as_array().unwrap() {
        let name = effect["name"].as_str().unwrap().to_string();
        assert_eq!(Some(&shares(&effect["before"])), before.get(&name), "{answer}");
        expected.insert(name, shares(&effect["after"]));
    }
    assert_eq!(placed(admin).await, before, "asking changes nothing");
    expected
}

/// Reports all pods as available, as clusters would, until everything is where it was predicted to be.
async fn expect_all(admin: &Client, lost: &str, expected: &BTreeMap<String, String>, what: &str) {
    let goal = format!("{what}: {expected:?}");
    let waiting = Waiting::until(&goal);
    loop {
        let mut is_moving = false;
        for name in NAMES {
            let object = admin.get(&path(name)).await.expect(200);
            let placement = Placement::of(&object);
            is_moving |= !placement.phase.is_empty() && placement.phase != "away";
            for share in placement.clusters.iter().filter(|share| share.name != lost) {
                report_pods(admin, &path(name), &share.name, share.replicas.unwrap_or(1)).await;
            }
        }
        let now = placed(admin).await;
        if !is_moving && now == *expected {
            return;
        }
        eprintln!("{what}: {now:?}");
        waiting.again().await;
    }
}

async fn with_random_fleet(seed: u64, division: &str) -> (atoll_testkit::Atoll, Client, Dice) {
    let mut dice = Dice(seed);
    let sizes = ["east", "north", "west"].map(|name| (name, dice.roll(4, 24)));
    let (atoll, admin) = with_clusters(&sizes).await;
    admin.post(POLICIES, policy(division)).await.expect(201);
    for name in NAMES {
        let (replicas, millicores) = (dice.roll(1, 8), dice.roll(1, 4) * 100);
        admin.post(DEPLOYMENTS, deployment(name, replicas, millicores)).await.expect(201);
        let waiting = Waiting::until("it is placed");
        while summary(&admin.get(&path(name)).await.expect(200)) == "nowhere" {
            waiting.again().await;
        }
    }
    let now = placed(&admin).await;
    expect_all(&admin, "", &now, "reports").await;
    (atoll, admin, dice)
}

#[tokio::test(flavor = "multi_thread")]
async fn scaling_and_policies_lead_to_what_was_said() {
    for seed in seeds([0, 1, 2]) {
        let [division, next] = [seed, seed + 1].map(|number| DIVISIONS[usize::try_from(number % 3).unwrap()]);
        let (_atoll, admin, mut dice) = with_random_fleet(seed, division).await;
        let replicas = dice.roll(9, 30);
        let scaled = json!({ "group": "apps", "resource": "deployments", "namespace": "default", "name": "web", "replicas": replicas });
        let expected = predicted(&admin, json!({ "scale": scaled })).await;
        scale(&admin, &path("web"), replicas).await;
        expect_all(&admin, "", &expected, &format!("seed {seed}, scale to {replicas}")).await;
        let expected = predicted(&admin, json!({ "policy": policy(next) })).await;
        admin.merge(&format!("{POLICIES}/spread"), json!({ "spec": policy(next)["spec"] })).await.expect(200);
        expect_all(&admin, "", &expected, &format!("seed {seed}, division {next}")).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn drained_and_lost_clusters_lead_to_what_was_said() {
    // With the division Capacity, the shares of several objects that leave a cluster at once depend on which of them
    // moves first, which is not the same in every run.
    for seed in seeds([4, 6, 7]) {
        let division = "Even";
        let (_atoll, admin, _) = with_random_fleet(seed, division).await;
        let expected = predicted(&admin, json!({ "lose": "north" })).await;
        assert!(expected.values().all(|shares| !shares.contains("north")), "{expected:?}");
        set_ready(&admin, "north", false, 60).await;
        expect_all(&admin, "north", &expected, &format!("seed {seed}, north is lost")).await;
        let (_atoll, admin, _) = with_random_fleet(seed, division).await;
        let expected = predicted(&admin, json!({ "drain": "east" })).await;
        assert!(expected.values().all(|shares| !shares.contains("east")), "{expected:?}");
        let taint = json!({ "key": "atoll.dev/drain", "effect": "NoExecute" });
        let drained = json!({ "spec": { "unschedulable": true, "taints": [taint] } });
        admin.merge(&format!("{CLUSTERS}/east"), drained).await.expect(200);
        expect_all(&admin, "", &expected, &format!("seed {seed}, east is drained")).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_cluster_in_question_is_lost() {
    let (_atoll, admin) = with_clusters(&[("east", 16), ("north", 16), ("west", 16)]).await;
    let mut patient = policy("Even");
    patient["spec"]["failover"] = json!({ "after": "2h" });
    admin.post(POLICIES, patient).await.expect(201);
    for name in NAMES {
        admin.post(DEPLOYMENTS, deployment(name, 6, 100)).await.expect(201);
        expect_placed(&admin, &path(name), "east=2 north=2 west=2 by placementpolicy/spread").await;
        for cluster in ["east", "north", "west"] {
            report_pods(&admin, &path(name), cluster, 2).await;
        }
    }
    let lost = predicted(&admin, json!({ "lose": "east" })).await;
    assert!(lost.values().all(|shares| shares == "north=3 west=3"), "{lost:?}");
    // A cluster that was Ready until recently keeps its shares.
    set_ready(&admin, "north", false, 60).await;
    let scaled = json!({ "group": "apps", "resource": "deployments", "namespace": "default", "name": "web", "replicas": 10 });
    let expected = predicted(&admin, json!({ "scale": scaled })).await;
    assert_eq!(expected["web"], "east=4 north=2 west=4");
    assert_eq!(expected["api"], "east=2 north=2 west=2");
    scale(&admin, &path("web"), 10).await;
    expect_all(&admin, "north", &expected, "web is scaled").await;
    let lost = predicted(&admin, json!({ "lose": "east" })).await;
    assert!(lost.values().all(|shares| shares.contains("north=2") && !shares.contains("east")), "{lost:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn room_that_others_leave_is_free_in_the_answer() {
    let (_atoll, admin) = with_clusters(&[("east", 8), ("west", 2)]).await;
    let allow = |cluster: &str| {
        json!({
            "apiVersion": "atoll.dev/v1alpha1", "kind": "PlacementPolicy",
            "metadata": { "name": "here", "namespace": "default" },
            "spec": { "objects": [{ "kind": "Deployment", "name": "web" }], "clusters": { "names": [cluster] } },
        })
    };
    admin.post(POLICIES, allow("west")).await.expect(201);
    let (web, api, worker) = (path("web"), path("api"), path("worker"));
    admin.post(DEPLOYMENTS, deployment("web", 2, 1000)).await.expect(201);
    expect_placed(&admin, &web, "west=2 by placementpolicy/here").await;
    report_all_pods(&admin, &web, "west", 2).await;
    // West is full, and the next one waits for room there.
    let uid = admin.get(&web).await.expect(200)["metadata"]["uid"].as_str().unwrap().to_string();
    let west = async |cores: &str, bound: Value| {
        let resources = json!({ "cpu": cores, "memory": "8Gi", "pods": "1000" });
        let free = json!([{ "nodes": 1, "labels": {}, "taints": [], "resources": resources }]);
        let status = json!({ "status": { "free": free, "bound": bound } });
        admin.merge(&format!("{CLUSTERS}/west/status"), status).await.expect(200);
    };
    west("0", json!({ uid.as_str(): 2 })).await;
    admin.post(DEPLOYMENTS, annotated(deployment("api", 1, 1500), "west")).await.expect(201);
    admin.post(DEPLOYMENTS, annotated(deployment("worker", 1, 100), "east")).await.expect(201);
    wait_until(&admin, &api, "it waits for room", |api| condition(api, "Placed").1 == "Unschedulable").await;
    expect_placed(&admin, &worker, "east=1 by annotation").await;
    report_all_pods(&admin, &worker, "east", 1).await;
    let expected = predicted(&admin, json!({ "policy": allow("east") })).await;
    let told: Vec<&str> = expected.values().map(String::as_str).collect();
    assert_eq!(told, ["west=1", "east=2", "east=1"], "{expected:?}");
    admin.merge(&format!("{POLICIES}/here"), json!({ "spec": allow("east")["spec"] })).await.expect(200);
    report_pods_when_placed(&admin, &web, "east", 2).await;
    expect_placed(&admin, &web, "east=2 by placementpolicy/here").await;
    report_gone(&admin, &web, "west").await;
    west("2", json!({ uid.as_str(): null })).await;
    expect_all(&admin, "", &expected, "web has left west").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn other_kinds_lead_to_what_was_said() {
    let (_atoll, admin) = with_clusters(&[("east", 8), ("west", 16)]).await;
    let apps = "/apis/apps/v1/namespaces/default";
    let (mut set, mut agent) = (deployment("db", 3, 100), deployment("agent", 1, 100));
    set["kind"] = "StatefulSet".into();
    set["spec"]["serviceName"] = "db".into();
    agent["kind"] = "DaemonSet".into();
    agent["spec"].as_object_mut().unwrap().remove("replicas");
    let (db, agents) = (format!("{apps}/statefulsets/db"), format!("{apps}/daemonsets/agent"));
    admin.post(&format!("{apps}/statefulsets"), set).await.expect(201);
    expect_placed(&admin, &db, "west=3 by default").await;
    report_all_pods(&admin, &db, "west", 3).await;
    let agents_on = |clusters: Value| {
        json!({
            "apiVersion": "atoll.dev/v1alpha1", "kind": "PlacementPolicy",
            "metadata": { "name": "agents", "namespace": "default" },
            "spec": {
                "objects": [{ "kind": "DaemonSet" }], "clusters": { "names": clusters },
                "replicas": { "division": "Duplicate" },
            },
        })
    };
    admin.post(POLICIES, agents_on(json!(["east", "west"]))).await.expect(201);
    admin.post(&format!("{apps}/daemonsets"), agent).await.expect(201);
    expect_placed(&admin, &agents, "east west by placementpolicy/agents").await;
    for cluster in ["east", "west"] {
        report_pods(&admin, &agents, cluster, 1).await;
    }
    let effects = async |change: Value| -> Vec<String> {
        let answer = admin.post("/services/what-if", change).await.expect(200);
        let effect =
            |effect: &Value| format!("{} {}", effect["kind"].as_str().unwrap(), shares(&effect["after"]));
        answer["changes"].as_array().unwrap().iter().map(effect).collect()
    };
    let scaled = json!({ "group": "apps", "resource": "statefulsets", "namespace": "default", "name": "db", "replicas": 5 });
    assert_eq!(effects(json!({ "scale": scaled })).await, ["StatefulSet west=5"]);
    scale(&admin, &db, 5).await;
    expect_placed(&admin, &db, "west=5 by default").await;
    report_all_pods(&admin, &db, "west", 5).await;
    let only_west = agents_on(json!(["west"]));
    assert_eq!(effects(json!({ "policy": only_west })).await, ["DaemonSet west=null"]);
    admin.merge(&format!("{POLICIES}/agents"), json!({ "spec": only_west["spec"] })).await.expect(200);
    expect_placed(&admin, &agents, "west by placementpolicy/agents").await;
    assert_eq!(summary(&admin.get(&db).await.expect(200)), "west=5 by default");
}

/// Waits until an object is also on a cluster, and reports its pods there.
async fn report_pods_when_placed(admin: &Client, path: &str, cluster: &str, pods: i64) {
    wait_until(admin, path, "it is on the new cluster", |object| {
        Placement::of(object).share(cluster).is_some()
    })
    .await;
    report_pods(admin, path, cluster, pods).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_shows_what_would_move() {
    let (atoll, admin) = with_clusters(&[("east", 4), ("west", 16)]).await;
    admin.post(DEPLOYMENTS, deployment("web", 3, 100)).await.expect(201);
    expect_placed(&admin, &path("web"), "west=3 by default").await;
    assert_eq!(
        atoll.run("what-if deploy/web --replicas +2"),
        "KIND         NAMESPACE   NAME   NOW      THEN     WHY NOT\n\
         Deployment   default     web    west=3   west=5   \n\
         Nothing was changed.\n"
    );
    assert_eq!(
        atoll.run("what-if scale deploy/web --replicas 3"),
        "Nothing would move.\nNothing was changed.\n"
    );
    let text = atoll.run("what-if deploy/web --replicas 1000");
    assert!(text.contains("of its replicas have no place"), "{text}");
    let answer: Value = serde_json::from_str(&atoll.run("what-if drain east -o json")).unwrap();
    assert_eq!((&answer["changes"], &answer["others"]), (&json!([]), &json!(0)));
    for (arguments, part) in [
        ("what-if drain", "the name of the cluster is missing"),
        ("what-if drain nowhere", "not found"),
        ("what-if deploy/web --replicas many", "is not a number of replicas"),
        ("what-if explode east", "is not a change"),
        ("what-if deploy/none --replicas 3", "not found"),
    ] {
        let errors = atoll.run_failing(arguments);
        assert!(errors.contains(part), "{arguments}: {errors}");
    }
    expect_placed(&admin, &path("web"), "west=3 by default").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn questions_need_the_rights_of_the_change() {
    let atoll = Setup::new().flag("--controllers", "workspace,namespace").tokens("asker,asker,1\n").start();
    let (admin, asker) = (atoll.admin(), atoll.admin().token("asker"));
    let scaled = json!({ "scale": { "group": "apps", "resource": "deployments", "namespace": "default", "name": "web", "replicas": 3 } });
    for change in [
        scaled.clone(),
        json!({ "drain": "east" }),
        json!({ "lose": "east" }),
        json!({ "policy": policy("Even") }),
    ] {
        asker.post("/services/what-if", change).await.expect_status(403, "Forbidden");
    }
    admin.post("/services/what-if", json!({})).await.expect_status(400, "BadRequest");
    admin.post("/services/what-if", json!({ "policy": policy("Odd") })).await.expect_status(422, "Invalid");
    let roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
    let rule = json!({ "apiGroups": ["apps"], "resources": ["deployments/scale"], "verbs": ["patch"] });
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": { "name": "scaler" }, "rules": [rule],
    });
    admin.post(&format!("{roles}/roles"), role).await.expect(201);
    let subject = json!({ "kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "asker" });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": { "name": "scaler" },
        "subjects": [subject],
        "roleRef": { "kind": "Role", "apiGroup": "rbac.authorization.k8s.io", "name": "scaler" },
    });
    admin.post(&format!("{roles}/rolebindings"), binding).await.expect(201);
    // The right is enough, but without a scheduler there is no answer.
    asker.post("/services/what-if", scaled).await.expect_status(503, "ServiceUnavailable");
}
