//! The label `workloads.kcp.dev/cluster` places things, moves them and takes them away.

use serde_json::{Value, json};

use crate::support::access::Access;
use crate::support::process::Atoll;
use crate::support::{config_map, config_map_with, eventually, without_uids};
use crate::{OWN, says};

const LABEL: &str = "workloads.kcp.dev/cluster";

fn placement(object: &Value) -> String {
    without_uids(object["metadata"]["annotations"]["atoll.dev/placement"].as_str().unwrap_or_default())
}

async fn becomes(access: &Access, path: &str, expected: &str) {
    eventually(&format!("{path} is placed as {expected}"), async || {
        placement(&access.get(path).await.expect(200)) == expected
    })
    .await;
}

async fn label(access: &Access, path: &str, name: Option<&str>) {
    access.merge(path, json!({ "metadata": { "labels": { LABEL: name } } })).await.expect(200);
}

/// Something written later has been looked at: then what was written before has been.
async fn caught_up(access: &Access, name: &str) {
    let mut object = config_map_with(name, "1");
    object["metadata"]["labels"] = json!({ LABEL: "east" });
    access.post("/api/v1/namespaces/default/configmaps", object).await.expect(201);
    becomes(access, &config_map(name), BY_LABEL_EAST).await;
}

const BY_LABEL_EAST: &str = r#"{"clusters":[{"name":"east"}],"by":"label"}"#;

#[tokio::test(flavor = "multi_thread")]
async fn labels_place_where_nobody_else_has() {
    let mut server = Atoll::start_bare();
    let admin = server.admin();
    says(&server, "workspace create team");
    let team = admin.workspace("root:team");
    let register = async |name: &str| {
        admin.post(OWN, json!({ "metadata": { "name": name }, "spec": { "mode": "none" } })).await.expect(201)
    };
    register("east").await;
    let early = |name: &str, cluster: &str| {
        let mut object = config_map_with(name, "1");
        object["metadata"]["labels"] = json!({ LABEL: cluster });
        object
    };
    let maps = "/api/v1/namespaces/default/configmaps";
    admin.post(maps, early("before", "east")).await.expect(201);
    assert_eq!(placement(&admin.get(&config_map("before")).await.expect(200)), "", "nobody speaks kcp");

    says(&server, "dialect enable kcp");
    becomes(&admin, &config_map("before"), BY_LABEL_EAST).await;
    // Below as well, and whatever kind it is.
    team.post(maps, early("below", "east")).await.expect(201);
    becomes(&team, &config_map("below"), BY_LABEL_EAST).await;
    let template = json!({
        "metadata": { "labels": { "app": "a" } }, "spec": { "containers": [{ "name": "a", "image": "a" }] },
    });
    let deployment = json!({
        "metadata": { "name": "web", "labels": { LABEL: "east" } },
        "spec": { "replicas": 2, "selector": { "matchLabels": { "app": "a" } }, "template": template },
    });
    team.post("/apis/apps/v1/namespaces/default/deployments", deployment).await.expect(201);
    becomes(&team, "/apis/apps/v1/namespaces/default/deployments/web", BY_LABEL_EAST).await;
    // Who may be somebody stays up.
    let role = json!({ "metadata": { "name": "r", "labels": { LABEL: "east" } }, "rules": [] });
    let roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles";
    team.post(roles, role).await.expect(201);

    // A cluster that comes later, one that takes nothing new, and one that there never is.
    for (name, cluster) in [("later", "west"), ("never", "north"), ("closed", "south")] {
        admin.post(maps, early(name, cluster)).await.expect(201);
    }
    admin
        .post(
            OWN,
            json!({ "metadata": { "name": "south" }, "spec": { "mode": "none", "unschedulable": true } }),
        )
        .await
        .expect(201);
    register("west").await;
    becomes(&admin, &config_map("later"), r#"{"clusters":[{"name":"west"}],"by":"label"}"#).await;
    caught_up(&admin, "sign").await;
    for name in ["never", "closed"] {
        assert_eq!(placement(&admin.get(&config_map(name)).await.expect(200)), "", "{name}");
    }
    assert_eq!(placement(&team.get(&format!("{roles}/r")).await.expect(200)), "");
    admin.merge(&format!("{OWN}/south"), json!({ "spec": { "unschedulable": false } })).await.expect(200);
    becomes(&admin, &config_map("closed"), r#"{"clusters":[{"name":"south"}],"by":"label"}"#).await;

    // Another value moves it, and none takes it away.
    let before = config_map("before");
    label(&admin, &before, Some("west")).await;
    becomes(&admin, &before, r#"{"clusters":[{"name":"west"}],"leaving":["east"],"by":"label"}"#).await;
    label(&admin, &before, None).await;
    becomes(&admin, &before, r#"{"leaving":["west","east"]}"#).await;

    // By hand comes first, and the label is followed again when nobody else decides.
    says(&server, "place configmap/later --on east");
    label(&admin, &config_map("later"), Some("south")).await;
    caught_up(&admin, "another-sign").await;
    let hand = placement(&admin.get(&config_map("later")).await.expect(200));
    assert!(hand.contains(r#""clusters":[{"name":"east"}]"#) && hand.contains(r#""by":"hand""#), "{hand}");
    let nowhere = json!({ "spec": { "clusters": [] } });
    admin.put(&format!("{}/placement", config_map("later")), nowhere).await.expect(200);
    eventually("the label is followed", async || {
        let now = placement(&admin.get(&config_map("later")).await.expect(200));
        now.contains(r#""clusters":[{"name":"south"}]"#) && now.contains(r#""by":"label""#)
    })
    .await;

    // What a label placed before a crash is taken away after it.
    label(&admin, &config_map("sign"), None).await;
    server.kill();
    server.restart();
    let admin = server.admin();
    becomes(&admin, &config_map("sign"), r#"{"leaving":["east"]}"#).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn labels_duplicate_nothing_that_runs_once() {
    let server = Atoll::start_bare();
    let admin = server.admin();
    for name in ["east", "west"] {
        let cluster = json!({ "metadata": { "name": name }, "spec": { "mode": "none" } });
        admin.post(OWN, cluster).await.expect(201);
    }
    says(&server, "dialect enable kcp");
    let state = |name: &str| format!("state.workload.kcp.io/{name}");
    let job = json!({
        "metadata": { "name": "once", "labels": { state("east"): "Sync" } },
        "spec": { "template": { "spec": { "restartPolicy": "Never", "containers": [{ "name": "a", "image": "a" }] } } },
    });
    let jobs = "/apis/batch/v1/namespaces/default/jobs";
    let uid = admin.post(jobs, job).await.expect(201)["metadata"]["uid"].clone();
    let once = format!("{jobs}/once");
    becomes(&admin, &once, BY_LABEL_EAST).await;
    admin.merge(&once, json!({ "metadata": { "labels": { state("west"): "Sync" } } })).await.expect(200);
    eventually("an event says why not", async || {
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
    // Others do not wait for it, and it is not tried over and over.
    caught_up(&admin, "after").await;
    // With one label it is followed again.
    admin.merge(&once, json!({ "metadata": { "labels": { state("east"): null } } })).await.expect(200);
    becomes(&admin, &once, r#"{"clusters":[{"name":"west"}],"leaving":["east"],"by":"label"}"#).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_labels_are_told() {
    let server = Atoll::start_bare();
    let admin = server.admin();
    says(&server, "workspace create team");
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
    // The uid of a new Deployment, and what its creator is warned of.
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
    says(&server, "dialect enable kcp");
    let (_, warning) = create("taken", "north", false).await;
    assert_eq!(warning, "");
    becomes(&team, &format!("{deployments}/taken"), r#"{"clusters":[{"name":"north"}],"by":"label"}"#).await;
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
        eventually(&format!("an event says why {name} is not placed"), async || {
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
    // What is no longer refused is followed.
    says(&server, "cluster fence east --lift");
    becomes(&team, &format!("{deployments}/fenced"), BY_LABEL_EAST).await;
}
