//! Entering a workspace, and what counts inside.

use serde_json::json;

use crate::people::{People, RBAC, WORKSPACES, bind, grant, robot, rule, unbind, workspace};
use crate::support::CONFIG_MAPS;
use crate::support::access::Access;

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_counts_at_once_and_in_its_own_workspace_only() {
    let people = People::meet();
    let (admin, ann) = (people.admin(), people.person("ann"));
    workspace(&admin, "root", "a").await;
    workspace(&admin, "root", "b").await;
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
    // A role alone does not open the door.
    grant(&outside, "reads", "ann", json!([read()])).await;
    let closed = ann.workspace("root:b").get(CONFIG_MAPS).await.expect_status(403, "Forbidden");
    assert_eq!(
        closed,
        "workspaces.atoll.dev \"root:b\" is forbidden: User \"ann\" cannot access the workspace"
    );
    grant(&outside, "enters", "ann", json!([enter()])).await;
    ann.workspace("root:b").get(CONFIG_MAPS).await.expect(200);
    // Inside, refusals are as anywhere.
    let refused = ann.workspace("root:b").get("/api/v1/secrets").await.expect_status(403, "Forbidden");
    assert_eq!(
        refused,
        "secrets is forbidden: User \"ann\" cannot list resource \"secrets\" in API group \"\" at the cluster scope"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_closed_cannot_be_told_from_what_is_not_there() {
    let people = People::meet();
    let admin = people.admin();
    workspace(&admin, "root", "secret").await;
    workspace(&admin, "root:secret", "below").await;
    let same = |answer: crate::support::access::Answer, path: &str| {
        let mut headers: Vec<String> = answer.headers.keys().map(ToString::to_string).collect();
        headers.sort();
        (answer.status, answer.text().replace(path, "PATH"), headers)
    };
    for person in [people.person("ann"), admin.anonymous()] {
        for path in [CONFIG_MAPS, "/api", "/healthz", "/", WORKSPACES, "/no/such", "/openapi/v3"] {
            let there = person.workspace("root:secret").get(path).await;
            assert_eq!(there.status, 403, "{path}");
            let there = same(there, "root:secret");
            for absent in
                ["root:absent", "root:secret:absent", "absent", "root:", "root::secret", "ROOT:secret"]
            {
                assert_eq!(same(person.workspace(absent).get(path).await, absent), there, "{absent} {path}");
            }
            assert_eq!(
                same(person.workspace("root:secret:below").get(path).await, "root:secret:below"),
                there
            );
        }
    }
    admin.workspace("root:absent").get(CONFIG_MAPS).await.expect_status(404, "NotFound");
}

#[tokio::test(flavor = "multi_thread")]
async fn administrators_can_be_given_what_lies_below() {
    let people = People::meet();
    let (admin, ann, bob) = (people.admin(), people.person("ann"), people.person("bob"));
    workspace(&admin, "root", "org").await;
    workspace(&admin, "root:org", "team").await;
    workspace(&admin, "root:org:team", "stage").await;
    workspace(&admin, "root:org", "other").await;
    let org = admin.workspace("root:org");
    let content = |verb: &str, name: &str| {
        let mut rule = rule("atoll.dev", &["workspaces/content"], &[verb]);
        rule["resourceNames"] = json!([name]);
        json!([rule])
    };
    let status = async |person: &Access, path: &str| person.workspace(path).get(CONFIG_MAPS).await.status;
    grant(&org, "administers", "ann", content("admin", "team")).await;
    for (path, expected) in [
        ("root:org:team", 200),
        ("root:org:team:stage", 200),
        ("root:org", 403),
        ("root:org:other", 403),
        ("root", 403),
    ] {
        assert_eq!(status(&ann, path).await, expected, "{path}");
    }
    // She may do everything there, and that includes giving it on.
    let team = ann.workspace("root:org:team");
    bind(&team, "reads", "bob", "view").await;
    assert_eq!(status(&bob, "root:org:team").await, 403, "the door is closed");
    grant(&team, "enters", "bob", json!([{ "nonResourceURLs": ["/"], "verbs": ["access"] }])).await;
    assert_eq!(status(&bob, "root:org:team").await, 200);
    let rules = team.post(
        "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
        json!({ "spec": { "namespace": "default" } }),
    );
    let rules = rules.await.expect(201);
    let all = json!({ "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"] });
    assert!(rules["status"]["resourceRules"].as_array().unwrap().contains(&all), "{rules}");
    // Access lets in and no more.
    grant(&org, "visits", "bob", content("access", "other")).await;
    assert_eq!(status(&bob, "root:org:other").await, 403);
    let refused = bob.workspace("root:org:other").get(CONFIG_MAPS).await.expect_status(403, "Forbidden");
    assert!(refused.starts_with("configmaps is forbidden"), "{refused}");
    bob.workspace("root:org:other").get("/api").await.expect(200);
    unbind(&org, "administers").await;
    assert_eq!(status(&ann, "root:org:team").await, 403);
    // The root's administrators, by a binding, are everywhere's.
    bind(&admin, "chief", "ann", "cluster-admin").await;
    assert_eq!(status(&ann, "root:org:team:stage").await, 200);
    assert_eq!(ann.workspace("*").get("/api/v1/configmaps").await.status, 403, "but not all at once");
}

#[tokio::test(flavor = "multi_thread")]
async fn service_accounts_are_known_in_their_workspace_only() {
    let people = People::meet();
    let admin = people.admin();
    let mut tokens = Vec::new();
    for name in ["a", "b"] {
        workspace(&admin, "root", name).await;
        let inside = admin.workspace(&format!("root:{name}"));
        tokens.push(robot(&inside).await);
        grant(
            &inside,
            "reads",
            "system:serviceaccount:default:robot",
            json!([rule("", &["configmaps"], &["list"])]),
        )
        .await;
    }
    let root = robot(&admin).await;
    bind(&admin, "chief", "system:serviceaccount:default:robot", "cluster-admin").await;
    for (own, other) in [("a", "b"), ("b", "a")] {
        let robot = admin.token(&tokens[usize::from(own == "b")]);
        robot.workspace(&format!("root:{own}")).get(CONFIG_MAPS).await.expect(200);
        let other = format!("root:{other}");
        for elsewhere in [other.as_str(), "root", "*", "root:absent"] {
            robot.workspace(elsewhere).get(CONFIG_MAPS).await.expect_status(401, "Unauthorized");
        }
        robot.get(CONFIG_MAPS).await.expect_status(401, "Unauthorized");
    }
    let robot = admin.token(&root);
    robot.get(CONFIG_MAPS).await.expect(200);
    robot.workspace("root:a").get(CONFIG_MAPS).await.expect_status(401, "Unauthorized");
    // Nor does a review of one workspace know another's.
    let review = json!({ "spec": { "token": tokens[0] } });
    let reviews = "/apis/authentication.k8s.io/v1/tokenreviews";
    let known = admin.workspace("root:a").post(reviews, review.clone()).await.expect(201);
    assert_eq!(known["status"]["authenticated"], true, "{known}");
    for elsewhere in ["root:b", "root"] {
        let unknown = admin.workspace(elsewhere).post(reviews, review.clone()).await.expect(201);
        assert!(unknown["status"].get("authenticated").is_none(), "{unknown}");
    }
}
