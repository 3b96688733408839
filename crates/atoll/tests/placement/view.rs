//! The sync view of a cluster, and reports.

use atoll_testkit::wait::eventually;
use atoll_testkit::{Atoll, Watch};
use serde_json::{Value, json};

use crate::support::shares;
use crate::{
    CLUSTERS, DEPLOYMENTS, cluster, deployment, on, path, placement_path, wait_until_deleted, with_clusters,
};

const VIEW: &str = "/services/sync/east";

/// Returns a record about the object of a line.
fn record(line: &Value, state: &str) -> Value {
    let mut record = line.clone();
    let fields = record.as_object_mut().unwrap();
    fields.remove("type");
    fields.remove("object");
    fields.insert("state".into(), state.into());
    record
}

/// Returns the next line that is not a keepalive. Keepalives are sent after a while without other lines.
async fn next_line(view: &mut Watch) -> Value {
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
async fn view_has_placed_objects_and_their_changes() {
    let (_atoll, admin) = with_clusters(&["east", "west"]).await;
    admin.post(DEPLOYMENTS, deployment("web")).await.expect(201);
    admin.post(DEPLOYMENTS, deployment("elsewhere")).await.expect(201);
    let two = on(json!([{ "name": "east", "replicas": 2 }]));
    admin.put(&placement_path("web"), two).await.expect(200);
    admin.put(&placement_path("elsewhere"), on(json!([{ "name": "west" }]))).await.expect(200);

    let mut view = Watch::open(&admin, VIEW).await;
    let line = next_line(&mut view).await;
    assert_eq!((&line["type"], &line["name"]), (&json!("Object"), &json!("web")));
    assert_eq!(line["resource"]["kind"], "Deployment");
    assert_eq!(line["object"]["spec"]["replicas"], 2, "the cluster's share of the replicas");
    assert_eq!(line["object"]["status"], Value::Null);
    let synced = next_line(&mut view).await;
    assert_eq!(synced["type"], "Synced");
    assert_eq!(synced["workspaces"], json!(["root"]));
    let id = admin.get("/api/v1/namespaces/kube-system").await.expect(200)["metadata"]["uid"].clone();
    assert_eq!(synced["controlPlane"], id);

    let image = json!([{ "op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "example/app:2" }]);
    let body = atoll_testkit::RequestContent::Raw("application/json-patch+json", image.to_string().into());
    admin.request(http::Method::PATCH, &path("web"), body).await.expect(200);
    let line = next_line(&mut view).await;
    assert_eq!(line["object"]["spec"]["template"]["spec"]["containers"][0]["image"], "example/app:2");
    assert_eq!(line["generation"], 2);

    // Moved to another cluster: this one is asked to remove it, and the placement waits for the confirmation.
    admin.put(&placement_path("web"), on(json!([{ "name": "west" }]))).await.expect(200);
    let line = next_line(&mut view).await;
    assert_eq!((&line["type"], &line["name"]), (&json!("Remove"), &json!("web")));
    admin.post(VIEW, report(record(&line, "Gone"))).await.expect(200);
    assert_eq!(next_line(&mut view).await["type"], "Forget");
    let left = admin.get(&placement_path("web")).await.expect(200);
    assert_eq!((shares(&left), &left["status"]), (json!([{ "name": "west" }]), &Value::Null));
}

#[tokio::test]
async fn deletion_waits_for_all_clusters() {
    let (mut atoll, admin) = with_clusters(&["east", "west"]).await;
    admin.post(DEPLOYMENTS, deployment("web")).await.expect(201);
    admin.put(&placement_path("web"), on(json!([{ "name": "east" }, { "name": "west" }]))).await.expect(200);
    admin.delete(&path("web")).await.expect(200);
    let object = admin.get(&path("web")).await.expect(200);
    assert!(object["metadata"]["deletionTimestamp"].is_string(), "{object}");

    // A restart does not lose the pending confirmations.
    atoll.kill();
    atoll.restart();
    let admin = atoll.admin();
    let mut view = Watch::open(&admin, VIEW).await;
    let line = next_line(&mut view).await;
    assert_eq!((&line["type"], &line["name"]), (&json!("Remove"), &json!("web")));
    // A report about another object of that name is ignored.
    let mut other = record(&line, "Gone");
    other["uid"] = "another".into();
    admin.post(VIEW, report(other)).await.expect(200);
    assert_eq!(
        admin.get(&placement_path("web")).await.expect(200)["spec"]["clusters"].as_array().unwrap().len(),
        2
    );

    let gone_record = record(&line, "Gone");
    admin.post(VIEW, report(gone_record.clone())).await.expect(200);
    let left = admin.get(&placement_path("web")).await.expect(200);
    assert_eq!(shares(&left), json!([{ "name": "west" }]));
    admin.post("/services/sync/west", report(gone_record)).await.expect(200);
    wait_until_deleted(&admin, &path("web")).await;
}

#[tokio::test]
async fn reports_are_stored_per_cluster() {
    let (_atoll, admin) = with_clusters(&["east"]).await;
    admin.post(DEPLOYMENTS, deployment("web")).await.expect(201);
    admin.put(&placement_path("web"), on(json!([{ "name": "east" }]))).await.expect(200);
    let mut view = Watch::open(&admin, VIEW).await;
    let line = next_line(&mut view).await;
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
async fn status_of_custom_objects_is_copied() {
    const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";
    let atoll = Atoll::start();
    let admin = atoll.admin();
    // Not synced by the control plane, which could not reach it and would mark it as not ready.
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
    let mut applied = record(&next_line(&mut view).await, "Applied");
    applied["status"] = json!({ "turns": 3 });
    admin.post(VIEW, report(applied)).await.expect(200);
    eventually("the status is copied", async || {
        admin.get(&format!("{WIDGETS}/gear")).await.expect(200)["status"]["turns"] == 3
    })
    .await;
}

#[tokio::test]
async fn reports_about_objects_on_other_clusters_are_ignored() {
    let (_atoll, admin) = with_clusters(&["east", "west"]).await;
    admin.post(DEPLOYMENTS, deployment("web")).await.expect(201);
    admin.put(&placement_path("web"), on(json!([{ "name": "west" }]))).await.expect(200);
    let mut view = Watch::open(&admin, "/services/sync/west").await;
    let line = next_line(&mut view).await;
    let mut forged = record(&line, "Applied");
    forged["status"] = json!({ "readyReplicas": 7 });
    for state in ["Applied", "Gone"] {
        forged["state"] = state.into();
        admin.post(VIEW, report(forged.clone())).await.expect(200);
    }
    // Nor with the name of an object that is placed on it.
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
async fn cluster_serves_its_workspace_and_those_below() {
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
    for client in [&org, &team, &other] {
        client.post(DEPLOYMENTS, deployment("web")).await.expect(201);
    }
    let east = || on(json!([{ "name": "east" }]));
    org.put(&placement_path("web"), east()).await.expect(200);
    team.put(&placement_path("web"), east()).await.expect(200);
    other.put(&placement_path("web"), east()).await.expect_status(422, "Invalid");
    // A Cluster of the same name in another workspace is a different one.
    other.post(CLUSTERS, cluster("east")).await.expect(201);
    other.put(&placement_path("web"), east()).await.expect(200);
    let mut view = Watch::open(&org, VIEW).await;
    let mut lines = [next_line(&mut view).await, next_line(&mut view).await];
    lines.sort_by_key(|line| line["workspace"].to_string());
    assert_ne!(lines[0]["workspace"], lines[1]["workspace"]);
    assert_eq!(next_line(&mut view).await["workspaces"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn view_applies_the_overrides_of_the_cluster() {
    let (_atoll, admin) = with_clusters(&["east"]).await;
    admin.post(DEPLOYMENTS, deployment("web")).await.expect(201);
    admin.put(&placement_path("web"), on(json!([{ "name": "east" }]))).await.expect(200);
    let mut view = Watch::open(&admin, VIEW).await;
    let image = |line: &Value| line["object"]["spec"]["template"]["spec"]["containers"][0]["image"].clone();
    let plain = image(&next_line(&mut view).await);
    assert_eq!(next_line(&mut view).await["type"], "Synced");

    let east = format!("{CLUSTERS}/east");
    let overrides = |rows: Value| json!({ "spec": { "overrides": rows } });
    let mirror = json!({ "registry": { "to": "mirror.local:5000" } });
    admin.merge(&east, overrides(json!([mirror]))).await.expect(200);
    let line = next_line(&mut view).await;
    let expected = format!("mirror.local:5000/{}", plain.as_str().unwrap());
    assert_eq!((&line["name"], image(&line)), (&json!("web"), json!(expected)));
    let whole = admin.get(&path("web")).await.expect(200);
    assert_eq!(
        whole["spec"]["template"]["spec"]["containers"][0]["image"], plain,
        "the object above must be unchanged"
    );

    // An override that cannot be applied keeps the object from being sent, and this is reported.
    let broken = json!({ "patch": [{ "op": "remove", "path": "/spec/nothing" }] });
    admin.merge(&east, overrides(json!([mirror, broken]))).await.expect(200);
    let uid = whole["metadata"]["uid"].as_str().unwrap();
    let record = format!("/apis/atoll.dev/v1alpha1/namespaces/default/objectstatuses/{uid}.east");
    eventually("the failure is recorded", || async { admin.get(&record).await.status == 200 }).await;
    let status = admin.get(&record).await.expect(200)["status"].clone();
    assert_eq!(status["state"], "Refused");
    let message = status["message"].as_str().unwrap();
    assert!(message.starts_with("spec.overrides[1].patch: "), "{message}");
    admin.merge(&east, overrides(json!([]))).await.expect(200);
    assert_eq!(image(&next_line(&mut view).await), plain);

    let refused = admin.merge(&east, overrides(json!([{ "env": [{}] }]))).await.expect_status(422, "Invalid");
    assert!(refused.contains("spec.overrides[0].env"), "{refused}");
}

/// A Cluster cannot have the name of one in a parent workspace, and objects placed on one never go to both.
#[tokio::test(flavor = "multi_thread")]
async fn cluster_names_of_parent_workspaces_are_rejected() {
    let (_atoll, admin) = with_clusters(&["east"]).await;
    for (parent, name) in [("", "org"), ("root:org", "team"), ("", "other")] {
        let client = if parent.is_empty() { admin.clone() } else { admin.workspace(parent) };
        let workspace = json!({ "metadata": { "name": name } });
        client.post("/apis/atoll.dev/v1alpha1/workspaces", workspace).await.expect(201);
    }
    let (org, team, other) =
        (admin.workspace("root:org"), admin.workspace("root:org:team"), admin.workspace("root:other"));
    for client in [&org, &team, &other] {
        let refused = client.post(CLUSTERS, cluster("east")).await.expect_status(422, "Invalid");
        let message = "a cluster of this name belongs to another workspace, above this one and can be used here as well";
        assert!(refused.contains(message), "{refused}");
    }
    admin.merge(&format!("{CLUSTERS}/east"), json!({ "spec": { "workspaces": ["org"] } })).await.expect(200);
    let refused = other.post(CLUSTERS, cluster("east")).await.expect_status(422, "Invalid");
    assert!(
        refused.contains("belongs to another workspace, above this one; choose another name"),
        "{refused}"
    );
    admin.merge(&format!("{CLUSTERS}/east"), json!({ "spec": { "workspaces": null } })).await.expect(200);
    // Siblings may use the same name, because no workspace can use both. A name of a child does not block the
    // parent either.
    team.post(CLUSTERS, cluster("west")).await.expect(201);
    other.post(CLUSTERS, cluster("west")).await.expect(201);
    for client in [&admin, &org] {
        let path = format!("{CLUSTERS}?dryRun=All");
        client.post(&path, cluster("west")).await.expect(201);
    }
    // Each cluster serves its own workspace.
    for client in [&team, &other] {
        client.post(DEPLOYMENTS, deployment("web")).await.expect(201);
        client.put(&placement_path("web"), on(json!([{ "name": "west" }]))).await.expect(200);
        let mut view = Watch::open(client, "/services/sync/west").await;
        assert_eq!(view.line().await["type"], "Object");
        assert_eq!(view.line().await["type"], "Synced");
    }
    // A name that is free again can be used.
    team.delete(&format!("{CLUSTERS}/west")).await.expect(200);
    other.delete(&format!("{CLUSTERS}/west")).await.expect(200);
    org.post(CLUSTERS, cluster("west")).await.expect(201);

    // In a race, the parent workspace always gets the name.
    for number in 0..20 {
        let name = format!("racer-{number}");
        let (above, below) =
            tokio::join!(admin.post(CLUSTERS, cluster(&name)), team.post(CLUSTERS, cluster(&name)),);
        above.expect(201);
        assert!([201, 422].contains(&below.status), "{name}");
    }
}

/// An object that must not run twice is sent to another cluster only after the first has confirmed its
/// removal.
#[tokio::test]
async fn moved_jobs_are_removed_before_they_are_created_elsewhere() {
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
    let line = next_line(&mut east).await;
    assert_eq!((&line["type"], &line["name"]), (&json!("Object"), &json!("once")));
    admin.post(VIEW, report(record(&line, "Applied"))).await.expect(200);
    assert_eq!(
        (next_line(&mut east).await["type"].clone(), next_line(&mut west).await["type"].clone()),
        (json!("Synced"), json!("Synced"))
    );

    admin.put(&placement, on(json!([{ "name": "west" }]))).await.expect(200);
    let line = next_line(&mut east).await;
    assert_eq!(line["type"], "Remove");
    let statuses = "/apis/atoll.dev/v1alpha1/namespaces/default/objectstatuses";
    eventually("the ObjectStatus of west names the cluster it waits for", async || {
        let found = admin.get(statuses).await.expect(200);
        found["items"].as_array().unwrap().iter().any(|one| {
            let message = one["status"]["message"].as_str().unwrap_or_default();
            one["spec"]["cluster"] == "west" && message.contains("east has not confirmed its deletion yet")
        })
    })
    .await;
    admin.post(VIEW, report(record(&line, "Gone"))).await.expect(200);
    let line = next_line(&mut west).await;
    assert_eq!(
        (&line["type"], &line["name"]),
        (&json!("Object"), &json!("once")),
        "west must not get the object before"
    );
}

/// Agents cannot store long strings as the decider of a placement.
#[tokio::test]
async fn decider_of_a_placement_is_limited_in_length() {
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

/// An invalid status of one cluster does not hide the status of the others.
#[tokio::test]
async fn invalid_status_of_one_cluster_does_not_hide_others() {
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
        let line = next_line(&mut Watch::open(&admin, &view).await).await;
        let mut applied = record(&line, "Applied");
        applied["status"] = json!({ "loadBalancer": { "ingress": [{ "ip": address }] } });
        applied["observed"] = true.into();
        admin.post(&view, report(applied)).await.expect(200);
    }
    eventually("the status of east is shown", async || {
        let service = admin.get(&format!("{SERVICES}/web")).await.expect(200);
        service["status"]["loadBalancer"]["ingress"].to_string().contains("192.0.2.1")
    })
    .await;
}
