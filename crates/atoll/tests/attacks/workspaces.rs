//! Workspaces cannot be used to bypass the limits of their parent.

use atoll_testkit::Atoll;
use atoll_testkit::wait::eventually;
use serde_json::json;

use crate::definitions::tenant;
use crate::support::{CONFIG_MAPS, config_map_with};

const WORKSPACES: &str = "/apis/atoll.dev/v1alpha1/workspaces";

/// A tenant removes the finalizer that keeps a Workspace until its contents are deleted.
#[tokio::test(flavor = "multi_thread")]
async fn contents_are_deleted_with_a_workspace_even_without_its_finalizer() {
    let atoll = Atoll::start();
    let tenant = tenant(&atoll, "team", json!({})).await;
    tenant.post(WORKSPACES, json!({ "metadata": { "name": "leak" } })).await.expect(201);
    let leak = format!("{WORKSPACES}/leak");
    let finalizers = json!({ "metadata": { "finalizers": null } });
    tenant.merge(&leak, finalizers).await.expect(200);
    let inside = atoll.admin().workspace("root:team:leak");
    inside.post(CONFIG_MAPS, config_map_with("leaked", "1")).await.expect(201);
    tenant.delete(&leak).await.expect(200);
    eventually("the workspace is gone", async || tenant.get(&leak).await.status == 404).await;
    let all = atoll.admin().get("/clusters/*/api/v1/configmaps?fieldSelector=metadata.name=leaked").await;
    assert_eq!(all.expect(200)["items"], json!([]), "all contents must be deleted");
}

/// A write is counted in all parent workspaces, so their number is limited.
#[tokio::test]
async fn nesting_of_workspaces_is_limited() {
    let atoll = Atoll::start_bare();
    let admin = atoll.admin();
    let mut path = "root".to_string();
    let mut refused = None;
    for _ in 0..100 {
        let answer = admin.workspace(&path).post(WORKSPACES, json!({ "metadata": { "name": "w" } })).await;
        if answer.status != 201 {
            refused = Some(answer.expect_status(422, "Invalid"));
            break;
        }
        path.push_str(":w");
    }
    let refused = refused.expect("nesting a hundred workspaces must be rejected");
    assert!(refused.contains("workspaces cannot be nested more than 64 deep"), "{refused}");
}
