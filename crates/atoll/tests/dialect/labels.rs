//! The label `workloads.kcp.dev/cluster` places, moves and removes objects.

use atoll_testkit::wait::eventually;
use atoll_testkit::{Atoll, Client, Setup};
use serde_json::{Value, json};

use crate::OWN;
use crate::support::{config_map, config_map_with, without_uids};

const LABEL: &str = "workloads.kcp.dev/cluster";

fn placement(object: &Value) -> String {
    without_uids(object["metadata"]["annotations"]["atoll.dev/placement"].as_str().unwrap_or_default())
}

async fn wait_for_placement(client: &Client, path: &str, expected: &str) {
    eventually(&format!("{path} is placed as {expected}"), async || {
        placement(&client.get(path).await.expect(200)) == expected
    })
    .await;
}

async fn set_label(client: &Client, path: &str, name: Option<&str>) {
    client.merge(path, json!({ "metadata": { "labels": { LABEL: name } } })).await.expect(200);
}

/// Waits until an object that is written now has been placed: then earlier writes have been handled too.
async fn wait_until_caught_up(client: &Client, name: &str) {
    let mut object = config_map_with(name, "1");
    object["metadata"]["labels"] = json!({ LABEL: "east" });
    client.post("/api/v1/namespaces/default/configmaps", object).await.expect(201);
    wait_for_placement(client, &config_map(name), BY_LABEL_EAST).await;
}

const BY_LABEL_EAST: &str = r#"{"clusters":[{"name":"east"}],"by":"label"}"#;

/// Starts a server with no other controller than the one that follows labels.
fn placing_server() -> Atoll {
    Setup::new().flag("--controllers", "kcpplacement").flag("--identity-lease", false).start()
}

#[tokio::test(flavor = "multi_thread")]
async fn labels_place_objects_without_another_placement() {
    let mut server = placing_server();
    let admin = server.admin();
    server.run("workspace create team");
    let team = admin.workspace("root:team");
    let register = async |name: &str| {
        admin.post(OWN, json!({ "metadata": { "name": name }, "spec": { "mode": "none" } })).await.expect(201)
    };
    register("east").await;
    let labelled = |name: &str, cluster: &str| {
        let mut object = config_map_with(name, "1");
        object["metadata"]["labels"] = json!({ LABEL: cluster });
        object
    };
    let maps = "/api/v1/namespaces/default/configmaps";
    admin.post(maps, labelled("before", "east")).await.expect(201);
    assert_eq!(placement(&admin.get(&config_map("before")).await.expect(200)), "", "kcp is not enabled");

    server.run("dialect enable kcp");
    wait_for_placement(&admin, &config_map("before"), BY_LABEL_EAST).await;
    // In child workspaces as well, and for other kinds.
    team.post(maps, labelled("below", "east")).await.expect(201);
    wait_for_placement(&team, &config_map("below"), BY_LABEL_EAST).await;
    let template = json!({
        "metadata": { "labels": { "app": "a" } }, "spec": { "containers": [{ "name": "a", "image": "a" }] },
    });
    let deployment = json!({
        "metadata": { "name": "web", "labels": { LABEL: "east" } },
        "spec": { "replicas": 2, "selector": { "matchLabels": { "app": "a" } }, "template": template },
    });
    team.post("/apis/apps/v1/namespaces/default/deployments", deployment).await.expect(201);
    wait_for_placement(&team, "/apis/apps/v1/namespaces/default/deployments/web", BY_LABEL_EAST).await;
    // Roles are never placed.
    let role = json!({ "metadata": { "name": "r", "labels": { LABEL: "east" } }, "rules": [] });
    let roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles";
    team.post(roles, role).await.expect(201);

    // A cluster that joins later, a cordoned cluster, and a cluster that does not exist.
    for (name, cluster) in [("later", "west"), ("never", "north"), ("closed", "south")] {
        admin.post(maps, labelled(name, cluster)).await.expect(201);
    }
    admin
        .post(
            OWN,
            json!({ "metadata": { "name": "south" }, "spec": { "mode": "none", "unschedulable": true } }),
        )
        .await
        .expect(201);
    register("west").await;
    wait_for_placement(&admin, &config_map("later"), r#"{"clusters":[{"name":"west"}],"by":"label"}"#).await;
    wait_until_caught_up(&admin, "sign").await;
    for name in ["never", "closed"] {
        assert_eq!(placement(&admin.get(&config_map(name)).await.expect(200)), "", "{name}");
    }
    assert_eq!(placement(&team.get(&format!("{roles}/r")).await.expect(200)), "");
    admin.merge(&format!("{OWN}/south"), json!({ "spec": { "unschedulable": false } })).await.expect(200);
    wait_for_placement(&admin, &config_map("closed"), r#"{"clusters":[{"name":"south"}],"by":"label"}"#)
        .await;

    // Another value moves the object, and removing the label removes it.
    let before = config_map("before");
    set_label(&admin, &before, Some("west")).await;
    wait_for_placement(&admin, &before, r#"{"clusters":[{"name":"west"}],"leaving":["east"],"by":"label"}"#)
        .await;
    set_label(&admin, &before, None).await;
    wait_for_placement(&admin, &before, r#"{"leaving":["west","east"]}"#).await;

    // A placement by hand has priority. The label takes effect again when that placement is removed.
    server.run("place configmap/later --on east");
    set_label(&admin, &config_map("later"), Some("south")).await;
    wait_until_caught_up(&admin, "another-sign").await;
    let hand = placement(&admin.get(&config_map("later")).await.expect(200));
    assert!(hand.contains(r#""clusters":[{"name":"east"}]"#) && hand.contains(r#""by":"hand""#), "{hand}");
    let nowhere = json!({ "spec": { "clusters": [] } });
    admin.put(&format!("{}/placement", config_map("later")), nowhere).await.expect(200);
    eventually("the label takes effect", async || {
        let now = placement(&admin.get(&config_map("later")).await.expect(200));
        now.contains(r#""clusters":[{"name":"south"}]"#) && now.contains(r#""by":"label""#)
    })
    .await;

    // A label that was removed before a crash takes effect after it.
    set_label(&admin, &config_map("sign"), None).await;
    server.kill();
    server.restart();
    let admin = server.admin();
    wait_for_placement(&admin, &config_map("sign"), r#"{"leaving":["east"]}"#).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn labels_do_not_duplicate_jobs() {
    let server = placing_server();
    let admin = server.admin();
    for name in ["east", "west"] {
        let cluster = json!({ "metadata": { "name": name }, "spec": { "mode": "none" } });
        admin.post(OWN, cluster).await.expect(201);
    }
    server.run("dialect enable kcp");
    let state = |name: &str| format!("state.workload.kcp.io/{name}");
    let job = json!({
        "metadata": { "name": "once", "labels": { state("east"): "Sync" } },
        "spec": { "template": { "spec": { "restartPolicy": "Never", "containers": [{ "name": "a", "image": "a" }] } } },
    });
    let jobs = "/apis/batch/v1/namespaces/default/jobs";
    let uid = admin.post(jobs, job).await.expect(201)["metadata"]["uid"].clone();
    let once = format!("{jobs}/once");
    wait_for_placement(&admin, &once, BY_LABEL_EAST).await;
    admin.merge(&once, json!({ "metadata": { "labels": { state("west"): "Sync" } } })).await.expect(200);
    eventually("an event reports the rejection", async || {
        let events = admin.get("/api/v1/namespaces/default/events").await.expect(200);
        events["items"].as_array().unwrap().iter().any(|event| {
            event["involvedObject"]["uid"] == uid
                && event["reason"] == "PlacementRefused"
                && event["type"] == "Warning"
                && event["message"].as_str().unwrap_or_default().contains("a Job must not be duplicated")
        })
    })
    .await;
    assert_eq!(placement(&admin.get(&once).await.expect(200)), BY_LABEL_EAST);
    // Other objects do not wait for it, and it is not retried in a loop.
    wait_until_caught_up(&admin, "after").await;
    // With a single label it takes effect again.
    admin.merge(&once, json!({ "metadata": { "labels": { state("east"): null } } })).await.expect(200);
    wait_for_placement(&admin, &once, r#"{"clusters":[{"name":"west"}],"leaving":["east"],"by":"label"}"#)
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rejected_labels_are_reported() {
    let server = placing_server();
    let admin = server.admin();
    server.run("workspace create team");
    let team = admin.workspace("root:team");
    let fence = json!([{ "key": "atoll.dev/fenced", "effect": "NoExecute" }]);
    for (name, spec) in [
        ("east", json!({ "mode": "none", "taints": fence })),
        ("west", json!({ "mode": "none", "workspaces": [] })),
        ("north", json!({ "mode": "none" })),
    ] {
        admin.post(OWN, json!({ "metadata": { "name": name }, "spec": spec })).await.expect(201);
    }
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    // Creates a Deployment. Returns its uid and the warning.
    let create = async |name: &str, cluster: &str, host: bool| {
        let labels = json!({ "app": name });
        let spec = json!({ "hostNetwork": host, "containers": [{ "name": "a", "image": "a" }] });
        let deployment = json!({
            "metadata": { "name": name, "labels": { LABEL: cluster } },
            "spec": {
                "selector": { "matchLabels": labels },
                "template": { "metadata": { "labels": labels }, "spec": spec },
            },
        });
        let answer = team.post(deployments, deployment).await;
        let uid = answer.expect(201)["metadata"]["uid"].clone();
        (uid, answer.header("warning").unwrap_or_default().to_string())
    };
    let (_, warning) = create("early", "north", false).await;
    assert!(
        warning.contains("its label workloads.kcp.dev/cluster does nothing here (atoll dialect enable kcp)")
            && warning.contains("atoll place deployment/early --namespace default --on north"),
        "{warning}"
    );
    server.run("dialect enable kcp");
    let (_, warning) = create("taken", "north", false).await;
    assert_eq!(warning, "");
    wait_for_placement(
        &team,
        &format!("{deployments}/taken"),
        r#"{"clusters":[{"name":"north"}],"by":"label"}"#,
    )
    .await;
    for (name, cluster, host, why) in [
        (
            "fenced",
            "east",
            false,
            "cluster east is fenced, nothing runs there; lift that with: atoll cluster fence east --lift",
        ),
        ("unserved", "west", false, "the cluster does not serve workspace team"),
        ("insecure", "north", true, "violates PodSecurity"),
    ] {
        let (uid, warning) = create(name, cluster, host).await;
        assert!(warning.contains("nothing runs yet") && warning.contains(why), "{name}: {warning}");
        eventually(&format!("an event reports why {name} is not placed"), async || {
            let events = team.get("/api/v1/namespaces/default/events").await.expect(200);
            events["items"].as_array().unwrap().iter().any(|event| {
                event["involvedObject"]["uid"] == uid
                    && event["reason"] == "PlacementRefused"
                    && event["message"].as_str().unwrap_or_default().contains(why)
            })
        })
        .await;
        assert_eq!(placement(&team.get(&format!("{deployments}/{name}")).await.expect(200)), "");
    }
    // A label of an object that exists warns, too, whatever its kind is.
    let maps = "/api/v1/namespaces/default/configmaps";
    team.post(maps, config_map_with("settings", "1")).await.expect(201);
    let settings = config_map("settings");
    let misspelt = json!({ "metadata": { "labels": { LABEL: "misspelt" } } });
    let labelled = team.merge(&settings, misspelt).await;
    let uid = labelled.expect(200)["metadata"]["uid"].clone();
    let warning = labelled.header("warning").unwrap_or_default();
    assert!(warning.contains("names the cluster \\\"misspelt\\\", which does not exist"), "{warning}");
    eventually("an event says that its cluster does not exist", async || {
        let events = team.get("/api/v1/namespaces/default/events").await.expect(200);
        events["items"].as_array().unwrap().iter().any(|event| {
            event["involvedObject"]["uid"] == uid
                && event["message"]
                    .as_str()
                    .unwrap_or_default()
                    .contains("\"misspelt\", which does not exist")
        })
    })
    .await;
    // An object that is no longer rejected is placed.
    server.run("cluster fence east --lift");
    wait_for_placement(&team, &format!("{deployments}/fenced"), BY_LABEL_EAST).await;
}
