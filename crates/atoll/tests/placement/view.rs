//! The view of a cluster, and reports about it.

use atoll_testkit::wait::eventually;
use serde_json::{Value, json};

use crate::support::process::Atoll;
use crate::support::shares;
use crate::support::watching::Watch;
use crate::{CLUSTERS, DEPLOYMENTS, cluster, deployment, gone, on, path, placement_path, with_clusters};

const VIEW: &str = "/services/sync/east";

/// What a report says of the object of a line.
fn record(line: &Value, state: &str) -> Value {
    let mut record = line.clone();
    let fields = record.as_object_mut().unwrap();
    fields.remove("type");
    fields.remove("object");
    fields.insert("state".into(), state.into());
    record
}

/// The next line that says something; that a view is alive is said whenever nothing else was for a while.
async fn said(view: &mut Watch) -> Value {
    loop {
        let line = view.line().await;
        if line["type"] != "Alive" {
            return line;
        }
    }
}

fn report(record: Value) -> Value {
    json!({ "records": [record] })
}

#[tokio::test]
async fn a_view_has_what_is_placed_there_and_every_change() {
    let (_atoll, admin) = with_clusters(&["east", "west"]).await;
    admin.post(DEPLOYMENTS, deployment("web")).await.expect(201);
    admin.post(DEPLOYMENTS, deployment("elsewhere")).await.expect(201);
    let two = on(json!([{ "name": "east", "replicas": 2 }]));
    admin.put(&placement_path("web"), two).await.expect(200);
    admin.put(&placement_path("elsewhere"), on(json!([{ "name": "west" }]))).await.expect(200);

    let mut view = Watch::open(&admin, VIEW).await;
    let line = said(&mut view).await;
    assert_eq!((&line["type"], &line["name"]), (&json!("Object"), &json!("web")));
    assert_eq!(line["resource"]["kind"], "Deployment");
    assert_eq!(line["object"]["spec"]["replicas"], 2, "its share");
    assert_eq!(line["object"]["status"], Value::Null);
    let synced = said(&mut view).await;
    assert_eq!(synced["type"], "Synced");
    assert_eq!(synced["workspaces"], json!(["root"]));
    let id = admin.get("/api/v1/namespaces/kube-system").await.expect(200)["metadata"]["uid"].clone();
    assert_eq!(synced["controlPlane"], id);

    let image = json!([{ "op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "example/app:2" }]);
    let body = crate::Body::Raw("application/json-patch+json", image.to_string().into());
    admin.request(http::Method::PATCH, &path("web"), body).await.expect(200);
    let line = said(&mut view).await;
    assert_eq!(line["object"]["spec"]["template"]["spec"]["containers"][0]["image"], "example/app:2");
    assert_eq!(line["generation"], 2);

    // To another cluster: this one is told to let go, and the object waits for it.
    admin.put(&placement_path("web"), on(json!([{ "name": "west" }]))).await.expect(200);
    let line = said(&mut view).await;
    assert_eq!((&line["type"], &line["name"]), (&json!("Remove"), &json!("web")));
    admin.post(VIEW, report(record(&line, "Gone"))).await.expect(200);
    assert_eq!(said(&mut view).await["type"], "Forget");
    let left = admin.get(&placement_path("web")).await.expect(200);
    assert_eq!((shares(&left), &left["status"]), (json!([{ "name": "west" }]), &Value::Null));
}

#[tokio::test]
async fn an_object_is_not_gone_until_every_cluster_let_go() {
    let (mut atoll, admin) = with_clusters(&["east", "west"]).await;
    admin.post(DEPLOYMENTS, deployment("web")).await.expect(201);
    admin.put(&placement_path("web"), on(json!([{ "name": "east" }, { "name": "west" }]))).await.expect(200);
    admin.delete(&path("web")).await.expect(200);
    let object = admin.get(&path("web")).await.expect(200);
    assert!(object["metadata"]["deletionTimestamp"].is_string(), "{object}");

    // Not even a restart forgets who has to let go.
    atoll.kill();
    atoll.restart();
    let admin = atoll.admin();
    let mut view = Watch::open(&admin, VIEW).await;
    let line = said(&mut view).await;
    assert_eq!((&line["type"], &line["name"]), (&json!("Remove"), &json!("web")));
    // A report about another object of that name does nothing.
    let mut other = record(&line, "Gone");
    other["uid"] = "another".into();
    admin.post(VIEW, report(other)).await.expect(200);
    assert_eq!(
        admin.get(&placement_path("web")).await.expect(200)["spec"]["clusters"].as_array().unwrap().len(),
        2
    );

    let gone_there = record(&line, "Gone");
    admin.post(VIEW, report(gone_there.clone())).await.expect(200);
    let left = admin.get(&placement_path("web")).await.expect(200);
    assert_eq!(shares(&left), json!([{ "name": "west" }]));
    admin.post("/services/sync/west", report(gone_there)).await.expect(200);
    gone(&admin, &path("web")).await;
}

#[tokio::test]
async fn how_objects_fare_is_kept_by_cluster() {
    let (_atoll, admin) = with_clusters(&["east"]).await;
    admin.post(DEPLOYMENTS, deployment("web")).await.expect(201);
    admin.put(&placement_path("web"), on(json!([{ "name": "east" }]))).await.expect(200);
    let mut view = Watch::open(&admin, VIEW).await;
    let line = said(&mut view).await;
    let mut applied = record(&line, "Applied");
    for ready in [1, 3] {
        applied["status"] = json!({ "readyReplicas": ready });
        applied["observed"] = true.into();
        admin.post(VIEW, report(applied.clone())).await.expect(200);
        let kept = admin.get("/apis/atoll.dev/v1alpha1/namespaces/default/objectstatuses").await.expect(200);
        let kept = kept["items"].as_array().unwrap().clone();
        assert_eq!(kept.len(), 1);
        assert_eq!(kept[0]["status"]["status"]["readyReplicas"], ready);
        assert_eq!(kept[0]["spec"]["cluster"], "east");
    }
}

#[tokio::test]
async fn the_status_of_custom_objects_is_shown() {
    const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";
    let atoll = Atoll::start();
    let admin = atoll.admin();
    // The control plane cannot sync it itself, so it would not be ready.
    let mut east = cluster("east");
    east["spec"]["mode"] = "none".into();
    admin.post(CLUSTERS, east).await.expect(201);
    let open = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let schema = json!({ "type": "object", "properties": { "spec": open, "status": open } });
    let version = json!({
        "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema },
        "subresources": { "status": {} },
    });
    let names =
        json!({ "plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList" });
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "widgets.example.com" },
        "spec": { "group": "example.com", "scope": "Namespaced", "names": names, "versions": [version] },
    });
    admin.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition).await.expect(201);
    let gear = json!({ "apiVersion": "example.com/v1", "kind": "Widget", "metadata": { "name": "gear" } });
    admin.post(WIDGETS, gear).await.expect(201);
    let placement = format!("{WIDGETS}/gear/placement");
    admin.put(&placement, on(json!([{ "name": "east" }]))).await.expect(200);
    let mut view = Watch::open(&admin, VIEW).await;
    let mut applied = record(&said(&mut view).await, "Applied");
    applied["status"] = json!({ "turns": 3 });
    admin.post(VIEW, report(applied)).await.expect(200);
    eventually("its status is shown", async || {
        admin.get(&format!("{WIDGETS}/gear")).await.expect(200)["status"]["turns"] == 3
    })
    .await;
}

#[tokio::test]
async fn a_cluster_has_no_say_in_what_is_not_placed_on_it() {
    let (_atoll, admin) = with_clusters(&["east", "west"]).await;
    admin.post(DEPLOYMENTS, deployment("web")).await.expect(201);
    admin.put(&placement_path("web"), on(json!([{ "name": "west" }]))).await.expect(200);
    let mut view = Watch::open(&admin, "/services/sync/west").await;
    let line = said(&mut view).await;
    let mut forged = record(&line, "Applied");
    forged["status"] = json!({ "readyReplicas": 7 });
    for state in ["Applied", "Gone"] {
        forged["state"] = state.into();
        admin.post(VIEW, report(forged.clone())).await.expect(200);
    }
    // Nor under the name of one that is.
    admin.post(DEPLOYMENTS, deployment("own")).await.expect(201);
    admin.put(&placement_path("own"), on(json!([{ "name": "east" }]))).await.expect(200);
    forged["name"] = "own".into();
    forged["state"] = "Applied".into();
    admin.post(VIEW, report(forged.clone())).await.expect(200);
    let kept = admin.get("/apis/atoll.dev/v1alpha1/namespaces/default/objectstatuses").await.expect(200);
    assert_eq!(kept["items"], json!([]));
    let placed = admin.get(&placement_path("web")).await.expect(200);
    assert_eq!(shares(&placed), json!([{ "name": "west" }]));
}

#[tokio::test]
async fn a_cluster_serves_its_workspace_and_those_below() {
    let atoll = Atoll::start_bare();
    let admin = atoll.admin();
    let workspace = |name: &str| json!({ "apiVersion": "atoll.dev/v1alpha1", "kind": "Workspace", "metadata": { "name": name } });
    for name in ["org", "other"] {
        admin.post("/apis/atoll.dev/v1alpha1/workspaces", workspace(name)).await.expect(201);
    }
    let (org, other) = (admin.workspace("root:org"), admin.workspace("root:other"));
    org.post("/apis/atoll.dev/v1alpha1/workspaces", workspace("team")).await.expect(201);
    let team = admin.workspace("root:org:team");
    org.post(CLUSTERS, cluster("east")).await.expect(201);
    for access in [&org, &team, &other] {
        access.post(DEPLOYMENTS, deployment("web")).await.expect(201);
    }
    let east = || on(json!([{ "name": "east" }]));
    org.put(&placement_path("web"), east()).await.expect(200);
    team.put(&placement_path("web"), east()).await.expect(200);
    other.put(&placement_path("web"), east()).await.expect_status(422, "Invalid");
    // Another of the same name is another one.
    other.post(CLUSTERS, cluster("east")).await.expect(201);
    other.put(&placement_path("web"), east()).await.expect(200);
    let mut view = Watch::open(&org, VIEW).await;
    let mut lines = [said(&mut view).await, said(&mut view).await];
    lines.sort_by_key(|line| line["workspace"].to_string());
    assert_ne!(lines[0]["workspace"], lines[1]["workspace"]);
    assert_eq!(said(&mut view).await["workspaces"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn a_cluster_gets_objects_as_its_overrides_have_them() {
    let (_atoll, admin) = with_clusters(&["east"]).await;
    admin.post(DEPLOYMENTS, deployment("web")).await.expect(201);
    admin.put(&placement_path("web"), on(json!([{ "name": "east" }]))).await.expect(200);
    let mut view = Watch::open(&admin, VIEW).await;
    let image = |line: &Value| line["object"]["spec"]["template"]["spec"]["containers"][0]["image"].clone();
    let plain = image(&said(&mut view).await);
    assert_eq!(said(&mut view).await["type"], "Synced");

    let east = format!("{CLUSTERS}/east");
    let overrides = |rows: Value| json!({ "spec": { "overrides": rows } });
    let mirror = json!({ "registry": { "to": "mirror.local:5000" } });
    admin.merge(&east, overrides(json!([mirror]))).await.expect(200);
    let line = said(&mut view).await;
    let expected = format!("mirror.local:5000/{}", plain.as_str().unwrap());
    assert_eq!((&line["name"], image(&line)), (&json!("web"), json!(expected)));
    let whole = admin.get(&path("web")).await.expect(200);
    assert_eq!(whole["spec"]["template"]["spec"]["containers"][0]["image"], plain, "above it is what it was");

    // What does not apply is not sent, and that is said.
    let broken = json!({ "patch": [{ "op": "remove", "path": "/spec/nothing" }] });
    admin.merge(&east, overrides(json!([mirror, broken]))).await.expect(200);
    let uid = whole["metadata"]["uid"].as_str().unwrap();
    let record = format!("/apis/atoll.dev/v1alpha1/namespaces/default/objectstatuses/{uid}.east");
    eventually("it is noted", || async { admin.get(&record).await.status == 200 }).await;
    let status = admin.get(&record).await.expect(200)["status"].clone();
    assert_eq!(status["state"], "Refused");
    let message = status["message"].as_str().unwrap();
    assert!(message.starts_with("spec.overrides[1].patch: "), "{message}");
    admin.merge(&east, overrides(json!([]))).await.expect(200);
    assert_eq!(image(&said(&mut view).await), plain);

    let refused = admin.merge(&east, overrides(json!([{ "env": [{}] }]))).await.expect_status(422, "Invalid");
    assert!(refused.contains("spec.overrides[0].env"), "{refused}");
}

/// Nobody takes the name of a cluster that is registered above; and what is placed on one never goes to two.
#[tokio::test(flavor = "multi_thread")]
async fn no_cluster_takes_the_name_of_one_above() {
    let (_atoll, admin) = with_clusters(&["east"]).await;
    for (parent, name) in [("", "org"), ("root:org", "team"), ("", "other")] {
        let access = if parent.is_empty() { admin.clone() } else { admin.workspace(parent) };
        let workspace = json!({ "metadata": { "name": name } });
        access.post("/apis/atoll.dev/v1alpha1/workspaces", workspace).await.expect(201);
    }
    let (org, team, other) =
        (admin.workspace("root:org"), admin.workspace("root:org:team"), admin.workspace("root:other"));
    for access in [&org, &team, &other] {
        let refused = access.post(CLUSTERS, cluster("east")).await.expect_status(422, "Invalid");
        assert!(refused.contains("a workspace above has a cluster of this name"), "{refused}");
    }
    // Beside each other they may: nobody can use both. Nor is one below in anybody's way.
    team.post(CLUSTERS, cluster("west")).await.expect(201);
    other.post(CLUSTERS, cluster("west")).await.expect(201);
    for access in [&admin, &org] {
        let path = format!("{CLUSTERS}?dryRun=All");
        access.post(&path, cluster("west")).await.expect(201);
    }
    // Each serves its own.
    for access in [&team, &other] {
        access.post(DEPLOYMENTS, deployment("web")).await.expect(201);
        access.put(&placement_path("web"), on(json!([{ "name": "west" }]))).await.expect(200);
        let mut view = Watch::open(access, "/services/sync/west").await;
        assert_eq!(view.line().await["type"], "Object");
        assert_eq!(view.line().await["type"], "Synced");
    }
    // A name that is free again can be taken.
    team.delete(&format!("{CLUSTERS}/west")).await.expect(200);
    other.delete(&format!("{CLUSTERS}/west")).await.expect(200);
    org.post(CLUSTERS, cluster("west")).await.expect(201);

    // However they hurry, the one above gets it.
    for number in 0..20 {
        let name = format!("racer-{number}");
        let (above, below) =
            tokio::join!(admin.post(CLUSTERS, cluster(&name)), team.post(CLUSTERS, cluster(&name)),);
        above.expect(201);
        assert!([201, 422].contains(&below.status), "{name}");
    }
}

/// What must not run twice arrives in another cluster only after the first one has let go of it.
#[tokio::test]
async fn what_runs_once_breaks_before_it_is_made_elsewhere() {
    const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";
    const WEST: &str = "/services/sync/west";
    let (_atoll, admin) = with_clusters(&["east", "west"]).await;
    let pod =
        json!({ "restartPolicy": "Never", "containers": [{ "name": "main", "image": "example/app:1" }] });
    let job = json!({ "metadata": { "name": "once" }, "spec": { "template": { "spec": pod } } });
    admin.post(JOBS, job).await.expect(201);
    let placement = format!("{JOBS}/once/placement");
    admin.put(&placement, on(json!([{ "name": "east" }]))).await.expect(200);
    let (mut east, mut west) = (Watch::open(&admin, VIEW).await, Watch::open(&admin, WEST).await);
    let line = said(&mut east).await;
    assert_eq!((&line["type"], &line["name"]), (&json!("Object"), &json!("once")));
    admin.post(VIEW, report(record(&line, "Applied"))).await.expect(200);
    assert_eq!(
        (said(&mut east).await["type"].clone(), said(&mut west).await["type"].clone()),
        (json!("Synced"), json!("Synced"))
    );

    admin.put(&placement, on(json!([{ "name": "west" }]))).await.expect(200);
    let line = said(&mut east).await;
    assert_eq!(line["type"], "Remove");
    let statuses = "/apis/atoll.dev/v1alpha1/namespaces/default/objectstatuses";
    eventually("the record of west says what it waits for", async || {
        let found = admin.get(statuses).await.expect(200);
        found["items"].as_array().unwrap().iter().any(|one| {
            let message = one["status"]["message"].as_str().unwrap_or_default();
            one["spec"]["cluster"] == "west" && message.contains("east has not let go of it yet")
        })
    })
    .await;
    admin.post(VIEW, report(record(&line, "Gone"))).await.expect(200);
    let line = said(&mut west).await;
    assert_eq!(
        (&line["type"], &line["name"]),
        (&json!("Object"), &json!("once")),
        "the first that west hears of it"
    );
}

/// Whatever an agent reports, the name of the decider of a placement stays a short one.
#[tokio::test]
async fn the_decider_of_a_placement_has_a_short_name() {
    let (_atoll, admin) = with_clusters(&["east"]).await;
    admin.post(DEPLOYMENTS, deployment("web")).await.expect(201);
    let mut wanted = on(json!([{ "name": "east" }]));
    wanted["spec"]["by"] = "x".repeat(2 << 20).into();
    let refused = admin.put(&placement_path("web"), wanted.clone()).await;
    assert!(refused.expect_status(422, "Invalid").contains("spec.by: Invalid value"));
    assert!(refused.body.len() < 2048, "{} bytes", refused.body.len());
    wanted["spec"]["by"] = "policy".into();
    admin.put(&placement_path("web"), wanted).await.expect(200);
}

/// What one cluster reports nonsense of is shown as the others report it.
#[tokio::test]
async fn a_nonsensical_status_hides_no_other() {
    const SERVICES: &str = "/api/v1/namespaces/default/services";
    let atoll = Atoll::start();
    let admin = atoll.admin();
    for name in ["east", "west"] {
        let mut cluster = cluster(name);
        cluster["spec"]["mode"] = "none".into();
        admin.post(CLUSTERS, cluster).await.expect(201);
    }
    let service = json!({ "metadata": { "name": "web" }, "spec": { "type": "LoadBalancer", "ports": [{ "port": 80 }] } });
    admin.post(SERVICES, service).await.expect(201);
    let both = on(json!([{ "name": "east" }, { "name": "west" }]));
    admin.put(&format!("{SERVICES}/web/placement"), both).await.expect(200);
    for (name, address) in [("west", "nonsense"), ("east", "192.0.2.1")] {
        let view = format!("/services/sync/{name}");
        let line = said(&mut Watch::open(&admin, &view).await).await;
        let mut applied = record(&line, "Applied");
        applied["status"] = json!({ "loadBalancer": { "ingress": [{ "ip": address }] } });
        applied["observed"] = true.into();
        admin.post(&view, report(applied)).await.expect(200);
    }
    eventually("what east reports is shown", async || {
        let service = admin.get(&format!("{SERVICES}/web")).await.expect(200);
        service["status"]["loadBalancer"]["ingress"].to_string().contains("192.0.2.1")
    })
    .await;
}
