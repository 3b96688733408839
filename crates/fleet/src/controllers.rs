//! Who Pods are where they run: a controller is a workload whose account has rights, and rights do not go to clusters.

use serde_json::Value;

use crate::references::POD_SPECS;

/// The account of an object's Pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Account<'a> {
    pub name: &'a str,
    /// Whether its token is put into them; `None` leaves that to the account.
    pub token: Option<bool>,
}

/// Who the Pods of an object are, if it has any.
pub fn account(object: &Value) -> Option<Account<'_>> {
    let spec = POD_SPECS.iter().find_map(|path| object.pointer(path)).filter(|spec| spec.is_object())?;
    let named = ["serviceAccountName", "serviceAccount"].iter().filter_map(|field| spec[*field].as_str());
    let name = named.into_iter().find(|name| !name.is_empty()).unwrap_or("default");
    let token =
        if asks_for_token(spec) { Some(true) } else { spec["automountServiceAccountToken"].as_bool() };
    Some(Account { name, token })
}

/// Whether a volume has a token in it, whatever else is said.
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
    fn pods_are_somebody() {
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
                json!({ "kind": "Deployment", "spec": { "template": { "spec": spec } } }),
                json!({ "kind": "CronJob", "spec": { "jobTemplate": { "spec": { "template": { "spec": spec } } } } }),
            ] {
                assert_eq!(account(&object), Some(expected), "{object}");
            }
        }
        assert_eq!(account(&json!({ "kind": "ConfigMap", "data": {} })), None);
    }
}
