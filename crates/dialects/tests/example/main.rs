//! A dialect that is registered only in this test and uses every hook: a dialect is added without a change to
//! the registry, the server or the syncer.

// Clippy treats only functions marked as tests as test code.
#![allow(clippy::unwrap_used)]

mod server;

use std::sync::Arc;

use atoll_client::{Client, PatchType};
use atoll_dialects::{DialectController, Registration, intents};
use atoll_fleet::view::SyncLine;
use atoll_meta::{Status, object};
use atoll_registry::ObjectRef;
use atoll_registry::dialect::{
    Dialect, DialectSubresource, DialectTexts, DialectView, DialectWrite, Intent, IntentSource,
    NamespaceAbove, ProtectedMetadata, SealedField, ShareMetadata, ShareTarget,
};
use atoll_testkit::wait::eventually;
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Map, Value, json};

use self::server::TestServer;

const GROUP: &str = "example.com";
const ON: &str = "example.com/on";
const OWNER: &str = "example.com/owner";

/// Widgets are stored; gadgets are the same objects with a field `colour` instead of `color`.
struct Example;

#[rustfmt::skip]
impl Dialect for Example {
    fn name(&self) -> &'static str { "example" }
    fn definitions(&self) -> Vec<Value> { vec![definition("widgets", "Widget"), definition("gadgets", "Gadget")] }
    fn views(&self) -> Vec<DialectView> {
        vec![DialectView { group: GROUP, resource: "gadgets", stored: (GROUP, "widgets"),
            to_stored: |gadget| rename(gadget, "colour", "color"), to_view: |widget| rename(widget, "color", "colour") }]
    }
    fn subresources(&self) -> Vec<DialectSubresource> {
        let paint = DialectSubresource { group: GROUP, resource: "widgets", name: "paint", kind: "Paint", verbs: &["create"],
            handle: |request| { let mut widget = request.object.clone(); widget["spec"]["color"] = request.body["color"].clone(); Ok(widget) } };
        let size = DialectSubresource { group: "", resource: "configmaps", name: "size", kind: "Size", verbs: &["get"],
            handle: |request| Ok(json!({ "keys": request.object["data"].as_object().map_or(0, Map::len) })) };
        vec![paint, size]
    }
    fn sealed_fields(&self) -> Vec<SealedField> {
        vec![SealedField { group: GROUP, resource: "widgets", path: &["spec", "password"], annotation: "example.com/secret",
            secret_type: "Opaque", secret_key: "password", secret_prefix: "example-", manager: "example", description: "a password",
            check: |value| if value.len() < 4 { Err("is too short".into()) } else { Ok(()) }, looks_like: |_| false,
            is_kept: |secret, value, _| SealedField::holds(secret, "password", value) }]
    }
    fn protected(&self, _: &str, _: &str) -> ProtectedMetadata { ProtectedMetadata { labels: &[OWNER], ..ProtectedMetadata::default() } }
    fn mutate(&self, write: &DialectWrite<'_>, new: &mut Value) -> Result<(), Status> {
        if write.row.group == GROUP && new["spec"]["size"].is_null() { new["spec"]["size"] = 1.into(); }
        Ok(())
    }
    fn validate(&self, write: &DialectWrite<'_>, new: &Value) -> Result<(), Status> {
        let is_plaid = new["spec"]["color"] == "plaid";
        if is_plaid { Err(Status::forbidden(GROUP, &write.row.resource, object::name(new), "plaid is not a color")) } else { Ok(()) }
    }
    fn placed_by(&self) -> Option<&'static str> { Some("example") }
    fn intents<'a>(&self, object: &'a Value) -> Vec<Intent<'a>> {
        object::annotation(object, ON).map(|cluster| Intent { source: IntentSource::Annotation(ON), cluster }).into_iter().collect()
    }
    fn namespace_below(&self, above: &NamespaceAbove<'_>) -> Option<String> { Some(format!("example-{}", above.namespace)) }
    fn share_metadata(&self, share: &ShareTarget<'_>, _: &Value) -> ShareMetadata {
        let from = |name: &str| (name.to_string(), share.workspace.to_string());
        ShareMetadata { labels: vec![from("example.com/from"), from("atoll.dev/forged")], annotations: Vec::new() }
    }
    fn token_claims(&self, account: &ObjectRef<'_>, _: &Value) -> Map<String, Value> {
        Map::from_iter([("example.com/account".to_string(), account.name.into()), ("sub".to_string(), "forged".into())])
    }
    fn texts(&self) -> DialectTexts { DialectTexts { about: "Widgets and gadgets", ..DialectTexts::default() } }
}

const CONTROLLERS: &[DialectController] = &[DialectController {
    name: "example-placement-controller",
    alias: "exampleplacement",
    run: |context| Box::pin(intents::run(context)),
}];

fn rename(object: &mut Value, from: &str, to: &str) {
    if let Some(spec) = object["spec"].as_object_mut()
        && let Some(value) = spec.remove(from)
    {
        spec.insert(to.into(), value);
    }
}

fn definition(plural: &str, kind: &str) -> Value {
    let names = json!({ "plural": plural, "singular": kind.to_lowercase(), "kind": kind, "listKind": format!("{kind}List") });
    let spec = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let schema = json!({ "openAPIV3Schema": { "type": "object", "properties": { "spec": spec } } });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{plural}.{GROUP}") },
        "spec": {
            "group": GROUP, "names": names, "scope": "Namespaced", "conversion": { "strategy": "None" },
            "versions": [{ "name": "v1", "served": true, "storage": true, "schema": schema }],
        },
        "status": {
            "acceptedNames": names, "storedVersions": ["v1"],
            "conditions": [{ "type": "NamesAccepted", "status": "True" }, { "type": "Established", "status": "True" }],
        },
    })
}

const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";
const GADGETS: &str = "/apis/example.com/v1/namespaces/default/gadgets";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn registrations() -> Vec<Registration> {
    vec![Registration { dialect: Arc::new(Example), controllers: CONTROLLERS }]
}

/// Starts a server in whose root workspace the dialect is enabled.
async fn start() -> TestServer {
    let server = TestServer::start(&registrations()).await;
    let admin = server.admin();
    assert_eq!(admin.get(WIDGETS).await.unwrap_err().code(), 404, "the dialect is not enabled");
    enable(&admin, "").await;
    server
}

/// Enables the dialect in the workspace with this path prefix.
async fn enable(admin: &Client, workspace: &str) {
    let namespace =
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "atoll-system" } });
    admin.create(&format!("{workspace}/api/v1/namespaces"), &namespace).await.unwrap();
    let marker = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "atoll-dialects" }, "data": { "example": "" },
    });
    let maps = format!("{workspace}/api/v1/namespaces/atoll-system/configmaps");
    admin.create(&maps, &marker).await.unwrap();
}

async fn register_cluster(admin: &Client, name: &str) {
    let cluster = json!({
        "apiVersion": "atoll.dev/v1alpha1", "kind": "Cluster", "metadata": { "name": name }, "spec": { "mode": "none" },
    });
    admin.create("/apis/atoll.dev/v1alpha1/clusters", &cluster).await.unwrap();
}

fn widget(kind: &str, name: &str, spec: Value) -> Value {
    json!({ "apiVersion": "example.com/v1", "kind": kind, "metadata": { "name": name }, "spec": spec })
}

fn config_map(name: &str) -> Value {
    let metadata = json!({ "name": name, "annotations": { ON: "east" }, "labels": { OWNER: "forged" } });
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": { "a": "1" } })
}

#[tokio::test(flavor = "multi_thread")]
async fn kinds_have_two_spellings_and_subresources() {
    let server = start().await;
    let admin = server.admin();
    let made = admin.create(WIDGETS, &widget("Widget", "a", json!({ "color": "red" }))).await.unwrap();
    assert_eq!(made["spec"], json!({ "color": "red", "size": 1 }), "admission sets the size");
    let gadget = admin.get(&format!("{GADGETS}/a")).await.unwrap();
    assert_eq!((&gadget["kind"], &gadget["spec"]["colour"]), (&json!("Gadget"), &json!("red")));
    assert_eq!(gadget["metadata"]["uid"], made["metadata"]["uid"]);
    let patch = json!({ "spec": { "colour": "blue" } });
    let patched = admin.patch(&format!("{GADGETS}/a"), PatchType::Merge, &patch).await.unwrap();
    assert_eq!(patched["spec"], json!({ "colour": "blue", "size": 1 }));
    admin.create(GADGETS, &widget("Gadget", "b", json!({ "colour": "green" }))).await.unwrap();
    let list = admin.get(WIDGETS).await.unwrap();
    let colors: Vec<&Value> =
        list["items"].as_array().unwrap().iter().map(|one| &one["spec"]["color"]).collect();
    assert_eq!(colors, ["blue", "green"]);
    assert_eq!(list["items"][1]["kind"], "Widget");

    let painted = admin.create(&format!("{WIDGETS}/a/paint"), &json!({ "color": "black" })).await.unwrap();
    assert_eq!((&painted["spec"]["color"], object::generation(&painted)), (&json!("black"), 3));
    let refused =
        admin.create(&format!("{WIDGETS}/a/paint"), &json!({ "color": "plaid" })).await.unwrap_err();
    assert!(refused.message().contains("plaid is not a color"), "{refused}");
    assert_eq!(admin.get(&format!("{WIDGETS}/a/paint")).await.unwrap_err().code(), 405);
    admin.create(MAPS, &config_map("a")).await.unwrap();
    assert_eq!(admin.get(&format!("{MAPS}/a/size")).await.unwrap(), json!({ "keys": 1 }));
    assert_eq!(admin.get(&format!("{MAPS}/b/size")).await.unwrap_err().code(), 404);
    // No workspace defines such a kind itself.
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let refused = admin.create(definitions, &definition("widgets", "Widget")).await.unwrap_err();
    assert!(refused.message().contains("the dialect example serves widgets.example.com"), "{refused}");
    admin.delete(&format!("{GADGETS}/a")).await.unwrap();
    assert_eq!(admin.get(&format!("{WIDGETS}/a")).await.unwrap_err().code(), 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn fields_are_sealed_and_labels_protected() {
    let server = start().await;
    let admin = server.admin();
    let given = widget("Widget", "a", json!({ "password": "s3cr3t" }));
    let made = admin.create(WIDGETS, &given).await.unwrap();
    assert_eq!(made["spec"]["password"], "");
    let name = object::annotation(&made, "example.com/secret").unwrap();
    let secret = admin.get(&format!("/api/v1/namespaces/atoll-system/secrets/{name}")).await.unwrap();
    assert_eq!(secret["data"]["password"], STANDARD.encode("s3cr3t"));
    assert_eq!(secret["metadata"]["labels"]["atoll.dev/dialect"], "example");
    let short = widget("Widget", "b", json!({ "password": "abc" }));
    let refused = admin.create(WIDGETS, &short).await.unwrap_err();
    assert!(refused.message().contains("spec.password: Forbidden: is too short"), "{refused}");

    let owner = |object: &Value| object::label(object, OWNER).map(str::to_string);
    assert_eq!(owner(&admin.create(MAPS, &config_map("a")).await.unwrap()), None);
    let patch = json!({ "metadata": { "labels": { OWNER: "set" } } });
    let path = format!("{MAPS}/a");
    let patched = server.controllers().patch(&path, PatchType::Merge, &patch).await.unwrap();
    assert_eq!(owner(&patched).as_deref(), Some("set"));
    let patch = json!({ "metadata": { "labels": null } });
    let patched = admin.patch(&path, PatchType::Merge, &patch).await.unwrap();
    assert_eq!(owner(&patched).as_deref(), Some("set"), "a client cannot remove it");
}

async fn placement(admin: &Client, name: &str) -> Value {
    admin.get(&format!("{MAPS}/{name}/placement")).await.unwrap()["spec"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_are_placed_by_intent_and_shaped_for_the_cluster() {
    let server = start().await;
    let admin = server.admin();
    register_cluster(&admin, "east").await;
    server.run(registrations(), &["example-placement-controller"]);
    admin.create(MAPS, &config_map("a")).await.unwrap();
    eventually("the object is placed", async || placement(&admin, "a").await["by"] == "example").await;
    assert_eq!(placement(&admin, "a").await["clusters"][0]["name"], "east");

    let mut lines = admin.lines("/services/sync/east").await.unwrap();
    let (mut name, mut labels) = (None, Value::Null);
    while let Some(line) = lines.next().await {
        match SyncLine::parse(&line) {
            Some(SyncLine::Namespace { namespace, below, .. }) if namespace == "default" => name = below,
            Some(SyncLine::Object { target, object, .. }) if target.name == "a" => {
                labels = object["metadata"]["labels"].clone();
            }
            Some(SyncLine::Synced { .. }) => break,
            _ => {}
        }
    }
    assert_eq!(name.as_deref(), Some("example-default"));
    assert_eq!(labels, json!({ "example.com/from": "root" }));
}

/// Root does not serve the kinds of a dialect that only a workspace below it enables.
#[tokio::test(flavor = "multi_thread")]
async fn own_kinds_are_placed_by_intent_in_a_workspace_below_root() {
    let server = TestServer::start(&registrations()).await;
    let admin = server.admin();
    register_cluster(&admin, "east").await;
    let workspace =
        json!({ "apiVersion": "atoll.dev/v1alpha1", "kind": "Workspace", "metadata": { "name": "team" } });
    let made = admin.create("/apis/atoll.dev/v1alpha1/workspaces", &workspace).await.unwrap();
    server.tree.insert(made["status"]["id"].as_str().unwrap(), "root", "team");
    enable(&admin, "/clusters/root:team").await;
    server.run(registrations(), &["example-placement-controller"]);
    let mut placed = widget("Widget", "a", json!({}));
    placed["metadata"]["annotations"] = json!({ ON: "east" });
    admin.create(&format!("/clusters/root:team{WIDGETS}"), &placed).await.unwrap();
    let placement = format!("/clusters/root:team{WIDGETS}/a/placement");
    eventually("the widget is placed", async || {
        admin.get(&placement).await.unwrap()["spec"]["clusters"][0]["name"] == "east"
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_have_further_claims() {
    let server = start().await;
    let admin = server.admin();
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    let account = json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "robot" } });
    admin.create(accounts, &account).await.unwrap();
    let request = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {} });
    let issued = admin.create(&format!("{accounts}/robot/token"), &request).await.unwrap();
    let token = issued["status"]["token"].as_str().unwrap();
    let claims = URL_SAFE_NO_PAD.decode(token.split('.').nth(1).unwrap()).unwrap();
    let claims: Value = serde_json::from_slice(&claims).unwrap();
    assert_eq!(claims["example.com/account"], "robot");
    assert_eq!(claims["sub"], "system:serviceaccount:default:robot");
    assert_eq!(Example.texts().about, "Widgets and gadgets");
}
