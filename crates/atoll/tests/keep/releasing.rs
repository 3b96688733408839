//! What is let go runs on, and nothing says that it was ever Atoll's.

use serde_json::{Value, json};

use crate::support::access::Access;
use crate::world::{World, becomes, create, goes, object, record};

const CORE: &str = "/api/v1/namespaces/shop";
const APPS: &str = "/apis/apps/v1/namespaces/shop";

/// A Deployment that uses a ConfigMap of its own and one that others use, too.
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

/// Fails if anything there is or was ours.
async fn is_nobodys(below: &Access, path: &str) -> Value {
    let found = below.get(path).await.expect(200);
    let text = found["metadata"].to_string();
    // The simulated cluster's own controllers are Atoll's, too.
    for trace in ["atoll.dev", r#""manager":"atoll""#, "atoll-adopt"] {
        assert!(!text.contains(trace), "{path}: {text}");
    }
    assert!(text.contains("managedFields"), "{path}: {text}");
    found
}

/// Where ReplicaSets are, and whether they carry what was copied from our Deployments.
async fn revisions(below: &Access) -> Vec<(String, bool)> {
    let list = below.get(&format!("{APPS}/replicasets")).await.expect(200);
    let sets = list["items"].as_array().unwrap().iter();
    sets.map(|set| {
        let path = format!("{APPS}/replicasets/{}", set["metadata"]["name"].as_str().unwrap());
        (path, set["metadata"]["annotations"]["atoll.dev/uid"].is_string())
    })
    .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_removed_cluster_keeps_has_no_trace() {
    let world = World::start();
    let (above, below) = (world.admin(), world.east.admin());
    // One namespace was there before; `default` is everywhere.
    for access in [&above, &below] {
        create(access, "/api/v1/namespaces", object("v1", "Namespace", "shop", json!({}))).await;
    }
    world.says("adopt namespace/shop --cluster east");
    create(&above, &format!("{APPS}/deployments"), deployment("web", &[])).await;
    world.says("place deploy/web -n shop --on east");
    let web = format!("{APPS}/deployments/web");
    becomes("it runs", &above, &web, |found| found["status"]["availableReplicas"] == 1).await;
    let maps = "/api/v1/namespaces/default/configmaps";
    create(&above, maps, object("v1", "ConfigMap", "a", json!({}))).await;
    world.says("place cm/a --on east");
    becomes("it arrives", &below, &format!("{maps}/a"), |_| true).await;
    let sets = revisions(&below).await;
    assert!(sets.len() == 1 && sets[0].1, "{sets:?}");
    let pods = below.get(&format!("{CORE}/pods")).await.expect(200);

    world.says("cluster remove east --keep-workloads --yes");
    is_nobodys(&below, &web).await;
    assert_eq!(revisions(&below).await, [(sets[0].0.clone(), false)]);
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
async fn namespaces_of_a_removed_cluster_stand_for_nothing() {
    let world = World::start();
    let (above, below) = (world.admin(), world.east.admin());
    create(&below, "/api/v1/namespaces", object("v1", "Namespace", "legacy", json!({}))).await;
    world.says("adopt namespace/legacy --into shop --cluster east");
    for (namespace, there) in [("shop", "legacy"), ("default", "default")] {
        let maps = format!("/api/v1/namespaces/{namespace}/configmaps");
        create(&above, &maps, object("v1", "ConfigMap", "a", json!({}))).await;
        world.says(&format!("place cm/a -n {namespace} --on east"));
        becomes("it arrives", &below, &format!("/api/v1/namespaces/{there}/configmaps/a"), |_| true).await;
    }
    world.says("cluster remove east --yes");
    for space in ["legacy", "default"] {
        let found = below.get(&format!("/api/v1/namespaces/{space}")).await.expect(200);
        assert!(!found["metadata"].to_string().contains("atoll.dev"), "{found}");
        assert_eq!(below.get(&format!("/api/v1/namespaces/{space}/configmaps/a")).await.status, 404);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_let_go_runs_on_without_a_trace() {
    let world = World::start();
    let (above, below) = (world.admin(), world.east.admin());
    create(&above, "/api/v1/namespaces", object("v1", "Namespace", "shop", json!({}))).await;
    for name in ["own", "shared"] {
        let map = object("v1", "ConfigMap", name, json!({ "data": { "a": "1" } }));
        create(&above, &format!("{CORE}/configmaps"), map).await;
    }
    for (name, maps) in [("web", &["own", "shared"][..]), ("store", &["shared"])] {
        create(&above, &format!("{APPS}/deployments"), deployment(name, maps)).await;
        world.says(&format!("place deploy/{name} -n shop --on east"));
        let path = format!("{APPS}/deployments/{name}");
        becomes("it runs", &above, &path, |found| found["status"]["availableReplicas"] == 1).await;
    }
    let (web, store) = (format!("{APPS}/deployments/web"), format!("{APPS}/deployments/store"));
    let sets = revisions(&below).await;
    let before = below.get(&web).await.expect(200);
    let pods = below.get(&format!("{CORE}/pods?labelSelector=app%3Dweb")).await.expect(200);

    let said = world.says("release deploy/web -n shop");
    for words in [
        "ConfigMap shop/own is let go as well: only Deployment shop/web refers to it.\n",
        "Deployment shop/web runs on in east, and is no longer Atoll's.\n",
        "Deployment shop/web stays in root; delete it there if it is not needed, or place it elsewhere.\n",
    ] {
        assert!(said.contains(words), "{said}");
    }
    let after = is_nobodys(&below, &web).await;
    is_nobodys(&below, &format!("{CORE}/configmaps/own")).await;
    assert_eq!(after["metadata"]["uid"], before["metadata"]["uid"]);
    assert_eq!(after["spec"], before["spec"]);
    // Nor does anything say so that was made of it; and it is what was there before.
    for (path, is_ours) in &sets {
        let is_its = path.contains("/web-");
        let set = below.get(path).await.expect(200);
        assert!(is_ours, "that was copied to {path}");
        assert_eq!(set["metadata"]["annotations"].to_string().contains("atoll.dev"), !is_its, "{set}");
    }
    let pods_after = below.get(&format!("{CORE}/pods?labelSelector=app%3Dweb")).await.expect(200);
    assert_eq!(pods_after["items"][0]["metadata"]["uid"], pods["items"][0]["metadata"]["uid"]);
    for path in [&web, &format!("{CORE}/configmaps/own")] {
        let placement = above.get(&format!("{path}/placement")).await.expect(200);
        assert_eq!(
            (&placement["spec"]["clusters"], &placement["status"]),
            (&json!([]), &Value::Null),
            "{path}"
        );
    }
    // What others need stays ours, and so does the namespace.
    let shared = below.get(&format!("{CORE}/configmaps/shared")).await.expect(200);
    assert!(shared["metadata"]["labels"]["atoll.dev/control-plane"].is_string());
    let space = below.get("/api/v1/namespaces/shop").await.expect(200);
    assert!(space["metadata"]["annotations"]["atoll.dev/namespace"].is_string());

    // What is changed here does not arrive there any more; what was not let go still does.
    above.merge(&web, json!({ "spec": { "replicas": 4 } })).await.expect(200);
    above.merge(&store, json!({ "spec": { "replicas": 2 } })).await.expect(200);
    becomes("the other follows", &below, &store, |store| store["spec"]["replicas"] == 2).await;
    assert_eq!(below.get(&web).await.expect(200)["spec"], before["spec"]);

    // The last one that goes takes the marks of the namespace along; and here it goes, too.
    let said = world.says("release deploy/store -n shop --delete");
    assert!(said.contains("Namespace shop of east has nothing more of Atoll's.\n"), "{said}");
    assert!(said.ends_with("Deployment shop/store is deleted in root.\n"), "{said}");
    goes(&above, &store).await;
    is_nobodys(&below, &store).await;
    is_nobodys(&below, &format!("{CORE}/configmaps/shared")).await;
    let space = below.get("/api/v1/namespaces/shop").await.expect(200);
    assert!(!space["metadata"].to_string().contains("atoll"), "{space}");

    let errors = world.refuses("release deploy/web -n shop");
    assert!(
        errors.contains("Deployment shop/web is placed on no cluster")
            && errors.contains("release deployment/web --namespace shop --cluster east"),
        "{errors}"
    );
    let errors = world.refuses("release deploy/web -n shop --cluster east");
    assert!(errors.contains("Deployment shop/web is not on east"), "{errors}");
}

/// What others need, too, stays Atoll's; when those go, it is not taken away from under what was let go.
async fn stays_with_what_was_let_go(mut world: World) {
    let (above, below) = (world.admin(), world.east.admin());
    create(&above, "/api/v1/namespaces", object("v1", "Namespace", "shop", json!({}))).await;
    for name in ["shared", "placed", "other"] {
        let map = object("v1", "ConfigMap", name, json!({ "data": { "a": "1" } }));
        create(&above, &format!("{CORE}/configmaps"), map).await;
    }
    world.says("place cm/placed -n shop --on east");
    for (name, maps) in [("web", &["shared", "placed"][..]), ("store", &["shared", "other"])] {
        create(&above, &format!("{APPS}/deployments"), deployment(name, maps)).await;
        world.says(&format!("place deploy/{name} -n shop --on east"));
        let path = format!("{APPS}/deployments/{name}");
        becomes("it runs", &above, &path, |found| found["status"]["availableReplicas"] == 1).await;
    }
    let at = |name: &str| format!("{CORE}/configmaps/{name}");
    let said = world.says("release deploy/web -n shop");
    for name in ["shared", "placed"] {
        let words = format!(
            "ConfigMap shop/{name} stays Atoll's, for it is needed there besides; when it goes, it is let go in east and not deleted.\n"
        );
        assert!(said.contains(&words), "{said}");
        let kept = below.get(&at(name)).await.expect(200);
        assert_eq!(kept["metadata"]["annotations"]["atoll.dev/keep"], "deployments.apps/web", "{kept}");
    }
    // It still follows what is said here, and whatever is restarted changes nothing.
    above.merge(&at("shared"), json!({ "data": { "a": "2" } })).await.expect(200);
    let is_changed = |map: &Value| map["data"]["a"] == "2";
    let changed = becomes("it follows", &below, &at("shared"), is_changed).await;
    assert_eq!(changed["metadata"]["annotations"]["atoll.dev/keep"], "deployments.apps/web", "{changed}");
    world.above.kill();
    world.above.restart();
    let above = world.admin();
    above.delete(&format!("{APPS}/deployments/store")).await.expect(200);
    above.delete(&at("placed")).await.expect(200);
    goes(&below, &format!("{APPS}/deployments/store")).await;
    // What nothing that was let go refers to goes as ever.
    goes(&below, &at("other")).await;
    goes(&above, &at("placed")).await;
    let placement = format!("{}/placement", at("shared"));
    becomes("it is let go", &above, &placement, |placement| {
        placement["spec"]["clusters"] == json!([]) && placement["status"] == Value::Null
    })
    .await;
    let shared = is_nobodys(&below, &at("shared")).await;
    assert_eq!(shared["data"], json!({ "a": "2" }));
    assert_eq!(is_nobodys(&below, &at("placed")).await["data"], json!({ "a": "1" }));
    assert_eq!(world.says("orphans list"), "No orphans: everything that carries our mark is known here.\n");
    // Nor does it go with the namespace.
    above.delete("/api/v1/namespaces/shop").await.expect(200);
    goes(&above, "/api/v1/namespaces/shop").await;
    for path in [at("shared"), at("placed"), format!("{APPS}/deployments/web")] {
        let found = is_nobodys(&below, &path).await;
        assert_eq!(found["metadata"]["deletionTimestamp"], Value::Null, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_others_need_as_well_stays_with_what_was_let_go() {
    stays_with_what_was_let_go(World::start()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn it_stays_whoever_syncs() {
    stays_with_what_was_let_go(World::by_hand()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_adopted_again_holds_nothing() {
    let world = World::start();
    let (above, below) = (world.admin(), world.east.admin());
    create(&above, "/api/v1/namespaces", object("v1", "Namespace", "shop", json!({}))).await;
    let map = object("v1", "ConfigMap", "shared", json!({ "data": { "a": "1" } }));
    let path = format!("{CORE}/configmaps/shared");
    create(&above, &format!("{CORE}/configmaps"), map).await;
    for name in ["web", "store"] {
        create(&above, &format!("{APPS}/deployments"), deployment(name, &["shared"])).await;
        world.says(&format!("place deploy/{name} -n shop --on east"));
        let path = format!("{APPS}/deployments/{name}");
        becomes("it runs", &above, &path, |found| found["status"]["availableReplicas"] == 1).await;
    }
    world.says("release deploy/web -n shop");
    let kept = below.get(&path).await.expect(200);
    assert_eq!(kept["metadata"]["annotations"]["atoll.dev/keep"], "deployments.apps/web");
    world.says("adopt deploy/web -n shop --cluster east");
    becomes("it is held no more", &below, &path, |map| {
        map["metadata"]["annotations"]["atoll.dev/keep"] == Value::Null
    })
    .await;
    for name in ["web", "store"] {
        above.delete(&format!("{APPS}/deployments/{name}")).await.expect(200);
    }
    goes(&below, &path).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_adopted_is_let_go_and_adopted_again() {
    let world = World::start();
    let (above, below) = (world.admin(), world.east.admin());
    create(&below, "/api/v1/namespaces", object("v1", "Namespace", "shop", json!({}))).await;
    let path = format!("{APPS}/deployments/web");
    create(&below, &format!("{APPS}/deployments"), deployment("web", &[])).await;
    let before = becomes("it runs", &below, &path, |web| web["status"]["availableReplicas"] == 1).await;
    for _ in 0..2 {
        world.says("adopt deploy/web -n shop --cluster east");
        let web = above.get(&path).await.expect(200);
        record(&above, "shop", &web, |status| status["state"] == "Applied").await;
        // While nothing may be moved, nothing is let go.
        world.says("pause --cluster east --reason storm");
        let errors = world.refuses("release deploy/web -n shop");
        assert!(errors.contains("is paused") && errors.contains("storm"), "{errors}");
        let errors = world.refuses("adopt cm/kube-root-ca.crt -n shop --cluster east");
        assert!(errors.contains("every cluster makes for itself"), "{errors}");
        let marked = below.get(&path).await.expect(200);
        assert_eq!(marked["metadata"]["annotations"]["atoll.dev/released"], Value::Null);
        world.says("resume --cluster east");
        world.says("release deploy/web -n shop --delete");
        goes(&above, &path).await;
        let after = is_nobodys(&below, &path).await;
        assert_eq!(after["metadata"]["uid"], before["metadata"]["uid"]);
        assert_eq!(after["spec"], before["spec"]);
        let space = below.get("/api/v1/namespaces/shop").await.expect(200);
        assert!(!space["metadata"].to_string().contains("atoll"), "{space}");
    }
}
