//! Credentials of one workspace are not valid in another.

use atoll_testkit::wait::eventually;
use atoll_testkit::{Atoll, Client};
use serde_json::{Value, json};

use crate::{create_account, request_token, review, user_name};

pub const WORKSPACES: &str = "/apis/atoll.dev/v1alpha1/workspaces";

pub async fn create_workspace(admin: &Client, name: &str) -> (Client, String) {
    let object =
        json!({ "apiVersion": "atoll.dev/v1alpha1", "kind": "Workspace", "metadata": { "name": name } });
    let created: Value = admin.post(WORKSPACES, object).await.expect(201);
    let id = created["status"]["id"].as_str().unwrap().to_string();
    (admin.workspace(&format!("root:{name}")), id)
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_are_valid_in_their_workspace_only() {
    let atoll = Atoll::start();
    let admin = atoll.admin();
    let (first, id) = create_workspace(&admin, "first").await;
    let (second, _) = create_workspace(&admin, "second").await;
    let places = [&admin, &first, &second];
    for workspace_access in places {
        create_account(workspace_access, "a").await;
    }
    for home in places {
        let own = request_token(home, "a", json!({})).await;
        let is_root = std::ptr::eq(&admin, home);
        for workspace_access in places {
            let is_home = std::ptr::eq(home, workspace_access);
            // A request without a workspace is about the one of the token.
            let is_bare = std::ptr::eq(&admin, workspace_access);
            assert_eq!(
                user_name(&workspace_access.token(&own)).await.is_ok(),
                is_home || is_bare,
                "{} at {}",
                home.base(),
                workspace_access.base()
            );
            let status = review(workspace_access, json!({ "token": own })).await;
            assert_eq!(status["authenticated"] == true, is_home, "{status}");
        }
        // Neither across all workspaces, nor in a workspace that does not exist.
        for nowhere in
            ["*", "root:none", "", "first", "root:first:"].into_iter().chain((!is_root).then_some("root"))
        {
            assert_eq!(user_name(&admin.workspace(nowhere).token(&own)).await, Err(401), "{nowhere}");
        }
    }
    // The issuers of workspaces differ.
    let mut http = first.http1().await.unwrap();
    let document = http.get_accepting("/.well-known/openid-configuration", "*/*").await.unwrap().json();
    assert_eq!(document["issuer"], format!("https://kubernetes.default.svc/clusters/{id}"));
    assert_eq!(document["jwks_uri"], format!("https://{}/clusters/root:first/openid/v1/jwks", atoll.address));
    // The documents of a bare URL are those of root for every client: caches may keep them.
    let own = request_token(&first, "a", json!({})).await;
    for path in ["/.well-known/openid-configuration", "/.well-known/openid-configuration/", "/openid/v1/jwks"]
    {
        admin.token(&own).get(path).await.expect_status_code(401);
    }
    // A workspace that is created again with the same name is a different workspace.
    admin.delete(&format!("{WORKSPACES}/first")).await.expect(200);
    eventually("the token of the deleted workspace is rejected", async || {
        user_name(&first.token(&own)).await == Err(401)
    })
    .await;
}

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Clients in Pods know only a host and a port.
#[tokio::test(flavor = "multi_thread")]
async fn requests_without_a_workspace_are_about_the_workspace_of_the_token() {
    let atoll = Atoll::start();
    let admin = atoll.admin();
    let (first, _) = create_workspace(&admin, "first").await;
    let (second, _) = create_workspace(&admin, "second").await;
    for workspace in [&admin, &first, &second] {
        create_account(workspace, "a").await;
    }
    let binding = json!({
        "metadata": { "name": "a" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit" },
        "subjects": [{ "kind": "ServiceAccount", "namespace": "default", "name": "a" }],
    });
    first.post("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding).await.expect(201);
    let token = request_token(&first, "a", json!({})).await;
    let bare = admin.token(&token);
    let object = json!({ "metadata": { "name": "made-in-a-pod" } });
    bare.post(CONFIG_MAPS, object.clone()).await.expect(201);
    first.get(&format!("{CONFIG_MAPS}/made-in-a-pod")).await.expect(200);
    for other in [&admin, &second] {
        other.get(&format!("{CONFIG_MAPS}/made-in-a-pod")).await.expect(404);
    }
    // Permissions are those of the workspace: accounts of the same name have none in the others.
    let powerless = admin.token(&request_token(&second, "a", json!({})).await);
    powerless.post(CONFIG_MAPS, object.clone()).await.expect_status(403, "Forbidden");
    // Endpoints about the whole server are served in root only.
    bare.get("/metrics").await.expect_status_code(403);
    // A client certificate takes precedence over a token, and a path over the workspace of the token.
    admin.and_token(&token).get(&format!("{CONFIG_MAPS}/made-in-a-pod")).await.expect(404);
    bare.workspace("root").get(CONFIG_MAPS).await.expect_status(401, "Unauthorized");
    bare.workspace("root:second").get(CONFIG_MAPS).await.expect_status(401, "Unauthorized");
    // A manipulated token is no token of any workspace.
    let (rest, _) = token.rsplit_once('.').unwrap();
    admin.token(&format!("{rest}.AAAA")).get(CONFIG_MAPS).await.expect_status(401, "Unauthorized");
}
