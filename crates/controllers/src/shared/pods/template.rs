//! Builds pods from templates.

// upstream: pkg/controller/controller_utils.go

use atoll_informer::Resource;
use atoll_meta::object;
use serde_json::{Map, Value, json};

const MAX_NAME_LENGTH: usize = 253;

/// Returns the owner reference to the controller `owner`, which is one of `owners`.
pub fn controller_reference(owners: &Resource, owner: &Value) -> Value {
    json!({
        "apiVersion": owners.api_version(),
        "kind": owners.kind,
        "name": object::name(owner),
        "uid": object::uid(owner),
        "controller": true,
        "blockOwnerDeletion": true,
    })
}

/// Returns a pod with the template's metadata and spec, a generated name, and `owner` as its controller.
pub fn from_template(owners: &Resource, owner: &Value, template: &Value) -> Value {
    let mut metadata = Map::new();
    for field in ["labels", "annotations", "finalizers"] {
        if let Some(value) = object::metadata(template).and_then(|metadata| metadata.get(field)) {
            metadata.insert(field.into(), value.clone());
        }
    }
    let name = object::name(owner);
    let dash = if name.len() < MAX_NAME_LENGTH { "-" } else { "" };
    metadata.insert("generateName".into(), format!("{name}{dash}").into());
    metadata.insert("ownerReferences".into(), json!([controller_reference(owners, owner)]));
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]})
}

#[cfg(test)]
mod tests {
    use atoll_informer::resources::REPLICA_SETS;

    use super::*;

    #[test]
    fn pods_follow_their_template() {
        let owner = json!({"metadata": {"name": "web", "uid": "u", "namespace": "n"}});
        let template = json!({
            "metadata": {
                "labels": {"app": "web"}, "annotations": {"a": "b"}, "finalizers": ["f/f"],
                "name": "ignored", "creationTimestamp": null,
            },
            "spec": {"containers": [{"name": "c"}]},
        });
        let reference = json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u",
            "controller": true, "blockOwnerDeletion": true,
        });
        let wanted = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "generateName": "web-", "labels": {"app": "web"}, "annotations": {"a": "b"},
                "finalizers": ["f/f"], "ownerReferences": [reference],
            },
            "spec": {"containers": [{"name": "c"}]},
        });
        assert_eq!(from_template(&REPLICA_SETS, &owner, &template), wanted);
        let long = json!({"metadata": {"name": "w".repeat(253)}});
        let pod = from_template(&REPLICA_SETS, &long, &template);
        assert_eq!(object::generate_name(&pod), "w".repeat(253), "no room for a dash");
    }
}
