//! Work that is divided between clusters, and what a placement records.

use atoll_testkit::{Client, Watch};
use serde_json::{Value, json};

use crate::{ANNOTATION, DEPLOYMENTS, deployment, on, path, placement_path, with_clusters};

const STATEFUL_SETS: &str = "/apis/apps/v1/namespaces/default/statefulsets";
const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";

fn pods(restart: &str) -> Value {
    let spec =
        json!({ "restartPolicy": restart, "containers": [{ "name": "main", "image": "example/app:1" }] });
    json!({ "metadata": { "labels": { "app": "db" } }, "spec": spec })
}

fn stateful_set() -> Value {
    json!({ "metadata": { "name": "db" }, "spec": {
        "replicas": 5, "serviceName": "db", "selector": { "matchLabels": { "app": "db" } }, "template": pods("Always"),
    } })
}

fn job(name: &str, mode: &str) -> Value {
    json!({ "metadata": { "name": name }, "spec": {
        "completions": 10, "parallelism": 4, "completionMode": mode, "template": pods("Never"),
    } })
}

/// Returns the first object in the view of a cluster.
async fn first_line(admin: &Client, cluster: &str) -> Value {
    let mut view = Watch::open(admin, &format!("/services/sync/{cluster}")).await;
    loop {
        let line = view.line().await;
        if line["type"] == "Object" {
            return line;
        }
    }
}

/// Returns the fields that the refusal of a placement names.
async fn refused_fields(admin: &Client, path: &str, wanted: Value) -> Vec<String> {
    let refused = admin.put(&format!("{path}/placement"), wanted).await;
    refused.expect_status(422, "Invalid");
    let causes = refused.json()["details"]["causes"].as_array().unwrap().clone();
    causes.iter().map(|cause| cause["field"].as_str().unwrap().to_string()).collect()
}

#[tokio::test]
async fn stateful_set_is_divided_by_ordinals() {
    let (_atoll, admin) = with_clusters(&["east", "west"]).await;
    admin.post(STATEFUL_SETS, stateful_set()).await.expect(201);
    let db = format!("{STATEFUL_SETS}/db");
    let share = |name: &str, first: i64, replicas: i64| json!({ "name": name, "firstOrdinal": first, "replicas": replicas });
    for (shares, fields) in [
        (json!([share("east", 0, 3), share("west", 2, 3)]), vec!["spec.clusters"]),
        (json!([{ "name": "east", "firstOrdinal": 0 }]), vec!["spec.clusters[0].replicas"]),
        (
            json!([share("east", -1, 3), { "name": "west", "completions": 2, "held": 1 }]),
            vec!["spec.clusters[0].firstOrdinal", "spec.clusters[1].held", "spec.clusters[1].completions"],
        ),
    ] {
        assert_eq!(refused_fields(&admin, &db, on(shares.clone())).await, fields, "{shares}");
    }
    let shares = json!([share("east", 0, 3), share("west", 3, 2)]);
    admin.put(&format!("{db}/placement"), on(shares)).await.expect(200);
    let east = first_line(&admin, "east").await["object"]["spec"].clone();
    assert_eq!((&east["replicas"], &east["ordinals"]), (&json!(3), &Value::Null));
    let west = first_line(&admin, "west").await["object"]["spec"].clone();
    assert_eq!((&west["replicas"], &west["ordinals"]), (&json!(2), &json!({ "start": 3 })));
    // A cluster gets ordinals only after the other one has lost them.
    let shifted = json!([share("east", 0, 2), share("west", 2, 3)]);
    assert_eq!(refused_fields(&admin, &db, on(shifted.clone())).await, ["spec.clusters[1].firstOrdinal"]);
    let reduced = json!([share("east", 0, 2), share("west", 3, 2)]);
    for shares in [reduced, shifted, json!([share("east", 0, 2), share("west", 2, 9)])] {
        admin.put(&format!("{db}/placement"), on(shares)).await.expect(200);
    }
    // Segments that overlap are refused on the same clusters, too.
    let overlapping = on(json!([share("east", 0, 4), share("west", 3, 2)]));
    assert_eq!(refused_fields(&admin, &db, overlapping).await, ["spec.clusters[0].firstOrdinal"]);
}

#[tokio::test]
async fn job_is_divided_by_completions() {
    let (_atoll, admin) = with_clusters(&["east", "west"]).await;
    for job in [job("sum", "NonIndexed"), job("indexed", "Indexed")] {
        admin.post(JOBS, job).await.expect(201);
    }
    let share =
        |name: &str, completions: i64| json!({ "name": name, "completions": completions, "parallelism": 2 });
    let (sum, indexed) = (format!("{JOBS}/sum"), format!("{JOBS}/indexed"));
    let both = on(json!([share("east", 6), share("west", 4)]));
    let whole = vec!["spec.clusters[0].completions", "spec.clusters[1].completions"];
    assert_eq!(refused_fields(&admin, &indexed, both.clone()).await, whole);
    let more = on(json!([share("east", 6), share("west", 5)]));
    assert_eq!(refused_fields(&admin, &sum, more).await, ["spec.clusters[1].completions"]);
    admin.put(&format!("{sum}/placement"), both).await.expect(200);
    let west = first_line(&admin, "west").await["object"]["spec"].clone();
    assert_eq!((&west["completions"], &west["parallelism"]), (&json!(4), &json!(2)));
    // Fixed once a cluster has its part.
    let fewer = on(json!([share("east", 6), share("west", 3)]));
    assert_eq!(refused_fields(&admin, &sum, fewer).await, ["spec.clusters[1].completions"]);
}

#[tokio::test]
async fn move_and_decisions_are_recorded() {
    let (_atoll, admin) = with_clusters(&["east", "west"]).await;
    admin.post(DEPLOYMENTS, deployment("web")).await.expect(201);
    let decision = json!({ "time": "2026-11-18T01:00:00Z", "by": "PlacementPolicy shop/web", "reason": "east has more room" });
    let mut wanted = on(json!([{ "name": "east", "replicas": 3, "held": true }]));
    wanted["spec"]["by"] = "PlacementPolicy shop/web".into();
    wanted["spec"]["phase"] = "Moving".into();
    wanted["spec"]["target"] = json!([{ "name": "west", "replicas": 3 }]);
    wanted["spec"]["decisions"] = json!([decision]);
    let placed = admin.put(&placement_path("web"), wanted.clone()).await.expect(200);
    for field in ["by", "phase", "target", "decisions"] {
        assert_eq!(placed["spec"][field], wanted["spec"][field], "{field}");
    }
    let stored = admin.get(&path("web")).await.expect(200);
    let stored: Value =
        serde_json::from_str(stored["metadata"]["annotations"][ANNOTATION].as_str().unwrap()).unwrap();
    assert_eq!((&stored["phase"], &stored["decisions"][0]), (&json!("Moving"), &decision));
    assert_eq!(first_line(&admin, "east").await["held"], true);

    // Other writers keep the decisions, and end the move.
    let placed = admin.put(&placement_path("web"), on(json!([{ "name": "east" }]))).await.expect(200);
    assert_eq!((&placed["spec"]["by"], &placed["spec"]["decisions"]), (&json!("hand"), &json!([decision])));
    assert_eq!((&placed["spec"]["phase"], &placed["spec"]["target"]), (&Value::Null, &Value::Null));
    let patch = json!({ "spec": { "phase": "no word", "decisions": [{ "time": "now", "reason": "x" }] } });
    let refused = admin.merge(&placement_path("web"), patch).await;
    let message = refused.expect_status(422, "Invalid");
    assert!(message.contains("spec.phase") && message.contains("spec.decisions[0].time"), "{message}");
}

#[tokio::test]
async fn numbers_may_change_during_a_pause() {
    let (_atoll, admin) = with_clusters(&["east", "west"]).await;
    admin.post(DEPLOYMENTS, deployment("web")).await.expect(201);
    admin.put(&placement_path("web"), on(json!([{ "name": "east", "replicas": 3 }]))).await.expect(200);
    let east = "/apis/atoll.dev/v1alpha1/clusters/east";
    admin.merge(east, json!({ "spec": { "paused": true } })).await.expect(200);
    admin.put(&placement_path("web"), on(json!([{ "name": "east", "replicas": 5 }]))).await.expect(200);
    let moved = admin.put(&placement_path("web"), on(json!([{ "name": "west", "replicas": 5 }]))).await;
    assert!(moved.expect_status(403, "Forbidden").contains("is paused"));
}
