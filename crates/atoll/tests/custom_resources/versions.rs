//! Objects in several versions of a definition.

use atoll_testkit::{Atoll, Watch, names};
use serde_json::json;

use crate::{DEFINITIONS, definition, object};

fn version(name: &str, storage: bool, properties: serde_json::Value) -> serde_json::Value {
    let schema =
        json!({ "type": "object", "properties": { "spec": { "type": "object", "properties": properties } } });
    json!({ "name": name, "served": true, "storage": storage, "schema": { "openAPIV3Schema": schema } })
}

#[tokio::test(flavor = "multi_thread")]
async fn versions_show_the_fields_of_their_schemas() {
    let mut atoll = Atoll::start();
    let admin = atoll.admin();
    let wide = json!({ "color": { "type": "string" }, "size": { "type": "string", "default": "M" } });
    let narrow = json!({ "color": { "type": "string" } });
    let versions = json!([version("v1", true, wide.clone()), version("v1beta1", false, narrow.clone())]);
    admin.post(DEFINITIONS, definition("hats", "Hat", "Cluster", versions)).await.expect(201);
    let (new, old) = ("/apis/example.com/v1/hats", "/apis/example.com/v1beta1/hats");
    let mut watch = Watch::open(&admin, &format!("{old}?watch=1")).await;
    let given = object("v1", "Hat", "one", json!({ "color": "red", "size": "L", "odd": 1 }));
    let created = admin.post(new, given).await.expect(201);
    assert_eq!(created["spec"], json!({ "color": "red", "size": "L" }));
    let shown = admin.get(&format!("{old}/one")).await.expect(200);
    assert_eq!(
        (&shown["apiVersion"], &shown["spec"]),
        (&json!("example.com/v1beta1"), &json!({ "color": "red" }))
    );
    assert_eq!(watch.event().await.object["spec"], json!({ "color": "red" }));
    assert_eq!(admin.get(old).await.expect(200)["items"][0]["apiVersion"], "example.com/v1beta1");
    // A write through a version with fewer fields drops the other fields, as upstream.
    admin.merge(&format!("{old}/one"), json!({ "spec": { "color": "blue" } })).await.expect(200);
    let shown = admin.get(&format!("{new}/one")).await.expect(200);
    assert_eq!(shown["spec"], json!({ "color": "blue", "size": "M" }));

    // A changed schema applies to existing objects.
    let patch = json!({ "spec": { "versions": [
        version("v1", true, json!({ "color": { "type": "string" }, "shape": { "type": "string", "default": "round" } })),
        version("v1beta1", false, narrow),
    ] } });
    admin.merge(&format!("{DEFINITIONS}/hats.example.com"), patch).await.expect(200);
    for _ in 0..2 {
        for _ in 0..2 {
            let shown = admin.get(&format!("{new}/one")).await.expect(200);
            assert_eq!(shown["spec"], json!({ "color": "blue", "shape": "round" }));
            assert_eq!(admin.get(new).await.expect(200)["items"][0]["spec"], shown["spec"]);
        }
        atoll.kill();
        atoll.restart();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_are_selected_by_fields() {
    let mut atoll = Atoll::start();
    let admin = atoll.admin();
    let mut own =
        version("v1", true, json!({ "color": { "type": "string" }, "size": { "type": "integer" } }));
    own["selectableFields"] = json!([{ "jsonPath": ".spec.color" }]);
    let path = format!("{DEFINITIONS}/hats.example.com");
    admin.post(DEFINITIONS, definition("hats", "Hat", "Cluster", json!([own]))).await.expect(201);
    let hats = "/apis/example.com/v1/hats";
    for (name, color) in [("a", "red"), ("b", "blue"), ("c", "red")] {
        let hat = object("v1", "Hat", name, json!({ "color": color, "size": name.len() }));
        admin.post(hats, hat).await.expect(201);
    }
    let red = format!("{hats}?fieldSelector=spec.color%3Dred");
    let sized = format!("{hats}?fieldSelector=spec.size%3D1");
    let mut watch = Watch::open(&admin, &format!("{red}&watch=1")).await;
    for expected in ["a", "c"] {
        assert_eq!(watch.event().await.name(), expected);
    }
    admin.merge(&format!("{hats}/a"), json!({ "spec": { "color": "blue" } })).await.expect(200);
    let event = watch.event().await;
    assert_eq!((event.kind.as_str(), event.name()), ("DELETED", "a"));
    assert_eq!(names(&admin.get(&red).await.expect(200)), ["c"]);
    admin.get(&sized).await.expect_status(400, "BadRequest");
    own["selectableFields"] = json!([{ "jsonPath": ".spec.size" }]);
    admin.merge(&path, json!({ "spec": { "versions": [own] } })).await.expect(200);
    for _ in 0..2 {
        assert_eq!(names(&admin.get(&sized).await.expect(200)), ["a", "b", "c"]);
        admin.get(&red).await.expect_status(400, "BadRequest");
        atoll.kill();
        atoll.restart();
    }
}
