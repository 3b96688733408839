//! Released objects keep running, without any trace of Atoll.

use atoll_fleet::Placement;
use atoll_testkit::{Atoll, Client};
use serde_json::{Value, json};

use crate::harness::{TestFleet, create, object, wait_for, wait_for_record, wait_until_deleted};

const CORE: &str = "/api/v1/namespaces/shop";
const APPS: &str = "/apis/apps/v1/namespaces/shop";

/// Returns a Deployment that refers to these ConfigMaps.
fn deployment(name: &str, maps: &[&str]) -> Value {
    let volumes: Vec<Value> =
        maps.iter().map(|map| json!({ "name": map, "configMap": { "name": map } })).collect();
    let template = json!({
        "metadata": { "labels": { "app": name } },
        "spec": { "containers": [{ "name": "main", "image": "example/web:1" }], "volumes": volumes },
    });
    let spec = json!({ "replicas": 1, "selector": { "matchLabels": { "app": name } }, "template": template });
    object("apps/v1", "Deployment", name, json!({ "spec": spec }))
}

/// Asserts that an object has no trace of Atoll.
async fn assert_no_trace(below: &Client, path: &str) -> Value {
    let found = below.get(path).await.expect(200);
    let text = found["metadata"].to_string();
    // The controllers of the simulated cluster also have `atoll` in their manager's name, so the search is
    // for the syncer's.
    for trace in ["atoll.dev", r#""manager":"atoll""#, "atoll-adopt"] {
        assert!(!text.contains(trace), "{path}: {text}");
    }
    assert!(text.contains("managedFields"), "{path}: {text}");
    found
}

/// Returns the paths of ReplicaSets, and whether they carry marks copied from placed Deployments.
async fn marked_replica_sets(below: &Client) -> Vec<(String, bool)> {
    let list = below.get(&format!("{APPS}/replicasets")).await.expect(200);
    let sets = list["items"].as_array().unwrap().iter();
    sets.map(|set| {
        let path = format!("{APPS}/replicasets/{}", set["metadata"]["name"].as_str().unwrap());
        (path, set["metadata"]["annotations"]["atoll.dev/uid"].is_string())
    })
    .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn kept_workloads_of_a_removed_cluster_have_no_trace() {
    let fleet = TestFleet::start();
    let (above, below) = (fleet.admin(), fleet.east.admin());
    // One namespace existed before. `default` exists everywhere.
    for client in [&above, &below] {
        create(client, "/api/v1/namespaces", object("v1", "Namespace", "shop", json!({}))).await;
    }
    fleet.run("adopt namespace/shop --cluster east");
    create(&above, &format!("{APPS}/deployments"), deployment("web", &[])).await;
    fleet.run("place deploy/web -n shop --on east");
    let web = format!("{APPS}/deployments/web");
    wait_for("the workload is available", &above, &web, |found| found["status"]["availableReplicas"] == 1)
        .await;
    let maps = "/api/v1/namespaces/default/configmaps";
    create(&above, maps, object("v1", "ConfigMap", "a", json!({}))).await;
    fleet.run("place cm/a --on east");
    wait_for("the object exists below", &below, &format!("{maps}/a"), |_| true).await;
    let sets = marked_replica_sets(&below).await;
    assert!(sets.len() == 1 && sets[0].1, "{sets:?}");
    let pods = below.get(&format!("{CORE}/pods")).await.expect(200);

    fleet.run("cluster remove east --keep-workloads --yes");
    assert_no_trace(&below, &web).await;
    assert_eq!(marked_replica_sets(&below).await, [(sets[0].0.clone(), false)]);
    let set = below.get(&sets[0].0).await.expect(200);
    assert!(!set["metadata"].to_string().contains("atoll.dev"), "{set}");
    for space in ["shop", "default"] {
        let found = below.get(&format!("/api/v1/namespaces/{space}")).await.expect(200);
        assert!(!found["metadata"].to_string().contains("atoll.dev"), "{found}");
    }
    let pods_after = below.get(&format!("{CORE}/pods")).await.expect(200);
    assert_eq!(pods_after["items"][0]["metadata"]["uid"], pods["items"][0]["metadata"]["uid"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn namespaces_of_a_removed_cluster_lose_their_locator() {
    let fleet = TestFleet::start();
    let (above, below) = (fleet.admin(), fleet.east.admin());
    create(&below, "/api/v1/namespaces", object("v1", "Namespace", "legacy", json!({}))).await;
    fleet.run("adopt namespace/legacy --into shop --cluster east");
    for (namespace, there) in [("shop", "legacy"), ("default", "default")] {
        let maps = format!("/api/v1/namespaces/{namespace}/configmaps");
        create(&above, &maps, object("v1", "ConfigMap", "a", json!({}))).await;
        fleet.run(&format!("place cm/a -n {namespace} --on east"));
        wait_for(
            "the object exists below",
            &below,
            &format!("/api/v1/namespaces/{there}/configmaps/a"),
            |_| true,
        )
        .await;
    }
    fleet.run("cluster remove east --yes");
    for space in ["legacy", "default"] {
        let found = below.get(&format!("/api/v1/namespaces/{space}")).await.expect(200);
        assert!(!found["metadata"].to_string().contains("atoll.dev"), "{found}");
        assert_eq!(below.get(&format!("/api/v1/namespaces/{space}/configmaps/a")).await.status, 404);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn released_workload_keeps_running_without_a_trace() {
    let fleet = TestFleet::start();
    let (above, below) = (fleet.admin(), fleet.east.admin());
    create(&above, "/api/v1/namespaces", object("v1", "Namespace", "shop", json!({}))).await;
    for name in ["own", "shared"] {
        let map = object("v1", "ConfigMap", name, json!({ "data": { "a": "1" } }));
        create(&above, &format!("{CORE}/configmaps"), map).await;
    }
    for (name, maps) in [("web", &["own", "shared"][..]), ("store", &["shared"])] {
        create(&above, &format!("{APPS}/deployments"), deployment(name, maps)).await;
        fleet.run(&format!("place deploy/{name} -n shop --on east"));
        let path = format!("{APPS}/deployments/{name}");
        wait_for("the workload is available", &above, &path, |found| {
            found["status"]["availableReplicas"] == 1
        })
        .await;
    }
    let (web, store) = (format!("{APPS}/deployments/web"), format!("{APPS}/deployments/store"));
    let mut owned = object("v1", "ConfigMap", "owned", json!({ "data": { "a": "1" } }));
    let uid = above.get(&web).await.expect(200)["metadata"]["uid"].clone();
    owned["metadata"]["ownerReferences"] =
        json!([{ "apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": uid }]);
    create(&above, &format!("{CORE}/configmaps"), owned).await;
    wait_for("the owned object exists below", &below, &format!("{CORE}/configmaps/owned"), |_| true).await;
    let sets = marked_replica_sets(&below).await;
    let before = below.get(&web).await.expect(200);
    let pods = below.get(&format!("{CORE}/pods?labelSelector=app%3Dweb")).await.expect(200);

    let printed = fleet.run("release deploy/web -n shop");
    for words in [
        "ConfigMap shop/own is released as well: only Deployment shop/web needs it.\n",
        "ConfigMap shop/owned is released as well: only Deployment shop/web needs it.\n",
        "Deployment shop/web keeps running in east and is no longer managed by Atoll.\n",
        "Deployment shop/web stays in root; delete it there if it is not needed, or place it on other clusters.\n",
    ] {
        assert!(printed.contains(words), "{printed}");
    }
    let after = assert_no_trace(&below, &web).await;
    assert_no_trace(&below, &format!("{CORE}/configmaps/own")).await;
    assert_no_trace(&below, &format!("{CORE}/configmaps/owned")).await;
    assert_eq!(after["metadata"]["uid"], before["metadata"]["uid"]);
    assert_eq!(after["spec"], before["spec"]);
    // Owned objects have no trace either, and they are the same objects as before.
    for (path, is_marked) in &sets {
        let is_its = path.contains("/web-");
        let set = below.get(path).await.expect(200);
        assert!(is_marked, "{path} must have had a copied mark");
        assert_eq!(set["metadata"]["annotations"].to_string().contains("atoll.dev"), !is_its, "{set}");
    }
    let pods_after = below.get(&format!("{CORE}/pods?labelSelector=app%3Dweb")).await.expect(200);
    assert_eq!(pods_after["items"][0]["metadata"]["uid"], pods["items"][0]["metadata"]["uid"]);
    for path in [&web, &format!("{CORE}/configmaps/own")] {
        let placement = above.get(&format!("{path}/placement")).await.expect(200);
        assert_eq!(
            (&placement["spec"]["clusters"], &placement["status"]["leaving"]),
            (&json!([]), &Value::Null),
            "{path}"
        );
    }
    // Shared dependents and the namespace stay managed.
    let shared = below.get(&format!("{CORE}/configmaps/shared")).await.expect(200);
    assert!(shared["metadata"]["labels"]["atoll.dev/control-plane"].is_string());
    let space = below.get("/api/v1/namespaces/shop").await.expect(200);
    assert!(space["metadata"]["annotations"]["atoll.dev/namespace"].is_string());

    // Changes above are no longer applied to the released object. Other objects still follow.
    above.merge(&web, json!({ "spec": { "replicas": 4 } })).await.expect(200);
    above.merge(&store, json!({ "spec": { "replicas": 2 } })).await.expect(200);
    wait_for("the change of the other Deployment is applied below", &below, &store, |store| {
        store["spec"]["replicas"] == 2
    })
    .await;
    assert_eq!(below.get(&web).await.expect(200)["spec"], before["spec"]);

    // Releasing the last object also removes the marks of the namespace. With `--delete` the object above is
    // deleted.
    let printed = fleet.run("release deploy/store -n shop --delete");
    assert!(printed.contains("Namespace shop of east has no more objects of Atoll.\n"), "{printed}");
    assert!(printed.ends_with("Deployment shop/store was deleted in root.\n"), "{printed}");
    wait_until_deleted(&above, &store).await;
    assert_no_trace(&below, &store).await;
    assert_no_trace(&below, &format!("{CORE}/configmaps/shared")).await;
    let space = below.get("/api/v1/namespaces/shop").await.expect(200);
    assert!(!space["metadata"].to_string().contains("atoll"), "{space}");

    let errors = fleet.run_failing("release deploy/web -n shop");
    assert!(
        errors.contains("Deployment shop/web is placed on no cluster")
            && errors.contains("release deployment/web --namespace shop --cluster east"),
        "{errors}"
    );
    let errors = fleet.run_failing("release deploy/web -n shop --cluster east");
    assert!(errors.contains("Deployment shop/web does not exist in east"), "{errors}");
}

/// A dependent that is still needed stays managed. When it is no longer needed, it is released instead of
/// deleted, because a released object refers to it.
async fn assert_dependents_of_released_objects_are_kept(mut fleet: TestFleet) {
    let (above, below) = (fleet.admin(), fleet.east.admin());
    create(&above, "/api/v1/namespaces", object("v1", "Namespace", "shop", json!({}))).await;
    for name in ["shared", "placed", "other"] {
        let map = object("v1", "ConfigMap", name, json!({ "data": { "a": "1" } }));
        create(&above, &format!("{CORE}/configmaps"), map).await;
    }
    fleet.run("place cm/placed -n shop --on east");
    for (name, maps) in [("web", &["shared", "placed"][..]), ("store", &["shared", "other"])] {
        create(&above, &format!("{APPS}/deployments"), deployment(name, maps)).await;
        fleet.run(&format!("place deploy/{name} -n shop --on east"));
        let path = format!("{APPS}/deployments/{name}");
        wait_for("the workload is available", &above, &path, |found| {
            found["status"]["availableReplicas"] == 1
        })
        .await;
    }
    let at = |name: &str| format!("{CORE}/configmaps/{name}");
    let printed = fleet.run("release deploy/web -n shop");
    for name in ["shared", "placed"] {
        let words = format!(
            "ConfigMap shop/{name} stays managed, because other objects there need it; when it is removed, it is released in east instead of being deleted.\n"
        );
        assert!(printed.contains(&words), "{printed}");
        let kept = below.get(&at(name)).await.expect(200);
        assert_eq!(kept["metadata"]["annotations"]["atoll.dev/keep"], "deployments.apps/web", "{kept}");
    }
    // Changes above are still applied to it, and restarts do not change that.
    above.merge(&at("shared"), json!({ "data": { "a": "2" } })).await.expect(200);
    let is_changed = |map: &Value| map["data"]["a"] == "2";
    let changed = wait_for("the change is applied below", &below, &at("shared"), is_changed).await;
    assert_eq!(changed["metadata"]["annotations"]["atoll.dev/keep"], "deployments.apps/web", "{changed}");
    fleet.above.kill();
    fleet.above.restart();
    let above = fleet.admin();
    above.delete(&format!("{APPS}/deployments/store")).await.expect(200);
    above.delete(&at("placed")).await.expect(200);
    wait_until_deleted(&below, &format!("{APPS}/deployments/store")).await;
    // A dependent without a released referrer is deleted as usual.
    wait_until_deleted(&below, &at("other")).await;
    wait_until_deleted(&above, &at("placed")).await;
    let placement = format!("{}/placement", at("shared"));
    wait_for("the dependent is released", &above, &placement, |placement| {
        placement["spec"]["clusters"] == json!([]) && placement["status"] == Value::Null
    })
    .await;
    let shared = assert_no_trace(&below, &at("shared")).await;
    assert_eq!(shared["data"], json!({ "a": "2" }));
    assert_eq!(assert_no_trace(&below, &at("placed")).await["data"], json!({ "a": "1" }));
    assert_eq!(fleet.run("orphans list"), "No orphans: all marked objects exist here.\n");
    // It is not deleted with the namespace either.
    above.delete("/api/v1/namespaces/shop").await.expect(200);
    wait_until_deleted(&above, "/api/v1/namespaces/shop").await;
    for path in [at("shared"), at("placed"), format!("{APPS}/deployments/web")] {
        let found = assert_no_trace(&below, &path).await;
        assert_eq!(found["metadata"]["deletionTimestamp"], Value::Null, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn dependents_of_released_objects_are_kept() {
    assert_dependents_of_released_objects_are_kept(TestFleet::start()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dependents_of_released_objects_are_kept_by_an_agent() {
    assert_dependents_of_released_objects_are_kept(TestFleet::with_agent()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn adopting_again_ends_the_protection_of_dependents() {
    let fleet = TestFleet::start();
    let (above, below) = (fleet.admin(), fleet.east.admin());
    create(&above, "/api/v1/namespaces", object("v1", "Namespace", "shop", json!({}))).await;
    let map = object("v1", "ConfigMap", "shared", json!({ "data": { "a": "1" } }));
    let path = format!("{CORE}/configmaps/shared");
    create(&above, &format!("{CORE}/configmaps"), map).await;
    for name in ["web", "store"] {
        create(&above, &format!("{APPS}/deployments"), deployment(name, &["shared"])).await;
        fleet.run(&format!("place deploy/{name} -n shop --on east"));
        let path = format!("{APPS}/deployments/{name}");
        wait_for("the workload is available", &above, &path, |found| {
            found["status"]["availableReplicas"] == 1
        })
        .await;
    }
    fleet.run("release deploy/web -n shop");
    let kept = below.get(&path).await.expect(200);
    assert_eq!(kept["metadata"]["annotations"]["atoll.dev/keep"], "deployments.apps/web");
    fleet.run("adopt deploy/web -n shop --cluster east");
    wait_for("the dependent is no longer protected", &below, &path, |map| {
        map["metadata"]["annotations"]["atoll.dev/keep"] == Value::Null
    })
    .await;
    for name in ["web", "store"] {
        above.delete(&format!("{APPS}/deployments/{name}")).await.expect(200);
    }
    wait_until_deleted(&below, &path).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_can_be_adopted_and_released_repeatedly() {
    let fleet = TestFleet::start();
    let (above, below) = (fleet.admin(), fleet.east.admin());
    create(&below, "/api/v1/namespaces", object("v1", "Namespace", "shop", json!({}))).await;
    let path = format!("{APPS}/deployments/web");
    create(&below, &format!("{APPS}/deployments"), deployment("web", &[])).await;
    let before =
        wait_for("the workload is available", &below, &path, |web| web["status"]["availableReplicas"] == 1)
            .await;
    for _ in 0..2 {
        fleet.run("adopt deploy/web -n shop --cluster east");
        let web = above.get(&path).await.expect(200);
        wait_for_record(&above, "shop", &web, |status| status["state"] == "Applied").await;
        // While paused, nothing is released.
        fleet.run("pause --cluster east --reason storm");
        let errors = fleet.run_failing("release deploy/web -n shop");
        assert!(errors.contains("is paused") && errors.contains("storm"), "{errors}");
        let errors = fleet.run_failing("adopt cm/kube-root-ca.crt -n shop --cluster east");
        assert!(errors.contains("created by every cluster for itself"), "{errors}");
        let marked = below.get(&path).await.expect(200);
        assert_eq!(marked["metadata"]["annotations"]["atoll.dev/released"], Value::Null);
        fleet.run("resume --cluster east");
        fleet.run("release deploy/web -n shop --delete");
        wait_until_deleted(&above, &path).await;
        let after = assert_no_trace(&below, &path).await;
        assert_eq!(after["metadata"]["uid"], before["metadata"]["uid"]);
        assert_eq!(after["spec"], before["spec"]);
        let space = below.get("/api/v1/namespaces/shop").await.expect(200);
        assert!(!space["metadata"].to_string().contains("atoll"), "{space}");
    }
}

/// The scheduler does not place a workload again where it was released, and the other clusters keep theirs.
#[tokio::test(flavor = "multi_thread")]
async fn workload_released_in_one_of_its_clusters_is_not_placed_there_again() {
    let fleet = TestFleet::start();
    let west = Atoll::simulate(&["--nodes", "2"]);
    fleet.run(&format!("cluster join west --kubeconfig {}", west.kubeconfig().display()));
    let (above, below) = (fleet.admin(), fleet.east.admin());
    create(&above, "/api/v1/namespaces", object("v1", "Namespace", "shop", json!({}))).await;
    let mut web = deployment("web", &[]);
    web["spec"]["replicas"] = 3.into();
    web["metadata"]["annotations"] = json!({ "atoll.dev/clusters": "east=2,west=1" });
    create(&above, &format!("{APPS}/deployments"), web).await;
    let web = format!("{APPS}/deployments/web");
    // All replicas are on one cluster while the other one is not ready yet.
    wait_for("the workload is divided and available", &above, &web, |web| {
        let placement = Placement::of(web);
        let is_divided = placement.share("east").is_some_and(|share| share.replicas == Some(2))
            && placement.share("west").is_some_and(|share| share.replicas == Some(1));
        is_divided && placement.phase.is_empty() && web["status"]["availableReplicas"] == 3
    })
    .await;
    let printed = fleet.run("release deploy/web -n shop --cluster east");
    assert!(printed.contains("keeps running in east and is no longer managed by Atoll"), "{printed}");
    wait_for("the scheduler has it again", &above, &web, |web| {
        let placement = Placement::of(web);
        let shares: Vec<(&str, Option<i64>)> =
            placement.clusters.iter().map(|share| (share.name.as_str(), share.replicas)).collect();
        placement.by == "annotation" && shares == [("west", Some(1))] && placement.leaving.is_empty()
    })
    .await;
    let released = above.get(&web).await.expect(200);
    assert_eq!(released["metadata"]["annotations"]["atoll.dev/clusters"], "west==1");
    assert_eq!(assert_no_trace(&below, &web).await["spec"]["replicas"], 2);
    // All of it is released, and stays above.
    fleet.run("release deploy/web -n shop");
    let released = above.get(&web).await.expect(200);
    assert_eq!(released["metadata"]["annotations"]["atoll.dev/clusters"], "none");
    assert_no_trace(&west.admin(), &web).await;
}

/// Starts a fleet with a Deployment on its first cluster, and returns a second cluster that joins later.
async fn with_second_cluster(name: &str) -> (TestFleet, Atoll) {
    let fleet = TestFleet::start();
    let above = fleet.admin();
    create(&above, "/api/v1/namespaces", object("v1", "Namespace", "shop", json!({}))).await;
    create(&above, &format!("{APPS}/deployments"), deployment(name, &[])).await;
    wait_for("the workload is available", &above, &format!("{APPS}/deployments/{name}"), |found| {
        found["status"]["availableReplicas"] == 1
    })
    .await;
    let west = Atoll::simulate(&["--nodes", "2"]);
    fleet.run(&format!("cluster join west --kubeconfig {}", west.kubeconfig().display()));
    (fleet, west)
}

#[tokio::test(flavor = "multi_thread")]
async fn workloads_that_a_removed_cluster_keeps_are_not_placed_elsewhere() {
    let (fleet, _west) = with_second_cluster("kept").await;
    let kept = format!("{APPS}/deployments/kept");
    fleet.run("cluster remove east --keep-workloads --yes");
    assert_no_trace(&fleet.east.admin(), &kept).await;
    let object = fleet.admin().get(&kept).await.expect(200);
    assert_eq!(object["metadata"]["annotations"]["atoll.dev/clusters"], "none");
    assert!(Placement::of(&object).clusters.is_empty(), "{object}");
}

#[tokio::test(flavor = "multi_thread")]
async fn workloads_of_a_removed_cluster_are_placed_elsewhere() {
    let (fleet, _west) = with_second_cluster("moved").await;
    let (above, moved) = (fleet.admin(), format!("{APPS}/deployments/moved"));
    fleet.run("cluster remove east --yes");
    wait_for("it is on the other cluster", &above, &moved, |moved| {
        let placement = Placement::of(moved);
        placement.clusters.iter().map(|share| share.name.as_str()).eq(["west"])
            && moved["status"]["availableReplicas"] == 1
    })
    .await;
}
