//! Privilege escalation through bindings, roles and impersonation is rejected.

use atoll_testkit::{ApiResponse, Client, RequestContent};
use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};

use crate::support::CONFIG_MAPS;
use crate::users::{RBAC, TestServer, grant, rule};

const GROUP: &str = "rbac.authorization.k8s.io";

async fn apply(client: &Client, path: &str, object: Value) -> ApiResponse {
    client.apply(&format!("{path}?fieldManager=eve&force=true"), object).await
}

#[tokio::test(flavor = "multi_thread")]
async fn users_cannot_grant_rights_that_they_do_not_have() {
    let server = TestServer::start();
    let (admin, eve) = (server.admin(), server.user("eve"));
    let verbs = &["get", "create", "update", "patch"];
    let kinds = &["clusterroles", "clusterrolebindings", "roles", "rolebindings"];
    grant(&admin, "writes", "eve", json!([rule(GROUP, kinds, verbs)])).await;
    let roles = format!("{RBAC}/clusterroles");
    let typed = |kind: &str, mut object: Value| {
        object["apiVersion"] = format!("{GROUP}/v1").into();
        object["kind"] = kind.into();
        object
    };
    let strong = |name: &str| {
        typed(
            "ClusterRole",
            json!({ "metadata": { "name": name }, "rules": [rule("", &["secrets"], &["*"])] }),
        )
    };
    let weak = |name: &str| {
        typed(
            "ClusterRole",
            json!({ "metadata": { "name": name }, "rules": [rule(GROUP, &["roles"], &["get"])] }),
        )
    };
    eve.post(&roles, weak("mine")).await.expect(201);
    let message = eve.post(&roles, strong("strong")).await.expect_status(403, "Forbidden");
    assert_eq!(
        message,
        "clusterroles.rbac.authorization.k8s.io \"strong\" is forbidden: user \"eve\" (groups=[\"system:authenticated\"]) is \
         attempting to grant RBAC permissions not currently held:\n{APIGroups:[\"\"], Resources:[\"secrets\"], Verbs:[\"*\"]}"
    );
    let own = format!("{roles}/mine");
    eve.put(&own, strong("mine")).await.expect_status(403, "Forbidden");
    eve.put(&format!("{roles}/new"), strong("new")).await.expect_status(403, "Forbidden");
    eve.merge(&own, json!({ "rules": strong("mine")["rules"] })).await.expect_status(403, "Forbidden");
    let patch = json!([{ "op": "add", "path": "/rules/-", "value": rule("", &["secrets"], &["get"]) }]);
    let body = RequestContent::Raw("application/json-patch+json", Bytes::from(patch.to_string()));
    eve.request(Method::PATCH, &own, body).await.expect_status(403, "Forbidden");
    let strategic = Bytes::from(json!({ "rules": strong("mine")["rules"] }).to_string());
    let body = RequestContent::Raw("application/strategic-merge-patch+json", strategic);
    eve.request(Method::PATCH, &own, body).await.expect_status(403, "Forbidden");
    apply(&eve, &own, strong("mine")).await.expect_status(403, "Forbidden");
    apply(&eve, &format!("{roles}/new"), strong("new")).await.expect_status(403, "Forbidden");
    // An aggregation rule could select anything.
    let mut gathers = weak("gathers");
    gathers["aggregationRule"] = json!({ "clusterRoleSelectors": [{}] });
    let message = eve.post(&roles, gathers.clone()).await.expect_status(403, "Forbidden");
    assert!(message.ends_with("must have cluster-admin privileges to use the aggregationRule"), "{message}");
    gathers["metadata"]["name"] = "mine".into();
    eve.put(&own, gathers.clone()).await.expect_status(403, "Forbidden");
    apply(&eve, &own, gathers).await.expect_status(403, "Forbidden");
    // Existing roles cannot be used either, neither by name nor through aggregation.
    eve.merge(&format!("{roles}/view"), json!({ "metadata": { "labels": { "a": "b" } } }))
        .await
        .expect_status(403, "Forbidden");
    let mut fed = strong("fed");
    fed["metadata"]["labels"] = json!({ "rbac.authorization.k8s.io/aggregate-to-view": "true" });
    eve.post(&roles, fed).await.expect_status(403, "Forbidden");
    let bind = |kind: &str, role_kind: &str, role: &str| {
        typed(
            kind,
            json!({
                "metadata": { "name": "own" },
                "roleRef": { "apiGroup": GROUP, "kind": role_kind, "name": role },
                "subjects": [{ "apiGroup": GROUP, "kind": "User", "name": "eve" }],
            }),
        )
    };
    let (bindings, local) =
        (format!("{RBAC}/clusterrolebindings"), format!("{RBAC}/namespaces/default/rolebindings"));
    for role in ["cluster-admin", "view", "system:kube-scheduler"] {
        eve.post(&bindings, bind("ClusterRoleBinding", "ClusterRole", role))
            .await
            .expect_status(403, "Forbidden");
        eve.post(&local, bind("RoleBinding", "ClusterRole", role)).await.expect_status(403, "Forbidden");
        let own = format!("{bindings}/own");
        apply(&eve, &own, bind("ClusterRoleBinding", "ClusterRole", role))
            .await
            .expect_status(403, "Forbidden");
        eve.put(&own, bind("ClusterRoleBinding", "ClusterRole", role)).await.expect_status(403, "Forbidden");
    }
    let missing =
        eve.post(&local, bind("RoleBinding", "Role", "absent")).await.expect_status(404, "NotFound");
    assert_eq!(missing, "rolebindings.rbac.authorization.k8s.io \"absent\" not found");
    eve.post(&local, bind("RoleBinding", "ClusterRole", "mine")).await.expect(201);
    eve.get(CONFIG_MAPS).await.expect_status(403, "Forbidden");
    // The verbs `bind` and `escalate` allow it.
    grant(&admin, "binds", "eve", json!([rule(GROUP, &["clusterroles"], &["bind", "escalate"])])).await;
    eve.put(&own, strong("mine")).await.expect(200);
    eve.post(&bindings, bind("ClusterRoleBinding", "ClusterRole", "cluster-admin")).await.expect(201);
    eve.get(CONFIG_MAPS).await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn impersonation_needs_a_grant_for_each_attribute() {
    let server = TestServer::start();
    let (admin, eve) = (server.admin(), server.user("eve"));
    let whoami = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let me = async |client: &Client| client.post(whoami, json!({})).await;
    let refused = me(&eve.acting_as("ann", &[])).await.expect_status(403, "Forbidden");
    assert_eq!(
        refused,
        "selfsubjectreviews.authentication.k8s.io is forbidden: User \"eve\" cannot impersonate-on:user-info:create resource \
         \"selfsubjectreviews\" in API group \"authentication.k8s.io\" at the cluster scope"
    );
    let mut ann = rule("", &["users"], &["impersonate"]);
    ann["resourceNames"] = json!(["ann"]);
    grant(&admin, "acts", "eve", json!([ann])).await;
    let seen = me(&eve.acting_as("ann", &[])).await.expect(201);
    assert_eq!(seen["status"]["userInfo"]["username"], "ann");
    assert_eq!(seen["status"]["userInfo"]["groups"], json!(["system:authenticated"]));
    for (user, groups) in [
        ("bob", &[][..]),
        ("ann", &["system:masters"]),
        ("ann", &["dev"]),
        ("system:serviceaccount:default:default", &[]),
        ("system:node:n", &[]),
    ] {
        me(&eve.acting_as(user, groups)).await.expect_status(403, "Forbidden");
    }
    // Constrained impersonation: only for some requests, and never as a member of system:masters.
    let constrained = json!([
        rule("authentication.k8s.io", &["users", "groups"], &["impersonate:user-info"]),
        rule("", &["configmaps"], &["impersonate-on:user-info:list"]),
    ]);
    grant(&admin, "acts-on", "eve", constrained).await;
    grant(&admin, "reads", "bob", json!([rule("", &["configmaps", "secrets"], &["list"])])).await;
    eve.acting_as("bob", &["dev"]).get(CONFIG_MAPS).await.expect(200);
    eve.acting_as("bob", &[]).get("/api/v1/secrets").await.expect_status(403, "Forbidden");
    let masters = eve.acting_as("bob", &["system:masters"]).get(CONFIG_MAPS).await;
    let message = masters.expect_status(403, "Forbidden");
    assert!(message.ends_with(": impersonating the system:masters group is not allowed"), "{message}");
    // Impersonation needs a user name.
    let message = eve.acting_as("", &["dev"]).get(CONFIG_MAPS).await.expect_status(400, "BadRequest");
    assert!(message.ends_with("without impersonating a user name"), "{message}");
}
