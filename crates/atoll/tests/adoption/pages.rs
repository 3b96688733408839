//! Lists of clusters have pages of 500 objects: those on the second page count like those on the first.

use atoll_testkit::{Client, RequestContent, names};
use http::Method;
use serde_json::{Value, json};

use crate::harness::{TestFleet, create, object};

const MANY: usize = 505;
/// A finalizer that delays deletion.
const HOLD: &str = "example.com/hold";

fn maps(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/configmaps")
}

/// Creates more ConfigMaps than fit on one page, over one connection.
async fn fill(below: &Client, namespace: &str, change: impl Fn(&str, &mut Value)) {
    let mut http = below.http1().await.unwrap();
    for number in 0..MANY {
        let name = format!("o-{number:03}");
        let mut map = object("v1", "ConfigMap", &name, json!({ "data": { "a": "1" } }));
        change(&name, &mut map);
        http.request(Method::POST, &maps(namespace), RequestContent::Json(map)).await.unwrap().expect(201);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn all_pages_are_listed_adopted_and_released() {
    let fleet = TestFleet::start();
    let (above, below) = (fleet.admin(), fleet.east.admin());
    let plane = above.get("/api/v1/namespaces/kube-system").await.expect(200)["metadata"]["uid"].clone();
    let control_plane_label = json!({ "atoll.dev/control-plane": plane });
    let marks = |name: &str| {
        json!({
            "atoll.dev/uid": format!("uid-{name}"), "atoll.dev/workspace": "root", "atoll.dev/source": format!("lost/{name}"),
        })
    };
    // A namespace that Atoll created for one that no longer exists, with orphans and a released object.
    let mut space = object("v1", "Namespace", "lost", json!({}));
    let locator = json!({ "controlPlane": plane, "workspace": "root", "namespace": "lost" }).to_string();
    space["metadata"]["labels"] = control_plane_label.clone();
    space["metadata"]["annotations"] = json!({ "atoll.dev/namespace": locator });
    create(&below, "/api/v1/namespaces", space).await;
    fill(&below, "lost", |name, map| {
        map["metadata"]["labels"] = control_plane_label.clone();
        map["metadata"]["annotations"] = marks(name);
        map["metadata"]["finalizers"] = json!([HOLD]);
    })
    .await;
    let mut released = object("v1", "ConfigMap", "zz-released", json!({ "data": { "a": "1" } }));
    released["metadata"]["labels"] = control_plane_label.clone();
    released["metadata"]["annotations"] = marks("zz-released");
    released["metadata"]["annotations"]["atoll.dev/released"] = "true".into();
    let released = create(&below, &maps("lost"), released).await;

    let listed = fleet.run("orphans list --cluster east -o name");
    assert_eq!(listed.lines().count(), MANY + 1, "all objects and their namespace");
    assert!(!listed.contains("zz-released"), "{listed}");
    let errors = fleet.run_failing("orphans prune --yes");
    // Orphans do not block the deletion of the namespace, but the released object does, and is kept.
    let stays = "Namespace lost stays: it is not empty: configmaps/zz-released";
    assert!(errors.contains(stays) && errors.contains("orphans list"), "{errors}");
    let left = below.get(&maps("lost")).await.expect(200);
    let is_going = |item: &&Value| item["metadata"]["deletionTimestamp"].is_string();
    assert_eq!(left["items"].as_array().unwrap().iter().filter(is_going).count(), MANY);
    assert_eq!(below.get(&format!("{}/zz-released", maps("lost"))).await.expect(200), released);
    let space = below.get("/api/v1/namespaces/lost").await.expect(200);
    assert_eq!(space["metadata"]["deletionTimestamp"], Value::Null);

    // The whole namespace is adopted.
    create(&below, "/api/v1/namespaces", object("v1", "Namespace", "many", json!({}))).await;
    fill(&below, "many", |_, _| ()).await;
    let printed = fleet.run("adopt configmaps --all -n many --cluster east");
    assert!(printed.contains(&format!("{MANY} objects are adopted")), "{printed}");
    assert_eq!(names(&above.get(&maps("many")).await.expect(200)).len(), MANY);

    // All objects are released.
    let printed = fleet.run("cluster remove east --keep-workloads --yes");
    assert!(printed.contains("has left the fleet"), "{printed}");
    let everywhere = "/api/v1/configmaps?labelSelector=atoll.dev%2Fcontrol-plane";
    assert_eq!(names(&below.get(everywhere).await.expect(200)), [""; 0]);
    let kept = below.get(&maps("many")).await.expect(200);
    let kept = kept["items"].as_array().unwrap();
    let is_kept = |item: &&Value| {
        item["metadata"]["name"].as_str().unwrap().starts_with("o-")
            && item["metadata"]["deletionTimestamp"].is_null()
    };
    assert_eq!(kept.iter().filter(is_kept).count(), MANY);
    assert!(kept.iter().all(|item| !item["metadata"].to_string().contains("atoll.dev/")));
}
