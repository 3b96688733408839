//! Objects that select Pods: they are placed with the workloads whose Pods they select.

use atoll_meta::{LabelSelector, object};
use serde_json::{Map, Value};

/// Group and name of the resources whose objects select Pods.
pub const RESOURCES: [(&str, &str); 3] =
    [("", "services"), ("networking.k8s.io", "networkpolicies"), ("policy", "poddisruptionbudgets")];

/// Most requirements of a selector. Each is compared with every workload of the namespace.
const MAX_REQUIREMENTS: usize = 64;

/// The selector of an object of a kind; `None` if it selects no Pods, or is too long.
pub fn selector(kind: &str, object: &Value) -> Option<LabelSelector> {
    let spec = &object["spec"];
    let found = match kind {
        "Service" => {
            let pairs = spec["selector"].as_object()?;
            let is_usable = !pairs.is_empty() && pairs.len() <= MAX_REQUIREMENTS;
            if !is_usable || spec["type"] == "ExternalName" {
                return None;
            }
            LabelSelector::from_object(&serde_json::json!({ "matchLabels": pairs })).ok()
        }
        // An empty selector selects all Pods of the namespace.
        "PodDisruptionBudget" => LabelSelector::from_object(spec.get("selector")?).ok(),
        "NetworkPolicy" => LabelSelector::from_object(spec.get("podSelector")?).ok(),
        _ => None,
    };
    found.filter(|selector| selector.requirements().len() <= MAX_REQUIREMENTS)
}

/// The labels of the Pods of a workload.
pub fn pod_labels(workload: &Value) -> Option<&Map<String, Value>> {
    let templates = ["/spec/template/metadata/labels", "/spec/jobTemplate/spec/template/metadata/labels"];
    templates.iter().find_map(|path| workload.pointer(path)?.as_object())
}

/// Whether a selector selects the Pods of a workload.
pub fn selects(selector: &LabelSelector, workload: &Value) -> bool {
    let Some(labels) = pod_labels(workload) else { return false };
    let lookup = |key: &str| labels.get(key)?.as_str();
    !object::is_being_deleted(workload) && selector.matches(lookup)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_select_the_pods_of_workloads() {
        let web =
            json!({ "spec": { "template": { "metadata": { "labels": { "app": "web", "tier": "a" } } } } });
        let deleted = json!({
            "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" },
            "spec": { "template": { "metadata": { "labels": { "app": "web" } } } },
        });
        let nightly = json!({ "spec": { "jobTemplate": { "spec": { "template": { "metadata": { "labels": { "app": "web" } } } } } } });
        let long: Vec<Value> = (0..65)
            .map(|number| json!({ "key": format!("k{number}"), "operator": "DoesNotExist" }))
            .collect();
        let expression = json!([{ "key": "app", "operator": "In", "values": ["web", "api"] }]);
        for (kind, spec, workload, expected) in [
            ("Service", json!({ "selector": { "app": "web" } }), &web, true),
            ("Service", json!({ "selector": { "app": "web" } }), &nightly, true),
            ("Service", json!({ "selector": { "app": "web" } }), &deleted, false),
            ("Service", json!({ "selector": { "app": "web", "tier": "b" } }), &web, false),
            ("Service", json!({ "selector": {} }), &web, false),
            ("Service", json!({}), &web, false),
            ("Service", json!({ "selector": { "app": "web" }, "type": "ExternalName" }), &web, false),
            ("PodDisruptionBudget", json!({ "selector": { "matchLabels": { "app": "web" } } }), &web, true),
            ("PodDisruptionBudget", json!({ "selector": { "matchExpressions": expression } }), &web, true),
            ("PodDisruptionBudget", json!({ "selector": {} }), &web, true),
            ("PodDisruptionBudget", json!({}), &web, false),
            ("NetworkPolicy", json!({ "podSelector": {} }), &web, true),
            ("NetworkPolicy", json!({ "podSelector": { "matchLabels": { "app": "x" } } }), &web, false),
            ("ConfigMap", json!({ "selector": { "app": "web" } }), &web, false),
            ("NetworkPolicy", json!({ "podSelector": { "matchExpressions": long } }), &web, false),
        ] {
            let object = json!({ "spec": spec });
            let found = selector(kind, &object).is_some_and(|selector| selects(&selector, workload));
            assert_eq!(found, expected, "{kind} {object}");
        }
    }
}
