//! A name means somebody in one workspace only: bindings of a parent never apply to ServiceAccounts, certificates or
//! impersonated users of a child, whatever these are called.

use std::path::Path;

use rcgen::DnType;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::certificates::{approve, certificate, requested, signing_request};
use crate::support::access::{Access, Answer};
use crate::support::process::{Atoll, Setup};

pub const WORKSPACES: &str = "/apis/atoll.dev/v1alpha1/workspaces";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const GROUP: &str = "rbac.authorization.k8s.io";
const SECRETS: &str = "/api/v1/namespaces/kube-system/secrets";
const ACCOUNT: &str = "system:serviceaccount:flux-system:kustomize-controller";

/// A server with people, each of whom has a token of their own name.
pub struct Tenancy {
    pub atoll: Atoll,
    _tokens: TempDir,
}

impl Tenancy {
    /// `flags` go to the server.
    pub fn start(people: &[&str], flags: &[(&str, &str)]) -> Tenancy {
        Tenancy::set_up(Setup::new(), people, flags)
    }

    /// With its data in this directory.
    pub fn start_in(directory: &Path, people: &[&str], flags: &[(&str, &str)]) -> Tenancy {
        Tenancy::set_up(Setup::new().directory(directory), people, flags)
    }

    fn set_up(setup: Setup, people: &[&str], flags: &[(&str, &str)]) -> Tenancy {
        let tokens = tempfile::tempdir().unwrap();
        let file = tokens.path().join("tokens.csv");
        let lines: Vec<String> = people.iter().map(|name| format!("{name},{name},{name}-uid\n")).collect();
        std::fs::write(&file, lines.concat()).unwrap();
        let setup = setup.flag("--token-auth-file", file.display());
        let setup = flags.iter().fold(setup, |setup, (name, value)| setup.flag(name, value));
        Tenancy { atoll: setup.start(), _tokens: tokens }
    }

    pub fn admin(&self) -> Access {
        self.atoll.admin()
    }

    /// A person in a workspace.
    pub fn person(&self, name: &str, workspace: &str) -> Access {
        self.admin().token(name).workspace(workspace)
    }
}

/// Creates a workspace below `parent`, with somebody who has cluster-admin in it and nothing else.
pub async fn workspace(admin: &Access, parent: &str, name: &str, tenant: &str) -> Access {
    admin.workspace(parent).post(WORKSPACES, json!({ "metadata": { "name": name } })).await.expect(201);
    let inside = admin.workspace(&format!("{parent}:{name}"));
    bind(&inside, "tenant", "cluster-admin", json!({ "kind": "User", "name": tenant })).await;
    inside
}

/// Binds a ClusterRole to a subject.
pub async fn bind(access: &Access, name: &str, role: &str, subject: Value) {
    let mut subject = subject;
    if subject["kind"] != "ServiceAccount" {
        subject["apiGroup"] = GROUP.into();
    }
    let binding = json!({
        "metadata": { "name": name },
        "roleRef": { "apiGroup": GROUP, "kind": "ClusterRole", "name": role },
        "subjects": [subject],
    });
    access.post(&format!("{RBAC}/clusterrolebindings"), binding).await.expect(201);
}

/// Creates a ClusterRole with these rules.
async fn role(access: &Access, name: &str, rules: Value) {
    let role = json!({ "metadata": { "name": name }, "rules": rules });
    access.post(&format!("{RBAC}/clusterroles"), role).await.expect(201);
}

/// Creates a ServiceAccount and returns a token for it.
pub async fn account(access: &Access, namespace: &str, name: &str) -> String {
    let accounts = format!("/api/v1/namespaces/{namespace}/serviceaccounts");
    access.post(&accounts, json!({ "metadata": { "name": name } })).await.expect(201);
    let issued = access.post(&format!("{accounts}/{name}/token"), json!({ "spec": {} })).await.expect(201);
    issued["status"]["token"].as_str().unwrap().to_string()
}

pub async fn namespace(access: &Access, name: &str) {
    access.post("/api/v1/namespaces", json!({ "metadata": { "name": name } })).await.expect(201);
}

/// Whether a SubjectAccessReview says that somebody may read Secrets.
async fn may_read_secrets(access: &Access, mut spec: Value) -> bool {
    spec["resourceAttributes"] = json!({ "namespace": "kube-system", "verb": "list", "resource": "secrets" });
    let reviews = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    access.post(reviews, json!({ "spec": spec })).await.expect(201)["status"]["allowed"] == true
}

#[track_caller]
fn refused(answer: &Answer, what: &str) {
    assert_eq!(answer.status, 403, "{what}: {}", answer.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn accounts_of_a_child_do_not_match_bindings_of_its_parents() {
    let tenancy = Tenancy::start(&["owner", "editor"], &[]);
    let admin = tenancy.admin();
    workspace(&admin, "root", "org", "owner").await;
    let team = workspace(&admin, "root:org", "team", "owner").await;
    let subjects = [
        json!({ "kind": "ServiceAccount", "namespace": "flux-system", "name": "kustomize-controller" }),
        json!({ "kind": "User", "name": ACCOUNT }),
        json!({ "kind": "Group", "name": "system:serviceaccounts:flux-system" }),
        json!({ "kind": "Group", "name": "system:serviceaccounts" }),
        json!({ "kind": "Group", "name": "system:authenticated" }),
    ];
    let content = |name: &str| json!([{ "apiGroups": ["atoll.dev"], "resources": ["workspaces/content"], "verbs": ["admin"], "resourceNames": [name] }]);
    // Somebody who may edit the team's workspace makes an account of the parents' administrators' name.
    namespace(&team, "flux-system").await;
    bind(&team, "editor", "edit", json!({ "kind": "User", "name": "editor" })).await;
    role(&team, "enters", json!([{ "nonResourceURLs": ["/"], "verbs": ["access"] }])).await;
    bind(&team, "enters", "enters", json!({ "kind": "User", "name": "editor" })).await;
    let editor = tenancy.person("editor", "root:org:team");
    let robot = editor.token(&account(&editor, "flux-system", "kustomize-controller").await);
    let impersonated = editor.acting_as(ACCOUNT, &[]);
    for (parent, child) in [("root", "org"), ("root:org", "team")] {
        let parent = admin.workspace(parent);
        role(&parent, "owns-child", content(child)).await;
        for (number, subject) in subjects.iter().enumerate() {
            for (kind, role) in [("chief", "cluster-admin"), ("door", "owns-child")] {
                // Everybody who is authenticated is meant when that group is: keep the people of this test out of it.
                if subject["name"] == "system:authenticated" && role == "cluster-admin" {
                    continue;
                }
                let name = format!("{kind}-{number}");
                bind(&parent, &name, role, subject.clone()).await;
                let what = format!("{} {subject} {role}", parent.base());
                refused(&robot.get(SECRETS).await, &what);
                refused(&robot.post(&format!("{RBAC}/clusterroles"), json!({ "metadata": { "name": "x" }, "rules": [{ "apiGroups": ["*"], "resources": ["*"], "verbs": ["*"] }] })).await, &what);
                if subject["name"] != "system:authenticated" {
                    refused(&impersonated.get(SECRETS).await, &what);
                }
                for groups in
                    [json!([]), json!(["system:serviceaccounts", "system:serviceaccounts:flux-system"])]
                {
                    let spec = json!({ "user": ACCOUNT, "groups": groups });
                    assert!(!may_read_secrets(&team, spec).await, "{what}");
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
    // The parent's own account is administrator where its binding is, and the child's by a binding of the child.
    namespace(&admin, "flux-system").await;
    let chief = admin.token(&account(&admin, "flux-system", "kustomize-controller").await);
    bind(&admin, "chief", "cluster-admin", subjects[0].clone()).await;
    chief.get(SECRETS).await.expect(200);
    refused(&robot.get(SECRETS).await, "root's account");
    bind(&team, "chief", "cluster-admin", subjects[0].clone()).await;
    robot.get(SECRETS).await.expect(200);
    assert!(may_read_secrets(&team, json!({ "user": ACCOUNT })).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_of_a_child_do_not_match_bindings_of_its_parents() {
    let tenancy = Tenancy::start(&["owner", "chief"], &[]);
    let admin = tenancy.admin();
    let team = workspace(&admin, "root", "team", "owner").await;
    bind(&admin, "chief", "cluster-admin", json!({ "kind": "User", "name": "chief" })).await;
    bind(&admin, "ops", "cluster-admin", json!({ "kind": "Group", "name": "ops" })).await;
    tenancy.person("chief", "root:team").get(SECRETS).await.expect(200);
    // Whoever may approve requests in the workspace gets a certificate in any name.
    let owner = tenancy.person("owner", "root:team");
    let (pem, key) =
        requested(&[(DnType::CommonName, "chief"), (DnType::OrganizationName, "ops")], Vec::new());
    signing_request(&owner, "chief", "kube-apiserver-client", &["client auth"], &pem).await;
    approve(&owner, "chief").await;
    let certificate = certificate(&owner, "chief").await;
    let forged = team.with_identity(&certificate, &key);
    let me = forged.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", json!({})).await.expect(201);
    assert_eq!(me["status"]["userInfo"]["username"], "chief", "{me}");
    refused(&forged.get(SECRETS).await, "the certificate of a workspace");
    // What a review is told of that identity is enough to judge it.
    let info = &me["status"]["userInfo"];
    let spec = json!({ "user": info["username"], "groups": info["groups"], "extra": info["extra"] });
    assert!(!may_read_secrets(&team, spec).await, "{info}");
    bind(&team, "chief", "cluster-admin", json!({ "kind": "User", "name": "chief" })).await;
    forged.get(SECRETS).await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn users_that_a_tenant_acts_as_do_not_bring_their_rights_from_above() {
    let tenancy = Tenancy::start(&["owner", "helper", "chief"], &[]);
    let admin = tenancy.admin();
    let team = workspace(&admin, "root", "team", "owner").await;
    bind(&admin, "chief", "cluster-admin", json!({ "kind": "User", "name": "chief" })).await;
    // In the workspace somebody may act as others, and no more.
    let rules = json!([
        { "apiGroups": [""], "resources": ["users"], "verbs": ["impersonate"] },
        { "nonResourceURLs": ["/"], "verbs": ["access"] },
    ]);
    role(&team, "acts", rules).await;
    bind(&team, "acts", "acts", json!({ "kind": "User", "name": "helper" })).await;
    let helper = tenancy.person("helper", "root:team");
    refused(&helper.acting_as("chief", &[]).get(SECRETS).await, "acting as the root's administrator");
    // Administrators from above see what the user would see.
    for from_above in [team.clone(), tenancy.person("chief", "root:team")] {
        from_above.acting_as("chief", &[]).get(SECRETS).await.expect(200);
        refused(&from_above.acting_as("nobody", &[]).get(SECRETS).await, "acting as nobody");
    }
    // Being one of `system:masters` by the rules of a workspace counts in that workspace.
    let owner = tenancy.person("owner", "root:team");
    owner.acting_as("x", &["system:masters"]).get(SECRETS).await.expect(200);
    for elsewhere in ["root", "*", "root:none"] {
        refused(
            &owner.workspace(elsewhere).acting_as("x", &["system:masters"]).get(SECRETS).await,
            elsewhere,
        );
    }
}
