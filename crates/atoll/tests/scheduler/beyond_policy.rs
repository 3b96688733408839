//! Intents that a later policy does not allow: the object stays, and its user is told.

use atoll_testkit::wait::eventually;
use serde_json::{Value, json};

use crate::fleet::{
    DEPLOYMENTS, annotate, annotated, condition, deployment, expect_placed, has_event, path, scale, summary,
    wait_until, with_clusters,
};

const POLICIES: &str = "/apis/atoll.dev/v1alpha1/namespaces/default/placementpolicies";

fn only_west() -> Value {
    json!({
        "apiVersion": "atoll.dev/v1alpha1", "kind": "PlacementPolicy", "metadata": { "name": "here" },
        "spec": { "objects": [{ "kind": "Deployment" }], "clusters": { "names": ["west"] } },
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn intents_beyond_a_later_policy_are_reported_and_nothing_moves() {
    let (_atoll, admin) = with_clusters(&[("east", 16), ("west", 16)]).await;
    admin.post(DEPLOYMENTS, annotated(deployment("web", 2, 100), "east")).await.expect(201);
    expect_placed(&admin, &path("web"), "east=2 by annotation").await;
    admin.post(POLICIES, only_west()).await.expect(201);
    eventually("an event tells that it is beyond the policy", async || {
        has_event(&admin, "web", "BeyondPolicy").await
    })
    .await;
    scale(&admin, &path("web"), 4).await;

    // The annotation of a Namespace is not checked for each object when it is written.
    annotate(&admin, "/api/v1/namespaces/default", Some("east")).await;
    admin.post(DEPLOYMENTS, deployment("new", 1, 100)).await.expect(201);
    let new = wait_until(&admin, &path("new"), "the condition tells it", |new| {
        condition(new, "Placed").1 == "BeyondPolicy"
    })
    .await;
    let (status, _, message) = condition(&new, "Placed");
    assert_eq!((status.as_str(), summary(&new).as_str()), ("False", "nowhere"));
    assert!(
        message.contains(
            "the annotation of its Namespace atoll.dev/clusters=east is beyond placementpolicy/here"
        ) && message.contains("the verb override on placementpolicies.atoll.dev \"here\""),
        "{message}"
    );
    assert_eq!(summary(&admin.get(&path("web")).await.expect(200)), "east=2 by annotation");

    // Written again by a user with the verb, the annotation is followed.
    annotate(&admin, &path("web"), Some("east=1")).await;
    expect_placed(&admin, &path("web"), "east=4 by annotation").await;
    annotate(&admin, "/api/v1/namespaces/default", None).await;
    expect_placed(&admin, &path("new"), "west=1 by placementpolicy/here").await;
}
