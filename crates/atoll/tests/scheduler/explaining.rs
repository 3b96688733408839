//! `atoll explain`: why a workload is where it is, by cluster.

use atoll_testkit::{Client, Setup};
use serde_json::{Value, json};

use crate::fleet::{DEPLOYMENTS, deployment, expect_placed, join_with, path, scale, with_clusters};

async fn explanation(client: &Client, path: &str) -> Value {
    let placement = client.get(&format!("{path}/placement?explain=true")).await.expect(200);
    placement["status"]["explanation"].clone()
}

fn cluster<'a>(explanation: &'a Value, name: &str) -> &'a Value {
    let clusters = explanation["clusters"].as_array().unwrap();
    clusters.iter().find(|cluster| cluster["name"] == name).unwrap_or(&Value::Null)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_cluster_is_explained_with_the_last_decisions() {
    let (atoll, admin) = with_clusters(&[("east", 4), ("west", 16)]).await;
    join_with(&admin, "north", 64, json!({ "unschedulable": true })).await;
    let policy = json!({
        "apiVersion": "atoll.dev/v1alpha1", "kind": "PlacementPolicy", "metadata": { "name": "spread" },
        "spec": { "replicas": { "division": "Even" } },
    });
    let policies = "/apis/atoll.dev/v1alpha1/namespaces/default/placementpolicies";
    admin.post(policies, policy).await.expect(201);
    admin.post(DEPLOYMENTS, deployment("web", 4, 100)).await.expect(201);
    let web = path("web");
    expect_placed(&admin, &web, "east=2 west=2 by placementpolicy/spread").await;
    for replicas in [6, 8] {
        scale(&admin, &web, replicas).await;
        let half = replicas / 2;
        let placed =
            expect_placed(&admin, &web, &format!("east={half} west={half} by placementpolicy/spread")).await;
        assert!(atoll_fleet::Placement::of(&placed).decisions_size() <= 1024);
    }
    let found = explanation(&admin, &web).await;
    assert_eq!(found["by"], "placementpolicy/spread");
    assert_eq!((&found["replicas"], &found["recomputed"]), (&json!(8), &json!(true)));
    assert_eq!(found["policies"], json!([{ "policy": "placementpolicy/spread", "applies": true }]));
    let east = cluster(&found, "east");
    assert_eq!((&east["chosen"], &east["replicas"]), (&json!(true), &json!(4)));
    assert!(east["fits"].as_i64() >= Some(4), "{east}");
    let names: Vec<&str> =
        east["scores"].as_array().unwrap().iter().filter_map(|score| score["name"].as_str()).collect();
    assert_eq!(names.first(), Some(&"Present"), "{east}");
    assert!(names.contains(&"Room"), "{east}");
    let north = cluster(&found, "north");
    assert_eq!((&north["chosen"], &north["code"]), (&json!(false), &json!("Cordoned")));
    let placement = admin.get(&format!("{web}/placement")).await.expect(200);
    let decisions = placement["spec"]["decisions"].as_array().unwrap();
    let reasons: Vec<&str> = decisions.iter().filter_map(|one| one["reason"].as_str()).collect();
    assert_eq!(
        reasons,
        [
            "placed: +east=2, +west=2",
            "scaled from 4 to 6: east 2 to 3, west 2 to 3",
            "scaled from 6 to 8: east 3 to 4, west 3 to 4",
        ]
    );
    assert!(placement["status"]["explanation"].is_null(), "only on request");
    let text = atoll.run("explain deploy/web");
    for part in [
        "Deployment default/web is placed on east (4) and west (4) by placementpolicy/spread.\n",
        "is cordoned; open it with: atoll cluster uncordon north\n",
        "east      Present     4       has a share now",
        "scaled from 6 to 8: east 3 to 4, west 3 to 4\n",
    ] {
        assert!(text.contains(part), "{part:?} is not in:\n{text}");
    }
    let document: Value = serde_json::from_str(&atoll.run("explain deploy/web -o json")).unwrap();
    assert_eq!(document["status"]["explanation"]["by"], "placementpolicy/spread");
    let errors = atoll.run_failing("explain deploy/none");
    assert!(errors.contains("not found"), "{errors}");
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_and_reasons_of_unplaced_work_are_shown() {
    let (_atoll, admin) = with_clusters(&[("east", 4)]).await;
    admin.post(DEPLOYMENTS, deployment("big", 1, 8000)).await.expect(201);
    crate::fleet::wait_until(&admin, &path("big"), "it is unschedulable", |object| {
        crate::fleet::condition(object, "Placed").1 == "Unschedulable"
    })
    .await;
    let found = explanation(&admin, &path("big")).await;
    assert_eq!((&found["by"], &found["unplaced"]), (&json!("default"), &json!(1)));
    let east = cluster(&found, "east");
    assert_eq!((&east["chosen"], &east["fits"]), (&json!(false), &json!(0)));
    assert!(east["reason"].as_str().unwrap().contains("has room for no replica"), "{east}");
    // The reports of clusters are part of the explanation.
    admin.post(DEPLOYMENTS, deployment("web", 2, 100)).await.expect(201);
    let web = expect_placed(&admin, &path("web"), "east=2 by default").await;
    let uid = web["metadata"]["uid"].as_str().unwrap();
    let resource = json!({
        "group": "apps", "version": "v1", "resource": "deployments", "kind": "Deployment", "namespaced": true,
    });
    let record = json!({
        "resource": resource, "workspace": "root", "namespace": "default", "name": "web", "uid": uid,
        "generation": 1, "state": "Applied", "observed": true, "pods": { "total": 2, "ready": 1 },
    });
    admin.post("/services/sync/east", json!({ "records": [record] })).await.expect(200);
    let found = explanation(&admin, &path("web")).await;
    let east = cluster(&found, "east");
    assert_eq!((&east["ready"], &east["replicas"]), (&json!(1), &json!(2)));
    assert!(east["since"].as_str().is_some_and(|since| since.ends_with('Z')), "{east}");
}

#[tokio::test(flavor = "multi_thread")]
async fn child_workspaces_see_their_own_objects_only() {
    let (atoll, admin) = with_clusters(&[("east", 4), ("west", 16)]).await;
    let policy = json!({
        "apiVersion": "atoll.dev/v1alpha1", "kind": "ClusterPlacementPolicy", "metadata": { "name": "hidden" },
        "spec": { "clusters": { "names": ["west"] } },
    });
    admin.post("/apis/atoll.dev/v1alpha1/clusterplacementpolicies", policy).await.expect(201);
    admin.post(DEPLOYMENTS, deployment("secret", 2, 100)).await.expect(201);
    expect_placed(&admin, &path("secret"), "west=2 by clusterplacementpolicy/hidden").await;
    atoll.run("workspace create team");
    let team = admin.workspace("root:team");
    let own = json!({
        "apiVersion": "atoll.dev/v1alpha1", "kind": "ClusterPlacementPolicy", "metadata": { "name": "own" },
        "spec": { "clusters": { "names": ["east"] } },
    });
    team.post("/apis/atoll.dev/v1alpha1/clusterplacementpolicies", own).await.expect(201);
    team.post(DEPLOYMENTS, deployment("web", 1, 100)).await.expect(201);
    expect_placed(&team, &path("web"), "east=1 by clusterplacementpolicy/own").await;
    let found = explanation(&team, &path("web")).await;
    assert_eq!(cluster(&found, "east")["chosen"], json!(true));
    let text = found.to_string();
    for hidden in ["secret", "hidden", " cores"] {
        assert!(!text.contains(hidden), "{hidden} is in {text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn explanations_need_the_right_to_get_the_placement() {
    let atoll =
        Setup::new().flag("--controllers", "workspace,namespace").tokens("reader-token,reader,1\n").start();
    let admin = atoll.admin();
    admin.post(DEPLOYMENTS, deployment("web", 1, 100)).await.expect(201);
    // Without a scheduler it says so.
    let found = explanation(&admin, &path("web")).await;
    assert!(found["note"].as_str().unwrap().starts_with("no scheduler runs"), "{found}");
    let reader = admin.token("reader-token");
    let asked = format!("{}/placement?explain=true", path("web"));
    reader.get(&asked).await.expect_status(403, "Forbidden");
    let roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
    let rule = json!({ "apiGroups": ["apps"], "resources": ["deployments/placement"], "verbs": ["get"] });
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": { "name": "explainer" }, "rules": [rule],
    });
    admin.post(&format!("{roles}/roles"), role).await.expect(201);
    let subject = json!({ "kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "reader" });
    let reference = json!({ "kind": "Role", "apiGroup": "rbac.authorization.k8s.io", "name": "explainer" });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": { "name": "explainer" },
        "subjects": [subject], "roleRef": reference,
    });
    admin.post(&format!("{roles}/rolebindings"), binding).await.expect(201);
    reader.get(&asked).await.expect(200);
}
