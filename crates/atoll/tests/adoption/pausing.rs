//! While paused, nothing is placed, moved or deleted. After resuming, everything catches up.

use serde_json::{Value, json};

use crate::harness::{TestFleet, create, object, wait_for, wait_for_record, wait_until_deleted};
use crate::support::{CONFIG_MAPS, config_map, config_map_with};

const EAST: &str = "/apis/atoll.dev/v1alpha1/clusters/east";

fn schedulable(cluster: &Value) -> String {
    let conditions = cluster["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let found = conditions.into_iter().find(|one| one["type"] == "Schedulable").unwrap_or_default();
    found["reason"].as_str().unwrap_or_default().to_string()
}

/// Checks all effects of a pause. `flags` select the fleet, a workspace or a cluster.
async fn assert_pause_holds(mut fleet: TestFleet, flags: &str) {
    let (above, below) = (fleet.admin(), fleet.east.admin());
    for name in ["edited", "deleted", "moved"] {
        create(&above, CONFIG_MAPS, config_map_with(name, "1")).await;
        fleet.run(&format!("place cm/{name} --on east"));
        wait_for("the object exists below", &below, &config_map(name), |_| true).await;
    }
    create(&above, CONFIG_MAPS, config_map_with("late", "1")).await;
    let mut pause = fleet.command_with_flags("pause", flags);
    pause.args(["--reason", "a storm is coming"]);
    let printed = atoll_testkit::succeed(&mut pause);
    assert!(printed.contains("nothing is placed, moved or deleted there until resumed"), "{printed}");
    let again = fleet.run(&fleet.command_line("pause", flags));
    assert!(
        again.contains("Already paused: ")
            && again.contains(": a storm is coming; resume with: atoll resume"),
        "{again}"
    );

    // Rejected requests name who has paused, why, and how to resume.
    for line in ["place cm/late --on east", "place cm/moved --on none"] {
        let errors = fleet.run_failing(line);
        assert!(
            errors.contains("is paused by ")
                && errors.contains("a storm is coming; resume with: atoll resume"),
            "{errors}"
        );
    }
    let paused = wait_for("the Cluster reports the pause", &above, EAST, |cluster| {
        schedulable(cluster) == "Paused" && cluster["status"]["paused"].is_string()
    })
    .await;
    assert!(paused["status"]["paused"].as_str().unwrap().contains("a storm is coming"), "{paused}");
    assert!(fleet.run("cluster list").contains("Paused"));
    assert!(fleet.run("cluster describe east").contains("a storm is coming"));

    // Deletions wait and edits do not, and a restart of the server does not change that.
    let deleted = above.get(&config_map("deleted")).await.expect(200);
    above.delete(&config_map("deleted")).await.expect(200);
    let record = wait_for_record(&above, "default", &deleted, |status| {
        status["message"].as_str().is_some_and(|message| message.contains("not deleted yet: "))
    })
    .await;
    assert_eq!(record["status"]["state"], "Applied");
    above.merge(&config_map("edited"), json!({ "data": { "value": "2" } })).await.expect(200);
    wait_for("edits are applied below", &below, &config_map("edited"), |map| map["data"]["value"] == "2")
        .await;
    fleet.above.kill();
    fleet.above.restart();
    let above = fleet.admin();
    above.merge(&config_map("edited"), json!({ "data": { "value": "3" } })).await.expect(200);
    wait_for("edits are applied below", &below, &config_map("edited"), |map| map["data"]["value"] == "3")
        .await;
    below.get(&config_map("deleted")).await.expect(200);
    above.get(&config_map("deleted")).await.expect(200);

    // An object that was deleted below is not created again.
    let edited = above.get(&config_map("edited")).await.expect(200);
    below.delete(&config_map("edited")).await.expect(200);
    wait_for_record(&above, "default", &edited, |status| {
        status["message"].as_str().is_some_and(|message| message.contains("not created yet: "))
    })
    .await;
    assert_eq!(below.get(&config_map("edited")).await.status, 404);

    let printed = fleet.run(&fleet.command_line("resume", flags));
    assert!(printed.starts_with("Resumed "), "{printed}");
    wait_until_deleted(&below, &config_map("deleted")).await;
    wait_until_deleted(&above, &config_map("deleted")).await;
    wait_for("the object is created again", &below, &config_map("edited"), |map| map["data"]["value"] == "3")
        .await;
    fleet.run("place cm/late --on east");
    wait_for("the object exists below", &below, &config_map("late"), |_| true).await;
    wait_for("the cluster is open", &above, EAST, |cluster| schedulable(cluster) == "Open").await;
    assert!(fleet.run(&fleet.command_line("resume", flags)).contains("is not paused itself"));
}

#[tokio::test(flavor = "multi_thread")]
async fn paused_cluster_is_not_changed() {
    assert_pause_holds(TestFleet::start(), "--cluster east").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn paused_fleet_is_not_changed_by_an_agent() {
    assert_pause_holds(TestFleet::with_agent(), "").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn paused_workspace_does_not_affect_others() {
    let fleet = TestFleet::start();
    let (above, below) = (fleet.admin(), fleet.east.admin());
    for name in ["team", "other"] {
        let workspace = object("atoll.dev/v1alpha1", "Workspace", name, json!({}));
        create(&above, "/apis/atoll.dev/v1alpha1/workspaces", workspace).await;
    }
    let (team, other) = (above.workspace("root:team"), above.workspace("root:other"));
    for (client, name) in [(&team, "theirs"), (&other, "ours")] {
        create(client, "/api/v1/namespaces", object("v1", "Namespace", name, json!({}))).await;
        let maps = format!("/api/v1/namespaces/{name}/configmaps");
        create(client, &maps, config_map_with("a", "1")).await;
        let placed = json!({ "spec": { "clusters": [{ "name": "east" }] } });
        client.merge(&format!("{maps}/a/placement"), placed).await.expect(200);
    }
    let list = "/api/v1/configmaps?labelSelector=atoll.dev/control-plane";
    let count = |list: &Value, workspace: &str| {
        let items = list["items"].as_array().unwrap();
        items
            .iter()
            .filter(|item| item["metadata"]["annotations"]["atoll.dev/source"] == format!("{workspace}/a"))
            .count()
    };
    wait_for("both objects exist below", &below, list, |list| {
        count(list, "ours") == 1 && count(list, "theirs") == 1
    })
    .await;
    let printed = fleet.run("pause --workspace team --reason storm");
    assert!(printed.contains("Paused workspace root:team"), "{printed}");
    let refused = team
        .merge("/api/v1/namespaces/theirs/configmaps/a/placement", json!({ "spec": { "clusters": [] } }))
        .await
        .expect_status(403, "Forbidden");
    assert!(
        refused.contains("workspace root:team is paused by ") && refused.contains(": storm; "),
        "{refused}"
    );
    let map = team.get("/api/v1/namespaces/theirs/configmaps/a").await.expect(200);
    // Clients that delete objects there are warned that they are kept, for single deletions and for
    // collections.
    for (path, is_warned) in [
        ("/api/v1/namespaces/theirs/configmaps/a?dryRun=All", true),
        ("/api/v1/namespaces/theirs/configmaps?fieldSelector=metadata.name%3Da", true),
        ("/api/v1/namespaces/theirs/configmaps?fieldSelector=metadata.name%3Db", false),
    ] {
        let deleted = team.delete(path).await;
        deleted.expect(200);
        let warning = deleted.header("warning").unwrap_or_default();
        let is_told = warning
            .contains("it stays until its clusters have deleted it, and workspace root:team is paused by ")
            && warning.contains(": storm; resume with: atoll resume --workspace root:team");
        assert_eq!(is_told, is_warned, "{path}: {warning}");
    }
    let deleted = other.delete("/api/v1/namespaces/ours/configmaps?fieldSelector=metadata.name%3Da").await;
    deleted.expect(200);
    assert_eq!(deleted.header("warning"), None);
    wait_for("the object of the other workspace is deleted", &below, list, |list| count(list, "ours") == 0)
        .await;
    wait_for_record(&team, "theirs", &map, |status| {
        status["message"].as_str().is_some_and(|message| message.contains("not deleted yet: "))
    })
    .await;
    wait_for("the object of the paused workspace is kept", &below, list, |list| count(list, "theirs") == 1)
        .await;
    fleet.run("resume --workspace team");
    wait_for("the object of the paused workspace is deleted", &below, list, |list| {
        count(list, "theirs") == 0
    })
    .await;
}
