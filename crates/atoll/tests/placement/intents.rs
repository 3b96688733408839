//! The annotation `atoll.dev/clusters`: validation, policies, overrides and pins.

use atoll_testkit::{Client, Setup};
use serde_json::{Value, json};

use crate::policies::{OF_NAMESPACE, OF_WORKSPACE, bind, create_role, policy};
use crate::{CLUSTERS, DEPLOYMENTS, cluster, deployment, path, with_clusters};

const INTENT: &str = "atoll.dev/clusters";
const OVERRIDE: &str = "atoll.dev/override";
const FIELD: &str = "metadata.annotations[atoll.dev/clusters]";
const NAMESPACES: &str = "/api/v1/namespaces";
const WORKSPACES: &str = "/apis/atoll.dev/v1alpha1/workspaces";

fn asking(name: &str, clusters: &str) -> Value {
    let mut object = deployment(name);
    object["metadata"]["annotations"] = json!({ INTENT: clusters });
    object
}

fn ask(clusters: Option<&str>) -> Value {
    json!({ "metadata": { "annotations": { INTENT: clusters } } })
}

/// Returns the warnings of a response about intents.
fn warnings(response: &atoll_testkit::ApiResponse) -> Vec<String> {
    let all = response.headers.get_all("warning").iter().filter_map(|value| value.to_str().ok());
    let unquoted = all.map(|text| text.trim_start_matches("299 - ").trim_matches('"').replace("\\\"", "\""));
    unquoted.filter(|text| text.contains(INTENT)).collect()
}

fn record(object: &Value) -> Option<Value> {
    let text = object["metadata"]["annotations"].get(OVERRIDE)?.as_str()?;
    serde_json::from_str(text).ok()
}

#[tokio::test]
async fn invalid_intents_are_refused_with_the_field() {
    let (_atoll, admin) = with_clusters(&["east"]).await;
    let namespace = |text: &str| json!({ "metadata": { "name": "shop", "annotations": { INTENT: text } } });
    admin.post(DEPLOYMENTS, asking("web", "east")).await.expect(201);
    for (text, expected) in [
        ("", "must name clusters"),
        ("east,", "has a comma without a cluster"),
        ("east=x", "\"x\" is not a number of replicas for east"),
        ("east,east", "names the cluster east twice"),
        ("none,east", "none means no cluster and must stand alone"),
    ] {
        for refused in [
            admin.post(DEPLOYMENTS, asking("other", text)).await,
            admin.merge(&path("web"), ask(Some(text))).await,
            admin.merge(&format!("{}/status", path("web")), ask(Some(text))).await,
            admin.post(NAMESPACES, namespace(text)).await,
        ] {
            refused.expect_status(422, "Invalid");
            let cause = &refused.json()["details"]["causes"][0];
            assert_eq!(cause["field"], FIELD, "{text:?}");
            assert!(cause["message"].as_str().is_some_and(|message| message.contains(expected)), "{cause}");
        }
    }
    // Other kinds of clients and objects that are never placed are not concerned.
    let map = json!({ "metadata": { "name": "a", "annotations": { INTENT: "none" } } });
    admin.post("/api/v1/namespaces/default/configmaps", map).await.expect(201);
    let role = json!({ "metadata": { "name": "a", "annotations": { INTENT: "?" } } });
    admin.post("/apis/rbac.authorization.k8s.io/v1/clusterroles", role).await.expect(201);
}

#[tokio::test]
async fn unknown_clusters_cause_a_warning() {
    let (_atoll, admin) = with_clusters(&["east"]).await;
    let created = admin.post(DEPLOYMENTS, asking("web", "east=2,north=1")).await;
    created.expect(201);
    let expected =
        format!("{FIELD} names \"north\", which is not a cluster of this workspace; see: atoll cluster list");
    assert_eq!(warnings(&created), [expected]);
    // An unchanged annotation causes none.
    let labelled = admin.merge(&path("web"), json!({ "metadata": { "labels": { "a": "b" } } })).await;
    labelled.expect(200);
    assert_eq!(warnings(&labelled), Vec::<String>::new());
    let known = admin.merge(&path("web"), ask(Some("east"))).await;
    known.expect(200);
    assert_eq!(warnings(&known), Vec::<String>::new());
}

async fn server_with_users() -> (atoll_testkit::Atoll, Client) {
    let users = "ann,ann,1\nbob,bob,2\n";
    let atoll = Setup::new().idle().tokens(users).start();
    let admin = atoll.admin();
    for name in ["east", "west"] {
        admin.post(CLUSTERS, cluster(name)).await.expect(201);
    }
    let all = |groups: Value| json!({ "apiGroups": groups, "resources": ["*"], "verbs": ["create", "get", "patch", "update"] });
    create_role(&admin, "developer", json!([all(json!(["", "apps"]))])).await;
    let overriding = json!([{
        "apiGroups": ["atoll.dev"], "resources": ["placementpolicies", "clusterplacementpolicies"], "verbs": ["override"],
    }]);
    create_role(&admin, "overrider", overriding).await;
    for (user, role) in [("ann", "developer"), ("bob", "developer"), ("bob", "overrider")] {
        bind(&admin, user, role).await;
    }
    (atoll, admin)
}

#[tokio::test]
async fn intents_beyond_a_policy_need_the_verb_override() {
    let (_atoll, admin) = server_with_users().await;
    let (ann, bob) = (admin.token("ann"), admin.token("bob"));
    let only_east = json!({ "objects": [{ "kind": "Deployment" }], "clusters": { "names": ["east"] } });
    admin.post(OF_NAMESPACE, policy("only-east", only_east)).await.expect(201);

    ann.post(DEPLOYMENTS, asking("web", "east=2")).await.expect(201);
    let message = ann.merge(&path("web"), ask(Some("east=2,west=1"))).await.expect_status(403, "Forbidden");
    assert_eq!(
        message,
        "deployments.apps \"web\" is forbidden: metadata.annotations[atoll.dev/clusters]: east=2,west=1 is beyond \
         placementpolicy/only-east: it does not allow the cluster west; this needs the verb override on \
         placementpolicies.atoll.dev \"only-east\""
    );
    ann.post(DEPLOYMENTS, asking("other", "west")).await.expect_status(403, "Forbidden");
    // A record of an override cannot be forged.
    let mut forged = ask(Some("west"));
    forged["metadata"]["annotations"][OVERRIDE] = "{}".into();
    ann.merge(&path("web"), forged).await.expect_status(403, "Forbidden");
    let forged = json!({ "metadata": { "annotations": { OVERRIDE: "{}" } } });
    assert_eq!(record(&ann.merge(&path("web"), forged.clone()).await.expect(200)), None);
    ann.merge(&path("web"), ask(Some("none"))).await.expect(200);

    let overridden = bob.merge(&path("web"), ask(Some("west"))).await;
    let object = overridden.expect(200);
    let expected = format!("{FIELD} overrides placementpolicy/only-east; it is recorded that bob did so");
    assert_eq!(warnings(&overridden), [expected]);
    let kept = record(&object).expect("a record");
    let policy_uid =
        admin.get(&format!("{OF_NAMESPACE}/only-east")).await.expect(200)["metadata"]["uid"].clone();
    assert_eq!(kept["uid"], policy_uid);
    assert_eq!(
        (&kept["user"], &kept["policy"], &kept["clusters"]),
        (&json!("bob"), &json!("placementpolicy/only-east"), &json!("west"))
    );
    // It stays as it is while the intent does, and is removed with it.
    assert_eq!(record(&ann.merge(&path("web"), forged).await.expect(200)), Some(kept.clone()));
    let removal = json!({ "metadata": { "annotations": { OVERRIDE: null } } });
    assert_eq!(record(&ann.merge(&path("web"), removal).await.expect(200)), Some(kept.clone()));
    let scaled = json!({ "spec": { "replicas": 5 } });
    assert_eq!(record(&ann.merge(&path("web"), scaled).await.expect(200)), Some(kept));
    assert_eq!(record(&ann.merge(&path("web"), ask(Some("east"))).await.expect(200)), None);
    bob.merge(&path("web"), ask(Some("west"))).await.expect(200);
    assert_eq!(record(&ann.merge(&path("web"), ask(None)).await.expect(200)), None);
}

#[tokio::test]
async fn intents_of_namespaces_are_checked_against_policies_for_all_workloads() {
    let (_atoll, admin) = server_with_users().await;
    let ann = admin.token("ann");
    let one = json!({ "replicas": { "division": "Single" } });
    admin.post(OF_WORKSPACE, policy("one", one)).await.expect(201);
    let special = json!({ "objects": [{ "kind": "StatefulSet" }], "clusters": { "names": ["east"] } });
    admin.post(OF_WORKSPACE, policy("special", special)).await.expect(201);
    let namespace = format!("{NAMESPACES}/default");
    let message = ann.merge(&namespace, ask(Some("east,west"))).await.expect_status(403, "Forbidden");
    assert!(
        message.contains("beyond clusterplacementpolicy/one: it allows at most 1 cluster, not 2"),
        "{message}"
    );
    ann.merge(&namespace, ask(Some("west"))).await.expect(200);
}

#[tokio::test]
async fn rights_in_a_workspace_do_not_override_inherited_policies() {
    let (_atoll, admin) = server_with_users().await;
    admin.post(WORKSPACES, json!({ "metadata": { "name": "team" } })).await.expect(201);
    let inherited = json!({ "clusters": { "exclude": ["west"] } });
    admin.post(OF_WORKSPACE, policy("not-west", inherited)).await.expect(201);
    let team = admin.workspace("root:team");
    // Ann may do everything in the workspace, and Bob may also override policies of the parent.
    for user in ["ann", "bob"] {
        bind(&team, user, "cluster-admin").await;
    }
    create_role(&team, "member", json!([{ "nonResourceURLs": ["/"], "verbs": ["access"] }])).await;
    let (ann, bob) = (team.token("ann"), team.token("bob"));
    let message = ann.post(DEPLOYMENTS, asking("web", "west")).await.expect_status(403, "Forbidden");
    assert!(
        message.ends_with(
            "west is beyond clusterplacementpolicy/not-west: it does not allow the cluster west; this needs the verb override \
             on clusterplacementpolicies.atoll.dev \"not-west\" in its workspace"
        ),
        "{message}"
    );
    let object = bob.post(DEPLOYMENTS, asking("web", "west")).await.expect(201);
    assert_eq!(record(&object).expect("a record")["user"], "bob");
    // A policy of the workspace itself has precedence.
    ann.post(OF_WORKSPACE, policy("any", json!({}))).await.expect(201);
    ann.post(DEPLOYMENTS, asking("free", "west")).await.expect(201);
}

#[tokio::test]
async fn writes_of_pinned_replicas_cause_a_warning() {
    let (_atoll, admin) = with_clusters(&["east", "west"]).await;
    let created = admin.post(DEPLOYMENTS, asking("web", "east==2,west==1")).await;
    created.expect(201);
    assert_eq!(warnings(&created), Vec::<String>::new(), "three replicas, as pinned");
    let expected = |replicas: i64| {
        format!(
            "spec.replicas: {replicas} has no effect: atoll.dev/clusters pins east==2,west==1; to divide spec.replicas instead: \
             kubectl annotate --overwrite deployment web atoll.dev/clusters=east=2,west=1"
        )
    };
    let scaled = admin.merge(&path("web"), json!({ "spec": { "replicas": 5 } })).await;
    scaled.expect(200);
    assert_eq!(warnings(&scaled), [expected(5)]);
    let scaled = admin.merge(&format!("{}/scale", path("web")), json!({ "spec": { "replicas": 6 } })).await;
    scaled.expect(200);
    assert_eq!(warnings(&scaled), [expected(6)]);
    let applied =
        admin.apply(&format!("{}?fieldManager=me&force=true", path("web")), deployment("web")).await;
    applied.expect(200);
    assert_eq!(warnings(&applied), [expected(3)]);
    // Writes of other fields, and replicas that are divided by weight, cause none.
    let labelled = admin.merge(&path("web"), json!({ "metadata": { "labels": { "a": "b" } } })).await;
    assert_eq!((labelled.status, warnings(&labelled)), (200, Vec::new()));
    admin.post(DEPLOYMENTS, asking("weighted", "east=2,west=1")).await.expect(201);
    let scaled = admin.merge(&path("weighted"), json!({ "spec": { "replicas": 5 } })).await;
    assert_eq!((scaled.status, warnings(&scaled)), (200, Vec::new()));
    // Some pins, and pins of the namespace.
    admin.post(DEPLOYMENTS, asking("rest", "east==2,west")).await.expect(201);
    let scaled = admin.merge(&path("rest"), json!({ "spec": { "replicas": 5 } })).await;
    let partly =
        "spec.replicas: 5 is divided between the other clusters only: atoll.dev/clusters pins east==2";
    assert_eq!(warnings(&scaled), [partly]);
    admin.merge(&format!("{NAMESPACES}/default"), ask(Some("east==1"))).await.expect(200);
    admin.post(DEPLOYMENTS, deployment("plain")).await.expect(201);
    let scaled = admin.merge(&path("plain"), json!({ "spec": { "replicas": 5 } })).await;
    let of_namespace = "spec.replicas: 5 has no effect: atoll.dev/clusters of the namespace default pins east==1; to divide \
        spec.replicas instead: kubectl annotate --overwrite namespace default atoll.dev/clusters=east=1";
    assert_eq!(warnings(&scaled), [of_namespace]);
}
