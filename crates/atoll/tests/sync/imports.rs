//! Definitions of custom resources in clusters are offered in the workspace of the Cluster and in those below it.

use atoll_testkit::wait::eventually;
use atoll_testkit::{Client, Watch, names};
use serde_json::{Value, json};

use crate::Fleet;
use crate::health::condition;
use crate::joining::Mode;
use crate::objects::{create, object, wait_for, wait_until_deleted};

pub const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
pub const WIDGETS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com";
const IMPORTS: &str = "/apis/atoll.dev/v1alpha1/apiimports";
pub const OBJECTS: &str = "/apis/example.com/v1/namespaces/default/widgets";
pub const WORKSPACES: &str = "/apis/atoll.dev/v1alpha1/workspaces";

/// A definition whose objects have these fields in `spec`.
pub fn definition(plural: &str, kind: &str, fields: Value) -> Value {
    let spec = json!({ "type": "object", "properties": fields });
    let schema = json!({ "type": "object", "properties": { "spec": spec } });
    let more = json!({ "spec": {
        "group": "example.com", "scope": "Namespaced", "names": { "plural": plural, "kind": kind },
        "versions": [{
            "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema },
            "additionalPrinterColumns": [{ "name": "Size", "type": "integer", "jsonPath": ".spec.size" }],
        }],
    } });
    object("apiextensions.k8s.io/v1", "CustomResourceDefinition", &format!("{plural}.example.com"), more)
}

pub fn widget(name: &str, spec: Value) -> Value {
    object("example.com/v1", "Widget", name, json!({ "spec": spec }))
}

async fn team_below(above: &Client) -> Client {
    create(above, WORKSPACES, object("atoll.dev/v1alpha1", "Workspace", "team", json!({}))).await;
    let team = above.workspace("root:team");
    wait_for("the workspace exists", &team, "/api/v1/namespaces/default", |_| true).await;
    team
}

/// Waits for the next event of a watch about `name`, and returns its type.
async fn next_about(events: &mut Watch, name: &str) -> (String, Value) {
    loop {
        let event = events.event().await;
        if event.name() == name {
            return (event.kind.clone(), event.object);
        }
    }
}

async fn definitions_are_imported(mode: Mode) {
    let fleet = Fleet::start(mode, &["east"]);
    let (above, below) = (fleet.admin(), fleet.clusters[0].admin());
    let team = team_below(&above).await;
    let mut events = Watch::open(&team, &format!("{DEFINITIONS}?watch=true")).await;
    let sized = definition("widgets", "Widget", json!({ "size": { "type": "integer", "maximum": 9 } }));
    create(&below, DEFINITIONS, sized).await;

    // Readable in the workspace of the Cluster and below it, as one object.
    for workspace in [&above, &team] {
        wait_for("the definition is inherited", workspace, WIDGETS, |found| {
            found["metadata"]["annotations"]["atoll.dev/imported-from"] == "east"
        })
        .await;
        assert_eq!(names(&workspace.get(DEFINITIONS).await.expect(200)), ["widgets.example.com"]);
    }
    let (kind, added) = next_about(&mut events, "widgets.example.com").await;
    assert_eq!(kind, "ADDED");
    let import = format!("{IMPORTS}/widgets.example.com.east");
    let stored = above.get(&import).await.expect(200);
    assert_eq!(stored["metadata"]["ownerReferences"][0]["name"], "east");
    assert_eq!(added["metadata"]["creationTimestamp"], stored["metadata"]["creationTimestamp"]);
    let inherited = above.get(WIDGETS).await.expect(200);
    assert_eq!(inherited["metadata"]["resourceVersion"], stored["metadata"]["resourceVersion"]);
    let cluster = "/apis/atoll.dev/v1alpha1/clusters/east";
    wait_for("the condition says so", &above, cluster, |found| {
        condition(found, "ApisImported")
            == ("True".into(), "Imported".into(), "1 definitions of custom resources".into())
    })
    .await;

    // Discovery, OpenAPI, validation and storage work, in each workspace for itself.
    for workspace in [&above, &team] {
        let served = workspace.get("/apis/example.com/v1").await.expect(200);
        assert_eq!(served["resources"][0]["name"], "widgets");
        let document = workspace.get("/openapi/v3/apis/example.com/v1").await.expect(200);
        assert!(document["components"]["schemas"]["com.example.v1.Widget"].is_object());
        create(workspace, OBJECTS, widget("small", json!({ "size": 1 }))).await;
        let refused = workspace.post(OBJECTS, widget("large", json!({ "size": 10 }))).await;
        assert!(refused.expect_status(422, "Invalid").contains("spec.size"));
        assert_eq!(names(&workspace.get(OBJECTS).await.expect(200)), ["small"]);
    }
    assert!(workspace_refuses_to_delete(&team).await.contains("imported from clusters"));

    // A changed definition is picked up.
    let mut changed = below.get(WIDGETS).await.expect(200);
    let fields = json!({ "size": { "type": "integer", "maximum": 99 }, "color": { "type": "string" } });
    changed["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"] = fields;
    below.put(WIDGETS, changed).await.expect(200);
    eventually("the new schema applies", async || {
        team.post(OBJECTS, widget("large", json!({ "size": 10, "color": "red" }))).await.status == 201
    })
    .await;
    assert_eq!(next_about(&mut events, "widgets.example.com").await.0, "MODIFIED");

    // A definition of the workspace itself hides it there, and nowhere else, until it is deleted.
    create(&team, DEFINITIONS, definition("widgets", "Widget", json!({ "shape": { "type": "string" } })))
        .await;
    let own = team.get(WIDGETS).await.expect(200);
    assert_eq!(own["metadata"]["annotations"]["atoll.dev/imported-from"], Value::Null);
    create(&team, OBJECTS, widget("round", json!({ "shape": "round", "size": "any" }))).await;
    assert_eq!(above.get(WIDGETS).await.expect(200)["metadata"]["uid"], inherited["metadata"]["uid"]);
    team.delete(WIDGETS).await.expect(200);
    wait_for("it is inherited again", &team, WIDGETS, |found| {
        found["metadata"]["uid"] == inherited["metadata"]["uid"]
    })
    .await;
    assert_eq!(names(&team.get(OBJECTS).await.expect(200)), Vec::<String>::new());

    // One that is gone below stays while there are objects, and goes without them.
    create(&below, DEFINITIONS, definition("gadgets", "Gadget", json!({}))).await;
    let gadgets = format!("{DEFINITIONS}/gadgets.example.com");
    wait_for("another definition is inherited", &team, &gadgets, |_| true).await;
    for path in [WIDGETS, &gadgets] {
        below.delete(path).await.expect(200);
    }
    wait_until_deleted(&team, &gadgets).await;
    wait_for("the import is marked", &above, &import, |found| found["spec"]["served"] == false).await;
    assert_eq!(names(&above.get(OBJECTS).await.expect(200)), ["small"]);
}

async fn workspace_refuses_to_delete(workspace: &Client) -> String {
    workspace.delete(DEFINITIONS).await.expect(200);
    workspace.delete(WIDGETS).await.expect_status(403, "Forbidden")
}

#[tokio::test(flavor = "multi_thread")]
async fn definitions_are_imported_by_push() {
    definitions_are_imported(Mode::Push).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn definitions_are_imported_by_pull() {
    definitions_are_imported(Mode::Pull).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn clusters_that_differ_are_marked() {
    let fleet = Fleet::start(Mode::Push, &["east", "west"]);
    let above = fleet.admin();
    let [east, west] = [0, 1].map(|at| fleet.clusters[at].admin());
    create(&east, DEFINITIONS, definition("widgets", "Widget", json!({ "size": { "type": "integer" } })))
        .await;
    wait_for("the definition is inherited", &above, WIDGETS, |_| true).await;
    create(&above, OBJECTS, widget("small", json!({ "size": 1 }))).await;
    create(&west, DEFINITIONS, definition("widgets", "Widget", json!({ "size": { "type": "string" } })))
        .await;
    let import = format!("{IMPORTS}/widgets.example.com.west");
    wait_for("the field is named", &above, &import, |found| {
        let (status, reason, message) = condition(found, "Compatible");
        (&*status, &*reason) == ("False", "Incompatible")
            && message.contains(".spec.size")
            && message.contains("west")
    })
    .await;
    create(&above, OBJECTS, widget("other", json!({ "size": 2 }))).await;
    wait_for("the Cluster says so", &above, "/apis/atoll.dev/v1alpha1/clusters/west", |found| {
        let (status, reason, message) = condition(found, "ApisImported");
        (&*status, &*reason) == ("False", "Incompatible") && message.contains(".spec.size")
    })
    .await;
    // The other cluster takes over when the first one does not serve it any more.
    west.delete(WIDGETS).await.expect(200);
    create_again(&west, definition("widgets", "Widget", json!({ "size": { "type": "integer" } }))).await;
    wait_for("west is compatible", &above, &import, |found| condition(found, "Compatible").0 == "True").await;
    east.delete(WIDGETS).await.expect(200);
    wait_for("west takes over", &above, WIDGETS, |found| {
        found["metadata"]["annotations"]["atoll.dev/imported-from"] == "west"
    })
    .await;
    assert_eq!(names(&above.get(OBJECTS).await.expect(200)), ["other", "small"]);
}

async fn create_again(client: &Client, definition: Value) {
    eventually("the definition can be created again", async || {
        client.post(DEFINITIONS, definition.clone()).await.status == 201
    })
    .await;
}
