//! Clusters that an annotation or a policy names and that cannot take the object.

use atoll_testkit::wait::eventually;
use serde_json::{Value, json};

use crate::fleet::{
    CLUSTERS, DEPLOYMENTS, annotated, condition, deployment, expect_placed, has_event, path, report_pods,
    wait_until, with_clusters,
};

#[tokio::test(flavor = "multi_thread")]
async fn named_clusters_that_take_nothing_are_told_with_the_reason() {
    let (atoll, admin) = with_clusters(&[("east", 8), ("north", 1), ("west", 8)]).await;
    let cordoned = |is: bool| json!({ "spec": { "unschedulable": is } });
    admin.merge(&format!("{CLUSTERS}/west"), cordoned(true)).await.expect(200);
    let web = path("web");
    admin.post(DEPLOYMENTS, annotated(deployment("web", 2, 1000), "east,north,west")).await.expect(201);
    expect_placed(&admin, &web, "east=2 by annotation").await;
    report_pods(&admin, &web, "east", 2).await;
    let says = |left_out: &'static str| {
        move |web: &Value| {
            let (status, reason, message) = condition(web, "Placed");
            let expected = format!("the object is on east; left out: {left_out}; see: atoll explain deploy");
            (status.as_str(), reason.as_str()) == ("True", "Applied") && message.starts_with(&expected)
        }
    };
    let both = says("north (NoRoom), west (Cordoned)");
    wait_until(&admin, &web, "the condition names them", both).await;
    eventually("an event names them", async || has_event(&admin, "web", "ClustersLeftOut").await).await;
    let explained = atoll.run("explain deploy/web");
    for part in
        ["clusters that were asked for are left out: north has room for 1 replica", "west is cordoned"]
    {
        assert!(explained.contains(part), "{part:?} is not in:\n{explained}");
    }
    let placement = admin.get(&format!("{web}/placement")).await.expect(200);
    let left_out = json!([{ "name": "north", "reason": "NoRoom" }, { "name": "west", "reason": "Cordoned" }]);
    assert_eq!(placement["spec"]["leftOut"], left_out);
    // It is tried again when a cluster can take it.
    admin.merge(&format!("{CLUSTERS}/west"), cordoned(false)).await.expect(200);
    expect_placed(&admin, &web, "east=2 west=2 by annotation").await;
    report_pods(&admin, &web, "west", 2).await;
    wait_until(&admin, &web, "one is left", |web| {
        condition(web, "Placed")
            .2
            .starts_with("the object is on east and west; left out: north (NoRoom); see")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn clusters_of_a_policy_are_told_too() {
    let (atoll, admin) = with_clusters(&[("east", 8), ("north", 1)]).await;
    let policy = json!({
        "apiVersion": "atoll.dev/v1alpha1", "kind": "PlacementPolicy", "metadata": { "name": "everywhere" },
        "spec": { "clusters": { "names": ["east", "north", "absent"] }, "replicas": { "division": "Duplicate" } },
    });
    admin.post("/apis/atoll.dev/v1alpha1/namespaces/default/placementpolicies", policy).await.expect(201);
    let web = path("web");
    admin.post(DEPLOYMENTS, deployment("web", 3, 1000)).await.expect(201);
    expect_placed(&admin, &web, "east=3 by placementpolicy/everywhere").await;
    report_pods(&admin, &web, "east", 3).await;
    wait_until(&admin, &web, "the condition names them", |web| {
        condition(web, "Placed").2.contains("left out: absent (NotFound), north (NoRoom)")
    })
    .await;
    assert!(
        atoll.run("explain deploy/web").contains("no cluster serves this workspace under the name absent")
    );
}
