//! Atoll's own kinds.

use serde_json::{Value, json};

use crate::KindSchema;
use crate::names::definition;
use crate::schemas::reference;

/// Returns the schema of a kind from its v3 and v2 schemas.
pub fn kind(group: &str, version: &str, kind: &str, (schema, v2_schema): (Value, Value)) -> KindSchema {
    let completed = |mut schema: Value| {
        let properties = &mut schema["properties"];
        let metadata = reference(&definition("meta/v1.ObjectMeta"));
        properties["apiVersion"] = json!({
            "description": format!("API version of this object: {group}/{version}."),
            "type": "string",
        });
        properties["kind"] =
            json!({ "description": format!("Kind of this object: {kind}."), "type": "string" });
        properties["metadata"] =
            json!({ "description": "Standard metadata.", "default": {}, "allOf": [metadata] });
        schema
    };
    KindSchema {
        group: group.to_owned(),
        version: version.to_owned(),
        kind: kind.to_owned(),
        list_kind: format!("{kind}List"),
        schema: completed(schema),
        v2_schema: Some(completed(v2_schema)),
    }
}
