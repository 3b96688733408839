//! Table tests of sequences of writes, and properties.

mod conflicts;
mod custom;
mod elements;
mod extract;
mod properties;
pub mod steps;
mod writes;

use atoll_schema::Types;
use serde_json::{Value, json};

use super::{Author, Kind, ResetFields};

pub const STATUS: ResetFields = ResetFields::Paths(&[&["status"]]);

pub fn kind(api_version: &str, kind: &str) -> Kind {
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
    let id = Types::get().by_kind(group, version, kind);
    Kind::new(api_version.to_owned(), kind, id)
}

pub fn author(manager: &str) -> Author<'_> {
    Author { manager, subresource: "", time: "2026-01-01T00:00:00Z", resets: STATUS }
}

/// Returns the object after the first write.
pub fn created(kind: &Kind, mut object: Value, manager: &str) -> Value {
    kind.record(kind.empty(), &mut object, &author(manager));
    object["metadata"]["uid"] = json!("1");
    object
}

/// Returns the managers without the fields that all entries share.
pub fn managers(object: &Value) -> Value {
    let entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let rendered = entries.iter().map(|entry| {
        let operation = entry["operation"].as_str().unwrap_or_default();
        let name = format!("{} {operation}", entry["manager"].as_str().unwrap_or_default());
        (name, entry["fieldsV1"].clone())
    });
    Value::Object(rendered.collect())
}
