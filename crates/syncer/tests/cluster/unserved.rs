//! Resources that a cluster does not serve.

use atoll_fleet::view::{State, SyncLine};
use atoll_syncer::Drift;
use atoll_testkit::wait::eventually;
use serde_json::{Value, json};

use crate::fake_control_plane::FakeControlPlane;
use crate::{RunningSyncer, client, map_line, start_without_controllers, target};

/// Returns a definition of widgets in a version.
fn definition(version: &str) -> Value {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [{"name": version, "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn unserved_resources_wait_without_blocking_others() {
    const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let atoll = start_without_controllers();
    let below = client(&atoll.admin());
    let widget = |name: &str| target("example.com", "widgets", "Widget", name);
    let line = |name: &str, size: i64| SyncLine::Object {
        target: widget(name),
        generation: size,
        object: json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": {"size": size}}),
        drift: Drift::Correct,
        held: false,
    };
    let lines = |first: SyncLine| -> Vec<SyncLine> {
        let others = (1..40).map(|number| line(&format!("w{number}"), 1));
        [first, map_line("settings", 1, "one")].into_iter().chain(others).collect()
    };
    let above = FakeControlPlane::with_lines("plane", lines(line("w0", 1)));
    let running = RunningSyncer::start(&above, &below, |settings| settings.at_once = 2);
    above.wait_for_record("settings", State::Applied).await;
    let refused = above.wait_for_record("w0", State::Refused).await;
    assert!(
        refused
            .message
            .starts_with("the cluster does not serve widgets.example.com in version v1: install the Custom"),
        "{}",
        refused.message
    );
    // A different served version is reported.
    below.create(DEFINITIONS, &definition("v1beta1")).await.unwrap();
    above.end_views(lines(line("w0", 2)));
    eventually("the other version is named", async || {
        above.record("w0").is_some_and(|record| record.message.contains("in version v1, only in v1beta1;"))
    })
    .await;
    // When the version is served, all objects are applied.
    let mut both = definition("v1");
    both["spec"]["versions"].as_array_mut().unwrap().push(json!({
        "name": "v1beta1", "served": true, "storage": false,
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
    }));
    let found = below.get(&format!("{DEFINITIONS}/widgets.example.com")).await.unwrap();
    both["metadata"]["resourceVersion"] = found["metadata"]["resourceVersion"].clone();
    below.update(&format!("{DEFINITIONS}/widgets.example.com"), &both).await.unwrap();
    for number in 0..40 {
        above.wait_for_record(&format!("w{number}"), State::Applied).await;
    }
    eventually("the latest change is applied", async || {
        let created = below.get("/apis/example.com/v1/namespaces/shop/widgets/w0").await.unwrap();
        created["spec"]["size"] == 2
    })
    .await;
    // An object whose definition was deleted is reported as gone.
    below.delete(&format!("{DEFINITIONS}/widgets.example.com")).await.unwrap();
    above.end_views(lines(SyncLine::Remove { target: widget("w0"), since: 0 }));
    above.wait_for_record("w0", State::Gone).await;
    running.stop().await;
}
