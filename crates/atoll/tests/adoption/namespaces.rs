//! Deleting a namespace or a workspace leaves no namespace behind in a cluster, even if the cluster was
//! unreachable for long.

use atoll_testkit::wait::eventually;
use atoll_testkit::{Client, Setup};
use serde_json::{Value, json};

use crate::harness::{TestFleet, create, object, wait_for, wait_until_deleted};
use crate::support::{CONFIG_MAPS, config_map, config_map_with, without_uids};

const NAMESPACES: &str = "/api/v1/namespaces";

fn placement(object: &Value) -> &str {
    object["metadata"]["annotations"]["atoll.dev/placement"].as_str().unwrap_or_default()
}

/// Returns the namespaces of a cluster that were created for namespaces above.
async fn created_namespaces(below: &Client) -> Vec<String> {
    let list = below.get(NAMESPACES).await.expect(200);
    let is_made = |namespace: &&Value| {
        let metadata = &namespace["metadata"];
        metadata["annotations"]["atoll.dev/namespace"].is_string() && metadata["deletionTimestamp"].is_null()
    };
    let all = list["items"].as_array().unwrap().iter().filter(is_made);
    all.map(|namespace| namespace["metadata"]["name"].as_str().unwrap().to_string()).collect()
}

async fn wait_until_no_namespace_is_left(below: &Client) {
    eventually("no namespace is left behind", async || created_namespaces(below).await.is_empty()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn namespace_waits_for_an_unreachable_cluster_after_its_history_expired() {
    let mut fleet = TestFleet::with_agent_and_setup(Setup::new().flag("--history", 1));
    let (above, below) = (fleet.admin(), fleet.east.admin());
    for name in ["shop", "lost"] {
        create(&above, NAMESPACES, object("v1", "Namespace", name, json!({}))).await;
        let maps = format!("{NAMESPACES}/{name}/configmaps");
        create(&above, &maps, config_map_with("a", "1")).await;
        fleet.run(&format!("place cm/a -n {name} --on east"));
        wait_for("the object exists below", &below, &format!("{maps}/a"), |_| true).await;
        let record =
            wait_for("the namespace has a placement", &above, &format!("{NAMESPACES}/{name}"), |namespace| {
                !placement(namespace).is_empty()
            })
            .await;
        assert_eq!(without_uids(placement(&record)), r#"{"clusters":[{"name":"east"}],"by":"contents"}"#);
        // None of its objects is placed any more. The namespace below is kept for later objects.
        fleet.run(&format!("place cm/a -n {name} --on none"));
        wait_until_deleted(&below, &format!("{maps}/a")).await;
        wait_for("the placement is removed", &above, &format!("{maps}/a"), |map| placement(map).is_empty())
            .await;
    }
    fleet.stop_agent();
    above.delete(&format!("{NAMESPACES}/shop")).await.expect(200);
    let held = wait_for(
        "the namespace names the cluster it waits for",
        &above,
        &format!("{NAMESPACES}/shop"),
        |namespace| {
            namespace["status"]["conditions"]
                .to_string()
                .contains("Waiting for clusters to remove placed objects")
        },
    )
    .await;
    assert!(held["status"]["conditions"].to_string().contains("east (1)"), "{held}");
    // The history no longer contains the deletion, and the server is restarted.
    let revision = held["metadata"]["resourceVersion"].as_str().unwrap();
    let then = format!("{NAMESPACES}?resourceVersion={revision}&resourceVersionMatch=Exact");
    let mut count = 0;
    eventually("the history has expired", async || {
        count += 1;
        create(&above, CONFIG_MAPS, config_map_with(&format!("later-{count}"), "1")).await;
        above.get(&then).await.status == 410
    })
    .await;
    fleet.above.terminate();
    fleet.above.wait();
    fleet.above.restart();
    let above = fleet.admin();
    above.get(&format!("{NAMESPACES}/shop")).await.expect(200);
    below.get(&format!("{NAMESPACES}/shop")).await.expect(200);
    fleet.start_agent();
    wait_until_deleted(&above, &format!("{NAMESPACES}/shop")).await;
    wait_until_deleted(&below, &format!("{NAMESPACES}/shop")).await;

    // A cluster that is declared lost is not waited for.
    fleet.stop_agent();
    above.delete(&format!("{NAMESPACES}/lost")).await.expect(200);
    wait_for("the namespace waits for the cluster", &above, &format!("{NAMESPACES}/lost"), |namespace| {
        namespace["status"]["conditions"].to_string().contains("Waiting for clusters")
    })
    .await;
    fleet.run("cluster remove east --lost --yes");
    wait_until_deleted(&above, &format!("{NAMESPACES}/lost")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn namespaces_below_are_deleted_with_their_workspace() {
    let mut fleet = TestFleet::with_agent();
    let (above, below) = (fleet.admin(), fleet.east.admin());
    fleet.run("workspace create team");
    let team = above.workspace("root:team");
    create(&team, NAMESPACES, object("v1", "Namespace", "shop", json!({}))).await;
    create(&team, CONFIG_MAPS, config_map_with("a", "1")).await;
    create(&team, &format!("{NAMESPACES}/shop/configmaps"), config_map_with("b", "1")).await;
    for (path, name) in [(config_map("a"), "default"), (format!("{NAMESPACES}/shop/configmaps/b"), "shop")] {
        let wanted = json!({ "spec": { "clusters": [{ "name": "east" }] } });
        team.merge(&format!("{path}/placement"), wanted).await.expect(200);
        wait_for("the namespace has a placement", &team, &format!("{NAMESPACES}/{name}"), |found| {
            !placement(found).is_empty()
        })
        .await;
    }
    eventually("both namespaces exist below", async || created_namespaces(&below).await.len() == 2).await;
    // The command prints what would be deleted and asks. Standard input is not a terminal, so it fails.
    let errors = fleet.run_failing("workspace delete team");
    assert!(errors.contains("standard input is not a terminal") && errors.contains("add --yes"), "{errors}");
    team.get(&config_map("a")).await.expect(200);
    fleet.stop_agent();
    fleet.run("workspace delete team --no-wait --yes");
    let path = "/apis/atoll.dev/v1alpha1/workspaces/team";
    wait_for("the namespace names the cluster it waits for", &above, path, |workspace| {
        workspace["status"]["message"].as_str().unwrap_or_default().contains("Waiting for clusters")
    })
    .await;
    fleet.start_agent();
    wait_until_deleted(&above, path).await;
    wait_until_no_namespace_is_left(&below).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn workspace_with_its_own_cluster_removes_objects_from_it_first() {
    let fleet =
        TestFleet::not_joined_with_setup(Setup::new().variable("ATOLL_ALLOW_TENANT_ADDRESSES", "true"));
    let (above, below) = (fleet.admin(), fleet.east.admin());
    fleet.run("workspace create team --use");
    fleet.run(&format!("cluster join east --kubeconfig {}", fleet.east.kubeconfig().display()));
    let team = above.workspace("root:team");
    create(&team, NAMESPACES, object("v1", "Namespace", "shop", json!({}))).await;
    let maps = format!("{NAMESPACES}/shop/configmaps");
    create(&team, &maps, config_map_with("a", "1")).await;
    fleet.run("place cm/a -n shop --on east");
    eventually("the namespace exists below", async || created_namespaces(&below).await.len() == 1).await;
    fleet.run("workspace use root");
    let printed = fleet.run("workspace delete team --yes");
    assert!(printed.contains("Placed on clusters, and deleted there: 1 on east."), "{printed}");
    assert!(printed.ends_with("Workspace root:team was deleted.\n"), "{printed}");
    wait_until_no_namespace_is_left(&below).await;
}

/// A cluster has custom resources that its syncer may not list: the syncer cannot know whether the namespace
/// is empty.
#[tokio::test(flavor = "multi_thread")]
async fn namespace_waits_while_its_contents_cannot_be_listed() {
    let fleet = TestFleet::start();
    let (above, below) = (fleet.admin(), fleet.east.admin());
    let widgets = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "widgets.example.com" },
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": { "plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList" },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } },
            }],
        },
    });
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    below.post(definitions, widgets).await.expect(201);
    eventually("widgets are served", async || below.get("/apis/example.com/v1").await.status == 200).await;
    create(&above, NAMESPACES, object("v1", "Namespace", "shop", json!({}))).await;
    let maps = format!("{NAMESPACES}/shop/configmaps");
    create(&above, &maps, config_map_with("a", "1")).await;
    fleet.run("place cm/a -n shop --on east");
    wait_for("the object exists below", &below, &format!("{maps}/a"), |_| true).await;
    above.delete(&format!("{NAMESPACES}/shop")).await.expect(200);
    let mut printed = String::new();
    eventually("the event reports why the namespace is kept", async || {
        let events = above.get(&format!("{NAMESPACES}/default/events")).await.expect(200);
        let is_it = |event: &&Value| event["reason"] == "WaitingForCluster";
        let found = events["items"].as_array().unwrap().iter().find(is_it);
        printed = found.map(|event| event["message"].as_str().unwrap().to_string()).unwrap_or_default();
        !printed.is_empty()
    })
    .await;
    assert!(printed.contains("widgets.example.com (forbidden)"), "{printed}");
    assert!(printed.contains("kubectl delete namespace shop"), "{printed}");
    above.get(&format!("{NAMESPACES}/shop")).await.expect(200);
    below.get(&format!("{NAMESPACES}/shop")).await.expect(200);
    // Joining again grants the right to list resources that were defined since.
    fleet.run(&format!("cluster join east --kubeconfig {}", fleet.east.kubeconfig().display()));
    wait_until_deleted(&above, &format!("{NAMESPACES}/shop")).await;
    wait_until_deleted(&below, &format!("{NAMESPACES}/shop")).await;
}

/// An agent keeps its rights until its cluster has confirmed all deletions.
#[tokio::test(flavor = "multi_thread")]
async fn workspace_with_its_own_agent_removes_objects_from_its_cluster_first() {
    let mut fleet = TestFleet::not_joined();
    fleet.run("workspace create team --use");
    fleet.join_with_agent();
    let (above, below) = (fleet.admin(), fleet.east.admin());
    let team = above.workspace("root:team");
    create(&team, NAMESPACES, object("v1", "Namespace", "shop", json!({}))).await;
    let maps = format!("{NAMESPACES}/shop/configmaps");
    create(&team, &maps, config_map_with("a", "1")).await;
    fleet.run("place cm/a -n shop --on east");
    eventually("the namespace exists below", async || created_namespaces(&below).await.len() == 1).await;
    fleet.run("workspace use root");
    let printed = fleet.run("workspace delete team --yes");
    assert!(printed.ends_with("Workspace root:team was deleted.\n"), "{printed}");
    wait_until_no_namespace_is_left(&below).await;
}
