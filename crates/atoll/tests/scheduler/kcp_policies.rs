//! The policies of kcp's dialect: what its splitter divides, and what goes to one cluster.

use atoll_fleet::Placement;
use atoll_testkit::wait::eventually;
use atoll_testkit::{Setup, names};
use serde_json::{Value, json};

use crate::fleet::{
    CLUSTERS, CONTROLLERS, DEPLOYMENTS, condition, deployment, expect_placed, has_event, join, path,
    report_all_pods, report_gone, report_pods, scale, summary, wait_until, with_clusters,
};
use crate::other_kinds::{DEFINITIONS, WIDGETS, define_widgets, definition, expect_nowhere, widget};

const CLUSTER_POLICIES: &str = "/apis/atoll.dev/v1alpha1/clusterplacementpolicies";
const APPS: &str = "/apis/apps/v1/namespaces/default";
const VOLUMES: &str = "/api/v1/persistentvolumes";

/// kcp: names the only cluster of an object.
const LABEL: &str = "workloads.kcp.dev/cluster";

#[tokio::test(flavor = "multi_thread")]
async fn another_label_moves_a_workload_without_a_gap() {
    let atoll = Setup::new().flag("--controllers", format!("{CONTROLLERS},kcpplacement")).start();
    let admin = atoll.admin();
    for (name, cores) in [("east", 4), ("west", 4), ("small", 1)] {
        join(&admin, name, cores).await;
    }
    atoll.run("dialect enable kcp");
    let label = async |name: Option<&str>| {
        admin.merge(&path("web"), json!({ "metadata": { "labels": { LABEL: name } } })).await.expect(200)
    };
    let mut web = deployment("web", 4, 500);
    web["metadata"]["labels"][LABEL] = "east".into();
    admin.post(DEPLOYMENTS, web).await.expect(201);
    let web = path("web");
    expect_placed(&admin, &web, "east=4 by label").await;
    report_all_pods(&admin, &web, "east", 4).await;
    label(Some("west")).await;
    let moving = expect_placed(&admin, &web, "east=4 west=4 by label").await;
    assert_eq!(Placement::of(&moving).phase, "adding");
    report_pods(&admin, &web, "west", 4).await;
    expect_placed(&admin, &web, "west=4 by label").await;
    report_gone(&admin, &web, "east").await;
    // The replicas follow spec.replicas, and a cluster without room takes nothing.
    scale(&admin, &web, 3).await;
    expect_placed(&admin, &web, "west=3 by label").await;
    label(Some("small")).await;
    wait_until(&admin, &web, "the move is blocked", |web| Placement::of(web).blocked == "MoveBlocked").await;
    label(Some("misspelt")).await;
    eventually("an event says so", async || has_event(&admin, "web", "NotPlaced").await).await;
    assert_eq!(Placement::of(&admin.get(&web).await.expect(200)).clusters.len(), 1);
    // Where the dialect is disabled, it stays, and without the label, policies decide.
    report_pods(&admin, &web, "west", 3).await;
    label(Some("west")).await;
    expect_placed(&admin, &web, "west=3 by label").await;
    atoll.run("dialect disable kcp");
    scale(&admin, &web, 2).await;
    atoll.run("dialect enable kcp");
    expect_placed(&admin, &web, "west=2 by label").await;
    report_pods(&admin, &web, "west", 2).await;
    label(None).await;
    wait_until(&admin, &web, "a policy decides", |web| Placement::of(web).by == "clusterplacementpolicy/kcp")
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn labels_stay_within_what_policies_allow() {
    let atoll = Setup::new().flag("--controllers", format!("{CONTROLLERS},kcpplacement")).start();
    let admin = atoll.admin();
    for name in ["east", "west"] {
        join(&admin, name, 4).await;
    }
    atoll.run("dialect enable kcp");
    let policies = "/apis/atoll.dev/v1alpha1/namespaces/default/placementpolicies";
    let allow = |cluster: &str| {
        json!({
            "apiVersion": "atoll.dev/v1alpha1", "kind": "PlacementPolicy", "metadata": { "name": "here" },
            "spec": { "clusters": { "names": [cluster] } },
        })
    };
    admin.post(policies, allow("west")).await.expect(201);
    wait_until(&admin, &format!("{policies}/here"), "the policy is known", |policy| {
        policy["status"]["observedGeneration"] == 1
    })
    .await;
    let mut labelled = deployment("web", 2, 100);
    labelled["metadata"]["labels"][LABEL] = "east".into();
    admin.post(DEPLOYMENTS, labelled).await.expect(201);
    let web = path("web");
    wait_until(&admin, &web, "the label is beyond the policy", |web| {
        let (_, reason, message) = condition(web, "Placed");
        let expected =
            "its label names east, which is beyond placementpolicy/here: it does not allow the cluster east";
        reason == "BeyondPolicy" && message.starts_with(expected)
    })
    .await;
    assert_eq!(summary(&admin.get(&web).await.expect(200)), "nowhere");
    let label = json!({ "metadata": { "labels": { LABEL: "west" } } });
    admin.merge(&web, label).await.expect(200);
    expect_placed(&admin, &web, "west=2 by label").await;
    // The policy changes later: nothing moves, nothing grows, and its user is told.
    admin.merge(&format!("{policies}/here"), json!({ "spec": allow("east")["spec"] })).await.expect(200);
    eventually("an event says so", async || has_event(&admin, "web", "BeyondPolicy").await).await;
    assert_eq!(summary(&admin.get(&web).await.expect(200)), "west=2 by label");
    admin.delete(&format!("{policies}/here")).await.expect(200);
    scale(&admin, &web, 3).await;
    expect_placed(&admin, &web, "west=3 by label").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_of_all_types_are_placed_by_policies_that_can_be_changed() {
    let (atoll, admin) = with_clusters(&[("east", 4), ("west", 4)]).await;
    define_widgets(&admin, "").await;
    admin.post(DEFINITIONS, definition("gadgets", "Gadget")).await.expect(201);
    let gadgets = WIDGETS.replace("widgets", "gadgets");
    atoll.run("dialect enable kcp");
    assert_eq!(names(&admin.get(CLUSTER_POLICIES).await.expect(200)), ["kcp", "kcp-objects"]);
    for name in ["kcp", "kcp-objects"] {
        wait_until(&admin, &format!("{CLUSTER_POLICIES}/{name}"), "the policy is known", |policy| {
            policy["status"]["observedGeneration"] == 1
        })
        .await;
    }

    admin.post(DEPLOYMENTS, deployment("web", 4, 100)).await.expect(201);
    expect_placed(&admin, &path("web"), "east=2 west=2 by clusterplacementpolicy/kcp").await;
    let mut agent = deployment("agent", 1, 100);
    agent["kind"] = "DaemonSet".into();
    agent["spec"].as_object_mut().unwrap().remove("replicas");
    admin.post(&format!("{APPS}/daemonsets"), agent).await.expect(201);
    expect_placed(&admin, &format!("{APPS}/daemonsets/agent"), "east west by clusterplacementpolicy/kcp")
        .await;
    let by = "by clusterplacementpolicy/kcp-objects";
    let is_on_one = |object: &Value| summary(object).ends_with(by) && summary(object).split(' ').count() == 3;
    let mut set = deployment("set", 2, 100);
    set["kind"] = "StatefulSet".into();
    set["spec"]["serviceName"] = "set".into();
    admin.post(&format!("{APPS}/statefulsets"), set).await.expect(201);
    wait_until(&admin, &format!("{APPS}/statefulsets/set"), "the StatefulSet is whole", is_on_one).await;
    let volume = json!({ "metadata": { "name": "disk" }, "spec": {
        "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteOnce"], "hostPath": { "path": "/data" },
    } });
    admin.post(VOLUMES, volume).await.expect(201);
    wait_until(&admin, &format!("{VOLUMES}/disk"), "the volume is on one cluster", is_on_one).await;

    // Of custom kinds, those are placed that a cluster serves, as soon as it does.
    admin.post(WIDGETS, widget("a")).await.expect(201);
    let mut gadget = widget("a");
    gadget["kind"] = "Gadget".into();
    admin.post(&gadgets, gadget).await.expect(201);
    let served = |resources: Value| {
        json!({ "status": { "apis": [
            { "group": "apps", "resources": ["daemonsets", "deployments", "statefulsets"] },
            { "group": "", "resources": ["persistentvolumes"] },
            { "group": "example.com", "resources": resources },
        ] } })
    };
    // A cluster that says nothing about its APIs counts as one that serves all of them.
    admin.merge(&format!("{CLUSTERS}/east/status"), served(json!([]))).await.expect(200);
    admin.merge(&format!("{CLUSTERS}/west/status"), served(json!(["widgets"]))).await.expect(200);
    expect_placed(&admin, &format!("{WIDGETS}/a"), &format!("west {by}")).await;
    assert_eq!(summary(&admin.get(&format!("{gadgets}/a")).await.expect(200)), "nowhere");
    admin.merge(&format!("{CLUSTERS}/east/status"), served(json!(["gadgets"]))).await.expect(200);
    expect_placed(&admin, &format!("{gadgets}/a"), &format!("east {by}")).await;
    // The policy can be changed.
    let objects = json!({ "spec": { "objects": [{ "group": "example.com", "kind": "Widget" }] } });
    admin.merge(&format!("{CLUSTER_POLICIES}/kcp-objects"), objects).await.expect(200);
    expect_nowhere(&admin, &format!("{gadgets}/a")).await;
    expect_placed(&admin, &format!("{WIDGETS}/a"), &format!("west {by}")).await;
}
