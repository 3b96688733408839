//! Atoll's own kinds.

use serde_json::{Value, json};

use crate::Kind;
use crate::names::definition;
use crate::schemas::reference;

/// From what its objects are like, as version 3 and as version 2 says it.
pub fn kind(group: &str, version: &str, kind: &str, (schema, lesser): (Value, Value)) -> Kind {
    let completed = |mut schema: Value| {
        let properties = &mut schema["properties"];
        let metadata = reference(&definition("meta/v1.ObjectMeta"));
        properties["apiVersion"] = json!({
            "description": format!("The version of the schema that this object is written in: {group}/{version}."),
            "type": "string",
        });
        properties["kind"] =
            json!({ "description": format!("What this object is: {kind}."), "type": "string" });
        properties["metadata"] =
            json!({ "description": "Standard metadata.", "default": {}, "allOf": [metadata] });
        schema
    };
    Kind {
        group: group.to_owned(),
        version: version.to_owned(),
        kind: kind.to_owned(),
        list_kind: format!("{kind}List"),
        schema: completed(schema),
        lesser: Some(completed(lesser)),
    }
}
