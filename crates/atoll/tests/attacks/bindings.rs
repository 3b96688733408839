//! Identities belong to one workspace: bindings of a parent never apply to ServiceAccounts, certificates or
//! impersonated users of a child, even when their names are equal.

use std::path::Path;

use atoll_testkit::{ApiResponse, Atoll, Client, Setup};
use rcgen::DnType;
use serde_json::{Value, json};

use crate::certificates::{approve, certificate, certificate_request, signing_request};

pub const WORKSPACES: &str = "/apis/atoll.dev/v1alpha1/workspaces";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const GROUP: &str = "rbac.authorization.k8s.io";
const SECRETS: &str = "/api/v1/namespaces/kube-system/secrets";
const ACCOUNT: &str = "system:serviceaccount:flux-system:kustomize-controller";

/// A server with users. The token of each user is the user's name.
pub struct TenantServer {
    pub atoll: Atoll,
}

impl TenantServer {
    /// Starts a server with additional command line `flags`.
    pub fn start(users: &[&str], flags: &[(&str, &str)]) -> TenantServer {
        TenantServer::start_with_setup(Setup::new(), users, flags)
    }

    /// Starts a server whose data is in `directory`.
    pub fn start_in(directory: &Path, users: &[&str], flags: &[(&str, &str)]) -> TenantServer {
        TenantServer::start_with_setup(Setup::new().directory(directory), users, flags)
    }

    fn start_with_setup(setup: Setup, users: &[&str], flags: &[(&str, &str)]) -> TenantServer {
        let lines: Vec<String> = users.iter().map(|name| format!("{name},{name},{name}-uid\n")).collect();
        let setup = setup.tokens(&lines.concat());
        let setup = flags.iter().fold(setup, |setup, (name, value)| setup.flag(name, value));
        TenantServer { atoll: setup.start() }
    }

    pub fn admin(&self) -> Client {
        self.atoll.admin()
    }

    /// Returns a client of a user in a workspace.
    pub fn user(&self, name: &str, workspace: &str) -> Client {
        self.admin().token(name).workspace(workspace)
    }
}

/// Creates a workspace below `parent` with a tenant who has cluster-admin in it and no other rights.
pub async fn create_tenant_workspace(admin: &Client, parent: &str, name: &str, tenant: &str) -> Client {
    admin.workspace(parent).post(WORKSPACES, json!({ "metadata": { "name": name } })).await.expect(201);
    let inside = admin.workspace(&format!("{parent}:{name}"));
    bind(&inside, "tenant", "cluster-admin", json!({ "kind": "User", "name": tenant })).await;
    inside
}

/// Binds a ClusterRole to a subject.
pub async fn bind(client: &Client, name: &str, role: &str, subject: Value) {
    let mut subject = subject;
    if subject["kind"] != "ServiceAccount" {
        subject["apiGroup"] = GROUP.into();
    }
    let binding = json!({
        "metadata": { "name": name },
        "roleRef": { "apiGroup": GROUP, "kind": "ClusterRole", "name": role },
        "subjects": [subject],
    });
    client.post(&format!("{RBAC}/clusterrolebindings"), binding).await.expect(201);
}

/// Creates a ClusterRole with these rules.
pub async fn create_cluster_role(client: &Client, name: &str, rules: Value) {
    let role = json!({ "metadata": { "name": name }, "rules": rules });
    client.post(&format!("{RBAC}/clusterroles"), role).await.expect(201);
}

/// Creates a ServiceAccount and returns a token for it.
pub async fn create_account(client: &Client, namespace: &str, name: &str) -> String {
    let accounts = format!("/api/v1/namespaces/{namespace}/serviceaccounts");
    client.post(&accounts, json!({ "metadata": { "name": name } })).await.expect(201);
    let issued = client.post(&format!("{accounts}/{name}/token"), json!({ "spec": {} })).await.expect(201);
    issued["status"]["token"].as_str().unwrap().to_string()
}

pub async fn create_namespace(client: &Client, name: &str) {
    client.post("/api/v1/namespaces", json!({ "metadata": { "name": name } })).await.expect(201);
}

/// Returns whether a SubjectAccessReview allows the subject to read Secrets.
async fn can_read_secrets(client: &Client, mut spec: Value) -> bool {
    spec["resourceAttributes"] = json!({ "namespace": "kube-system", "verb": "list", "resource": "secrets" });
    let reviews = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    client.post(reviews, json!({ "spec": spec })).await.expect(201)["status"]["allowed"] == true
}

#[track_caller]
fn assert_forbidden(answer: &ApiResponse, what: &str) {
    assert_eq!(answer.status, 403, "{what}: {}", answer.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn accounts_of_a_child_do_not_match_bindings_of_its_parents() {
    let server = TenantServer::start(&["owner", "editor"], &[]);
    let admin = server.admin();
    create_tenant_workspace(&admin, "root", "org", "owner").await;
    let team = create_tenant_workspace(&admin, "root:org", "team", "owner").await;
    let subjects = [
        json!({ "kind": "ServiceAccount", "namespace": "flux-system", "name": "kustomize-controller" }),
        json!({ "kind": "User", "name": ACCOUNT }),
        json!({ "kind": "Group", "name": "system:serviceaccounts:flux-system" }),
        json!({ "kind": "Group", "name": "system:serviceaccounts" }),
        json!({ "kind": "Group", "name": "system:authenticated" }),
    ];
    let content = |name: &str| json!([{ "apiGroups": ["atoll.dev"], "resources": ["workspaces/content"], "verbs": ["admin"], "resourceNames": [name] }]);
    // A user who may edit the team's workspace creates an account with the name of the parents'
    // administrator.
    create_namespace(&team, "flux-system").await;
    bind(&team, "editor", "edit", json!({ "kind": "User", "name": "editor" })).await;
    create_cluster_role(&team, "enters", json!([{ "nonResourceURLs": ["/"], "verbs": ["access"] }])).await;
    bind(&team, "enters", "enters", json!({ "kind": "User", "name": "editor" })).await;
    let editor = server.user("editor", "root:org:team");
    let robot = editor.token(&create_account(&editor, "flux-system", "kustomize-controller").await);
    let impersonated = editor.acting_as(ACCOUNT, &[]);
    for (parent, child) in [("root", "org"), ("root:org", "team")] {
        let parent = admin.workspace(parent);
        create_cluster_role(&parent, "owns-child", content(child)).await;
        for (number, subject) in subjects.iter().enumerate() {
            for (kind, role) in [("chief", "cluster-admin"), ("door", "owns-child")] {
                // The users of this test are in that group as well: binding cluster-admin to it would allow
                // everything.
                if subject["name"] == "system:authenticated" && role == "cluster-admin" {
                    continue;
                }
                let name = format!("{kind}-{number}");
                bind(&parent, &name, role, subject.clone()).await;
                let what = format!("{} {subject} {role}", parent.base());
                assert_forbidden(&robot.get(SECRETS).await, &what);
                assert_forbidden(&robot.post(&format!("{RBAC}/clusterroles"), json!({ "metadata": { "name": "x" }, "rules": [{ "apiGroups": ["*"], "resources": ["*"], "verbs": ["*"] }] })).await, &what);
                if subject["name"] != "system:authenticated" {
                    assert_forbidden(&impersonated.get(SECRETS).await, &what);
                }
                for groups in
                    [json!([]), json!(["system:serviceaccounts", "system:serviceaccounts:flux-system"])]
                {
                    let spec = json!({ "user": ACCOUNT, "groups": groups });
                    assert!(!can_read_secrets(&team, spec).await, "{what}");
                }
                let rules = json!({ "spec": { "namespace": "kube-system" } });
                let rules = robot.post("/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", rules).await;
                let rules = rules.expect(201)["status"]["resourceRules"].clone();
                let all = json!({ "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"] });
                assert!(!rules.as_array().unwrap().contains(&all), "{what}: {rules}");
                parent.delete(&format!("{RBAC}/clusterrolebindings/{name}")).await.expect(200);
            }
        }
    }
    // The parent's account is an administrator where its binding is. The child's account needs a binding in
    // the child.
    create_namespace(&admin, "flux-system").await;
    let chief = admin.token(&create_account(&admin, "flux-system", "kustomize-controller").await);
    bind(&admin, "chief", "cluster-admin", subjects[0].clone()).await;
    chief.get(SECRETS).await.expect(200);
    assert_forbidden(&robot.get(SECRETS).await, "root's account");
    bind(&team, "chief", "cluster-admin", subjects[0].clone()).await;
    robot.get(SECRETS).await.expect(200);
    assert!(can_read_secrets(&team, json!({ "user": ACCOUNT })).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_of_a_child_do_not_match_bindings_of_its_parents() {
    let server = TenantServer::start(&["owner", "chief"], &[]);
    let admin = server.admin();
    let team = create_tenant_workspace(&admin, "root", "team", "owner").await;
    bind(&admin, "chief", "cluster-admin", json!({ "kind": "User", "name": "chief" })).await;
    bind(&admin, "ops", "cluster-admin", json!({ "kind": "Group", "name": "ops" })).await;
    server.user("chief", "root:team").get(SECRETS).await.expect(200);
    // A user who may approve requests in the workspace can get a certificate for any name.
    let owner = server.user("owner", "root:team");
    let (pem, key) =
        certificate_request(&[(DnType::CommonName, "chief"), (DnType::OrganizationName, "ops")], Vec::new());
    signing_request(&owner, "chief", "kube-apiserver-client", &["client auth"], &pem).await;
    approve(&owner, "chief").await;
    let certificate = certificate(&owner, "chief").await;
    let forged = team.with_identity(&certificate, &key);
    let me = forged.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", json!({})).await.expect(201);
    assert_eq!(me["status"]["userInfo"]["username"], "chief", "{me}");
    assert_forbidden(&forged.get(SECRETS).await, "the certificate of a workspace");
    // A review with the user info of that identity gives the same result.
    let info = &me["status"]["userInfo"];
    let spec = json!({ "user": info["username"], "groups": info["groups"], "extra": info["extra"] });
    assert!(!can_read_secrets(&team, spec).await, "{info}");
    bind(&team, "chief", "cluster-admin", json!({ "kind": "User", "name": "chief" })).await;
    forged.get(SECRETS).await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn impersonated_users_do_not_keep_their_rights_of_parent_workspaces() {
    let server = TenantServer::start(&["owner", "helper", "chief"], &[]);
    let admin = server.admin();
    let team = create_tenant_workspace(&admin, "root", "team", "owner").await;
    bind(&admin, "chief", "cluster-admin", json!({ "kind": "User", "name": "chief" })).await;
    // In the workspace, the helper may impersonate users and has no other rights.
    let rules = json!([
        { "apiGroups": [""], "resources": ["users"], "verbs": ["impersonate"] },
        { "nonResourceURLs": ["/"], "verbs": ["access"] },
    ]);
    create_cluster_role(&team, "acts", rules).await;
    bind(&team, "acts", "acts", json!({ "kind": "User", "name": "helper" })).await;
    let helper = server.user("helper", "root:team");
    assert_forbidden(
        &helper.acting_as("chief", &[]).get(SECRETS).await,
        "acting as the root's administrator",
    );
    // Administrators of a parent workspace see what the impersonated user would see.
    for from_above in [team.clone(), server.user("chief", "root:team")] {
        from_above.acting_as("chief", &[]).get(SECRETS).await.expect(200);
        assert_forbidden(&from_above.acting_as("nobody", &[]).get(SECRETS).await, "acting as nobody");
    }
    // The group `system:masters`, obtained through impersonation in a workspace, counts in that workspace
    // only.
    let owner = server.user("owner", "root:team");
    owner.acting_as("x", &["system:masters"]).get(SECRETS).await.expect(200);
    for elsewhere in ["root", "*", "root:none"] {
        assert_forbidden(
            &owner.workspace(elsewhere).acting_as("x", &["system:masters"]).get(SECRETS).await,
            elsewhere,
        );
    }
}
