//! Errors with upstream's messages.

use atoll_testkit::RequestContent;
use http::Method;
use serde_json::json;

use crate::harness::{PODS, TestCluster, run, with_spdy};

#[tokio::test(flavor = "multi_thread")]
async fn unreachable_targets_give_upstream_errors() {
    let cluster = TestCluster::new().await;
    // A bound port without a listener, so that no other process can listen on it.
    let reserved = tokio::net::TcpSocket::new_v4().unwrap();
    reserved.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let closed = reserved.local_addr().unwrap().port();
    cluster.create_node("dead", closed, &[]).await;
    cluster.create_pod("unscheduled", "", &["main"]).await;
    cluster.create_pod("stray", "nowhere", &["main"]).await;
    cluster.create_pod("lost", "dead", &["main"]).await;
    cluster.create_pod("missing", "old", &["main"]).await;
    cluster.create_pod("two", "old", &["one", "other"]).await;
    let refused = format!("dial tcp 127.0.0.1:{closed}: connect: connection refused");
    let log = format!("Get \"https://127.0.0.1:{closed}/containerLogs/default/lost/main\": {refused}");
    let choose = "a container name must be specified for pod two, choose one of: [one other]";
    let cases = [
        ("unscheduled/exec?command=x", 400, "pod unscheduled does not have a host assigned"),
        ("unscheduled/portforward", 400, "pod unscheduled does not have a host assigned"),
        ("two/exec?command=x", 400, choose),
        ("two/attach?container=x", 400, "container x is not valid for pod two"),
        ("two/log", 400, choose),
        ("none/exec?command=x", 404, "pods \"none\" not found"),
        ("stray/log", 404, "pods \"nowhere\" not found"),
        ("old/exec?command=x", 400, "Upgrade request required"),
        (
            "old/portforward?ports=x",
            400,
            "cannot convert to []int32: strconv.ParseUint: parsing \"x\": invalid syntax",
        ),
        ("old/exec?dryRun=All", 400, "dryRun is not supported"),
        ("lost/log", 500, &log),
        ("missing/log", 404, "the server could not find the requested resource ( pods/log missing)"),
        (
            "old/log?tailLines=-1",
            422,
            "PodLogOptions \"old\" is invalid: tailLines: Invalid value: -1: must be greater than or equal to 0",
        ),
    ];
    for (path, code, message) in cases {
        let answer = cluster.admin.get(&format!("{PODS}/{path}")).await;
        let status = answer.expect(code);
        assert_eq!((&status["kind"], &status["message"]), (&json!("Status"), &json!(message)), "{path}");
    }
    let nothing = cluster.admin.get(&format!("{PODS}/unscheduled/log")).await;
    assert_eq!((nothing.status, nothing.text().as_str()), (204, ""));
    let Some(kubectl) = cluster.kubectl() else { return };
    let result = run(&kubectl, "exec lost -- x", "").await;
    assert!(result.error.contains(&refused) && result.code == 1, "{result:?}");
    let result = run(&with_spdy(&kubectl), "exec lost -- x", "").await;
    assert!(
        result.error.contains(&format!("error dialing backend: {refused}")) && result.code == 1,
        "{result:?}"
    );
    for kubectl in [kubectl.clone(), with_spdy(&kubectl)] {
        let result = run(&kubectl, "exec missing -- x", "").await;
        assert!(result.error.contains("pod does not exist") && result.code == 1, "{result:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn exec_needs_the_create_verb() {
    let cluster = TestCluster::new().await;
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": { "name": "reader" },
        "rules": [{ "apiGroups": [""], "resources": ["pods/exec", "pods/attach", "pods/portforward", "pods/log"], "verbs": ["get"] }],
    });
    cluster.admin.post("/apis/rbac.authorization.k8s.io/v1/clusterroles", role).await.expect(201);
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": { "name": "reader" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reader" },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ann" }],
    });
    cluster.admin.post("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding).await.expect(201);
    let ann = cluster.admin.acting_as("ann", &["system:authenticated"]);
    for path in ["exec?command=x", "attach", "portforward"] {
        let answer = ann.get(&format!("{PODS}/old/{path}")).await;
        assert_eq!(answer.expect_status(403, "Forbidden"), "pods \"old\" is forbidden: ", "{path}");
        ann.request(Method::POST, &format!("{PODS}/old/{path}"), RequestContent::None).await.expect(403);
    }
    ann.get(&format!("{PODS}/old/log")).await.expect_status_code(200);
    cluster.admin.acting_as("bob", &[]).get(&format!("{PODS}/old/log")).await.expect(403);
    let seen = cluster.kubelet.last("/containerLogs/");
    assert!(seen.headers.keys().all(|name| !name.as_str().starts_with("impersonate-")));
}
