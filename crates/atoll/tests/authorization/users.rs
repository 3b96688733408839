//! A server with a few users, and helpers that grant rights to them.

use atoll_testkit::{Atoll, Client, Setup};
use serde_json::{Value, json};

pub const WORKSPACES: &str = "/apis/atoll.dev/v1alpha1/workspaces";
pub const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const GROUP: &str = "rbac.authorization.k8s.io";

/// A server with users. The token of each user is the user's name: ann and bob are in the group `dev`, eve is
/// in none.
pub struct TestServer {
    pub atoll: Atoll,
}

impl TestServer {
    pub fn start() -> TestServer {
        TestServer { atoll: Setup::new().tokens("ann,ann,1,dev\nbob,bob,2,dev\neve,eve,3\n").start() }
    }

    pub fn admin(&self) -> Client {
        self.atoll.admin()
    }

    pub fn user(&self, name: &str) -> Client {
        self.admin().token(name)
    }
}

/// Creates a workspace below `parent`.
pub async fn create_workspace(admin: &Client, parent: &str, name: &str) {
    admin.workspace(parent).post(WORKSPACES, json!({ "metadata": { "name": name } })).await.expect(201);
}

/// Creates a ClusterRole with these rules and binds it to a user. Both objects have the same name.
pub async fn grant(admin: &Client, name: &str, user: &str, rules: Value) {
    let role = json!({ "metadata": { "name": name }, "rules": rules });
    admin.post(&format!("{RBAC}/clusterroles"), role).await.expect(201);
    bind(admin, name, user, name).await;
}

/// Binds a ClusterRole to a user.
pub async fn bind(admin: &Client, name: &str, user: &str, role: &str) {
    let binding = json!({
        "metadata": { "name": name },
        "roleRef": { "apiGroup": GROUP, "kind": "ClusterRole", "name": role },
        "subjects": [{ "apiGroup": GROUP, "kind": "User", "name": user }],
    });
    admin.post(&format!("{RBAC}/clusterrolebindings"), binding).await.expect(201);
}

/// Deletes a binding.
pub async fn unbind(admin: &Client, name: &str) {
    admin.delete(&format!("{RBAC}/clusterrolebindings/{name}")).await.expect(200);
}

pub fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> Value {
    json!({ "apiGroups": [group], "resources": resources, "verbs": verbs })
}

/// Creates the ServiceAccount `robot` in the namespace `default` and returns a token of it.
pub async fn create_robot_token(admin: &Client) -> String {
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    admin.post(accounts, json!({ "metadata": { "name": "robot" } })).await.expect(201);
    let issued = admin.post(&format!("{accounts}/robot/token"), json!({ "spec": {} })).await.expect(201);
    issued["status"]["token"].as_str().unwrap().to_string()
}
