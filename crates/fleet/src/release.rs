//! Release: removes all traces of Atoll from an object in a cluster.

use serde_json::{Map, Value, json};

use crate::marks;

/// Field manager that takes over the fields: Kubernetes' name for the manager of fields set before the first
/// apply.
const SUCCESSOR: &str = "before-first-apply";

/// Returns a merge patch that removes the marks from an object and hands over the fields that only Atoll
/// owned.
pub fn release(found: &Value) -> Value {
    let mut metadata = removed_marks(found);
    if let Some(managers) = found["metadata"]["managedFields"].as_array() {
        let rest = hand_over(managers);
        // An empty list would count as absent.
        metadata.insert("managedFields".into(), if rest.is_empty() { json!([{}]) } else { rest.into() });
    }
    json!({ "metadata": metadata })
}

/// Returns the labels and annotations to remove, as nulls.
fn removed_marks(found: &Value) -> Map<String, Value> {
    let ours = |field: &str| -> Map<String, Value> {
        let names = found["metadata"][field].as_object().into_iter().flatten().map(|(name, _)| name);
        names.filter(|name| is_mark(name)).map(|name| (name.clone(), Value::Null)).collect()
    };
    let mut metadata = Map::new();
    for field in ["labels", "annotations"] {
        let ours = ours(field);
        if !ours.is_empty() {
            metadata.insert(field.into(), ours.into());
        }
    }
    metadata
}

fn is_mark(name: &str) -> bool {
    name.starts_with(marks::PREFIX)
}

/// Returns the managed fields without Atoll's entries: fields that no other manager owns go to the successor.
fn hand_over(managers: &[Value]) -> Vec<Value> {
    let is_ours = |entry: &Value| entry["manager"].as_str().is_some_and(is_own_manager);
    let (ours, others): (Vec<&Value>, Vec<&Value>) = managers.iter().partition(|entry| is_ours(entry));
    let mut rest: Vec<Value> = others.into_iter().cloned().collect();
    for entry in &mut rest {
        remove_marks(&mut entry["fieldsV1"]);
    }
    for entry in ours {
        let mut fields = entry["fieldsV1"].clone();
        remove_marks(&mut fields);
        for other in rest.iter().filter(|other| other["subresource"] == entry["subresource"]) {
            subtract(&mut fields, &other["fieldsV1"]);
        }
        if fields.as_object().is_none_or(Map::is_empty) {
            continue;
        }
        let is_successor = |other: &&mut Value| {
            other["manager"] == SUCCESSOR
                && ["apiVersion", "subresource"].iter().all(|field| other[*field] == entry[*field])
        };
        match rest.iter_mut().find(is_successor) {
            Some(successor) => merge_fields(&mut successor["fieldsV1"], &fields),
            None => {
                let mut successor = entry.clone();
                successor["manager"] = SUCCESSOR.into();
                successor["operation"] = "Update".into();
                successor["fieldsV1"] = fields;
                rest.push(successor);
            }
        }
    }
    rest.retain(|entry| entry["fieldsV1"].as_object().is_some_and(|fields| !fields.is_empty()));
    rest
}

/// Whether a manager is one of Atoll's field managers.
fn is_own_manager(manager: &str) -> bool {
    [marks::MANAGER, marks::ADOPTER].contains(&manager)
}

/// Removes marks from a set of fields.
fn remove_marks(fields: &mut Value) {
    for field in ["f:labels", "f:annotations"] {
        let Some(metadata) = fields.get_mut("f:metadata").and_then(Value::as_object_mut) else { return };
        if let Some(names) = metadata.get_mut(field).and_then(Value::as_object_mut) {
            names.retain(|name, _| !name.strip_prefix("f:").is_some_and(is_mark));
            if names.keys().all(|name| name == ".") {
                metadata.remove(field);
            }
        }
    }
    let is_bare = fields["f:metadata"].as_object().is_some_and(Map::is_empty);
    if let Some(fields) = fields.as_object_mut().filter(|_| is_bare) {
        fields.remove("f:metadata");
    }
}

/// Adds a set of managed fields to another.
pub fn merge_fields(into: &mut Value, from: &Value) {
    let (Some(into), Some(from)) = (into.as_object_mut(), from.as_object()) else { return };
    for (key, value) in from {
        match into.get_mut(key) {
            Some(inner) => merge_fields(inner, value),
            None => drop(into.insert(key.clone(), value.clone())),
        }
    }
}

/// Removes the fields of another set, and parents without fields.
fn subtract(from: &mut Value, other: &Value) {
    let (Some(from), Some(other)) = (from.as_object_mut(), other.as_object()) else { return };
    from.retain(|key, value| {
        let Some(other_value) = other.get(key) else { return true };
        if value.as_object().is_none_or(Map::is_empty) {
            return false;
        }
        subtract(value, other_value);
        !value.as_object().is_some_and(Map::is_empty)
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_marks_and_own_fields_are_removed() {
        let ours = json!({
            "f:metadata": {
                "f:labels": { "f:app": {}, "f:atoll.dev/control-plane": {} },
                "f:annotations": { "f:atoll.dev/uid": {} },
            },
            "f:spec": { "f:replicas": {}, "f:paused": {} },
        });
        let other_value = json!({ "f:spec": { "f:replicas": {} } });
        let object = json!({ "metadata": {
            "labels": { "atoll.dev/control-plane": "id", "app": "web" },
            "annotations": { "atoll.dev/uid": "u", "note": "mine" },
            "managedFields": [
                { "manager": "atoll", "operation": "Apply", "apiVersion": "apps/v1", "fieldsV1": ours },
                { "manager": "kubectl", "operation": "Update", "apiVersion": "apps/v1", "fieldsV1": other_value },
                { "manager": "atoll-adopt", "operation": "Update", "apiVersion": "apps/v1",
                  "fieldsV1": { "f:metadata": { "f:annotations": { ".": {}, "f:atoll.dev/released": {} } } } },
            ],
        } });
        assert_eq!(
            release(&object),
            json!({ "metadata": {
                "labels": { "atoll.dev/control-plane": null }, "annotations": { "atoll.dev/uid": null },
                "managedFields": [
                    { "manager": "kubectl", "operation": "Update", "apiVersion": "apps/v1", "fieldsV1": other_value },
                    { "manager": "before-first-apply", "operation": "Update", "apiVersion": "apps/v1", "fieldsV1": {
                        "f:metadata": { "f:labels": { "f:app": {} } }, "f:spec": { "f:paused": {} },
                    } },
                ],
            } })
        );
    }

    #[test]
    fn fields_with_another_owner_need_no_successor() {
        let fields = json!({ "f:data": { ".": {}, "f:a": {} } });
        let entry = |manager: &str| json!({ "manager": manager, "operation": "Update", "apiVersion": "v1", "fieldsV1": fields });
        let object = json!({ "metadata": { "managedFields": [entry("atoll"), entry("helm")] } });
        assert_eq!(release(&object), json!({ "metadata": { "managedFields": [entry("helm")] } }));
        let alone = json!({ "metadata": { "managedFields": [entry("atoll")] } });
        assert_eq!(release(&alone)["metadata"]["managedFields"], json!([entry("before-first-apply")]));
        let nothing = json!({ "metadata": { "managedFields": [{ "manager": "atoll", "fieldsV1": {} }] } });
        assert_eq!(release(&nothing)["metadata"]["managedFields"], json!([{}]));
        let plain = json!({ "metadata": { "labels": { "app": "web" } } });
        assert_eq!(release(&plain), json!({ "metadata": {} }));
    }
}
