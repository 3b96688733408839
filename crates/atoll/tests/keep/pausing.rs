//! While it is paused nothing is placed, moved or deleted; then everything catches up.

use serde_json::{Value, json};

use crate::support::{CONFIG_MAPS, config_map, config_map_with};
use crate::world::{World, becomes, create, goes, object, record};

const EAST: &str = "/apis/atoll.dev/v1alpha1/clusters/east";

fn schedulable(cluster: &Value) -> String {
    let conditions = cluster["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let found = conditions.into_iter().find(|one| one["type"] == "Schedulable").unwrap_or_default();
    found["reason"].as_str().unwrap_or_default().to_string()
}

/// Everything that a pause is about; `what` are the flags that say what is paused.
async fn holds(mut world: World, what: &str) {
    let (above, below) = (world.admin(), world.east.admin());
    for name in ["edited", "deleted", "moved"] {
        create(&above, CONFIG_MAPS, config_map_with(name, "1")).await;
        world.says(&format!("place cm/{name} --on east"));
        becomes("it arrives", &below, &config_map(name), |_| true).await;
    }
    create(&above, CONFIG_MAPS, config_map_with("late", "1")).await;
    let mut pause = world.command_of("pause", what);
    pause.args(["--reason", "a storm is coming"]);
    let said = crate::support::programs::succeed(&mut pause);
    assert!(said.contains("nothing is placed, moved or deleted there until somebody resumes"), "{said}");
    let again = world.says(&world.line("pause", what));
    assert!(
        again.contains("It was already so: ")
            && again.contains(": a storm is coming; resume with: atoll resume"),
        "{again}"
    );

    // Whoever would place or take away is told who has paused, why, and how to go on.
    for line in ["place cm/late --on east", "place cm/moved --on none"] {
        let errors = world.refuses(line);
        assert!(
            errors.contains("is paused by ")
                && errors.contains("a storm is coming; resume with: atoll resume"),
            "{errors}"
        );
    }
    let paused = becomes("the cluster says so", &above, EAST, |cluster| {
        schedulable(cluster) == "Paused" && cluster["status"]["paused"].is_string()
    })
    .await;
    assert!(paused["status"]["paused"].as_str().unwrap().contains("a storm is coming"), "{paused}");
    assert!(world.says("cluster list").contains("Paused"));
    assert!(world.says("cluster describe east").contains("a storm is coming"));

    // What is deleted above waits, what is edited does not; and a restart changes nothing about that.
    let deleted = above.get(&config_map("deleted")).await.expect(200);
    above.delete(&config_map("deleted")).await.expect(200);
    let waits = record(&above, "default", &deleted, |status| {
        status["message"].as_str().is_some_and(|message| message.contains("it is not deleted yet: "))
    })
    .await;
    assert_eq!(waits["status"]["state"], "Applied");
    above.merge(&config_map("edited"), json!({ "data": { "value": "2" } })).await.expect(200);
    becomes("edits go on", &below, &config_map("edited"), |map| map["data"]["value"] == "2").await;
    world.above.kill();
    world.above.restart();
    let above = world.admin();
    above.merge(&config_map("edited"), json!({ "data": { "value": "3" } })).await.expect(200);
    becomes("edits go on", &below, &config_map("edited"), |map| map["data"]["value"] == "3").await;
    below.get(&config_map("deleted")).await.expect(200);
    above.get(&config_map("deleted")).await.expect(200);

    // What somebody has deleted below is not made again.
    let edited = above.get(&config_map("edited")).await.expect(200);
    below.delete(&config_map("edited")).await.expect(200);
    record(&above, "default", &edited, |status| {
        status["message"].as_str().is_some_and(|message| message.contains("it is not made yet: "))
    })
    .await;
    assert_eq!(below.get(&config_map("edited")).await.status, 404);

    let said = world.says(&world.line("resume", what));
    assert!(said.starts_with("Resumed "), "{said}");
    goes(&below, &config_map("deleted")).await;
    goes(&above, &config_map("deleted")).await;
    becomes("it is made again", &below, &config_map("edited"), |map| map["data"]["value"] == "3").await;
    world.says("place cm/late --on east");
    becomes("it arrives", &below, &config_map("late"), |_| true).await;
    becomes("the cluster is open", &above, EAST, |cluster| schedulable(cluster) == "Open").await;
    assert!(world.says(&world.line("resume", what)).contains("is not paused itself"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_cluster_is_left_as_it_is() {
    holds(World::start(), "--cluster east").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_fleet_is_left_as_it_is_by_whoever_syncs_by_hand() {
    holds(World::by_hand(), "").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_workspace_holds_up_nobody_else() {
    let world = World::start();
    let (above, below) = (world.admin(), world.east.admin());
    for name in ["team", "other"] {
        let workspace = object("atoll.dev/v1alpha1", "Workspace", name, json!({}));
        create(&above, "/apis/atoll.dev/v1alpha1/workspaces", workspace).await;
    }
    let (team, other) = (above.workspace("root:team"), above.workspace("root:other"));
    for (access, name) in [(&team, "theirs"), (&other, "ours")] {
        create(access, "/api/v1/namespaces", object("v1", "Namespace", name, json!({}))).await;
        let maps = format!("/api/v1/namespaces/{name}/configmaps");
        create(access, &maps, config_map_with("a", "1")).await;
        let placed = json!({ "spec": { "clusters": [{ "name": "east" }] } });
        access.merge(&format!("{maps}/a/placement"), placed).await.expect(200);
    }
    let list = "/api/v1/configmaps?labelSelector=atoll.dev/control-plane";
    let count = |list: &Value, workspace: &str| {
        let items = list["items"].as_array().unwrap();
        items
            .iter()
            .filter(|item| item["metadata"]["annotations"]["atoll.dev/source"] == format!("{workspace}/a"))
            .count()
    };
    becomes("both arrive", &below, list, |list| count(list, "ours") == 1 && count(list, "theirs") == 1).await;
    let said = world.says("pause --workspace team --reason storm");
    assert!(said.contains("Paused workspace root:team"), "{said}");
    let refused = team
        .merge("/api/v1/namespaces/theirs/configmaps/a/placement", json!({ "spec": { "clusters": [] } }))
        .await
        .expect_status(403, "Forbidden");
    assert!(
        refused.contains("workspace root:team is paused by ") && refused.contains(": storm; "),
        "{refused}"
    );
    let map = team.get("/api/v1/namespaces/theirs/configmaps/a").await.expect(200);
    // Whoever deletes there is told that it stays, one by one and all at once.
    for (path, is_warned) in [
        ("/api/v1/namespaces/theirs/configmaps/a?dryRun=All", true),
        ("/api/v1/namespaces/theirs/configmaps?fieldSelector=metadata.name%3Da", true),
        ("/api/v1/namespaces/theirs/configmaps?fieldSelector=metadata.name%3Db", false),
    ] {
        let deleted = team.delete(path).await;
        deleted.expect(200);
        let warning = deleted.header("warning").unwrap_or_default();
        let is_told = warning
            .contains("it stays until clusters have let go of it, and workspace root:team is paused by ")
            && warning.contains(": storm; resume with: atoll resume --workspace root:team");
        assert_eq!(is_told, is_warned, "{path}: {warning}");
    }
    let deleted = other.delete("/api/v1/namespaces/ours/configmaps?fieldSelector=metadata.name%3Da").await;
    deleted.expect(200);
    assert_eq!(deleted.header("warning"), None);
    becomes("the other goes", &below, list, |list| count(list, "ours") == 0).await;
    record(&team, "theirs", &map, |status| {
        status["message"].as_str().is_some_and(|message| message.contains("it is not deleted yet: "))
    })
    .await;
    becomes("it stays", &below, list, |list| count(list, "theirs") == 1).await;
    world.says("resume --workspace team");
    becomes("it goes", &below, list, |list| count(list, "theirs") == 0).await;
}
