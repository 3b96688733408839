//! A server with a few users, and helpers that grant rights to them.

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::access::Access;
use crate::support::process::{Atoll, Setup};

pub const WORKSPACES: &str = "/apis/atoll.dev/v1alpha1/workspaces";
pub const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const GROUP: &str = "rbac.authorization.k8s.io";

/// A server with users. The token of each user is the user's name: ann and bob are in the group `dev`, eve is
/// in none.
pub struct TestServer {
    pub atoll: Atoll,
    _tokens: TempDir,
}

impl TestServer {
    pub fn start() -> TestServer {
        let tokens = tempfile::tempdir().unwrap();
        let file = tokens.path().join("tokens.csv");
        std::fs::write(&file, "ann,ann,1,dev\nbob,bob,2,dev\neve,eve,3\n").unwrap();
        let atoll = Setup::new().flag("--token-auth-file", file.display()).start();
        TestServer { atoll, _tokens: tokens }
    }

    pub fn admin(&self) -> Access {
        self.atoll.admin()
    }

    pub fn user(&self, name: &str) -> Access {
        self.admin().token(name)
    }
}

/// Creates a workspace below `parent`.
pub async fn create_workspace(admin: &Access, parent: &str, name: &str) {
    admin.workspace(parent).post(WORKSPACES, json!({ "metadata": { "name": name } })).await.expect(201);
}

/// Creates a ClusterRole with these rules and binds it to a user. Both objects have the same name.
pub async fn grant(admin: &Access, name: &str, user: &str, rules: Value) {
    let role = json!({ "metadata": { "name": name }, "rules": rules });
    admin.post(&format!("{RBAC}/clusterroles"), role).await.expect(201);
    bind(admin, name, user, name).await;
}

/// Binds a ClusterRole to a user.
pub async fn bind(admin: &Access, name: &str, user: &str, role: &str) {
    let binding = json!({
        "metadata": { "name": name },
        "roleRef": { "apiGroup": GROUP, "kind": "ClusterRole", "name": role },
        "subjects": [{ "apiGroup": GROUP, "kind": "User", "name": user }],
    });
    admin.post(&format!("{RBAC}/clusterrolebindings"), binding).await.expect(201);
}

/// Deletes a binding.
pub async fn unbind(admin: &Access, name: &str) {
    admin.delete(&format!("{RBAC}/clusterrolebindings/{name}")).await.expect(200);
}

pub fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> Value {
    json!({ "apiGroups": [group], "resources": resources, "verbs": verbs })
}

/// Creates the ServiceAccount `robot` in the namespace `default` and returns a token of it.
pub async fn create_robot_token(admin: &Access) -> String {
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    admin.post(accounts, json!({ "metadata": { "name": "robot" } })).await.expect(201);
    let issued = admin.post(&format!("{accounts}/robot/token"), json!({ "spec": {} })).await.expect(201);
    issued["status"]["token"].as_str().unwrap().to_string()
}
