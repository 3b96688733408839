//! Request paths that try to leave their workspace.

use atoll_testkit::Client;
use http::Method;

use crate::support::raw::Raw;
use crate::support::{CONFIG_MAPS, config_map_with};
use crate::users::{TestServer, create_workspace, grant, rule};
use serde_json::json;

const LIST: &str = "/api/v1/namespaces/default/configmaps";

/// Sends a request with an unmodified path. Returns the status and the body.
async fn send_raw(client: &Client, path: &str, token: &str) -> (u16, String) {
    let mut raw = Raw::open(client).await;
    let lines = format!("Authorization: Bearer {token}\r\nConnection: close\r\n");
    let head = raw.head("GET", path, &lines);
    raw.send(head).await.unwrap();
    let answer = raw.answer().await.unwrap_or_else(|| panic!("no answer to {path}"));
    (answer.status, String::from_utf8_lossy(&raw.rest().await).into_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn paths_cannot_lead_out_of_a_workspace() {
    let server = TestServer::start();
    let admin = server.admin();
    create_workspace(&admin, "root", "mine").await;
    create_workspace(&admin, "root", "yours").await;
    let (mine, yours) = (admin.workspace("root:mine"), admin.workspace("root:yours"));
    yours.post(CONFIG_MAPS, config_map_with("treasure", "gold")).await.expect(201);
    admin.post(CONFIG_MAPS, config_map_with("treasure", "gold")).await.expect(201);
    let everything = json!([rule("*", &["*"], &["*"]), { "nonResourceURLs": ["*"], "verbs": ["*"] }]);
    grant(&mine, "owns", "eve", everything).await;
    let eve = server.user("eve");
    eve.workspace("root:mine").get(CONFIG_MAPS).await.expect(200);
    let paths = [
        "/clusters/root:yours{}",
        "/clusters/root:mine/../root:yours{}",
        "/clusters/root:mine/%2e%2e/root:yours{}",
        "/clusters/root:mine/..%2froot:yours{}",
        "/clusters/root:mine%2f..%2froot:yours{}",
        "/clusters/root:mine%2F%2e%2e%2Froot:yours{}",
        "/clusters/root:mine/clusters/root:yours{}",
        "/clusters/root:mine/clusters/root{}",
        "/clusters/root:mine//clusters/root:yours{}",
        "/clusters/root:mine/./clusters/root:yours{}",
        "/clusters/../clusters/root:yours{}",
        "/clusters/..{}",
        "/clusters/.{}",
        "/clusters/{}",
        "/clusters/%2e%2e{}",
        "/clusters/%2e%2e/root:yours{}",
        "//clusters/root:yours{}",
        "/./clusters/root:yours{}",
        "/../clusters/root:yours{}",
        "/%63lusters/root:yours{}",
        "/clusters%2froot:yours{}",
        "/clusters//root:yours{}",
        "/Clusters/root:yours{}",
        "/clusters/root:mine:{}",
        "/clusters/root:mine::yours{}",
        "/clusters/root%3Ayours{}",
        "/clusters/root%253Ayours{}",
        "/clusters/root:mine%00{}",
        "/clusters/root:mine;root:yours{}",
        "/clusters/root:mine,root:yours{}",
        "/clusters/*{}",
        "/clusters/%2a{}",
        "/clusters/root:*{}",
        "/clusters/root:mine/..{}",
        "/clusters/root:mine/..;/root:yours{}",
        "/clusters/root:mine\\..\\root:yours{}",
        "{}",
        "/api/../clusters/root:yours{}",
        "/api/v1/../../clusters/root:yours{}",
    ];
    for path_template in paths {
        let path = path_template.replace("{}", LIST);
        let (status, text) = send_raw(&admin.anonymous(), &path, "eve").await;
        assert!(matches!(status, 400 | 401 | 403 | 404), "{path}: {status} {text}");
        assert!(!text.contains("treasure"), "{path}: {text}");
    }
    // The same holds for paths inside the workspace.
    let inside = [
        "/clusters/root:mine/api/v1/namespaces/default/../../namespaces/kube-system/secrets",
        "/clusters/root:mine/api/v1/namespaces/default%2f..%2fkube-system/secrets",
        "/clusters/root:mine/api//v1/namespaces",
        "/clusters/root:mine/atoll/snapshot",
        "/clusters/root:mine/metrics",
        "/clusters/root:mine/atoll%2fsnapshot",
    ];
    for path in inside {
        let (status, text) = send_raw(&admin.anonymous(), path, "eve").await;
        assert!(matches!(status, 400 | 403 | 404), "{path}: {status} {text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn server_wide_endpoints_are_served_in_root_only() {
    let server = TestServer::start();
    let admin = server.admin();
    create_workspace(&admin, "root", "mine").await;
    let everything = json!([rule("*", &["*"], &["*"]), { "nonResourceURLs": ["*"], "verbs": ["*"] }]);
    grant(&admin.workspace("root:mine"), "owns", "eve", everything).await;
    let eve = server.user("eve");
    for path in ["/metrics", "/atoll/snapshot"] {
        assert_eq!(eve.workspace("root:mine").get(path).await.status, 404, "{path}");
        eve.get(path).await.expect_status(403, "Forbidden");
        assert_eq!(admin.get(path).await.status, 200, "{path}");
    }
    // Not even as a member of system:masters, which eve may impersonate in her own workspace.
    let master = eve.workspace("root:mine").acting_as("root", &["system:masters"]);
    master.get(CONFIG_MAPS).await.expect(200);
    assert_eq!(master.get("/atoll/snapshot").await.status, 404);
    let everywhere = eve.workspace("*").acting_as("root", &["system:masters"]);
    assert_eq!(everywhere.get("/api/v1/configmaps").await.status, 403);
    let restore = atoll_testkit::RequestContent::Json(json!({}));
    let restored = eve.workspace("root:mine").request(Method::POST, "/atoll/snapshot", restore).await;
    assert_eq!(restored.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn workspace_id_in_the_status_cannot_be_changed() {
    let server = TestServer::start();
    let admin = server.admin();
    create_workspace(&admin, "root", "mine").await;
    let everything = json!([rule("*", &["*"], &["*"]), { "nonResourceURLs": ["*"], "verbs": ["*"] }]);
    grant(&admin.workspace("root:mine"), "owns", "eve", everything).await;
    let eve = server.user("eve").workspace("root:mine");
    let child =
        json!({ "apiVersion": "atoll.dev/v1alpha1", "kind": "Workspace", "metadata": { "name": "child" } });
    let mut child = eve.post("/apis/atoll.dev/v1alpha1/workspaces", child).await.expect(201);
    let id = child["status"]["id"].clone();
    let status = "/apis/atoll.dev/v1alpha1/workspaces/child/status";
    eve.merge(status, json!({ "status": { "id": "root" } })).await.expect_status(422, "Invalid");
    eve.merge(status, json!({ "status": null })).await.expect_status(422, "Invalid");
    child["status"]["id"] = "root".into();
    eve.put(status, child).await.expect_status(422, "Invalid");
    let read = eve.get("/apis/atoll.dev/v1alpha1/workspaces/child").await.expect(200);
    assert_eq!(read["status"]["id"], id);
}
