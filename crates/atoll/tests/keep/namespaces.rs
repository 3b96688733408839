//! Deleting a namespace or a workspace leaves no namespace behind in a cluster, however long that was away.

use serde_json::{Value, json};

use crate::support::access::Access;
use crate::support::process::Setup;
use crate::support::{CONFIG_MAPS, config_map, config_map_with, eventually, without_uids};
use crate::world::{World, becomes, create, goes, object};

const NAMESPACES: &str = "/api/v1/namespaces";

fn placement(object: &Value) -> &str {
    object["metadata"]["annotations"]["atoll.dev/placement"].as_str().unwrap_or_default()
}

/// Namespaces of a cluster that were made for others.
async fn made(below: &Access) -> Vec<String> {
    let list = below.get(NAMESPACES).await.expect(200);
    let is_made = |namespace: &&Value| {
        let metadata = &namespace["metadata"];
        metadata["annotations"]["atoll.dev/namespace"].is_string() && metadata["deletionTimestamp"].is_null()
    };
    let all = list["items"].as_array().unwrap().iter().filter(is_made);
    all.map(|namespace| namespace["metadata"]["name"].as_str().unwrap().to_string()).collect()
}

async fn nothing_is_left(below: &Access) {
    eventually("no namespace is left behind", async || made(below).await.is_empty()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_waits_for_a_cluster_that_was_away_while_the_server_forgot() {
    let mut world = World::by_hand_with(Setup::new().flag("--history", 1));
    let (above, below) = (world.admin(), world.east.admin());
    for name in ["shop", "lost"] {
        create(&above, NAMESPACES, object("v1", "Namespace", name, json!({}))).await;
        let maps = format!("{NAMESPACES}/{name}/configmaps");
        create(&above, &maps, config_map_with("a", "1")).await;
        world.says(&format!("place cm/a -n {name} --on east"));
        becomes("it arrives", &below, &format!("{maps}/a"), |_| true).await;
        let record = becomes("it is on record", &above, &format!("{NAMESPACES}/{name}"), |namespace| {
            !placement(namespace).is_empty()
        })
        .await;
        assert_eq!(without_uids(placement(&record)), r#"{"clusters":[{"name":"east"}],"by":"contents"}"#);
        // Nothing of it is placed any more; the namespace in the cluster stays for what may come.
        world.says(&format!("place cm/a -n {name} --on none"));
        goes(&below, &format!("{maps}/a")).await;
        becomes("it is let go of", &above, &format!("{maps}/a"), |map| placement(map).is_empty()).await;
    }
    world.stop_syncing();
    above.delete(&format!("{NAMESPACES}/shop")).await.expect(200);
    let held = becomes("it says what it waits for", &above, &format!("{NAMESPACES}/shop"), |namespace| {
        namespace["status"]["conditions"].to_string().contains("Waiting for clusters to let go")
    })
    .await;
    assert!(held["status"]["conditions"].to_string().contains("east (1)"), "{held}");
    // The server forgets that it happened, and is started again.
    let revision = held["metadata"]["resourceVersion"].as_str().unwrap();
    let then = format!("{NAMESPACES}?resourceVersion={revision}&resourceVersionMatch=Exact");
    let mut count = 0;
    eventually("the past is forgotten", async || {
        count += 1;
        create(&above, CONFIG_MAPS, config_map_with(&format!("later-{count}"), "1")).await;
        above.get(&then).await.status == 410
    })
    .await;
    world.above.terminate();
    world.above.wait();
    world.above.restart();
    let above = world.admin();
    above.get(&format!("{NAMESPACES}/shop")).await.expect(200);
    below.get(&format!("{NAMESPACES}/shop")).await.expect(200);
    world.sync_again();
    goes(&above, &format!("{NAMESPACES}/shop")).await;
    goes(&below, &format!("{NAMESPACES}/shop")).await;

    // A cluster that is declared lost is not waited for.
    world.stop_syncing();
    above.delete(&format!("{NAMESPACES}/lost")).await.expect(200);
    becomes("it waits", &above, &format!("{NAMESPACES}/lost"), |namespace| {
        namespace["status"]["conditions"].to_string().contains("Waiting for clusters")
    })
    .await;
    world.says("cluster remove east --lost --yes");
    goes(&above, &format!("{NAMESPACES}/lost")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workspace_takes_its_namespaces_along() {
    let mut world = World::by_hand();
    let (above, below) = (world.admin(), world.east.admin());
    world.says("workspace create team");
    let team = above.workspace("root:team");
    create(&team, NAMESPACES, object("v1", "Namespace", "shop", json!({}))).await;
    create(&team, CONFIG_MAPS, config_map_with("a", "1")).await;
    create(&team, &format!("{NAMESPACES}/shop/configmaps"), config_map_with("b", "1")).await;
    for (path, name) in [(config_map("a"), "default"), (format!("{NAMESPACES}/shop/configmaps/b"), "shop")] {
        let wanted = json!({ "spec": { "clusters": [{ "name": "east" }] } });
        team.merge(&format!("{path}/placement"), wanted).await.expect(200);
        becomes("it is on record", &team, &format!("{NAMESPACES}/{name}"), |found| {
            !placement(found).is_empty()
        })
        .await;
    }
    eventually("both arrive", async || made(&below).await.len() == 2).await;
    // One says what goes, and asks; nobody is there to answer.
    let errors = world.refuses("workspace delete team");
    assert!(errors.contains("there is nobody to ask") && errors.contains("add --yes"), "{errors}");
    team.get(&config_map("a")).await.expect(200);
    world.stop_syncing();
    world.says("workspace delete team --no-wait --yes");
    let path = "/apis/atoll.dev/v1alpha1/workspaces/team";
    becomes("it says what it waits for", &above, path, |workspace| {
        workspace["status"]["message"].as_str().unwrap_or_default().contains("Waiting for clusters")
    })
    .await;
    world.sync_again();
    goes(&above, path).await;
    nothing_is_left(&below).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workspace_with_a_cluster_of_its_own_empties_that_first() {
    let world = World::apart_with(Setup::new().variable("ATOLL_ALLOW_TENANT_ADDRESSES", "true"));
    let (above, below) = (world.admin(), world.east.admin());
    world.says("workspace create team --use");
    world.says(&format!("cluster join east --kubeconfig {}", world.east.kubeconfig().display()));
    let team = above.workspace("root:team");
    create(&team, NAMESPACES, object("v1", "Namespace", "shop", json!({}))).await;
    let maps = format!("{NAMESPACES}/shop/configmaps");
    create(&team, &maps, config_map_with("a", "1")).await;
    world.says("place cm/a -n shop --on east");
    eventually("it arrives", async || made(&below).await.len() == 1).await;
    world.says("workspace use root");
    let said = world.says("workspace delete team --yes");
    assert!(said.contains("Placed on clusters, and deleted there: 1 on east."), "{said}");
    assert!(said.ends_with("Workspace root:team is gone.\n"), "{said}");
    nothing_is_left(&below).await;
}

/// A cluster has custom resources that its syncer may not list: whether its namespace is empty is not known.
#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_waits_while_its_contents_cannot_be_seen() {
    let world = World::start();
    let (above, below) = (world.admin(), world.east.admin());
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
    world.says("place cm/a -n shop --on east");
    becomes("it arrives", &below, &format!("{maps}/a"), |_| true).await;
    above.delete(&format!("{NAMESPACES}/shop")).await.expect(200);
    let mut told = String::new();
    eventually("it is told why the namespace stays", async || {
        let events = above.get(&format!("{NAMESPACES}/default/events")).await.expect(200);
        let is_it = |event: &&Value| event["reason"] == "WaitingForCluster";
        let found = events["items"].as_array().unwrap().iter().find(is_it);
        told = found.map(|event| event["message"].as_str().unwrap().to_string()).unwrap_or_default();
        !told.is_empty()
    })
    .await;
    assert!(told.contains("widgets.example.com (forbidden)"), "{told}");
    assert!(told.contains("kubectl delete namespace shop"), "{told}");
    above.get(&format!("{NAMESPACES}/shop")).await.expect(200);
    below.get(&format!("{NAMESPACES}/shop")).await.expect(200);
    // Joining again gives the right to list what was defined since.
    world.says(&format!("cluster join east --kubeconfig {}", world.east.kubeconfig().display()));
    goes(&above, &format!("{NAMESPACES}/shop")).await;
    goes(&below, &format!("{NAMESPACES}/shop")).await;
}

/// An agent needs its rights for as long as its cluster has something to let go of.
#[tokio::test(flavor = "multi_thread")]
async fn a_workspace_with_an_agent_of_its_own_empties_that_first() {
    let mut world = World::apart();
    world.says("workspace create team --use");
    world.join_by_hand();
    let (above, below) = (world.admin(), world.east.admin());
    let team = above.workspace("root:team");
    create(&team, NAMESPACES, object("v1", "Namespace", "shop", json!({}))).await;
    let maps = format!("{NAMESPACES}/shop/configmaps");
    create(&team, &maps, config_map_with("a", "1")).await;
    world.says("place cm/a -n shop --on east");
    eventually("it arrives", async || made(&below).await.len() == 1).await;
    world.says("workspace use root");
    let said = world.says("workspace delete team --yes");
    assert!(said.ends_with("Workspace root:team is gone.\n"), "{said}");
    nothing_is_left(&below).await;
}
