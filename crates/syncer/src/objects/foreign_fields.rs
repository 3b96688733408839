//! Fields that other writers own in an object that cannot be applied. Determines which of them a server-side
//! apply would leave to those writers, for a replace of the object. Pure.

use atoll_fleet::marks;
use serde_json::{Map, Value};

use crate::objects::drift::{covers, is_controller};
use crate::objects::reconcile::owned_fields_of;
use crate::settings::Drift;

/// Copies into the desired object the fields of `found` that other writers keep. Returns messages about the
/// changes that are left.
pub fn keep_foreign_fields(desired: &mut Value, found: &Value, drift: Drift) -> Vec<String> {
    let owned = owned_fields_of(found);
    let mut left = Vec::new();
    for entry in found["metadata"]["managedFields"].as_array().into_iter().flatten() {
        let manager = entry["manager"].as_str().unwrap_or_default();
        let retention = match (is_controller(manager), drift) {
            _ if manager == marks::MANAGER => continue,
            (true, _) => Retention::All,
            (false, Drift::Report) => Retention::NotOwned,
            (false, Drift::Correct) => Retention::ListItems,
        };
        let mut walker = FieldWalker { retention, path: String::new(), kept: Vec::new() };
        walker.fields(desired, found, &entry["fieldsV1"], &owned);
        if retention == Retention::NotOwned {
            left.extend(walker.kept.into_iter().map(|path| format!("{manager} changed {path}")));
        }
    }
    left.sort_unstable();
    left.dedup();
    left
}

/// Fields that another writer keeps although the desired object differs. All writers keep list items that are
/// not in the desired object.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Retention {
    All,
    /// Fields that the syncer does not own. Fields that it also owns have not been changed since it set them.
    NotOwned,
    ListItems,
}

struct FieldWalker {
    retention: Retention,
    /// Path of the current field, in the format of field managers.
    path: String,
    kept: Vec<String>,
}

impl FieldWalker {
    fn fields(&mut self, desired: &mut Value, found: &Value, foreign: &Value, owned: &Value) {
        for (key, inner) in foreign.as_object().into_iter().flatten() {
            let owned = &owned[key];
            let before = self.path.len();
            if let (Some(name), Some(fields)) = (key.strip_prefix("f:"), desired.as_object_mut()) {
                self.path.push('.');
                self.path.push_str(name);
                self.field(fields, name, &found[name], inner, owned);
            } else if let (Some(keys), Some(items)) = (key.strip_prefix("k:"), desired.as_array_mut())
                && let Ok(keys) = serde_json::from_str::<Map<String, Value>>(keys)
            {
                let names: Vec<String> = keys.iter().map(|(name, value)| format!("{name}={value}")).collect();
                self.path.push_str(&format!("[{}]", names.join(",")));
                self.items(items, &keys, found, inner, owned);
            }
            self.path.truncate(before);
        }
    }

    fn field(
        &mut self,
        fields: &mut Map<String, Value>,
        name: &str,
        found: &Value,
        inner: &Value,
        owned: &Value,
    ) {
        // Fields that are not in the desired object are not touched anyway.
        let Some(value) = fields.get_mut(name) else { return };
        if !is_leaf(inner) {
            return self.fields(value, found, inner, owned);
        }
        if !is_equivalent(value, found) && self.keep(owned) {
            value.clone_from(found);
        }
    }

    fn items(
        &mut self,
        desired: &mut Vec<Value>,
        keys: &Map<String, Value>,
        found: &Value,
        inner: &Value,
        owned: &Value,
    ) {
        // A missing key field has its default value.
        let is_it =
            |item: &Value| keys.iter().all(|(name, value)| item.get(name).is_none_or(|own| own == value));
        let there: Vec<&Value> = found.as_array().into_iter().flatten().filter(|item| is_it(item)).collect();
        let positions: Vec<usize> = desired
            .iter()
            .enumerate()
            .filter(|(_, item)| is_it(item))
            .map(|(position, _)| position)
            .collect();
        match (positions.as_slice(), there.as_slice()) {
            (_, []) => {}
            ([], there) => {
                if owned.is_null() {
                    desired.extend(there.iter().map(|item| (*item).clone()));
                }
            }
            ([position], [item]) if !is_leaf(inner) => {
                self.fields(&mut desired[*position], item, inner, owned)
            }
            // Several items with one key: their owners cannot be distinguished.
            (positions, there) => {
                let are_same = positions.len() == there.len()
                    && positions
                        .iter()
                        .zip(there)
                        .all(|(position, item)| is_equivalent(&desired[*position], item));
                if !are_same && self.keep(owned) {
                    let first = positions[0];
                    let mut position = 0..;
                    desired
                        .retain(|_| !position.next().is_some_and(|position| positions.contains(&position)));
                    desired.splice(first..first, there.iter().map(|item| (*item).clone()));
                }
            }
        }
    }

    /// Whether the other writer keeps the current field.
    fn keep(&mut self, owned: &Value) -> bool {
        let retention = match self.retention {
            Retention::All => true,
            Retention::NotOwned => owned.is_null(),
            Retention::ListItems => false,
        };
        if retention {
            self.kept.push(self.path.clone());
        }
        retention
    }
}

/// Whether a set of fields has no children.
fn is_leaf(fields: &Value) -> bool {
    fields.as_object().is_none_or(|fields| fields.keys().all(|key| key == "."))
}

/// Whether the desired value equals the existing one, with lists in order, ignoring defaults of the cluster.
fn is_equivalent(desired: &Value, found: &Value) -> bool {
    match (desired, found) {
        (Value::Array(desired), Value::Array(found)) => {
            desired.len() == found.len()
                && desired.iter().zip(found).all(|(desired, found)| is_equivalent(desired, found))
        }
        _ => covers(desired, found),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(spec: Value, managers: &[(&str, Value)]) -> Value {
        let entries: Vec<Value> = managers
            .iter()
            .map(|(manager, fields)| json!({ "manager": manager, "fieldsV1": { "f:spec": fields } }))
            .collect();
        json!({ "metadata": { "managedFields": entries }, "spec": spec })
    }

    #[test]
    fn foreign_owners_keep_their_fields() {
        let a = r#"k:{"name":"A"}"#;
        let main = r#"k:{"name":"main"}"#;
        let containers = |image: &str, env: Value| json!({ "containers": [{ "name": "main", "image": image, "env": env }] });
        let env = |values: &[&str]| {
            Value::from_iter(values.iter().map(|value| json!({ "name": "A", "value": value })))
        };
        let owned = |fields: Value| json!({ "f:containers": { main: fields } });
        for (desired, found, drift, expected, left) in [
            // Controllers keep their fields without a message.
            (
                json!({ "replicas": 2, "paused": true }),
                found(
                    json!({ "replicas": 4, "paused": true }),
                    &[("kube-controller-manager", json!({ "f:replicas": {}, "f:paused": {}, "f:x": {} }))],
                ),
                Drift::Correct,
                json!({ "replicas": 4, "paused": true }),
                vec![],
            ),
            // Changes of users are reported, or corrected.
            (
                containers("a:2", env(&["1", "2"])),
                found(
                    containers("b:1", env(&["1", "3"])),
                    &[("kubectl-edit", owned(json!({ "f:image": {}, "f:env": { a: {} } })))],
                ),
                Drift::Report,
                containers("b:1", env(&["1", "3"])),
                vec![
                    r#"kubectl-edit changed .spec.containers[name="main"].env[name="A"]"#,
                    r#"kubectl-edit changed .spec.containers[name="main"].image"#,
                ],
            ),
            (
                containers("a:2", env(&["1", "2"])),
                found(
                    containers("b:1", env(&["1", "3"])),
                    &[("kubectl-edit", owned(json!({ "f:image": {}, "f:env": { a: {} } })))],
                ),
                Drift::Correct,
                containers("a:2", env(&["1", "2"])),
                vec![],
            ),
            // Fields that the syncer also owns are changed.
            (
                containers("a:2", env(&["1", "2"])),
                found(
                    containers("a:1", env(&["1", "2"])),
                    &[("helm", owned(json!({ "f:image": {} }))), ("atoll", owned(json!({ "f:image": {} })))],
                ),
                Drift::Report,
                containers("a:2", env(&["1", "2"])),
                vec![],
            ),
            // List items that only another writer owns stay.
            (
                json!({ "env": [{ "name": "A", "value": "1" }, { "name": "A", "value": "2" }] }),
                found(
                    json!({ "env": [{ "name": "A", "value": "1" }, { "name": "A", "value": "2" }, { "name": "B" }] }),
                    &[("helm", json!({ "f:env": { r#"k:{"name":"B"}"#: { ".": {}, "f:name": {} } } }))],
                ),
                Drift::Correct,
                json!({ "env": [{ "name": "A", "value": "1" }, { "name": "A", "value": "2" }, { "name": "B" }] }),
                vec![],
            ),
            // The order of atomic lists matters; defaults do not.
            (
                json!({ "args": ["a", "b"], "ports": [{ "port": 1 }] }),
                found(
                    json!({ "args": ["b", "a"], "ports": [{ "port": 1, "protocol": "TCP" }] }),
                    &[("helm", json!({ "f:args": {}, "f:ports": {} }))],
                ),
                Drift::Report,
                json!({ "args": ["b", "a"], "ports": [{ "port": 1 }] }),
                vec!["helm changed .spec.args"],
            ),
        ] {
            let mut yielded = json!({ "spec": desired });
            assert_eq!(keep_foreign_fields(&mut yielded, &found, drift), left, "{found}");
            assert_eq!(yielded["spec"], expected, "{found}");
        }
    }
}
