//! Held shares: a cluster whose turn in a rollout has not come keeps its Pod template.

use atoll_merge::apply;
use atoll_meta::object;
use serde_json::Value;

use crate::marks;

/// Whether a shape has a Pod template that can be held.
pub fn has_template(shape: &Value) -> bool {
    shape["spec"]["template"].is_object()
}

/// Returns the Pod template of an object in a cluster as the syncer has applied it: the fields that it owns.
pub fn applied_template(found: &Value) -> Option<Value> {
    let mut own = found.clone();
    let entries = object::metadata_mut(&mut own).get_mut("managedFields")?.as_array_mut()?;
    entries.retain(|entry| entry["manager"] == marks::MANAGER);
    let mut fields = apply::extract(&own)?;
    let template = fields.get_mut("spec")?.get_mut("template")?.take();
    template.is_object().then_some(template)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn template_has_only_the_fields_of_the_syncer() {
        let entry = |manager: &str, fields: Value| {
            json!({
                "manager": manager, "operation": "Apply", "apiVersion": "apps/v1", "fieldsType": "FieldsV1",
                "fieldsV1": { "f:spec": { "f:template": { "f:spec": fields } } },
            })
        };
        let container =
            json!({ "f:containers": { "k:{\"name\":\"a\"}": { ".": {}, "f:name": {}, "f:image": {} } } });
        let found = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": { "managedFields": [entry("atoll", container), entry("other", json!({ "f:hostNetwork": {} }))] },
            "spec": { "replicas": 3, "template": { "spec": {
                "containers": [{ "name": "a", "image": "a:1", "imagePullPolicy": "Always" }], "hostNetwork": true,
            } } },
        });
        let expected = json!({ "spec": { "containers": [{ "name": "a", "image": "a:1" }] } });
        assert_eq!(applied_template(&found), Some(expected));
        assert_eq!(applied_template(&json!({ "metadata": { "managedFields": [] } })), None);
        assert_eq!(applied_template(&json!({})), None);
        assert!(has_template(&found) && !has_template(&json!({ "spec": {} })));
    }
}
