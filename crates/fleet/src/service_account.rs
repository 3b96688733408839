//! The ServiceAccount of an object's Pods. A workload whose account has permissions is a controller, and
//! permissions are not placed on clusters.

use atoll_meta::object;
use serde_json::Value;

use crate::references::POD_SPECS;

/// The ServiceAccount of an object's Pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Account<'a> {
    pub name: &'a str,
    /// Whether its token is mounted; `None` leaves that to the ServiceAccount.
    pub token: Option<bool>,
}

/// Returns the ServiceAccount of an object's Pods, if it has a Pod template.
pub fn account(object: &Value) -> Option<Account<'_>> {
    let spec = match object::kind(object) {
        "Pod" => object.get("spec"),
        _ => POD_SPECS.iter().find_map(|path| object.pointer(path)),
    };
    let spec = spec.filter(|spec| spec.is_object())?;
    let named = ["serviceAccountName", "serviceAccount"].iter().filter_map(|field| spec[*field].as_str());
    let name = named.into_iter().find(|name| !name.is_empty()).unwrap_or("default");
    let token =
        if asks_for_token(spec) { Some(true) } else { spec["automountServiceAccountToken"].as_bool() };
    Some(Account { name, token })
}

/// Whether a projected volume contains a token, regardless of `automountServiceAccountToken`.
fn asks_for_token(spec: &Value) -> bool {
    let volumes = spec["volumes"].as_array().into_iter().flatten();
    let mut sources =
        volumes.flat_map(|volume| volume["projected"]["sources"].as_array().into_iter().flatten());
    sources.any(|source| source.get("serviceAccountToken").is_some_and(|token| !token.is_null()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pods_have_a_service_account() {
        let projected = json!([{ "projected": { "sources": [{ "serviceAccountToken": { "path": "t" } }] } }]);
        for (spec, expected) in [
            (json!({}), Account { name: "default", token: None }),
            (json!({ "serviceAccountName": "a" }), Account { name: "a", token: None }),
            (json!({ "serviceAccount": "a" }), Account { name: "a", token: None }),
            (
                json!({ "serviceAccountName": "a", "automountServiceAccountToken": false }),
                Account { name: "a", token: Some(false) },
            ),
            (
                json!({ "automountServiceAccountToken": false, "volumes": projected }),
                Account { name: "default", token: Some(true) },
            ),
        ] {
            for object in [
                json!({ "kind": "Pod", "spec": spec }),
                json!({ "kind": "Deployment", "spec": { "template": { "spec": spec } } }),
                json!({ "kind": "CronJob", "spec": { "jobTemplate": { "spec": { "template": { "spec": spec } } } } }),
            ] {
                assert_eq!(account(&object), Some(expected), "{object}");
            }
        }
        assert_eq!(account(&json!({ "kind": "ConfigMap", "data": {} })), None);
    }
}
