//! What cannot be done, and what is said of it: upstream's words.

use http::Method;
use serde_json::json;

use crate::support::access::Body;
use crate::world::{PODS, World};

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_reached_is_refused_as_upstream_does() {
    let world = World::new().await;
    // A port that nobody listens at: it is kept, so that nobody else gets it either.
    let kept = tokio::net::TcpSocket::new_v4().unwrap();
    kept.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let closed = kept.local_addr().unwrap().port();
    world.node("dead", closed, &[]).await;
    world.pod("unscheduled", "", &["main"]).await;
    world.pod("stray", "nowhere", &["main"]).await;
    world.pod("lost", "dead", &["main"]).await;
    world.pod("missing", "old", &["main"]).await;
    world.pod("two", "old", &["one", "other"]).await;
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
        let answer = world.admin.get(&format!("{PODS}/{path}")).await;
        let status = answer.expect(code);
        assert_eq!((&status["kind"], &status["message"]), (&json!("Status"), &json!(message)), "{path}");
    }
    let nothing = world.admin.get(&format!("{PODS}/unscheduled/log")).await;
    assert_eq!((nothing.status, nothing.text().as_str()), (204, ""));
    let Some(kubectl) = world.kubectl() else { return };
    let ran = kubectl.run("exec lost -- x", "").await;
    assert!(ran.error.contains(&refused) && ran.code == 1, "{ran:?}");
    let ran = kubectl.with_spdy().run("exec lost -- x", "").await;
    assert!(ran.error.contains(&format!("error dialing backend: {refused}")) && ran.code == 1, "{ran:?}");
    for kubectl in [kubectl.clone(), kubectl.with_spdy()] {
        let ran = kubectl.run("exec missing -- x", "").await;
        assert!(ran.error.contains("pod does not exist") && ran.code == 1, "{ran:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_may_not_create_gets_into_no_container() {
    let world = World::new().await;
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": { "name": "reader" },
        "rules": [{ "apiGroups": [""], "resources": ["pods/exec", "pods/attach", "pods/portforward", "pods/log"], "verbs": ["get"] }],
    });
    world.admin.post("/apis/rbac.authorization.k8s.io/v1/clusterroles", role).await.expect(201);
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": { "name": "reader" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reader" },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ann" }],
    });
    world.admin.post("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding).await.expect(201);
    let ann = world.admin.acting_as("ann", &["system:authenticated"]);
    for path in ["exec?command=x", "attach", "portforward"] {
        let answer = ann.get(&format!("{PODS}/old/{path}")).await;
        assert_eq!(answer.expect_status(403, "Forbidden"), "pods \"old\" is forbidden: ", "{path}");
        ann.request(Method::POST, &format!("{PODS}/old/{path}"), Body::None).await.expect(403);
    }
    ann.get(&format!("{PODS}/old/log")).await.expect_status_code(200);
    world.admin.acting_as("bob", &[]).get(&format!("{PODS}/old/log")).await.expect(403);
    let seen = world.kubelet.last("/containerLogs/");
    assert!(seen.headers.keys().all(|name| !name.as_str().starts_with("impersonate-")));
}
