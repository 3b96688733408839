//! Dependents of a placed object: because it owns them, or because it declares that it needs them.

use atoll_testkit::Client;
use serde_json::{Value, json};

use crate::fleet::{
    DEPLOYMENTS, annotate, annotated, deployment, expect_placed, path, report_object, summary, with_clusters,
};
use crate::other_kinds::{MAPS, SERVICES, WIDGETS, config_map, define_widgets, expect_nowhere, widget};

const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const LIMIT_RANGES: &str = "/api/v1/namespaces/default/limitranges";
const NETWORK_POLICIES: &str = "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies";

/// An object that another one owns.
async fn owned_by(admin: &Client, owner: &str, mut object: Value) -> Value {
    let owner = admin.get(owner).await.expect(200);
    object["metadata"]["ownerReferences"] = json!([{
        "apiVersion": owner["apiVersion"], "kind": owner["kind"],
        "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"],
    }]);
    object
}

#[tokio::test(flavor = "multi_thread")]
async fn owned_objects_go_where_their_owner_is() {
    let (_atoll, admin) = with_clusters(&[("east", 4), ("west", 4)]).await;
    define_widgets(&admin, "").await;
    let web = path("web");
    admin.post(DEPLOYMENTS, annotated(deployment("web", 1, 100), "east")).await.expect(201);
    expect_placed(&admin, &web, "east=1 by annotation").await;
    let service = json!({ "metadata": { "name": "owned" }, "spec": { "ports": [{ "port": 80 }] } });
    let selector = json!({ "matchLabels": { "app": "other" } });
    let policy = json!({ "metadata": { "name": "owned" }, "spec": { "podSelector": selector } });
    let mut all = Vec::new();
    for (collection, object) in [
        (MAPS, config_map("owned")),
        (SECRETS, json!({ "metadata": { "name": "owned" } })),
        (SERVICES, service),
        (NETWORK_POLICIES, policy),
        (LIMIT_RANGES, json!({ "metadata": { "name": "owned" }, "spec": { "limits": [] } })),
        (WIDGETS, widget("owned")),
    ] {
        admin.post(collection, owned_by(&admin, &web, object).await).await.expect(201);
        let at = format!("{collection}/owned");
        expect_placed(&admin, &at, "east by reference").await;
        all.push(at);
    }
    // An earlier object of that name is not the owner, and an owner above takes nothing along.
    let mut stranger = owned_by(&admin, &web, config_map("stranger")).await;
    stranger["metadata"]["ownerReferences"][0]["uid"] = "11111111-2222-3333-4444-555555555555".into();
    admin.post(MAPS, stranger).await.expect(201);
    admin.post(MAPS, config_map("above")).await.expect(201);
    let above = owned_by(&admin, &format!("{MAPS}/above"), config_map("below")).await;
    admin.post(MAPS, above).await.expect(201);

    annotate(&admin, &web, Some("east,west")).await;
    for at in &all {
        expect_placed(&admin, at, "east west by reference").await;
    }
    // An owned object that its user places elsewhere is there, too. An object that is owned no longer leaves.
    for at in [format!("{MAPS}/owned"), format!("{WIDGETS}/owned")] {
        admin.merge(&at, json!({ "metadata": { "ownerReferences": null } })).await.expect(200);
        expect_nowhere(&admin, &at).await;
    }
    annotate(&admin, &format!("{SECRETS}/owned"), Some("none")).await;
    expect_nowhere(&admin, &format!("{SECRETS}/owned")).await;
    annotate(&admin, &web, Some("none")).await;
    for at in &all {
        expect_nowhere(&admin, at).await;
    }
    for name in ["stranger", "below"] {
        assert_eq!(summary(&admin.get(&format!("{MAPS}/{name}")).await.expect(200)), "nowhere", "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_of_custom_objects_go_along_and_survive_a_restart() {
    let (mut atoll, mut admin) = with_clusters(&[("east", 4), ("west", 4)]).await;
    define_widgets(&admin, "").await;
    let parent = format!("{WIDGETS}/parent");
    let mut object = annotated(widget("parent"), "east");
    object["metadata"]["annotations"]["atoll.dev/needs"] = "configmap/needed".into();
    admin.post(WIDGETS, object).await.expect(201);
    admin.post(MAPS, config_map("needed")).await.expect(201);
    let child = format!("{WIDGETS}/child");
    admin.post(WIDGETS, owned_by(&admin, &parent, widget("child")).await).await.expect(201);
    let service = json!({ "metadata": { "name": "owned" }, "spec": { "ports": [{ "port": 80 }] } });
    admin.post(SERVICES, owned_by(&admin, &parent, service).await).await.expect(201);
    // Its owner is a dependent itself.
    admin.post(MAPS, owned_by(&admin, &child, config_map("grandchild")).await).await.expect(201);
    let all = [format!("{MAPS}/needed"), child, format!("{SERVICES}/owned"), format!("{MAPS}/grandchild")];
    for at in &all {
        expect_placed(&admin, at, "east by reference").await;
    }
    let before: Vec<Value> = written(&admin, &all).await;

    // Before the custom objects are known again, nothing is taken away.
    atoll.kill();
    atoll.restart();
    admin = atoll.admin();
    for number in 0..3 {
        let name = format!("later-{number}");
        admin.post(MAPS, owned_by(&admin, &parent, config_map(&name)).await).await.expect(201);
        expect_placed(&admin, &format!("{MAPS}/{name}"), "east by reference").await;
    }
    assert_eq!(written(&admin, &all).await, before);

    annotate(&admin, &parent, Some("west")).await;
    for at in &all {
        expect_placed(&admin, at, "east west by reference").await;
    }
    report_object(&admin, &parent, "west", json!({ "state": "Applied" })).await;
    for at in &all {
        expect_placed(&admin, at, "west by reference").await;
    }
    admin
        .merge(&parent, json!({ "metadata": { "annotations": { "atoll.dev/needs": null } } }))
        .await
        .expect(200);
    expect_nowhere(&admin, &format!("{MAPS}/needed")).await;
}

/// The revisions of objects.
async fn written(admin: &Client, paths: &[String]) -> Vec<Value> {
    let mut found = Vec::new();
    for path in paths {
        found.push(admin.get(path).await.expect(200)["metadata"]["resourceVersion"].clone());
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_needs_are_refused_with_the_word() {
    let (_atoll, admin) = with_clusters(&[("east", 4)]).await;
    define_widgets(&admin, "").await;
    let needing = |mut object: Value, needs: &str| {
        object["metadata"]["annotations"] = json!({ "atoll.dev/needs": needs });
        object
    };
    for (collection, object) in
        [(DEPLOYMENTS, deployment("web", 1, 100)), (MAPS, config_map("web")), (WIDGETS, widget("web"))]
    {
        for (needs, word) in [("secret/a,pod/b", "pod/b"), ("secrte/a", "secrte/a"), ("secret", "\"secret\"")]
        {
            let refused = admin.post(collection, needing(object.clone(), needs)).await;
            refused.expect_status(422, "Invalid");
            let cause = &refused.json()["details"]["causes"][0];
            assert_eq!(cause["field"], "metadata.annotations[atoll.dev/needs]");
            let message = cause["message"].as_str().unwrap();
            assert!(message.contains(word) && message.contains("configmap/NAME"), "{message}");
        }
        admin.post(collection, needing(object, "secret/a, configmaps/b")).await.expect(201);
    }
}
