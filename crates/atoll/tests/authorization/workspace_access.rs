//! Client to workspaces, and rights inside them.

use atoll_testkit::Client;
use serde_json::json;

use crate::support::CONFIG_MAPS;
use crate::users::{
    RBAC, TestServer, WORKSPACES, bind, create_robot_token, create_workspace, grant, rule, unbind,
};

#[tokio::test(flavor = "multi_thread")]
async fn grants_take_effect_immediately_and_in_their_workspace_only() {
    let server = TestServer::start();
    let (admin, ann) = (server.admin(), server.user("ann"));
    create_workspace(&admin, "root", "a").await;
    create_workspace(&admin, "root", "b").await;
    let (inside, outside) = (admin.workspace("root:a"), admin.workspace("root:b"));
    let read = || rule("", &["configmaps"], &["list"]);
    let enter = || json!({ "nonResourceURLs": ["/"], "verbs": ["access"] });
    for _ in 0..20 {
        grant(&inside, "reads", "ann", json!([read(), enter()])).await;
        ann.workspace("root:a").get(CONFIG_MAPS).await.expect(200);
        unbind(&inside, "reads").await;
        ann.workspace("root:a").get(CONFIG_MAPS).await.expect_status(403, "Forbidden");
        inside.delete(&format!("{RBAC}/clusterroles/reads")).await.expect(200);
    }
    grant(&inside, "reads", "ann", json!([read(), enter()])).await;
    ann.workspace("root:b").get(CONFIG_MAPS).await.expect_status(403, "Forbidden");
    ann.get(CONFIG_MAPS).await.expect_status(403, "Forbidden");
    // A role alone does not give access to the workspace.
    grant(&outside, "reads", "ann", json!([read()])).await;
    let forbidden = ann.workspace("root:b").get(CONFIG_MAPS).await.expect_status(403, "Forbidden");
    assert_eq!(
        forbidden,
        "workspaces.atoll.dev \"root:b\" is forbidden: User \"ann\" cannot access the workspace"
    );
    grant(&outside, "enters", "ann", json!([enter()])).await;
    ann.workspace("root:b").get(CONFIG_MAPS).await.expect(200);
    // Inside the workspace, rejections have upstream's message.
    let refused = ann.workspace("root:b").get("/api/v1/secrets").await.expect_status(403, "Forbidden");
    assert_eq!(
        refused,
        "secrets is forbidden: User \"ann\" cannot list resource \"secrets\" in API group \"\" at the cluster scope"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn inaccessible_and_missing_workspaces_give_the_same_answer() {
    let server = TestServer::start();
    let admin = server.admin();
    create_workspace(&admin, "root", "secret").await;
    create_workspace(&admin, "root:secret", "below").await;
    let same = |answer: atoll_testkit::ApiResponse, path: &str| {
        let mut headers: Vec<String> = answer.headers.keys().map(ToString::to_string).collect();
        headers.sort();
        (answer.status, answer.text().replace(path, "PATH"), headers)
    };
    for user in [server.user("ann"), admin.anonymous()] {
        for path in [CONFIG_MAPS, "/api", "/healthz", "/", WORKSPACES, "/no/such", "/openapi/v3"] {
            let there = user.workspace("root:secret").get(path).await;
            assert_eq!(there.status, 403, "{path}");
            let there = same(there, "root:secret");
            for absent in
                ["root:absent", "root:secret:absent", "absent", "root:", "root::secret", "ROOT:secret"]
            {
                assert_eq!(same(user.workspace(absent).get(path).await, absent), there, "{absent} {path}");
            }
            assert_eq!(same(user.workspace("root:secret:below").get(path).await, "root:secret:below"), there);
        }
    }
    admin.workspace("root:absent").get(CONFIG_MAPS).await.expect_status(404, "NotFound");
}

#[tokio::test(flavor = "multi_thread")]
async fn administration_of_child_workspaces_can_be_granted() {
    let server = TestServer::start();
    let (admin, ann, bob) = (server.admin(), server.user("ann"), server.user("bob"));
    create_workspace(&admin, "root", "org").await;
    create_workspace(&admin, "root:org", "team").await;
    create_workspace(&admin, "root:org:team", "stage").await;
    create_workspace(&admin, "root:org", "other").await;
    let org = admin.workspace("root:org");
    let content = |verb: &str, name: &str| {
        let mut rule = rule("atoll.dev", &["workspaces/content"], &[verb]);
        rule["resourceNames"] = json!([name]);
        json!([rule])
    };
    let list_status = async |user: &Client, path: &str| user.workspace(path).get(CONFIG_MAPS).await.status;
    grant(&org, "administers", "ann", content("admin", "team")).await;
    for (path, expected) in [
        ("root:org:team", 200),
        ("root:org:team:stage", 200),
        ("root:org", 403),
        ("root:org:other", 403),
        ("root", 403),
    ] {
        assert_eq!(list_status(&ann, path).await, expected, "{path}");
    }
    // Ann has all rights there, including the right to grant them to other users.
    let team = ann.workspace("root:org:team");
    bind(&team, "reads", "bob", "view").await;
    assert_eq!(list_status(&bob, "root:org:team").await, 403, "no access to the workspace");
    grant(&team, "enters", "bob", json!([{ "nonResourceURLs": ["/"], "verbs": ["access"] }])).await;
    assert_eq!(list_status(&bob, "root:org:team").await, 200);
    let rules = team.post(
        "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
        json!({ "spec": { "namespace": "default" } }),
    );
    let rules = rules.await.expect(201);
    let all = json!({ "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"] });
    assert!(rules["status"]["resourceRules"].as_array().unwrap().contains(&all), "{rules}");
    // The verb `access` gives access to the workspace and no other rights.
    grant(&org, "visits", "bob", content("access", "other")).await;
    assert_eq!(list_status(&bob, "root:org:other").await, 403);
    let refused = bob.workspace("root:org:other").get(CONFIG_MAPS).await.expect_status(403, "Forbidden");
    assert!(refused.starts_with("configmaps is forbidden"), "{refused}");
    bob.workspace("root:org:other").get("/api").await.expect(200);
    unbind(&org, "administers").await;
    assert_eq!(list_status(&ann, "root:org:team").await, 403);
    // An administrator of root through a binding administers all workspaces below.
    bind(&admin, "chief", "ann", "cluster-admin").await;
    assert_eq!(list_status(&ann, "root:org:team:stage").await, 200);
    assert_eq!(
        ann.workspace("*").get("/api/v1/configmaps").await.status,
        403,
        "no list across all workspaces"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn service_accounts_are_known_in_their_workspace_only() {
    let server = TestServer::start();
    let admin = server.admin();
    let mut tokens = Vec::new();
    for name in ["a", "b"] {
        create_workspace(&admin, "root", name).await;
        let inside = admin.workspace(&format!("root:{name}"));
        tokens.push(create_robot_token(&inside).await);
        grant(
            &inside,
            "reads",
            "system:serviceaccount:default:robot",
            json!([rule("", &["configmaps"], &["list"])]),
        )
        .await;
    }
    let root = create_robot_token(&admin).await;
    bind(&admin, "chief", "system:serviceaccount:default:robot", "cluster-admin").await;
    for (own, other) in [("a", "b"), ("b", "a")] {
        let robot = admin.token(&tokens[usize::from(own == "b")]);
        robot.workspace(&format!("root:{own}")).get(CONFIG_MAPS).await.expect(200);
        let other = format!("root:{other}");
        for elsewhere in [other.as_str(), "root", "*", "root:absent"] {
            robot.workspace(elsewhere).get(CONFIG_MAPS).await.expect_status(401, "Unauthorized");
        }
        // Without a workspace, a request is about the workspace of the token.
        robot.get(CONFIG_MAPS).await.expect(200);
    }
    let robot = admin.token(&root);
    robot.get(CONFIG_MAPS).await.expect(200);
    robot.workspace("root:a").get(CONFIG_MAPS).await.expect_status(401, "Unauthorized");
    // A TokenReview of one workspace does not accept a token of another one.
    let review = json!({ "spec": { "token": tokens[0] } });
    let reviews = "/apis/authentication.k8s.io/v1/tokenreviews";
    let known = admin.workspace("root:a").post(reviews, review.clone()).await.expect(201);
    assert_eq!(known["status"]["authenticated"], true, "{known}");
    for elsewhere in ["root:b", "root"] {
        let unknown = admin.workspace(elsewhere).post(reviews, review.clone()).await.expect(201);
        assert!(unknown["status"].get("authenticated").is_none(), "{unknown}");
    }
}
