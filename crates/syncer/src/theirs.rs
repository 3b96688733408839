//! Fields that other writers own in an object that cannot be applied. Determines which of them a server-side
//! apply would leave to those writers, for a replace of the object. Pure.

use atoll_fleet::marks;
use serde_json::{Map, Value};

use crate::drift::{covers, is_controller};
use crate::reconcile::our_fields;
use crate::settings::Drift;

/// Copies into the desired object the fields of `found` that other writers keep. Returns messages about the
/// changes that are left.
pub fn yield_to(wanted: &mut Value, found: &Value, drift: Drift) -> Vec<String> {
    let ours = our_fields(found);
    let mut left = Vec::new();
    for entry in found["metadata"]["managedFields"].as_array().into_iter().flatten() {
        let manager = entry["manager"].as_str().unwrap_or_default();
        let keeps = match (is_controller(manager), drift) {
            _ if manager == marks::MANAGER => continue,
            (true, _) => Keeps::Everything,
            (false, Drift::Report) => Keeps::WhatIsNotOurs,
            (false, Drift::Correct) => Keeps::Items,
        };
        let mut others = Others { keeps, path: String::new(), kept: Vec::new() };
        others.fields(wanted, found, &entry["fieldsV1"], &ours);
        if keeps == Keeps::WhatIsNotOurs {
            left.extend(others.kept.into_iter().map(|path| format!("{manager} changed {path}")));
        }
    }
    left.sort_unstable();
    left.dedup();
    left
}

/// Fields that another writer keeps although the desired object differs. All writers keep list items that are
/// not in the desired object.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keeps {
    Everything,
    /// Fields that the syncer does not own. Fields that it also owns have not been changed since it set them.
    WhatIsNotOurs,
    Items,
}

struct Others {
    keeps: Keeps,
    /// Path of the current field, in the format of field managers.
    path: String,
    kept: Vec<String>,
}

impl Others {
    fn fields(&mut self, wanted: &mut Value, found: &Value, theirs: &Value, ours: &Value) {
        for (key, inner) in theirs.as_object().into_iter().flatten() {
            let ours = &ours[key];
            let before = self.path.len();
            if let (Some(name), Some(fields)) = (key.strip_prefix("f:"), wanted.as_object_mut()) {
                self.path.push('.');
                self.path.push_str(name);
                self.field(fields, name, &found[name], inner, ours);
            } else if let (Some(keys), Some(items)) = (key.strip_prefix("k:"), wanted.as_array_mut())
                && let Ok(keys) = serde_json::from_str::<Map<String, Value>>(keys)
            {
                let names: Vec<String> = keys.iter().map(|(name, value)| format!("{name}={value}")).collect();
                self.path.push_str(&format!("[{}]", names.join(",")));
                self.items(items, &keys, found, inner, ours);
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
        ours: &Value,
    ) {
        // Fields that are not in the desired object are not touched anyway.
        let Some(value) = fields.get_mut(name) else { return };
        if !is_whole(inner) {
            return self.fields(value, found, inner, ours);
        }
        if !is_same(value, found) && self.keep(ours) {
            value.clone_from(found);
        }
    }

    fn items(
        &mut self,
        wanted: &mut Vec<Value>,
        keys: &Map<String, Value>,
        found: &Value,
        inner: &Value,
        ours: &Value,
    ) {
        // A missing key field has its default value.
        let is_it =
            |item: &Value| keys.iter().all(|(name, value)| item.get(name).is_none_or(|own| own == value));
        let there: Vec<&Value> = found.as_array().into_iter().flatten().filter(|item| is_it(item)).collect();
        let positions: Vec<usize> =
            wanted.iter().enumerate().filter(|(_, item)| is_it(item)).map(|(position, _)| position).collect();
        match (positions.as_slice(), there.as_slice()) {
            (_, []) => {}
            ([], there) => {
                if ours.is_null() {
                    wanted.extend(there.iter().map(|item| (*item).clone()));
                }
            }
            ([position], [item]) if !is_whole(inner) => {
                self.fields(&mut wanted[*position], item, inner, ours)
            }
            // Several items with one key: their owners cannot be told apart.
            (positions, there) => {
                let are_same = positions.len() == there.len()
                    && positions.iter().zip(there).all(|(position, item)| is_same(&wanted[*position], item));
                if !are_same && self.keep(ours) {
                    let first = positions[0];
                    let mut position = 0..;
                    wanted.retain(|_| !position.next().is_some_and(|position| positions.contains(&position)));
                    wanted.splice(first..first, there.iter().map(|item| (*item).clone()));
                }
            }
        }
    }

    /// Whether the other writer keeps the current field.
    fn keep(&mut self, ours: &Value) -> bool {
        let keeps = match self.keeps {
            Keeps::Everything => true,
            Keeps::WhatIsNotOurs => ours.is_null(),
            Keeps::Items => false,
        };
        if keeps {
            self.kept.push(self.path.clone());
        }
        keeps
    }
}

/// Whether a set of fields has no children.
fn is_whole(fields: &Value) -> bool {
    fields.as_object().is_none_or(|fields| fields.keys().all(|key| key == "."))
}

/// Whether the desired value equals the existing one, with lists in order, ignoring defaults of the cluster.
fn is_same(wanted: &Value, found: &Value) -> bool {
    match (wanted, found) {
        (Value::Array(wanted), Value::Array(found)) => {
            wanted.len() == found.len()
                && wanted.iter().zip(found).all(|(wanted, found)| is_same(wanted, found))
        }
        _ => covers(wanted, found),
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
        for (wanted, found, drift, expected, left) in [
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
            let mut yielded = json!({ "spec": wanted });
            assert_eq!(yield_to(&mut yielded, &found, drift), left, "{found}");
            assert_eq!(yielded["spec"], expected, "{found}");
        }
    }
}
