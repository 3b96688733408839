//! Validation of heartbeats: known fields of the right type and of limited size. Syncers and clusters may be
//! hostile, and heartbeats are stored in the status of a Cluster.

use atoll_meta::quantity::Quantity;
use atoll_meta::text::clean;
use atoll_meta::{FieldError, FieldPath};
use serde_json::{Map, Value};

/// Longest name, version or node label.
const TEXT: usize = 253;
/// Longest message.
const MESSAGE: usize = 4096;
/// Maximum number of resources of a cluster.
const RESOURCES: usize = 64;
/// Longest qualified resource name.
const RESOURCE: usize = 317;
const ZONES: usize = 64;
/// Maximum number of rows of free capacity; syncers send at most sixteen.
const ROWS: usize = 64;
/// Maximum number of unmapped namespaces; syncers send at most fifty.
const NAMESPACES: usize = 100;

/// The form of a field.
#[derive(Clone, Copy)]
enum Form {
    /// Text, cut to so many bytes, on one line and without control characters.
    Text(usize),
    /// A CamelCase reason such as `CertificateExpired`.
    Reason,
    Integer,
    /// Quantities by resource.
    Quantities,
    /// A list, cut to so many items.
    List(usize, &'static Form),
    Fields(&'static [(&'static str, Form)]),
}

const FIELDS: &[(&str, Form)] = &[
    ("id", Form::Text(TEXT)),
    ("kubernetesVersion", Form::Text(TEXT)),
    ("nodes", Form::Fields(&[("total", Form::Integer), ("ready", Form::Integer)])),
    ("capacity", Form::Quantities),
    ("allocatable", Form::Quantities),
    ("requested", Form::Quantities),
    // Quantities by resource, each with a number of nodes.
    ("free", Form::List(ROWS, &Form::Quantities)),
    ("region", Form::Text(TEXT)),
    ("zones", Form::List(ZONES, &Form::Text(TEXT))),
    ("latency", Form::Text(TEXT)),
    ("paused", Form::Text(MESSAGE)),
    ("reason", Form::Reason),
    ("message", Form::Text(MESSAGE)),
    ("syncer", Form::Fields(&[("version", Form::Text(TEXT)), ("instance", Form::Text(TEXT))])),
    ("leaseDurationSeconds", Form::Integer),
    ("unmappedNamespaces", Form::List(NAMESPACES, &Form::Fields(NAMESPACE))),
];

const NAMESPACE: &[(&str, Form)] = &[("name", Form::Text(TEXT)), ("workspace", Form::Text(TEXT))];

/// Returns a heartbeat without unknown fields, which a newer syncer may send, or its errors.
pub fn validate(heartbeat: &Value) -> Result<Value, Vec<FieldError>> {
    let mut errors = Vec::new();
    let read = Form::Fields(FIELDS).read(&FieldPath::new("heartbeat"), heartbeat, &mut errors);
    match errors.is_empty() {
        true => Ok(read.unwrap_or_else(|| Value::Object(Map::new()))),
        false => Err(errors),
    }
}

impl Form {
    /// Returns the accepted part of a value, and adds errors.
    fn read(self, path: &FieldPath, value: &Value, errors: &mut Vec<FieldError>) -> Option<Value> {
        let kept = match (self, value) {
            (_, Value::Null) => return None,
            (Form::Text(most), Value::String(text)) => {
                Some(clean(text, most).replace(['\n', '\r'], " ").into())
            }
            (Form::Reason, Value::String(text)) if is_reason(text) => Some(value.clone()),
            (Form::Integer, _) => value.as_i64().filter(|number| *number >= 0).map(Value::from),
            (Form::Quantities, Value::Object(amounts)) => {
                let amounts = amounts.iter().filter(|(name, _)| is_resource(name)).take(RESOURCES);
                let read = amounts.filter_map(|(name, amount)| {
                    Some((name.clone(), quantity(&path.key(name), amount, errors)?))
                });
                Some(read.collect())
            }
            (Form::List(most, form), Value::Array(items)) => {
                let items = items.iter().take(most).enumerate();
                Some(items.filter_map(|(at, item)| form.read(&path.index(at), item, errors)).collect())
            }
            (Form::Fields(fields), Value::Object(found)) => {
                let known = fields.iter().filter_map(|(name, form)| {
                    let value = found.get(*name)?;
                    Some(((*name).to_string(), form.read(&path.child(*name), value, errors)?))
                });
                Some(known.collect())
            }
            _ => None,
        };
        if kept.is_none() {
            errors.push(FieldError::invalid(path, kind(value), self.wanted()));
        }
        kept
    }

    fn wanted(self) -> &'static str {
        match self {
            Form::Text(_) => "must be a string",
            Form::Reason => {
                "must be a word of letters and digits that begins with a letter, of at most 128 characters"
            }
            Form::Integer => "must be an integer that is not negative",
            Form::Quantities => "must be an object of quantities",
            Form::List(..) => "must be an array",
            Form::Fields(_) => "must be an object",
        }
    }
}

fn quantity(path: &FieldPath, value: &Value, errors: &mut Vec<FieldError>) -> Option<Value> {
    let is_quantity = match value {
        Value::String(text) => text.len() <= TEXT && Quantity::parse(text).is_ok(),
        Value::Number(number) => number.is_i64(),
        _ => false,
    };
    if !is_quantity {
        errors.push(FieldError::invalid(path, kind(value), "must be a quantity"));
    }
    is_quantity.then(|| value.clone())
}

/// Returns the type of a value for a message, because the value itself may be of any size.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn is_reason(text: &str) -> bool {
    text.len() <= 128
        && text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.chars().all(|other| other.is_ascii_alphanumeric())
}

fn is_resource(name: &str) -> bool {
    let is_plain = |other: char| other.is_ascii_alphanumeric() || "-_./".contains(other);
    !name.is_empty() && name.len() <= RESOURCE && name.chars().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn known_fields_are_kept() {
        let said = json!({
            "id": "a", "kubernetesVersion": "v1.36.0", "nodes": { "total": 3, "ready": 2 },
            "capacity": { "cpu": "4", "nvidia.com/gpu": "1" }, "requested": { "cpu": "1500m", "pods": "7" },
            "free": [{ "cpu": "2", "memory": "4Gi", "pods": 10, "nodes": 3 }], "region": "north", "zones": ["a", "b"],
            "latency": "12ms", "paused": "storm", "reason": "Unreachable", "message": "it is far",
            "syncer": { "version": "1", "instance": "one" }, "leaseDurationSeconds": 30,
            "unmappedNamespaces": [{ "name": "shop", "workspace": "w" }],
        });
        assert_eq!(validate(&said), Ok(said));
        assert_eq!(validate(&json!({})), Ok(json!({})));
        assert_eq!(validate(&json!({ "region": null })), Ok(json!({})));
    }

    #[test]
    fn unknown_fields_are_dropped_and_long_ones_are_cut() {
        let long = "x".repeat(1 << 20);
        let many: Map<String, Value> = (0..1000).map(|at| (format!("r{at:04}"), "1".into())).collect();
        let said = json!({
            "later": { "a": long }, "region": format!("\u{1b}[2J{long}"), "message": long,
            "zones": vec![long.as_str(); 1000], "capacity": many, "free": vec![Value::Object(many.clone()); 1000],
            "nodes": { "total": 1, "later": long }, "syncer": { "instance": long, "later": [long] },
            "allocatable": { (long.as_str()): "1", "\u{1b}": "1" },
        });
        let kept = validate(&said).unwrap();
        assert_eq!(kept["region"], format!("[2J{}", "x".repeat(TEXT - 3)));
        assert_eq!(kept["nodes"], json!({ "total": 1 }));
        assert_eq!(kept["zones"].as_array().map(Vec::len), Some(ZONES));
        assert_eq!(kept["capacity"].as_object().map(Map::len), Some(RESOURCES));
        assert_eq!(kept["allocatable"], json!({}));
        assert_eq!(kept.get("later"), None);
        assert!(kept.to_string().len() < 128 << 10, "{}", kept.to_string().len());
    }

    #[test]
    fn fields_of_another_type_are_errors() {
        for (said, field) in [
            (json!([]), "heartbeat"),
            (json!("x"), "heartbeat"),
            (json!({ "id": 1 }), "heartbeat.id"),
            (json!({ "nodes": [] }), "heartbeat.nodes"),
            (json!({ "nodes": { "total": "3" } }), "heartbeat.nodes.total"),
            (json!({ "nodes": { "total": -1 } }), "heartbeat.nodes.total"),
            (json!({ "capacity": { "cpu": { "a": 1 } } }), "heartbeat.capacity[cpu]"),
            (json!({ "capacity": { "cpu": "many" } }), "heartbeat.capacity[cpu]"),
            (json!({ "free": [{ "cpu": true }] }), "heartbeat.free[0][cpu]"),
            (json!({ "free": ["x"] }), "heartbeat.free[0]"),
            (json!({ "zones": [1] }), "heartbeat.zones[0]"),
            (json!({ "unmappedNamespaces": ["shop"] }), "heartbeat.unmappedNamespaces[0]"),
            (json!({ "reason": "not a word" }), "heartbeat.reason"),
            (json!({ "reason": 7 }), "heartbeat.reason"),
            (json!({ "message": { "a": 1 } }), "heartbeat.message"),
            (json!({ "syncer": { "instance": 1 } }), "heartbeat.syncer.instance"),
            (json!({ "leaseDurationSeconds": 1.5 }), "heartbeat.leaseDurationSeconds"),
        ] {
            let errors = validate(&said).unwrap_err();
            assert_eq!(errors.iter().map(FieldError::field).collect::<Vec<_>>(), [field], "{said}");
        }
    }
}
