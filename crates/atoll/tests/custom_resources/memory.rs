//! The same definition in many workspaces is stored in memory once.

use atoll_testkit::Atoll;
use atoll_testkit::wait::eventually;
use serde_json::{Map, Value, json};

use crate::{DEFINITIONS, definition};

const WORKSPACES: &str = "/apis/atoll.dev/v1alpha1/workspaces";
const COUNT: usize = 150;

/// Returns a definition of about half a megabyte, half of which is repeated in an annotation, as `kubectl
/// apply` leaves it.
fn hats() -> Value {
    let field = |number: usize| {
        let description = "what it is for, ".repeat(100);
        (format!("field{number}"), json!({ "type": "string", "description": description }))
    };
    let properties: Map<_, _> = (0..300).map(field).collect();
    let spec = json!({ "type": "object", "properties": properties });
    let schema = json!({ "type": "object", "properties": { "spec": spec } });
    let version =
        json!({ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema } });
    let mut hats = definition("hats", "Hat", "Cluster", json!([version]));
    let applied = hats.to_string();
    let half = &applied[..applied.len() / 2];
    hats["metadata"]["annotations"] = json!({ "example.com/applied": half, "example.com/own": "short" });
    hats
}

#[tokio::test(flavor = "multi_thread")]
async fn equal_definitions_of_many_workspaces_share_memory() {
    let mut atoll = Atoll::start_bare();
    let admin = atoll.admin();
    admin.get(DEFINITIONS).await.expect(200);
    let empty = atoll.resident();
    let hats = hats();
    for number in 0..COUNT {
        let name = format!("w{number}");
        admin.post(WORKSPACES, json!({ "metadata": { "name": name } })).await.expect(201);
        let inside = admin.workspace(&format!("root:{name}"));
        inside.post(DEFINITIONS, hats.clone()).await.expect(201);
        inside.get("/apis/example.com/v1/hats").await.expect(200);
    }
    let size = hats.to_string().len();
    // Copies would take twice this limit, and copies of the annotations alone the whole limit. The history
    // has every state of each definition.
    let limit = empty + (COUNT * size) as u64 / 2;
    let what =
        format!("{COUNT} copies of {size} bytes are held in less than {limit} bytes, {empty} of them before");
    // No request is sent while waiting: the server returns unused memory gradually by itself.
    eventually(&what, async || atoll.resident() < limit).await;
    for again in ["the first", "the second"] {
        atoll.kill();
        atoll.restart();
        eventually(&format!("after {again} restart, {what}"), async || atoll.resident() < limit).await;
    }
    let shown = admin.workspace("root:w7").get(&format!("{DEFINITIONS}/hats.example.com")).await.expect(200);
    assert_eq!(shown["metadata"]["annotations"], hats["metadata"]["annotations"]);
    assert_eq!(shown["spec"]["versions"], hats["spec"]["versions"]);
}
