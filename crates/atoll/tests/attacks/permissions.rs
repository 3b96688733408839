//! Roles and bindings of a tenant that are slow to evaluate delay only the tenant.

use serde_json::{Value, json};

use crate::bindings::{
    TenantServer, bind, create_account, create_cluster_role, create_namespace, create_tenant_workspace,
};
use crate::support::raw::Raw;
use crate::support::{CONFIG_MAPS, config_map_with};

/// Large roles, and the number of their rules.
const ROLES: usize = 8;
const RULES: usize = 10_000;
/// Slow requests that are sent at the same time.
const REQUESTS: usize = 8;
/// Bindings that name the same large role.
const BINDINGS: usize = 1000;

fn irrelevant_rules() -> Value {
    vec![json!({ "verbs": ["impersonate"], "apiGroups": [""], "resources": ["unknown"] }); RULES].into()
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_authorization_of_a_tenant_does_not_delay_others() {
    let server = TenantServer::start(&["owner", "ann"], &[("--controllers", "false")]);
    let admin = server.admin();
    create_tenant_workspace(&admin, "root", "team", "owner").await;
    bind(&admin, "ann", "cluster-admin", json!({ "kind": "User", "name": "ann" })).await;
    let owner = server.user("owner", "root:team");
    create_namespace(&owner, "apps").await;
    let token = create_account(&owner, "apps", "slow").await;
    let account = || json!({ "kind": "ServiceAccount", "namespace": "apps", "name": "slow" });
    for number in 0..ROLES {
        let name = format!("large-{number}");
        create_cluster_role(&owner, &name, irrelevant_rules()).await;
        bind(&owner, &name, &name, account()).await;
    }
    for number in 0..BINDINGS {
        bind(&owner, &format!("same-{number}"), "large-0", account()).await;
    }
    // Bindings are evaluated by name, so this role is found last.
    let impersonation =
        json!({ "verbs": ["impersonate"], "apiGroups": [""], "resources": ["users", "groups"] });
    create_cluster_role(&owner, "z-impersonation", json!([impersonation])).await;
    bind(&owner, "z-impersonation", "z-impersonation", account()).await;
    // Each of these groups is authorized by itself.
    let groups: String = (0..80).map(|number| format!("Impersonate-Group: g{number}\r\n")).collect();
    let lines = format!("Authorization: Bearer {token}\r\nImpersonate-User: u\r\n{groups}");
    let mut slow = Vec::new();
    for _ in 0..REQUESTS {
        let mut raw = Raw::open(&admin.anonymous()).await;
        let head = raw.head("GET", &format!("/clusters/root:team{CONFIG_MAPS}/x"), &lines);
        raw.send(head).await.unwrap();
        slow.push(tokio::spawn(async move { raw.answer().await.unwrap() }));
    }
    let ann = server.user("ann", "root");
    for number in 0..5 {
        ann.post(CONFIG_MAPS, config_map_with(&format!("mine-{number}"), "1")).await.expect(201);
    }
    assert!(slow.iter().any(|request| !request.is_finished()), "ann waited for all slow requests");
    for request in slow {
        let answer = request.await.unwrap();
        assert!(matches!(answer.status, 403 | 504), "{} {}", answer.status, answer.text);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn reviews_of_many_rules_are_incomplete() {
    let server = TenantServer::start(&["owner"], &[("--controllers", "false")]);
    create_tenant_workspace(&server.admin(), "root", "team", "owner").await;
    let owner = server.user("owner", "root:team");
    create_namespace(&owner, "apps").await;
    let token = create_account(&owner, "apps", "many").await;
    create_cluster_role(&owner, "large", irrelevant_rules()).await;
    let account = || json!({ "kind": "ServiceAccount", "namespace": "apps", "name": "many" });
    for number in 0..BINDINGS / 10 {
        bind(&owner, &format!("large-{number}"), "large", account()).await;
    }
    let reviews = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
    let many = owner.token(&token);
    let answer = many.post(reviews, json!({ "spec": { "namespace": "apps" } })).await;
    let status = answer.expect(201)["status"].clone();
    assert_eq!(status["incomplete"], true);
    assert_eq!(status["evaluationError"], "the rules have more than 1 MiB");
    let shown = status["resourceRules"].as_array().unwrap().len();
    assert!((1..RULES).contains(&shown), "{shown} rules");
    // Other users get all of their rules.
    let answer = owner.post(reviews, json!({ "spec": { "namespace": "apps" } })).await.expect(201);
    assert_eq!(answer["status"]["incomplete"], false);
}
