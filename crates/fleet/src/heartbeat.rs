//! Validation of heartbeats: known fields of the right type and of limited size. Syncers and clusters may be
//! hostile, and heartbeats are stored in the status of a Cluster.

use atoll_meta::quantity::Quantity;
use atoll_meta::text::clean;
use atoll_meta::{FieldError, FieldPath, json};
use serde_json::{Map, Value};

use crate::node_shapes;

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
/// Maximum number of labels and taints of a group of nodes.
const LABELS: usize = 64;
const TAINTS: usize = 32;
/// Longest label key: a prefix, a slash and a name.
const LABEL_KEY: usize = 317;
/// Maximum number of objects with bound Pods; syncers send at most 5,000.
const BOUND: usize = 5_000;
/// Maximum number of classes of each kind.
const CLASSES: usize = 128;
/// Maximum number of namespaces with ResourceQuotas; syncers send at most 500.
const QUOTAS: usize = 500;
/// Maximum number of API groups, and of versions and resources of a group.
const GROUPS: usize = 256;
const VERSIONS: usize = 16;
const GROUP_RESOURCES: usize = 256;
/// Maximum size of the node shapes and of the API groups as JSON.
const LARGEST_LIST: usize = 128 << 10;
/// Maximum number of missing rights.
const RIGHTS: usize = 32;

/// The form of a field.
#[derive(Clone, Copy)]
enum Form {
    /// Text, cut to at most this number of bytes, on one line and without control characters.
    Text(usize),
    /// A CamelCase reason such as `CertificateExpired`.
    Reason,
    Integer,
    /// Quantities by resource.
    Quantities,
    /// Texts by label key.
    Labels,
    /// Numbers by uid.
    Counts,
    /// A list, cut to at most this number of items.
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
    // Labels and taints of the nodes in each row of `free`.
    (GROUP_FIELD, Form::List(ROWS, &Form::Fields(NODE_GROUP))),
    ("bound", Form::Counts),
    ("classes", Form::Fields(CLASS_FIELDS)),
    ("apis", Form::List(GROUPS, &Form::Fields(API))),
    ("quotas", Form::List(QUOTAS, &Form::Fields(QUOTA))),
    ("missingRights", Form::List(RIGHTS, &Form::Text(TEXT))),
    ("cut", Form::Fields(CUT)),
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

/// Amounts that ResourceQuotas leave in a namespace, by workspace id and name above.
const QUOTA: &[(&str, Form)] =
    &[("workspace", Form::Text(TEXT)), ("namespace", Form::Text(TEXT)), ("left", Form::Quantities)];
const GROUP_FIELD: &str = "freeNodes";
const NODE_GROUP: &[(&str, Form)] =
    &[("labels", Form::Labels), ("taints", Form::List(TAINTS, &Form::Fields(TAINT)))];
const TAINT: &[(&str, Form)] =
    &[("key", Form::Text(LABEL_KEY)), ("value", Form::Text(TEXT)), ("effect", Form::Text(TEXT))];
const CLASS_NAMES: Form = Form::List(CLASSES, &Form::Text(TEXT));
const CLASS_FIELDS: &[(&str, Form)] = &[
    ("priority", CLASS_NAMES),
    ("storage", CLASS_NAMES),
    ("runtime", CLASS_NAMES),
    ("ingress", CLASS_NAMES),
];
const RESOURCE_NAMES: Form = Form::List(GROUP_RESOURCES, &Form::Text(TEXT));
const API: &[(&str, Form)] = &[
    ("group", Form::Text(TEXT)),
    ("versions", Form::List(VERSIONS, &Form::Text(TEXT))),
    ("resources", RESOURCE_NAMES),
    ("refused", RESOURCE_NAMES),
];
/// Numbers of omitted items.
const CUT: &[(&str, Form)] = &[
    ("nodes", Form::Integer),
    ("labels", Form::List(LABELS, &Form::Text(LABEL_KEY))),
    ("bound", Form::Integer),
    ("classes", Form::Integer),
    ("apis", Form::Integer),
    ("quotas", Form::Integer),
];

/// Returns a heartbeat without unknown fields, which a newer syncer may send, or its errors. Free capacity
/// has the form of the status of a Cluster.
pub fn validate(heartbeat: &Value) -> Result<Value, Vec<FieldError>> {
    let mut errors = Vec::new();
    let read = Form::Fields(FIELDS).read(&FieldPath::new("heartbeat"), heartbeat, &mut errors);
    match errors.is_empty() {
        true => Ok(fitted(with_node_shapes(read.unwrap_or_else(|| Value::Object(Map::new()))))),
        false => Err(errors),
    }
}

fn with_node_shapes(mut heartbeat: Value) -> Value {
    let Some(fields) = heartbeat.as_object_mut() else { return heartbeat };
    let groups = fields.remove(GROUP_FIELD).unwrap_or_default();
    if let Some(Value::Array(free)) = fields.get("free") {
        let groups = groups.as_array().map(Vec::as_slice).unwrap_or_default();
        let shapes = node_shapes::of_heartbeat(free, groups);
        fields.insert("free".into(), shapes);
    }
    heartbeat
}

/// Removes the last items of lists that are too large, and counts them as cut.
fn fitted(mut heartbeat: Value) -> Value {
    let count = |group: &Value, field: &str| {
        i64::try_from(group[field].as_array().map_or(0, Vec::len)).unwrap_or(i64::MAX)
    };
    for field in ["free", "apis", "quotas"] {
        let Some(items) = heartbeat.get_mut(field).and_then(Value::as_array_mut) else { continue };
        let mut size = 0;
        let fitting = items.iter().take_while(|item| {
            size += json::to_vec(item).len();
            size <= LARGEST_LIST
        });
        let removed = items.split_off(fitting.count());
        let omitted: i64 = match field {
            "free" => removed.iter().filter_map(|shape| shape["nodes"].as_i64()).sum(),
            "quotas" => i64::try_from(removed.len()).unwrap_or(i64::MAX),
            _ => removed.iter().map(|one| count(one, "resources") + count(one, "refused")).sum(),
        };
        if omitted > 0 {
            let cut = if field == "free" { "nodes" } else { field };
            let before = heartbeat["cut"][cut].as_i64().unwrap_or(0);
            heartbeat["cut"][cut] = before.saturating_add(omitted).into();
        }
    }
    heartbeat
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
            (Form::Labels, Value::Object(labels)) => {
                let texts = labels.iter().filter(|(key, _)| is_label_key(key)).take(LABELS);
                let read = texts.filter_map(|(key, value)| {
                    Some((key.clone(), Form::Text(TEXT).read(&path.key(key), value, errors)?))
                });
                Some(read.collect())
            }
            (Form::Counts, Value::Object(counts)) => {
                let counts = counts.iter().filter(|(uid, _)| is_uid(uid)).take(BOUND);
                let read = counts.filter_map(|(uid, count)| {
                    Some((uid.clone(), Form::Integer.read(&path.key(uid), count, errors)?))
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
            Form::Labels => "must be an object of strings",
            Form::Counts => "must be an object of integers",
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

fn is_label_key(key: &str) -> bool {
    let is_plain = |other: char| other.is_ascii_alphanumeric() || "-_./".contains(other);
    !key.is_empty() && key.len() <= LABEL_KEY && key.chars().all(is_plain)
}

fn is_uid(uid: &str) -> bool {
    let is_plain = |other: char| other.is_ascii_alphanumeric() || "-_.".contains(other);
    !uid.is_empty() && uid.len() <= 64 && uid.chars().all(is_plain)
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
            "unmappedNamespaces": [{ "name": "shop", "workspace": "w" }], "bound": { "u-1": 3 },
            "classes": { "priority": ["high"], "storage": [], "runtime": ["gvisor"], "ingress": ["nginx"] },
            "apis": [{ "group": "apps", "versions": ["v1"], "resources": ["deployments"], "refused": ["daemonsets"] }],
            "missingRights": ["list pods.metrics.k8s.io"],
            "cut": { "nodes": 2, "labels": ["rack"], "bound": 1, "classes": 0, "apis": 7 },
        });
        let group = json!({ "labels": { "zone": "a" }, "taints": [{ "key": "k", "value": "v", "effect": "NoSchedule" }] });
        let resources = json!({ "cpu": "2", "memory": "4Gi", "pods": 10 });
        for (groups, labels, taints) in [
            (json!([group]), group["labels"].clone(), group["taints"].clone()),
            (json!(null), json!({}), json!([])),
        ] {
            let (mut sent, mut expected) = (said.clone(), said.clone());
            sent["freeNodes"] = groups;
            expected["free"] =
                json!([{ "nodes": 3, "labels": labels, "taints": taints, "resources": resources }]);
            assert_eq!(validate(&sent), Ok(expected));
        }
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
            "freeNodes": [{ "labels": { (long.as_str()): "x", "a b": "x", "a": long }, "later": 1 }],
            "bound": { (long.as_str()): 1, "a b": 1, "u": 1 },
        });
        let kept = validate(&said).unwrap();
        assert_eq!(kept["region"], format!("[2J{}", "x".repeat(TEXT - 3)));
        assert_eq!(kept["nodes"], json!({ "total": 1 }));
        assert_eq!(kept["zones"].as_array().map(Vec::len), Some(ZONES));
        assert_eq!(kept["capacity"].as_object().map(Map::len), Some(RESOURCES));
        assert_eq!(kept["allocatable"], json!({}));
        assert_eq!(kept["free"], json!([]), "rows without a number of nodes are dropped");
        assert_eq!((&kept["bound"], kept.get("freeNodes")), (&json!({ "u": 1 }), None));
        assert_eq!(kept.get("later"), None);
        assert!(kept.to_string().len() < 128 << 10, "{}", kept.to_string().len());
    }

    #[test]
    fn size_of_lists_is_limited() {
        let labels: Map<String, Value> =
            (0..LABELS).map(|at| (format!("{at}{}", "k".repeat(300)), "v".repeat(200).into())).collect();
        let names = vec!["x".repeat(TEXT); GROUP_RESOURCES];
        let said = json!({
            "free": vec![json!({ "cpu": "1", "nodes": 2 }); ROWS], "freeNodes": vec![json!({ "labels": labels }); ROWS],
            "apis": vec![json!({ "group": "g", "resources": names, "refused": names }); GROUPS], "cut": { "nodes": 1 },
        });
        let kept = validate(&said).unwrap();
        assert!(kept.to_string().len() < 4 * LARGEST_LIST, "{}", kept.to_string().len());
        let rows = kept["free"].as_array().map_or(0, Vec::len);
        assert!(rows > 0 && kept["cut"]["nodes"] == 1 + 2 * (ROWS - rows), "{}", kept["cut"]);
        assert!(kept["cut"]["apis"].as_i64() > Some(0));
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
            (json!({ "freeNodes": [{ "labels": { "a": 1 } }] }), "heartbeat.freeNodes[0].labels[a]"),
            (json!({ "freeNodes": [{ "taints": ["x"] }] }), "heartbeat.freeNodes[0].taints[0]"),
            (json!({ "bound": [] }), "heartbeat.bound"),
            (json!({ "bound": { "u": -1 } }), "heartbeat.bound[u]"),
            (json!({ "classes": { "storage": "x" } }), "heartbeat.classes.storage"),
            (json!({ "apis": [{ "group": 1 }] }), "heartbeat.apis[0].group"),
            (json!({ "missingRights": "x" }), "heartbeat.missingRights"),
            (json!({ "cut": { "nodes": "x" } }), "heartbeat.cut.nodes"),
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
