//! A definition is visible in its own workspace only.

use atoll_testkit::wait::eventually;
use atoll_testkit::{Atoll, names};
use serde_json::json;

use crate::{DEFINITIONS, definition, free, object};

const WORKSPACES: &str = "/apis/atoll.dev/v1alpha1/workspaces";
const HATS: &str = "/apis/example.com/v1/hats";

#[tokio::test(flavor = "multi_thread")]
async fn definitions_are_visible_in_their_workspace_only() {
    let atoll = Atoll::start();
    let admin = atoll.admin();
    for name in ["one", "two"] {
        let workspace = json!({ "metadata": { "name": name } });
        admin.post(WORKSPACES, workspace).await.expect(201);
    }
    let (one, two) = (admin.workspace("root:one"), admin.workspace("root:two"));
    one.post(DEFINITIONS, definition("hats", "Hat", "Cluster", json!([free("v1", true)]))).await.expect(201);
    one.post(HATS, object("v1", "Hat", "mine", json!({}))).await.expect(201);
    for stranger in [&two, &admin] {
        stranger.get(HATS).await.expect_status_code(404);
        stranger.get("/apis/example.com").await.expect_status_code(404);
        let groups = stranger.get("/apis").await.expect(200).to_string();
        assert!(!groups.contains("example.com"), "{groups}");
        let documents = stranger.get("/openapi/v3").await.text();
        assert!(!documents.contains("example.com"), "{documents}");
    }
    // The same name with a different kind.
    two.post(DEFINITIONS, definition("hats", "Hat", "Namespaced", json!([free("v2", true)])))
        .await
        .expect(201);
    two.get(HATS).await.expect_status_code(404);
    assert!(names(&two.get("/apis/example.com/v2/hats").await.expect(200)).is_empty());
    assert_eq!(names(&one.get(HATS).await.expect(200)), ["mine"]);
    // A workspace is deleted with all its contents.
    admin.delete(&format!("{WORKSPACES}/one")).await.expect(200);
    eventually("the workspace is gone", async || admin.get(&format!("{WORKSPACES}/one")).await.status == 404)
        .await;
    admin.post(WORKSPACES, json!({ "metadata": { "name": "one" } })).await.expect(201);
    one.get(HATS).await.expect_status_code(404);
}
