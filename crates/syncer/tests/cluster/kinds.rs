//! Objects that are not like most others.

use atoll_client::{Client, PatchType};
use atoll_fleet::view::{Drift, Line, Resource, State, Target};
use atoll_testkit::wait::eventually;
use serde_json::{Value, json};

use crate::above::Above;
use crate::{Running, WEB, bare, client, deployment_line, target};

/// A Deployment with these variables.
fn with_variables(generation: i64, image: &str, variables: Value) -> Line {
    let Line::Object { target, mut object, .. } = deployment_line(1, image) else { unreachable!() };
    object["spec"]["template"]["spec"]["containers"][0]["env"] = variables;
    Line::Object { target, generation, drift: Drift::Correct, object }
}

async fn becomes(below: &Client, image: &str, variables: &Value) {
    eventually("the change is there", async || {
        let web = below.get(WEB).await.unwrap();
        let container = &web["spec"]["template"]["spec"]["containers"][0];
        container["image"] == image && container["env"] == *variables
    })
    .await;
}

/// Two variables of one name are allowed, and the last one counts; but applying does not know them.
pub async fn what_cannot_be_applied_follows(below: &Client) {
    let variable = |name: &str, value: &str| json!({"name": name, "value": value});
    let twice = json!([variable("A", "1"), variable("B", "2"), variable("A", "3")]);
    let above = Above::saying("plane", vec![with_variables(1, "a:1", twice.clone())]);
    let running = Running::start(&above, below, |_| {});
    above.hears("web", State::Applied).await;
    becomes(below, "a:1", &twice).await;
    let note = json!({"metadata": {"annotations": {"note": "mine"}}});
    below.patch(WEB, PatchType::Merge, &note).await.unwrap();
    // What controllers of the cluster have set is theirs.
    let scale = format!("{WEB}/scale?fieldManager=kube-controller-manager");
    below.patch(&scale, PatchType::Merge, &json!({"spec": {"replicas": 4}})).await.unwrap();
    let again = json!([variable("A", "1"), variable("A", "4")]);
    above.say(&with_variables(2, "a:2", again.clone()));
    becomes(below, "a:2", &again).await;
    let once = json!([variable("A", "5")]);
    above.say(&with_variables(3, "a:3", once.clone()));
    becomes(below, "a:3", &once).await;
    let web = below.get(WEB).await.unwrap();
    assert_eq!(web["metadata"]["annotations"]["note"], "mine");
    assert_eq!(web["spec"]["replicas"], 4);
    eventually("all is well", async || {
        above.record("web").is_some_and(|record| record.generation == 3 && record.state == State::Applied)
    })
    .await;
    running.stop().await;
    below.delete(WEB).await.unwrap();
}

/// Changes of others in what cannot be applied are left where that is wanted, and told with their names.
pub async fn what_cannot_be_applied_is_left_to_others(below: &Client) {
    let variable = |name: &str, value: &str| json!({"name": name, "value": value});
    let twice = json!([variable("A", "1"), variable("A", "2")]);
    let reported = |generation: i64, image: &str| {
        let Line::Object { target, object, .. } = with_variables(generation, image, twice.clone()) else {
            unreachable!()
        };
        Line::Object { target, object, generation, drift: Drift::Report }
    };
    let above = Above::saying("plane", vec![reported(1, "a:1")]);
    let running = Running::start(&above, below, |_| {});
    above.hears("web", State::Applied).await;
    becomes(below, "a:1", &twice).await;
    let says = async |what: &str, words: &str| {
        eventually(what, async || {
            above
                .record("web")
                .is_some_and(|record| record.state == State::Applied && record.message == words)
        })
        .await;
    };
    let theirs = format!("{WEB}?fieldManager=somebody");
    let left = "changes of others are left: somebody changed .spec.minReadySeconds";
    below.patch(&theirs, PatchType::Merge, &json!({"spec": {"revisionHistoryLimit": 3}})).await.unwrap();
    // A change above arrives, and says of theirs what is said of anybody's.
    let slow = |generation: i64, image: &str| {
        let Line::Object { target, mut object, generation, drift } = reported(generation, image) else {
            unreachable!()
        };
        object["spec"]["minReadySeconds"] = 5.into();
        Line::Object { target, object, generation, drift }
    };
    above.say(&slow(2, "a:2"));
    becomes(below, "a:2", &twice).await;
    says("nobody is in the way", "").await;
    below.patch(&theirs, PatchType::Merge, &json!({"spec": {"minReadySeconds": 4}})).await.unwrap();
    says("it is told when it happens", left).await;
    above.say(&slow(3, "a:3"));
    becomes(below, "a:3", &twice).await;
    eventually("it is told when something else changes", async || {
        above.record("web").is_some_and(|record| record.generation == 3 && record.message == left)
    })
    .await;
    let web = below.get(WEB).await.unwrap();
    let spec = &web["spec"];
    assert_eq!((&spec["minReadySeconds"], &spec["revisionHistoryLimit"]), (&json!(4), &json!(3)));
    // In lists as well: the item of theirs is as they want it.
    let image = json!([{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "b:1"}]);
    below.patch(&theirs, PatchType::Json, &image).await.unwrap();
    let both = format!(r#"{left}, somebody changed .spec.template.spec.containers[name="web"].image"#);
    says("it is told when it happens", &both).await;
    above.say(&slow(4, "a:4"));
    eventually("it is told when something else changes", async || {
        above.record("web").is_some_and(|record| record.generation == 4 && record.message == both)
    })
    .await;
    becomes(below, "b:1", &twice).await;
    running.stop().await;
    below.delete(WEB).await.unwrap();
}

/// Custom objects wait for their definition, and their status is heard once they are there.
pub async fn custom_objects_wait_for_their_definition(below: &Client) {
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
    let object = |target, object| Line::Object { target, generation: 1, drift: Drift::Correct, object };
    let above =
        Above::saying("plane", vec![object(target("example.com", "widgets", "Widget", "gear"), widget)]);
    let running = Running::start(&above, below, |_| {});
    let refused = above.hears("gear", State::Refused).await;
    let said = "the cluster does not serve widgets.example.com in version v1";
    assert!(refused.message.starts_with(said), "{}", refused.message);
    let definitions = Resource {
        group: "apiextensions.k8s.io".into(),
        version: "v1".into(),
        resource: "customresourcedefinitions".into(),
        kind: "CustomResourceDefinition".into(),
        namespaced: false,
    };
    let name = "widgets.example.com".to_string();
    let of_definition = Target {
        resource: definitions,
        workspace: "w".into(),
        namespace: String::new(),
        name,
        uid: "uid-definition".into(),
    };
    above.say(&object(of_definition, definition));
    above.hears("gear", State::Applied).await;
    let gear = "/apis/example.com/v1/namespaces/shop/widgets/gear";
    let status = json!({"status": {"turns": 3}});
    below.patch(&format!("{gear}/status"), PatchType::Merge, &status).await.unwrap();
    eventually("its status is heard", async || {
        above.record("gear").is_some_and(|record| record.status["turns"] == 3)
    })
    .await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_that_are_not_like_most_others() {
    let atoll = bare();
    let below = client(atoll.url(), &atoll.authority());
    what_cannot_be_applied_follows(&below).await;
    what_cannot_be_applied_is_left_to_others(&below).await;
    custom_objects_wait_for_their_definition(&below).await;
}
