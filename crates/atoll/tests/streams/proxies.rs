//! Requests to nodes, Pods and Services through the server's proxy.

use serde_json::json;

use crate::harness::{PODS, TestCluster};

#[tokio::test(flavor = "multi_thread")]
async fn proxies_reach_pods_only() {
    let cluster = TestCluster::new().await;
    let admin = &cluster.admin;
    // As upstream: local services of the server's machine are not reachable this way.
    let answer = admin.get("/api/v1/nodes/old/proxy/healthz").await;
    assert_eq!(answer.expect_status(400, "BadRequest"), "address not allowed");
    let status = json!({ "status": { "podIP": "127.0.0.1", "podIPs": [{ "ip": "127.0.0.1" }] } });
    admin.merge(&format!("{PODS}/old/status"), status).await.expect(200);
    let answer = admin.get(&format!("{PODS}/old:8080/proxy/")).await;
    assert_eq!(answer.expect_status(400, "BadRequest"), "address not allowed");
    for (path, code, message) in [
        (format!("{PODS}/a:b:c:d/proxy/"), 400, "invalid pod request \"a:b:c:d\""),
        (format!("{PODS}/none/proxy/"), 404, "pods \"none\" not found"),
        ("/api/v1/nodes/none/proxy/".into(), 404, "nodes \"none\" not found"),
        ("/api/v1/namespaces/default/services/none/proxy/".into(), 404, "services \"none\" not found"),
    ] {
        assert_eq!(admin.get(&path).await.expect(code)["message"], message, "{path}");
    }
}
