//! A tenant with clusters, policies and workloads of its own neither stops nor slows down the scheduler for others.

use atoll_testkit::Client;
use atoll_testkit::wait::eventually;
use serde_json::{Value, json};

use crate::bindings::{TenantServer, create_tenant_workspace};

const CLUSTERS: &str = "/apis/atoll.dev/v1alpha1/clusters";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const AUTOSCALERS: &str = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";
const POLICIES: &str = "/apis/atoll.dev/v1alpha1/namespaces/default/placementpolicies";
/// No controller of health runs, so that clusters are as the test reports.
const CONTROLLERS: &str = "placementscheduler,placementfollower,objectstatus,workspace,namespace";

/// A tenant, and another one with whom the first shares a cluster.
async fn start() -> (TenantServer, Client, Client) {
    let server = TenantServer::start(&["ann", "bob"], &[("--controllers", CONTROLLERS)]);
    let admin = server.admin();
    for name in ["ann", "bob"] {
        create_tenant_workspace(&admin, "root", name, name).await;
    }
    let (ann, bob) = (server.user("ann", "root:ann"), server.user("bob", "root:bob"));
    for tenant in [&ann, &bob] {
        eventually("the workspace is there", async || {
            tenant.get("/api/v1/namespaces/default").await.status == 200
        })
        .await;
    }
    (server, ann, bob)
}

async fn join(client: &Client, name: &str, spec: Value, free: Value) {
    client.post(CLUSTERS, json!({ "metadata": { "name": name }, "spec": spec })).await.expect(201);
    let ready = json!({ "type": "Ready", "status": "True", "reason": "Synced", "message": "" });
    let status = json!({ "status": { "conditions": [ready], "free": free } });
    client.merge(&format!("{CLUSTERS}/{name}/status"), status).await.expect(200);
}

fn nodes(pods: &str) -> Value {
    json!({ "nodes": 1, "resources": { "cpu": "900000000", "memory": "1Ei", "pods": pods } })
}

fn deployment(name: &str, replicas: i64, clusters: Option<&str>) -> Value {
    let labels = json!({ "app": name });
    json!({
        "metadata": { "name": name, "annotations": clusters.map(|clusters| json!({ "atoll.dev/clusters": clusters })) },
        "spec": {
            "replicas": replicas, "selector": { "matchLabels": labels },
            "template": { "metadata": { "labels": labels }, "spec": { "containers": [{ "name": "main", "image": "app" }] } },
        },
    })
}

/// Waits until a Deployment has shares.
async fn wait_until_placed(client: &Client, name: &str) {
    eventually(&format!("{name} is placed"), async || {
        let found = client.get(&format!("{DEPLOYMENTS}/{name}/placement")).await.json_or_null();
        found["spec"]["clusters"].as_array().is_some_and(|shares| !shares.is_empty())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn very_many_replicas_do_not_stop_the_scheduler() {
    let (server, ann, bob) = start().await;
    join(&server.admin(), "shared", json!({ "mode": "none" }), json!([nodes("1000")])).await;
    join(&ann, "wide", json!({ "mode": "none" }), vec![nodes("900000000000"); 16].into()).await;
    join(&ann, "small", json!({ "mode": "none" }), json!([nodes("5")])).await;
    let most = i64::from(i32::MAX);
    for (name, clusters) in [("seated", "wide"), ("divided", "small=1000000,wide=1")] {
        ann.post(DEPLOYMENTS, deployment(name, most, Some(clusters))).await.expect(201);
        wait_until_placed(&ann, name).await;
    }
    bob.post(DEPLOYMENTS, deployment("web", 1, None)).await.expect(201);
    wait_until_placed(&bob, "web").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn placement_policies_are_limited() {
    let (_server, ann, _bob) = start().await;
    let names: Vec<String> = (0..900).map(|number| format!("{number}{}", "c".repeat(50))).collect();
    let policy = |name: &str, spec: Value| json!({ "metadata": { "name": name }, "spec": spec });
    let large = json!({ "clusters": { "names": names } });
    ann.post(POLICIES, policy("one", large.clone())).await.expect(201);
    ann.post(POLICIES, policy("two", large.clone())).await.expect(201);
    let message = ann.post(POLICIES, policy("three", large)).await.expect_status(403, "Forbidden");
    assert!(message.contains("all placementpolicies of namespace"), "{message}");
    let rules = vec![json!({ "selector": { "matchLabels": { "a": "b" } } }); 17];
    let answer = ann.post(POLICIES, policy("rules", json!({ "antiAffinity": rules }))).await;
    let message = answer.expect_status(422, "Invalid");
    assert!(message.contains("spec.antiAffinity"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn labels_taints_and_shares_are_limited() {
    let (_server, ann, _bob) = start().await;
    let labels: Value =
        (0..65).map(|number| (format!("l{number}"), json!(""))).collect::<serde_json::Map<_, _>>().into();
    let taints = vec![json!({ "key": "k", "effect": "NoSchedule" }); 65];
    for (labels, taints, field) in
        [(labels, json!([]), "metadata.labels"), (json!({}), taints.into(), "spec.taints")]
    {
        let cluster = json!({
            "metadata": { "name": "own", "labels": labels }, "spec": { "mode": "none", "taints": taints },
        });
        let message = ann.post(CLUSTERS, cluster).await.expect_status(422, "Invalid");
        assert!(message.contains(field), "{message}");
    }
    ann.post(DEPLOYMENTS, deployment("web", 1, Some("none"))).await.expect(201);
    let shares: Vec<Value> = (0..2001).map(|number| json!({ "name": format!("c{number}") })).collect();
    let placement = json!({ "spec": { "clusters": shares } });
    let answer = ann.merge(&format!("{DEPLOYMENTS}/web/placement"), placement).await;
    let message = answer.expect_status(422, "Invalid");
    assert!(message.contains("Too many"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn reasons_are_short_and_name_no_clusters_of_others() {
    let (server, ann, _bob) = start().await;
    let admin = server.admin();
    let secret = json!({ "mode": "none", "workspaces": ["bob"], "unschedulable": true });
    join(&admin, "secret-project", secret, json!([nodes("10")])).await;
    join(&admin, "shared", json!({ "mode": "none" }), json!([nodes("0")])).await;
    for number in 0..60 {
        let cluster = json!({ "metadata": { "name": format!("own-{number}") }, "spec": { "mode": "none" } });
        ann.post(CLUSTERS, cluster).await.expect(201);
    }
    ann.post(DEPLOYMENTS, deployment("web", 1, None)).await.expect(201);
    let mut message = String::new();
    eventually("the reasons of the first clusters are told", async || {
        let web = ann.get(&format!("{DEPLOYMENTS}/web")).await.expect(200);
        let conditions = web["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let placed = conditions.iter().find(|condition| condition["type"] == "Placed");
        message = placed.and_then(|placed| placed["message"].as_str()).unwrap_or_default().to_string();
        message.contains("more clusters")
    })
    .await;
    assert!(message.len() < 4096, "{message}");
    assert!(!message.contains("secret-project"), "{message}");
    let events = ann.get("/api/v1/namespaces/default/events").await.expect(200).to_string();
    assert!(!events.contains("secret-project"), "{events}");
}

/// Waits until a Deployment of a tenant is placed on a cluster by its annotation.
async fn fits(tenant: &Client, name: &str, cluster: &str) {
    tenant.post(DEPLOYMENTS, deployment(name, 1, Some(cluster))).await.expect(201);
    wait_until_placed(tenant, name).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn targets_of_moves_take_no_room_of_others() {
    let (server, ann, bob) = start().await;
    let admin = server.admin();
    join(&admin, "shared", json!({ "mode": "none" }), json!([nodes("10")])).await;
    let reserved = json!({ "mode": "none", "workspaces": ["bob"] });
    join(&admin, "reserved", reserved, json!([nodes("10")])).await;
    join(&bob, "own", json!({ "mode": "none" }), json!([nodes("10")])).await;
    let uid = bob.get(&format!("{CLUSTERS}/own")).await.expect(200)["metadata"]["uid"].clone();
    ann.post(DEPLOYMENTS, deployment("web", 1, None)).await.expect(201);
    wait_until_placed(&ann, "web").await;
    let path = format!("{DEPLOYMENTS}/web/placement");
    let clusters = ann.get(&path).await.expect(200)["spec"]["clusters"].clone();
    let most = i32::MAX;
    let target = json!([
        { "name": "shared", "replicas": most }, { "name": "reserved", "replicas": most },
        { "name": "x", "uid": uid, "replicas": most },
    ]);
    let forged =
        json!({ "spec": { "by": "release", "clusters": clusters, "phase": "adding", "target": target } });
    let answer = ann.merge(&path, forged).await.expect(200);
    assert_eq!(answer["spec"]["target"], Value::Null, "{answer}");
    assert_eq!(answer["spec"]["phase"], Value::Null, "{answer}");
    for cluster in ["shared", "reserved", "own"] {
        fits(&bob, &format!("on-{cluster}"), cluster).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn shared_clusters_get_no_more_than_the_scheduler_has_room_for() {
    let (server, ann, bob) = start().await;
    let admin = server.admin();
    join(&admin, "shared", json!({ "mode": "none" }), json!([nodes("10")])).await;
    join(&ann, "own", json!({ "mode": "none" }), json!([nodes("10")])).await;
    fits(&ann, "web", "shared").await;
    let owner =
        json!({ "apiVersion": "apps/v1", "kind": "Deployment", "name": "a", "uid": "1", "controller": true });
    let mut owned = deployment("owned", 1, None);
    owned["metadata"]["ownerReferences"] = json!([owner]);
    ann.post(DEPLOYMENTS, owned).await.expect(201);
    let public = DEPLOYMENTS.replace("default", "kube-public");
    ann.post(&public, deployment("public", 1, None)).await.expect(201);
    let placement = |by: &str, cluster: &str, replicas: i64| json!({ "spec": { "by": by, "clusters": [{ "name": cluster, "replicas": replicas }] } });
    let (web, owned) = (format!("{DEPLOYMENTS}/web/placement"), format!("{DEPLOYMENTS}/owned/placement"));
    for (path, by) in
        [(&web, "annotation"), (&owned, "hand"), (&format!("{public}/public/placement"), "hand")]
    {
        let message = ann.merge(path, placement(by, "shared", 300)).await.expect_status(403, "Forbidden");
        assert!(message.contains("the verb update on clusters.atoll.dev"), "{path}: {message}");
    }
    // The rest has room, and clusters of the tenant's own are its own business.
    fits(&bob, "other", "shared").await;
    ann.merge(&owned, placement("hand", "own", 300)).await.expect(200);
    ann.merge(&web, placement("annotation", "shared", 1)).await.expect(200);
    admin.workspace("root:ann").merge(&web, placement("annotation", "shared", 2)).await.expect(200);
}

/// Waits until the condition `Placed` of an object of a tenant has a message that contains a text.
async fn wait_until_told(client: &Client, path: &str, text: &str) {
    eventually(&format!("{path} is told: {text}"), async || {
        let found = client.get(path).await.expect(200);
        let conditions = found["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let placed = conditions.iter().find(|condition| condition["type"] == "Placed");
        placed.and_then(|placed| placed["message"].as_str()).is_some_and(|message| message.contains(text))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn shared_clusters_take_nothing_before_they_have_reported_their_room() {
    let (server, ann, _bob) = start().await;
    let admin = server.admin();
    join(&admin, "shared", json!({ "mode": "none" }), Value::Null).await;
    join(&ann, "own", json!({ "mode": "none" }), Value::Null).await;
    ann.post(DEPLOYMENTS, deployment("many", 5000, Some("shared"))).await.expect(201);
    let path = format!("{DEPLOYMENTS}/many");
    wait_until_told(&ann, &path, "shared has not reported its room yet").await;
    let placement = ann.get(&format!("{path}/placement")).await.expect(200);
    assert_eq!(placement["spec"]["clusters"], json!([]), "{placement}");
    // The owner of a cluster need not wait.
    fits(&ann, "mine", "own").await;
    admin.post(DEPLOYMENTS, deployment("web", 1, Some("shared"))).await.expect(201);
    wait_until_placed(&admin, "web").await;
    // It is tried again when there is a report.
    let free = json!({ "status": { "free": [nodes("60")] } });
    admin.merge(&format!("{CLUSTERS}/shared/status"), free).await.expect(200);
    wait_until_placed(&ann, "many").await;
    let placement = ann.get(&format!("{path}/placement")).await.expect(200);
    let replicas = placement["spec"]["clusters"][0]["replicas"].as_i64();
    assert!(replicas.is_some_and(|replicas| replicas <= 60), "{placement}");
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_run_no_more_pods_on_shared_clusters_than_have_room() {
    let (server, ann, _bob) = start().await;
    join(&server.admin(), "shared", json!({ "mode": "none" }), json!([nodes("60")])).await;
    let template =
        json!({ "spec": { "restartPolicy": "Never", "containers": [{ "name": "main", "image": "app" }] } });
    let metadata = |name: &str| json!({ "name": name, "annotations": { "atoll.dev/clusters": "shared" } });
    let [jobs, cron_jobs] =
        ["jobs", "cronjobs"].map(|resource| format!("/apis/batch/v1/namespaces/default/{resource}"));
    let job = json!({ "metadata": metadata("sum"), "spec": { "parallelism": 4, "template": template } });
    ann.post(&jobs, job).await.expect(201);
    for (name, parallelism) in [("few", 3), ("many", 5000)] {
        let job = json!({ "spec": { "parallelism": parallelism, "template": template } });
        let spec = json!({ "schedule": "0 0 1 1 *", "jobTemplate": job });
        ann.post(&cron_jobs, json!({ "metadata": metadata(name), "spec": spec })).await.expect(201);
    }
    let wait_for = async |path: &str, parallelism: i64| {
        eventually(&format!("{path} may run {parallelism} pods"), async || {
            let found = ann.get(&format!("{path}/placement")).await.json_or_null();
            found["spec"]["clusters"][0]["parallelism"] == parallelism
        })
        .await;
    };
    let sum = format!("{jobs}/sum");
    wait_for(&sum, 4).await;
    wait_for(&format!("{cron_jobs}/few"), 3).await;
    ann.merge(&sum, json!({ "spec": { "parallelism": 5000 } })).await.expect(200);
    wait_for(&sum, 57).await;
    eventually("the tenant is told how many pods have room", async || {
        let events = ann.get("/api/v1/namespaces/default/events").await.expect(200).to_string();
        events.contains("shared has room for 57 replicas")
    })
    .await;
    let many = ann.get(&format!("{cron_jobs}/many/placement")).await.expect(200);
    assert_eq!(many["spec"]["clusters"], json!([]), "{many}");
    // No tenant writes another number.
    for share in [json!({ "name": "shared", "parallelism": 5000 }), json!({ "name": "shared" })] {
        let forged = json!({ "spec": { "by": "annotation", "clusters": [share] } });
        let message = ann.merge(&format!("{sum}/placement"), forged).await.expect_status(403, "Forbidden");
        assert!(message.contains("the verb update on clusters.atoll.dev"), "{message}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn autoscalers_act_above_for_workloads_on_shared_clusters() {
    let (server, ann, _bob) = start().await;
    let admin = server.admin();
    join(&admin, "shared", json!({ "mode": "none" }), json!([nodes("60")])).await;
    join(&ann, "own", json!({ "mode": "none" }), json!([nodes("60")])).await;
    let autoscaler = |name: &str| {
        let target = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "name": name });
        let spec = json!({ "scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 5000 });
        json!({ "metadata": { "name": name }, "spec": spec })
    };
    ann.post(AUTOSCALERS, autoscaler("web")).await.expect(201);
    fits(&ann, "web", "shared").await;
    eventually("the autoscaler acts in the control plane", async || {
        let placement = ann.get(&format!("{DEPLOYMENTS}/web/placement")).await.expect(200);
        let side = placement["spec"]["autoscaler"].as_str().unwrap_or_default().to_string();
        assert_ne!(side, "below", "{placement}");
        side == "above"
    })
    .await;
    // Nor does a tenant put one there.
    ann.post(AUTOSCALERS, autoscaler("other")).await.expect(201);
    let path = format!("{AUTOSCALERS}/other/placement");
    let on = |cluster: &str| json!({ "spec": { "clusters": [{ "name": cluster }] } });
    let message = ann.merge(&path, on("shared")).await.expect_status(403, "Forbidden");
    assert!(message.contains("act in the control plane"), "{message}");
    ann.merge(&path, on("own")).await.expect(200);
    admin.workspace("root:ann").merge(&path, on("shared")).await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn clusters_of_others_are_like_clusters_that_do_not_exist() {
    let (server, ann, _bob) = start().await;
    let admin = server.admin();
    join(&admin, "shared", json!({ "mode": "none" }), json!([nodes("10")])).await;
    let reserved = json!({ "mode": "none", "workspaces": ["bob"] });
    join(&admin, "reserved", reserved, json!([nodes("10")])).await;
    let labels = json!({ "metadata": { "labels": { "tier": "gold" } } });
    admin.merge(&format!("{CLUSTERS}/reserved"), labels).await.expect(200);
    eventually("the scheduler runs", async || {
        ann.post("/services/what-if", json!({ "drain": "absent" })).await.status != 503
    })
    .await;
    for question in ["drain", "lose"] {
        let ask = async |name: &str| {
            let answer = ann.post("/services/what-if", json!({ question: name })).await;
            answer.expect_status(404, "NotFound").replace(name, "NAME")
        };
        assert_eq!(ask("reserved").await, ask("absent").await, "{question}");
    }
    // Neither do policies tell anything about its labels.
    for name in ["reserved", "absent"] {
        ann.post(DEPLOYMENTS, deployment(name, 1, Some(name))).await.expect(201);
        wait_until_told(&ann, &format!("{DEPLOYMENTS}/{name}"), "no cluster serves this workspace under")
            .await;
    }
    for tier in ["gold", "silver"] {
        let selector = json!({ "matchLabels": { "tier": tier } });
        let policy = json!({
            "apiVersion": "atoll.dev/v1alpha1", "kind": "ClusterPlacementPolicy", "metadata": { "name": "all" },
            "spec": { "clusters": { "selector": selector } },
        });
        let answer = ann.post("/services/what-if", json!({ "policy": policy })).await.expect(200);
        let reason = |name: &str| {
            let changes = answer["changes"].as_array().cloned().unwrap_or_default();
            let change = changes.into_iter().find(|change| change["name"] == name);
            let reason = change.and_then(|change| change["reason"].as_str().map(str::to_string));
            reason.map(|reason| reason.replace(name, "NAME"))
        };
        assert!(reason("absent").is_some(), "{answer}");
        assert_eq!(reason("reserved"), reason("absent"), "{tier}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn impersonated_controllers_write_no_placements() {
    let (server, ann, _bob) = start().await;
    let admin = server.admin();
    for name in ["east", "west"] {
        join(&admin, name, json!({ "mode": "none" }), json!([nodes("10")])).await;
    }
    ann.post(DEPLOYMENTS, deployment("web", 1, Some("east"))).await.expect(201);
    wait_until_placed(&ann, "web").await;
    let controllers = ann.acting_as("system:atoll-controllers", &["system:masters"]);
    let forged = json!({ "spec": { "by": "default", "clusters": [{ "name": "west" }] } });
    let answer = controllers.merge(&format!("{DEPLOYMENTS}/web/placement"), forged).await;
    let message = answer.expect_status(403, "Forbidden");
    assert!(message.contains("the scheduler makes this placement"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn abandoned_questions_do_not_delay_others() {
    let (server, ann, bob) = start().await;
    join(&server.admin(), "shared", json!({ "mode": "none" }), json!([nodes("1000")])).await;
    for number in 0..40 {
        ann.post(DEPLOYMENTS, deployment(&format!("web-{number}"), 1, None)).await.expect(201);
    }
    wait_until_placed(&ann, "web-39").await;
    let policy = json!({
        "apiVersion": "atoll.dev/v1alpha1", "kind": "ClusterPlacementPolicy", "metadata": { "name": "all" },
        "spec": { "replicas": { "division": "Even" } },
    });
    let question = json!({ "policy": policy });
    let mut abandoned = tokio::task::JoinSet::new();
    for _ in 0..600 {
        let (ann, question) = (ann.clone(), question.clone());
        abandoned.spawn(async move { ann.post("/services/what-if?timeout=5ms", question).await.status });
    }
    abandoned.join_all().await;
    let answer = bob.post("/services/what-if", question).await;
    assert_eq!(answer.status, 200, "{}", answer.json_or_null());
    let threads =
        std::fs::read_dir(format!("/proc/{}/task", server.atoll.process())).map_or(0, Iterator::count);
    assert!(threads < 100, "{threads} threads");
}
