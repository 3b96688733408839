//! The same definition in many workspaces is held once.

use serde_json::json;

use crate::support::eventually;
use crate::support::process::Atoll;
use crate::{DEFINITIONS, definition};

const WORKSPACES: &str = "/apis/atoll.dev/v1alpha1/workspaces";

#[tokio::test(flavor = "multi_thread")]
async fn a_definition_in_many_workspaces_is_held_once() {
    const COUNT: usize = 200;
    let empty = Atoll::start_bare().resident();
    let mut atoll = Atoll::start_bare();
    let admin = atoll.admin();
    let field = |number: usize| {
        let property =
            json!({ "type": "string", "description": "what it is for, ".repeat(24), "maxLength": number });
        (format!("field{number}"), property)
    };
    let properties: serde_json::Map<_, _> = (0..300).map(field).collect();
    let schema =
        json!({ "type": "object", "properties": { "spec": { "type": "object", "properties": properties } } });
    let size = schema.to_string().len();
    let version =
        json!({ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema } });
    let hats = definition("hats", "Hat", "Cluster", json!([version]));
    for number in 0..COUNT {
        let name = format!("w{number}");
        admin.post(WORKSPACES, json!({ "metadata": { "name": name } })).await.expect(201);
        let inside = admin.workspace(&format!("root:{name}"));
        inside.post(DEFINITIONS, hats.clone()).await.expect(201);
        inside.get("/apis/example.com/v1/hats").await.expect(200);
    }
    // Without history: what is held is what is current.
    atoll.kill();
    atoll.restart();
    let shown = admin.workspace("root:w7").get(&format!("{DEFINITIONS}/hats.example.com")).await.expect(200);
    assert_eq!(shown["spec"]["versions"][0]["schema"]["openAPIV3Schema"], schema_of(&hats));
    assert!(size > 100_000, "{size} bytes are too few to tell");
    let limit = empty + (COUNT * size) as u64 / 2;
    // What loading took is given back bit by bit.
    let what = format!("{COUNT} copies of {size} bytes take less than {limit} bytes of memory");
    eventually(&what, async || {
        admin.get(DEFINITIONS).await.expect(200);
        atoll.resident() < limit
    })
    .await;
}

fn schema_of(definition: &serde_json::Value) -> serde_json::Value {
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone()
}
