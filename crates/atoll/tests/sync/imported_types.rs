//! Objects of imported types work alike in the workspace of the Cluster and in those below it: they are placed, take
//! along what they need, and are collected with their owners.

use atoll_fleet::Placement;
use atoll_testkit::wait::eventually;
use atoll_testkit::{Atoll, Client, Setup, names};
use serde_json::{Value, json};

use crate::imports::{DEFINITIONS, OBJECTS, WIDGETS, WORKSPACES, definition, widget};
use crate::objects::{create, object, wait_for, wait_until_deleted};
use crate::start_cluster;

const CORE: &str = "/api/v1/namespaces/default";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const POLICIES: &str = "/apis/atoll.dev/v1alpha1/namespaces/default/placementpolicies";
/// kcp: names the only cluster of an object.
const LABEL: &str = "workloads.kcp.dev/cluster";

/// Starts clusters whose accounts may write Widgets.
fn join_clusters(atoll: &Atoll, names: &[&str]) -> Vec<Atoll> {
    let join = |name: &&str| {
        let cluster = start_cluster(name);
        let kubeconfig = cluster.kubeconfig().display().to_string();
        atoll.run(&format!("cluster join {name} --mode push --groups example.com --kubeconfig {kubeconfig}"));
        cluster
    };
    names.iter().map(join).collect()
}

/// Creates a workspace below root.
async fn workspace(above: &Client, name: &str) -> Client {
    create(above, WORKSPACES, object("atoll.dev/v1alpha1", "Workspace", name, json!({}))).await;
    let below = above.workspace(&format!("root:{name}"));
    wait_for("the workspace exists", &below, &format!("{CORE}/serviceaccounts/default"), |_| true).await;
    below
}

async fn define_widgets(client: &Client) {
    create(client, DEFINITIONS, definition("widgets", "Widget", json!({ "size": { "type": "integer" } })))
        .await;
}

fn annotated(mut object: Value, annotations: Value) -> Value {
    object["metadata"]["annotations"] = annotations;
    object
}

fn small(name: &str) -> Value {
    widget(name, json!({ "size": 1 }))
}

/// Clusters and decision maker of an object.
fn summary(object: &Value) -> String {
    let placement = Placement::of(object);
    let names: Vec<&str> = placement.clusters.iter().map(|share| share.name.as_str()).collect();
    match names.is_empty() {
        true => "nowhere".to_string(),
        false => format!("{} by {}", names.join(" "), placement.by),
    }
}

async fn expect_placed(client: &Client, collection: &str, name: &str, expected: &str) {
    let path = format!("{collection}/{name}");
    wait_for(&format!("{path} is on {expected}"), client, &path, |found| summary(found) == expected).await;
}

/// An object that another one owns.
async fn owned_by(client: &Client, owner: &str, mut object: Value) -> Value {
    let owner = client.get(owner).await.expect(200);
    object["metadata"]["ownerReferences"] = json!([{
        "apiVersion": owner["apiVersion"], "kind": owner["kind"],
        "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"],
    }]);
    object
}

#[tokio::test(flavor = "multi_thread")]
async fn imported_types_are_placed_in_workspaces_below() {
    let atoll = Setup::new().start();
    let clusters = join_clusters(&atoll, &["east", "west"]);
    let above = atoll.admin();
    let team = workspace(&above, "team").await;
    let below: Vec<Client> = clusters.iter().map(Atoll::admin).collect();
    for cluster in &below {
        define_widgets(cluster).await;
    }
    let late = workspace(&above, "late").await;
    for client in [&above, &team, &late] {
        wait_for("the definition is inherited", client, WIDGETS, |_| true).await;
        // By an annotation, and with what it needs.
        let intent = json!({ "atoll.dev/clusters": "west", "atoll.dev/needs": "configmap/needed" });
        create(client, OBJECTS, annotated(small("named"), intent)).await;
        expect_placed(client, OBJECTS, "named", "west by annotation").await;
        let needed = json!({ "metadata": { "name": "needed" }, "data": { "a": "b" } });
        create(client, &format!("{CORE}/configmaps"), needed).await;
        expect_placed(client, &format!("{CORE}/configmaps"), "needed", "west by reference").await;
        wait_for("it is synced", client, &format!("{OBJECTS}/named"), |found| {
            found["metadata"]["annotations"]["atoll.dev/placement"].is_string()
        })
        .await;
    }
    eventually("the clusters have the objects", async || {
        let found = below[1].get("/apis/example.com/v1/widgets").await.json_or_null();
        found["items"].as_array().is_some_and(|all| all.len() == 3)
    })
    .await;

    // By a policy of the workspace.
    let rule = json!({ "group": "example.com", "kind": "Widget", "name": "ruled" });
    let spec = json!({ "objects": [rule], "clusters": { "names": ["east"] } });
    create(&team, POLICIES, object("atoll.dev/v1alpha1", "PlacementPolicy", "east", json!({ "spec": spec })))
        .await;
    create(&team, OBJECTS, small("ruled")).await;
    expect_placed(&team, OBJECTS, "ruled", "east by placementpolicy/east").await;

    // Without any intent: together with its namespace, unless it is to stay.
    let labels = json!({ "app": "web" });
    let pod = json!({ "containers": [{ "name": "main", "image": "example/web:1" }] });
    let web = json!({ "spec": {
        "selector": { "matchLabels": labels }, "template": { "metadata": { "labels": labels }, "spec": pod },
    } });
    let web = annotated(object("apps/v1", "Deployment", "web", web), json!({ "atoll.dev/clusters": "west" }));
    create(&team, DEPLOYMENTS, web).await;
    expect_placed(&team, DEPLOYMENTS, "web", "west by annotation").await;
    create(&team, OBJECTS, annotated(small("above"), json!({ "atoll.dev/clusters": "none" }))).await;
    create(&team, OBJECTS, small("plain")).await;
    expect_placed(&team, OBJECTS, "plain", "west by default").await;
    assert_eq!(summary(&team.get(&format!("{OBJECTS}/above")).await.expect(200)), "nowhere");
    // Others write the intent, as for workloads.
    let by_hand = json!({ "spec": { "clusters": [{ "name": "east" }], "by": "hand" } });
    let refused = team.merge(&format!("{OBJECTS}/plain/placement"), by_hand).await;
    assert!(refused.expect_status(403, "Forbidden").contains("atoll.dev/clusters=east"));
    // An object of one that is placed goes along with it, and one of an object above stays above.
    create(&team, OBJECTS, owned_by(&team, &format!("{OBJECTS}/above"), small("stays")).await).await;
    create(&team, OBJECTS, owned_by(&team, &format!("{OBJECTS}/ruled"), small("child")).await).await;
    expect_placed(&team, OBJECTS, "child", "east by reference").await;
    assert_eq!(summary(&team.get(&format!("{OBJECTS}/stays")).await.expect(200)), "nowhere");

    // A label of a dialect that only this workspace enables.
    atoll.run("dialect enable kcp --workspace root:team");
    let mut labelled = small("labelled");
    labelled["metadata"]["labels"] = json!({ LABEL: "east" });
    create(&team, OBJECTS, labelled).await;
    expect_placed(&team, OBJECTS, "labelled", "east by label").await;

    // Where a workspace has a definition of its own, objects stay above.
    create(&late, OBJECTS, small("plain")).await;
    wait_for("it is placed by default", &late, &format!("{OBJECTS}/plain"), |found| {
        Placement::of(found).by == "default"
    })
    .await;
    define_widgets(&late).await;
    expect_placed(&late, OBJECTS, "plain", "nowhere").await;
    expect_placed(&late, OBJECTS, "named", "west by annotation").await;
    late.delete(WIDGETS).await.expect(200);
    wait_for("it is inherited again", &late, WIDGETS, |found| {
        found["metadata"]["annotations"]["atoll.dev/imported-from"] == "east"
    })
    .await;
    create(&late, OBJECTS, small("again")).await;
    wait_for("it is placed by default", &late, &format!("{OBJECTS}/again"), |found| {
        Placement::of(found).by == "default"
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_of_imported_types_are_collected_with_their_owners() {
    let atoll = Setup::new().start();
    let clusters = join_clusters(&atoll, &["east"]);
    let above = atoll.admin();
    let team = workspace(&above, "team").await;
    define_widgets(&clusters[0].admin()).await;
    let own = workspace(&above, "own").await;
    wait_for("the definition is inherited", &own, WIDGETS, |_| true).await;
    // It had objects before it got a definition of its own.
    create(&own, OBJECTS, small("before")).await;
    create(&own, OBJECTS, owned_by(&own, &format!("{OBJECTS}/before"), small("of-before")).await).await;
    define_widgets(&own).await;
    let late = workspace(&above, "late").await;
    let maps = format!("{CORE}/configmaps");
    for client in [&above, &team, &late, &own] {
        wait_for("the definition is there", client, WIDGETS, |_| true).await;
        create(client, OBJECTS, small("owner")).await;
        let owner = format!("{OBJECTS}/owner");
        let map = json!({ "metadata": { "name": "owned" } });
        create(client, &maps, owned_by(client, &owner, map).await).await;
        create(client, OBJECTS, owned_by(client, &owner, small("owned")).await).await;
        create(client, OBJECTS, owned_by(client, &format!("{OBJECTS}/owned"), small("of-owned")).await).await;
    }
    for client in [&above, &team, &late, &own] {
        client.delete(&format!("{OBJECTS}/owner")).await.expect(200);
        for path in [format!("{maps}/owned"), format!("{OBJECTS}/owned"), format!("{OBJECTS}/of-owned")] {
            wait_until_deleted(client, &path).await;
        }
    }
    own.delete(&format!("{OBJECTS}/before")).await.expect(200);
    wait_until_deleted(&own, &format!("{OBJECTS}/of-before")).await;
}

/// Only members of system:masters see a workspace together with those below it.
#[tokio::test(flavor = "multi_thread")]
async fn objects_of_a_workspace_and_those_below_are_listed_by_definition() {
    let atoll = Setup::new().start();
    let clusters = join_clusters(&atoll, &["east"]);
    let above = atoll.admin();
    let (team, own) = (workspace(&above, "team").await, workspace(&above, "own").await);
    define_widgets(&clusters[0].admin()).await;
    wait_for("the definition is inherited", &own, WIDGETS, |_| true).await;
    define_widgets(&own).await;
    for (client, name) in [(&above, "a"), (&team, "b"), (&own, "c")] {
        create(client, OBJECTS, small(name)).await;
    }
    let listed = async |path: &str| {
        let list = above.get(&format!("/clusters/{path}/apis/example.com/v1/widgets")).await.expect(200);
        let mut found = names(&list);
        found.sort();
        found.join(" ")
    };
    assert_eq!(listed("root:*").await, "a b");
    assert_eq!(listed("root:team:*").await, "b");
    assert_eq!(listed("root:own:*").await, "c");
    // Resources that every workspace has are those of all workspaces there.
    let maps = format!("{CORE}/configmaps");
    create(&team, &maps, json!({ "metadata": { "name": "of-team" } })).await;
    create(&own, &maps, json!({ "metadata": { "name": "of-own" } })).await;
    let listed = above.get("/clusters/root:team:*/api/v1/configmaps").await.expect(200);
    assert_eq!(names(&listed), ["of-team"]);
    above.get("/clusters/root:team:*/api/v1/namespaces/default").await.expect(400);
    above.get("/clusters/root:other:*/api/v1/configmaps").await.expect(404);
}

/// Heartbeats are so rare that the test would time out if the cluster reported its types with them.
#[tokio::test(flavor = "multi_thread")]
async fn new_types_can_be_placed_before_the_next_heartbeat() {
    let setup = Setup::new().flag("--cluster-heartbeat-interval", 600).flag("--cluster-grace-period", 2400);
    let atoll = setup.start();
    let clusters = join_clusters(&atoll, &["east"]);
    let above = atoll.admin();
    let cluster = "/apis/atoll.dev/v1alpha1/clusters/east";
    let has_group = |found: &Value, group: &str| {
        let groups = found["status"]["apis"].as_array().into_iter().flatten();
        groups.into_iter().any(|own| own["group"] == *group)
    };
    wait_for("the cluster has reported its APIs", &above, cluster, |found| has_group(found, "apps")).await;
    define_widgets(&clusters[0].admin()).await;
    wait_for("the definition is inherited", &above, WIDGETS, |_| true).await;
    create(&above, OBJECTS, small("plain")).await;
    expect_placed(&above, OBJECTS, "plain", "east by default").await;
    let found = above.get(cluster).await.expect(200);
    assert!(has_group(&found, "example.com"), "{}", found["status"]["apis"]);
}
