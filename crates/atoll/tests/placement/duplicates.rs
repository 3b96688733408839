//! Workloads that must run once are placed on one cluster, unless `duplicate` is set.

use atoll_testkit::{Client, RequestContent};
use http::Method;
use serde_json::{Value, json};

use crate::{DEPLOYMENTS, deployment, on, placement, with_clusters};

const STATEFUL_SETS: &str = "/apis/apps/v1/namespaces/default/statefulsets";
const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";
const CRON_JOBS: &str = "/apis/batch/v1/namespaces/default/cronjobs";
const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";

fn pods() -> Value {
    let spec =
        json!({ "restartPolicy": "Never", "containers": [{ "name": "main", "image": "example/app:1" }] });
    json!({ "metadata": { "labels": { "app": "db" } }, "spec": spec })
}

fn stateful_set(name: &str) -> Value {
    let mut template = pods();
    template["spec"]["restartPolicy"] = "Always".into();
    json!({ "metadata": { "name": name }, "spec": {
        "serviceName": name, "selector": { "matchLabels": { "app": "db" } }, "template": template,
    } })
}

async fn place_on_both(admin: &Client, path: &str) -> Value {
    let wanted = on(json!([{ "name": "east" }, { "name": "west" }]));
    let refused = admin.put(&format!("{path}/placement"), wanted).await;
    refused.expect_status(422, "Invalid");
    refused.json()
}

#[tokio::test]
async fn jobs_and_stateful_sets_are_rejected_on_two_clusters() {
    let (_atoll, admin) = with_clusters(&["east", "west", "north"]).await;
    let job = json!({ "metadata": { "name": "once" }, "spec": { "template": pods() } });
    let nightly = json!({ "metadata": { "name": "nightly" }, "spec": {
        "schedule": "0 3 * * *", "jobTemplate": { "spec": { "template": pods() } },
    } });
    admin.post(STATEFUL_SETS, stateful_set("db")).await.expect(201);
    admin.post(JOBS, job).await.expect(201);
    admin.post(CRON_JOBS, nightly).await.expect(201);
    for (path, kind, name) in [
        (format!("{STATEFUL_SETS}/db"), "StatefulSet", "statefulset/db"),
        (format!("{JOBS}/once"), "Job", "job/once"),
        (format!("{CRON_JOBS}/nightly"), "CronJob", "cronjob/nightly"),
    ] {
        let refused = place_on_both(&admin, &path).await;
        let cause = &refused["details"]["causes"][0];
        assert_eq!(
            (&cause["field"], &cause["reason"]),
            (&json!("spec.clusters"), &json!("FieldValueForbidden"))
        );
        let message = cause["message"].as_str().unwrap();
        assert!(message.contains(&format!("a {kind} must not be duplicated")), "{message}");
        let command = format!("atoll place {name} --namespace default --on east,west --duplicate");
        assert!(message.contains("set spec.duplicate to true") && message.ends_with(&command), "{message}");
        assert_eq!(placement(&admin.get(&path).await.expect(200)), "");
    }
    let db = format!("{STATEFUL_SETS}/db");
    let placement_of_db = format!("{db}/placement");
    // Neither with replica counts, nor in two steps, nor by a patch.
    let numbers = on(json!([{ "name": "east", "replicas": 2 }, { "name": "west", "replicas": 1 }]));
    admin.put(&placement_of_db, numbers).await.expect_status(422, "Invalid");
    admin.put(&placement_of_db, on(json!([{ "name": "east" }]))).await.expect(200);
    place_on_both(&admin, &db).await;
    let added = json!([{ "op": "add", "path": "/spec/clusters/-", "value": { "name": "west" } }]);
    let patch = RequestContent::Raw("application/json-patch+json", added.to_string().into());
    admin.request(Method::PATCH, &placement_of_db, patch).await.expect_status(422, "Invalid");
    // Moving it is allowed.
    admin.put(&placement_of_db, on(json!([{ "name": "west" }]))).await.expect(200);

    // With `duplicate` set it is accepted, and the setting is stored.
    let mut wanted = on(json!([{ "name": "east" }, { "name": "west" }]));
    wanted["spec"]["duplicate"] = "yes".into();
    let refused = admin.put(&placement_of_db, wanted.clone()).await.expect(422);
    assert_eq!(refused["details"]["causes"][0]["field"], "spec.duplicate");
    wanted["spec"]["duplicate"] = true.into();
    let placed = admin.put(&placement_of_db, wanted).await.expect(200);
    assert_eq!(placed["spec"]["duplicate"], true);
    assert_eq!(
        placement(&admin.get(&db).await.expect(200)),
        r#"{"clusters":[{"name":"east"},{"name":"west"}],"by":"hand","duplicate":true}"#
    );
    // Writing a placement that was read, with one more cluster, keeps the setting.
    let mut more = admin.get(&placement_of_db).await.expect(200);
    more["spec"]["clusters"].as_array_mut().unwrap().push(json!({ "name": "north" }));
    admin.put(&placement_of_db, more).await.expect(200);
    // Without the setting, clusters can be removed but not added.
    let fewer = on(json!([{ "name": "east" }, { "name": "west" }]));
    let placed = admin.put(&placement_of_db, fewer).await.expect(200);
    assert_eq!(placed["spec"]["duplicate"], Value::Null);
    let other = on(json!([{ "name": "east" }, { "name": "north" }]));
    admin.put(&placement_of_db, other).await.expect_status(422, "Invalid");
}

#[tokio::test]
async fn other_kinds_can_be_duplicated() {
    let (_atoll, admin) = with_clusters(&["east", "west"]).await;
    admin.post(DEPLOYMENTS, deployment("web")).await.expect(201);
    let claim = json!({ "metadata": { "name": "data" }, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } },
    } });
    admin.post(CLAIMS, claim).await.expect(201);
    let wanted = on(json!([{ "name": "east" }, { "name": "west" }]));
    for path in [format!("{DEPLOYMENTS}/web"), format!("{CLAIMS}/data")] {
        admin.put(&format!("{path}/placement"), wanted.clone()).await.expect(200);
    }
}
