//! Objects that need special handling.

use atoll_client::{Client, PatchType};
use atoll_fleet::view::{Drift, ObjectTarget, State, SyncLine, SyncResource};
use atoll_testkit::wait::eventually;
use serde_json::{Value, json};

use crate::fake_control_plane::FakeControlPlane;
use crate::{RunningSyncer, WEB, client, deployment_line, start_without_controllers, target};

/// Returns a Deployment with these environment variables.
fn with_variables(generation: i64, image: &str, variables: Value) -> SyncLine {
    let SyncLine::Object { target, mut object, .. } = deployment_line(1, image) else { unreachable!() };
    object["spec"]["template"]["spec"]["containers"][0]["env"] = variables;
    SyncLine::Object { target, generation, drift: Drift::Correct, object, held: false }
}

async fn wait_for_container(below: &Client, image: &str, variables: &Value) {
    eventually("the change is applied", async || {
        let web = below.get(WEB).await.unwrap();
        let container = &web["spec"]["template"]["spec"]["containers"][0];
        container["image"] == image && container["env"] == *variables
    })
    .await;
}

/// Duplicate variable names are valid, and the last one is effective, but server-side apply rejects them.
pub async fn check_objects_that_cannot_be_applied(below: &Client) {
    let variable = |name: &str, value: &str| json!({"name": name, "value": value});
    let twice = json!([variable("A", "1"), variable("B", "2"), variable("A", "3")]);
    let above = FakeControlPlane::with_lines("plane", vec![with_variables(1, "a:1", twice.clone())]);
    let running = RunningSyncer::start(&above, below, |_| {});
    above.wait_for_record("web", State::Applied).await;
    wait_for_container(below, "a:1", &twice).await;
    let note = json!({"metadata": {"annotations": {"note": "mine"}}});
    below.patch(WEB, PatchType::Merge, &note).await.unwrap();
    // Fields that controllers of the cluster have set are kept. Replicas of a former HorizontalPodAutoscaler are not.
    let scale = format!("{WEB}/scale?fieldManager=keda");
    below.patch(&scale, PatchType::Merge, &json!({"spec": {"replicas": 4}})).await.unwrap();
    let again = json!([variable("A", "1"), variable("A", "4")]);
    above.send_line(&with_variables(2, "a:2", again.clone()));
    wait_for_container(below, "a:2", &again).await;
    let once = json!([variable("A", "5")]);
    above.send_line(&with_variables(3, "a:3", once.clone()));
    wait_for_container(below, "a:3", &once).await;
    let web = below.get(WEB).await.unwrap();
    assert_eq!(web["metadata"]["annotations"]["note"], "mine");
    assert_eq!(web["spec"]["replicas"], 4);
    eventually("the change is reported", async || {
        above.record("web").is_some_and(|record| record.generation == 3 && record.state == State::Applied)
    })
    .await;
    running.stop().await;
    below.delete(WEB).await.unwrap();
}

/// Drift in objects that cannot be applied is reported with its manager, where drift is reported.
pub async fn check_reported_drift_of_objects_that_cannot_be_applied(below: &Client) {
    let variable = |name: &str, value: &str| json!({"name": name, "value": value});
    let twice = json!([variable("A", "1"), variable("A", "2")]);
    let reported = |generation: i64, image: &str| {
        let SyncLine::Object { target, object, .. } = with_variables(generation, image, twice.clone()) else {
            unreachable!()
        };
        SyncLine::Object { target, object, generation, drift: Drift::Report, held: false }
    };
    let above = FakeControlPlane::with_lines("plane", vec![reported(1, "a:1")]);
    let running = RunningSyncer::start(&above, below, |_| {});
    above.wait_for_record("web", State::Applied).await;
    wait_for_container(below, "a:1", &twice).await;
    let wait_for_message = async |what: &str, words: &str| {
        eventually(what, async || {
            above
                .record("web")
                .is_some_and(|record| record.state == State::Applied && record.message == words)
        })
        .await;
    };
    let as_other_manager = format!("{WEB}?fieldManager=kubectl-edit");
    let left = "changes of others are left: kubectl-edit changed .spec.minReadySeconds";
    below
        .patch(&as_other_manager, PatchType::Merge, &json!({"spec": {"revisionHistoryLimit": 3}}))
        .await
        .unwrap();
    // A change above is applied, and the other manager's fields are reported as usual.
    let slow = |generation: i64, image: &str| {
        let SyncLine::Object { target, mut object, generation, drift, held } = reported(generation, image)
        else {
            unreachable!()
        };
        object["spec"]["minReadySeconds"] = 5.into();
        SyncLine::Object { target, object, generation, drift, held }
    };
    above.send_line(&slow(2, "a:2"));
    wait_for_container(below, "a:2", &twice).await;
    wait_for_message("no drift is reported", "").await;
    below.patch(&as_other_manager, PatchType::Merge, &json!({"spec": {"minReadySeconds": 4}})).await.unwrap();
    wait_for_message("the drift is reported immediately", left).await;
    above.send_line(&slow(3, "a:3"));
    wait_for_container(below, "a:3", &twice).await;
    eventually("the drift is reported with the next change", async || {
        above.record("web").is_some_and(|record| record.generation == 3 && record.message == left)
    })
    .await;
    let web = below.get(WEB).await.unwrap();
    let spec = &web["spec"];
    assert_eq!((&spec["minReadySeconds"], &spec["revisionHistoryLimit"]), (&json!(4), &json!(3)));
    // In lists as well: the other manager's item is kept.
    let image = json!([{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "b:1"}]);
    below.patch(&as_other_manager, PatchType::Json, &image).await.unwrap();
    let both = format!(r#"{left}, kubectl-edit changed .spec.template.spec.containers[name="web"].image"#);
    wait_for_message("the drift is reported immediately", &both).await;
    above.send_line(&slow(4, "a:4"));
    eventually("the drift is reported with the next change", async || {
        above.record("web").is_some_and(|record| record.generation == 4 && record.message == both)
    })
    .await;
    wait_for_container(below, "b:1", &twice).await;
    running.stop().await;
    below.delete(WEB).await.unwrap();
}

/// Custom objects wait for their definition, and their status is reported once they exist.
pub async fn check_custom_objects_wait_for_their_definition(below: &Client) {
    let widget = json!({
        "apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "gear"}, "spec": {"teeth": 7},
    });
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let schema = json!({"type": "object", "properties": {"spec": open, "status": open}});
    let version = json!({
        "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    });
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "versions": [version],
            "names": {"kind": "Widget", "listKind": "WidgetList", "plural": "widgets", "singular": "widget"},
        },
    });
    let object = |target, object| SyncLine::Object {
        target,
        generation: 1,
        drift: Drift::Correct,
        object,
        held: false,
    };
    let above = FakeControlPlane::with_lines(
        "plane",
        vec![object(target("example.com", "widgets", "Widget", "gear"), widget)],
    );
    let running = RunningSyncer::start(&above, below, |_| {});
    let refused = above.wait_for_record("gear", State::Refused).await;
    let expected = "the cluster does not serve widgets.example.com in version v1";
    assert!(refused.message.starts_with(expected), "{}", refused.message);
    let definitions = SyncResource {
        group: "apiextensions.k8s.io".into(),
        version: "v1".into(),
        resource: "customresourcedefinitions".into(),
        kind: "CustomResourceDefinition".into(),
        namespaced: false,
    };
    let name = "widgets.example.com".to_string();
    let of_definition = ObjectTarget {
        resource: definitions,
        workspace: "w".into(),
        namespace: String::new(),
        name,
        uid: "uid-definition".into(),
    };
    above.send_line(&object(of_definition, definition));
    above.wait_for_record("gear", State::Applied).await;
    let gear = "/apis/example.com/v1/namespaces/shop/widgets/gear";
    let status = json!({"status": {"turns": 3}});
    below.patch(&format!("{gear}/status"), PatchType::Merge, &status).await.unwrap();
    eventually("its status is reported", async || {
        above.record("gear").is_some_and(|record| record.status["turns"] == 3)
    })
    .await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_with_special_handling() {
    let atoll = start_without_controllers();
    let below = client(&atoll.admin());
    check_objects_that_cannot_be_applied(&below).await;
    check_reported_drift_of_objects_that_cannot_be_applied(&below).await;
    check_custom_objects_wait_for_their_definition(&below).await;
}
