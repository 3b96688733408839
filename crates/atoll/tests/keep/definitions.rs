//! A CustomResourceDefinition that was placed on a cluster is never deleted there: objects of its type may be those of others.

use serde_json::{Value, json};

use crate::support::access::Access;
use crate::support::eventually;
use crate::world::{World, becomes, create, goes};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";
const NAME: &str = "widgets.example.com";

fn at(name: &str) -> String {
    format!("{DEFINITIONS}/{name}")
}

fn definition(plural: &str, kind: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{plural}.example.com") },
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": { "plural": plural, "singular": kind.to_lowercase(), "kind": kind, "listKind": format!("{kind}List") },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } },
            }],
        },
    })
}

fn widget(name: &str) -> Value {
    json!({ "apiVersion": "example.com/v1", "kind": "Widget", "metadata": { "name": name }, "size": 3 })
}

fn is_marked(object: &Value) -> bool {
    object["metadata"].to_string().contains("atoll.dev/")
}

fn is_ours(object: &Value) -> bool {
    object["metadata"]["labels"]["atoll.dev/control-plane"].is_string()
}

/// The definition and somebody else's Widget are there, and nothing says that Atoll ever had to do with it.
async fn is_left_alone(below: &Access) {
    let found = becomes("it is unmarked", below, &at(NAME), |found| !is_marked(found)).await;
    assert_eq!(found["metadata"]["deletionTimestamp"], Value::Null);
    let managers = found["metadata"]["managedFields"].as_array().unwrap();
    assert!(managers.iter().all(|entry| entry["manager"] != "atoll"), "{managers:?}");
    assert_eq!(below.get(&format!("{WIDGETS}/foreign")).await.expect(200)["size"], 3);
}

/// An event about the definition says that it stays, and how to delete it.
async fn is_told(above: &Access, uid: &str) {
    becomes("an event says that it stays", above, "/api/v1/namespaces/default/events", |list| {
        list["items"].as_array().unwrap().iter().any(|event| {
            let message = event["message"].as_str().unwrap_or_default();
            event["involvedObject"]["uid"] == uid
                && event["reason"] == "Retained"
                && message.starts_with("[east] ")
                && message.ends_with(
                    "kubeconfig of cluster east: kubectl delete customresourcedefinition widgets.example.com",
                )
        })
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_of_others_survive_whatever_becomes_of_their_definition() {
    let world = World::apart();
    world.says(&format!(
        "cluster join east --groups example.com --kubeconfig {}",
        world.east.kubeconfig().display()
    ));
    let (above, below) = (world.admin(), world.east.admin());
    let uid = |object: &Value| object["metadata"]["uid"].as_str().unwrap().to_string();
    let first = uid(&create(&above, DEFINITIONS, definition("widgets", "Widget")).await);
    world.says(&format!("place crd/{NAME} --on east"));
    becomes("it arrives", &below, &at(NAME), is_ours).await;
    let created = async |name: &str| below.post(WIDGETS, widget(name)).await.status == 201;
    eventually("Widgets are served", async || created("foreign").await).await;

    // Taken out of its placement.
    world.says(&format!("place crd/{NAME} --on none"));
    is_left_alone(&below).await;
    is_told(&above, &first).await;
    becomes("nobody has it", &above, &at(NAME), |found| {
        found["metadata"]["annotations"]["atoll.dev/placement"].is_null()
    })
    .await;

    // Adopted, and then deleted here: what is placed of its type goes, what is not stays.
    let adopt = format!("adopt crd/{NAME} --cluster east");
    world.says(&adopt);
    becomes("it is ours", &below, &at(NAME), is_ours).await;
    create(&above, WIDGETS, widget("own")).await;
    world.says("place widgets.example.com/own --on east");
    becomes("it arrives", &below, &format!("{WIDGETS}/own"), is_ours).await;
    above.delete(&at(NAME)).await.expect(200);
    goes(&above, &at(NAME)).await;
    goes(&below, &format!("{WIDGETS}/own")).await;
    is_left_alone(&below).await;
    is_told(&above, &first).await;

    // Unknown here after an old backup was restored, and pruned.
    let backup = world.above.directory.join("backup");
    world.says(&format!("snapshot save {}", backup.display()));
    world.says(&adopt);
    becomes("it is ours", &below, &at(NAME), is_ours).await;
    world.says(&format!("snapshot restore {} --yes", backup.display()));
    let listed = world.says("orphans list");
    assert!(listed.contains("kept there, for objects of its type may be those of others"), "{listed}");
    let said = world.says("orphans prune --yes");
    assert!(said.contains("Deleted: 0.\nLet go: 1.\n"), "{said}");
    is_left_alone(&below).await;

    // With the cluster that it is on.
    world.says(&adopt);
    becomes("it is ours", &below, &at(NAME), is_ours).await;
    let said = world.says("cluster remove east --yes");
    assert!(said.contains("\n  kubectl delete customresourcedefinition widgets.example.com\n"), "{said}");
    is_left_alone(&below).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_syncer_that_was_away_deletes_no_definition_either() {
    let mut world = World::by_hand();
    let (above, below) = (world.admin(), world.east.admin());
    let made = create(&above, DEFINITIONS, definition("widgets", "Widget")).await;
    world.says(&format!("place crd/{NAME} --on east"));
    becomes("it arrives", &below, &at(NAME), is_ours).await;
    eventually("Widgets are served", async || below.post(WIDGETS, widget("foreign")).await.status == 201)
        .await;
    world.stop_syncing();
    above.delete(&at(NAME)).await.expect(200);
    above.get(&at(NAME)).await.expect(200);
    world.sync_again();
    goes(&above, &at(NAME)).await;
    is_left_alone(&below).await;
    is_told(&above, made["metadata"]["uid"].as_str().unwrap()).await;
    // The account of the syncer could not delete it if it wanted to.
    let role = below.get("/apis/rbac.authorization.k8s.io/v1/clusterroles/atoll-syncer").await.expect(200);
    let rules = role["rules"].as_array().unwrap();
    let about = rules.iter().find(|rule| rule["resources"] == json!(["customresourcedefinitions"])).unwrap();
    assert!(!about["verbs"].as_array().unwrap().contains(&json!("delete")), "{about}");
}
