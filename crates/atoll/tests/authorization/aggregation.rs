//! Aggregated ClusterRoles, with rules of their own in each workspace.

use atoll_testkit::Client;
use atoll_testkit::wait::eventually;
use serde_json::{Value, json};

use crate::users::{RBAC, TestServer, bind, create_workspace, rule};

async fn rules(admin: &Client, role: &str) -> Vec<Value> {
    let role = admin.get(&format!("{RBAC}/clusterroles/{role}")).await.expect(200);
    role["rules"].as_array().cloned().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn roles_aggregate_labelled_roles_of_their_workspace() {
    let server = TestServer::start();
    let admin = server.admin();
    create_workspace(&admin, "root", "a").await;
    create_workspace(&admin, "root", "b").await;
    let (a, b) = (admin.workspace("root:a"), admin.workspace("root:b"));
    // Present from the start, and not copied into workspaces.
    for client in [&admin, &a, &b] {
        let role = client.get(&format!("{RBAC}/clusterroles/admin")).await.expect(200);
        assert_eq!(role["metadata"]["resourceVersion"], "1");
        assert!(role["rules"].as_array().unwrap().len() > 15, "{role}");
    }
    assert!(rules(&a, "view").await.len() < rules(&a, "edit").await.len());
    bind(&a, "edits", "ann", "edit").await;
    let crontabs = rule("stable.example.com", &["crontabs"], &["get", "list"]);
    let marked = json!({
        "metadata": { "name": "crontabs", "labels": { "rbac.authorization.k8s.io/aggregate-to-view": "true" } },
        "rules": [crontabs],
    });
    a.post(&format!("{RBAC}/clusterroles"), marked).await.expect(201);
    for role in ["view", "edit", "admin"] {
        eventually("the role is aggregated", async || rules(&a, role).await.contains(&crontabs)).await;
        assert!(!rules(&b, role).await.contains(&crontabs), "{role} of another workspace");
    }
    let managers = a.get(&format!("{RBAC}/clusterroles/view")).await.expect(200);
    let managers = managers["metadata"]["managedFields"].to_string();
    assert!(managers.contains("clusterrole-aggregation-controller"), "{managers}");
    // The rules apply to a user with such a role.
    let asks = json!({ "spec": { "user": "ann", "resourceAttributes": {
        "verb": "list", "group": "stable.example.com", "resource": "crontabs" } } });
    let reviews = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    let answer = a.post(reviews, asks).await.expect(201);
    assert_eq!(
        answer["status"],
        json!({ "allowed": true, "reason": "RBAC: allowed by ClusterRoleBinding \"edits\" of ClusterRole \"edit\" to User \"ann\"" })
    );
    a.delete(&format!("{RBAC}/clusterroles/crontabs")).await.expect(200);
    for role in ["view", "edit", "admin"] {
        eventually("the rule is removed from the role", async || !rules(&a, role).await.contains(&crontabs))
            .await;
    }
}
