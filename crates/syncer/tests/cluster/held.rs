//! Shares that are held in a rollout.

use atoll_client::{Client, PatchType};
use atoll_fleet::view::{Drift, State, SyncLine};
use atoll_testkit::wait::eventually;
use serde_json::{Value, json};

use crate::fake_control_plane::FakeControlPlane;
use crate::{RunningSyncer, WEB, client, deployment_line, start_without_controllers};

fn line(generation: i64, replicas: i64, image: &str, is_held: bool) -> SyncLine {
    let SyncLine::Object { target, object, .. } = deployment_line(replicas, image) else { unreachable!() };
    SyncLine::Object { target, object, generation, drift: Drift::Correct, held: is_held }
}

/// Returns the replicas and the image of the Deployment, and whether its annotation says that it is held.
async fn applied(below: &Client) -> (Value, Value, bool) {
    let web = below.get(WEB).await.unwrap();
    let image = web["spec"]["template"]["spec"]["containers"][0]["image"].clone();
    let is_held = !web["metadata"]["annotations"]["atoll.dev/held"].is_null();
    (web["spec"]["replicas"].clone(), image, is_held)
}

async fn wait_for(above: &FakeControlPlane, below: &Client, generation: i64, expected: (i64, &str, bool)) {
    eventually(&format!("generation {generation} is applied"), async || {
        let record = above.record("web").unwrap_or_default();
        let (replicas, image, is_held) = expected;
        record.generation == generation
            && record.held == is_held
            && record.state == State::Applied
            && applied(below).await == (json!(replicas), json!(image), is_held)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn held_share_keeps_its_template_and_follows_replicas() {
    let atoll = start_without_controllers();
    let below = client(&atoll.admin());
    // There is no earlier template to keep.
    let above = FakeControlPlane::with_lines("plane", vec![line(1, 2, "a:1", true)]);
    let running = RunningSyncer::start(&above, &below, |_| {});
    wait_for(&above, &below, 1, (2, "a:1", false)).await;

    above.send_line(&line(2, 4, "a:2", true));
    wait_for(&above, &below, 2, (4, "a:1", true)).await;
    above.send_line(&line(3, 5, "a:3", true));
    wait_for(&above, &below, 3, (5, "a:1", true)).await;

    // Another syncer learns from the cluster what was applied, and finds nothing to do.
    let revision = below.get(WEB).await.unwrap()["metadata"]["resourceVersion"].clone();
    running.stop().await;
    above.forget_records();
    let running = RunningSyncer::start(&above, &below, |_| {});
    wait_for(&above, &below, 3, (5, "a:1", true)).await;
    assert_eq!(below.get(WEB).await.unwrap()["metadata"]["resourceVersion"], revision);

    // Drift beside the template is corrected without releasing it.
    let path = format!("{WEB}?fieldManager=admin");
    below.patch(&path, PatchType::Merge, &json!({ "spec": { "replicas": 9 } })).await.unwrap();
    wait_for(&above, &below, 3, (5, "a:1", true)).await;

    above.send_line(&line(3, 5, "a:3", false));
    wait_for(&above, &below, 3, (5, "a:3", false)).await;
    // Held again with the template that it has.
    above.send_line(&line(4, 6, "a:3", true));
    wait_for(&above, &below, 4, (6, "a:3", false)).await;
    running.stop().await;
}
