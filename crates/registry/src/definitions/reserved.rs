//! Reserved names of CustomResourceDefinitions: those of built-in resources, and everything in Atoll's own
//! groups.
//!
//! A definition that shadows a built-in resource would serve objects that other parts of the server treat as
//! built-in ones. All built-in resources are reserved regardless of the profile, which may change at the next
//! start.

use std::collections::HashSet;
use std::sync::LazyLock;

use atoll_meta::{FieldError, FieldPath};
use serde_json::Value;

use crate::catalog::{ATOLL, METRICS, metrics_rows};

static BUILT_IN: LazyLock<HashSet<(String, String)>> = LazyLock::new(|| {
    let known = atoll_schema::resources().iter();
    let known = known.map(|resource| (resource.group.to_string(), resource.resource.to_string()));
    known.chain(metrics_rows().map(|row| (METRICS.to_string(), row.resource))).collect()
});

/// Whether Kubernetes or Atoll has a resource of this name, in any version.
pub fn is_built_in(group: &str, resource: &str) -> bool {
    is_own_group(group) || BUILT_IN.contains(&(group.to_string(), resource.to_string()))
}

fn is_own_group(group: &str) -> bool {
    group.strip_suffix(ATOLL).is_some_and(|before| before.is_empty() || before.ends_with('.'))
}

/// The reason why a group and a resource cannot be defined; `None` if they can.
pub fn reserved_reason(group: &str, resource: &str) -> Option<String> {
    if is_own_group(group) {
        return Some(format!(
            "the group {ATOLL} and those below it are reserved for Atoll; choose another group"
        ));
    }
    is_built_in(group, resource)
        .then(|| format!("{resource}.{group} is a built-in resource; choose another name or another group"))
}

/// Validation errors of the names of a new definition.
pub fn validate(definition: &Value) -> Vec<FieldError> {
    let spec = &definition["spec"];
    let (group, names) = (spec["group"].as_str().unwrap_or_default(), &spec["names"]);
    let plural = names["plural"].as_str().unwrap_or_default();
    let path = match is_own_group(group) {
        true => FieldPath::new("spec").child("group"),
        false => FieldPath::new("spec").child("names").child("plural"),
    };
    reserved_reason(group, plural).map(|reason| FieldError::forbidden(&path, &reason)).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_resources_cannot_be_defined() {
        for (group, resource, expected) in [
            ("atoll.dev", "workspaces", true),
            ("atoll.dev", "widgets", true),
            ("internal.atoll.dev", "identity", true),
            ("a.b.atoll.dev", "widgets", true),
            ("notatoll.dev", "widgets", false),
            ("atoll.dev.example.com", "widgets", false),
            ("apps", "deployments", true),
            ("apps", "widgets", false),
            ("certificates.k8s.io", "certificatesigningrequests", true),
            ("rbac.authorization.k8s.io", "clusterrolebindings", true),
            ("metrics.k8s.io", "pods", true),
            ("gateway.networking.k8s.io", "gateways", false),
            ("example.com", "deployments", false),
        ] {
            assert_eq!(reserved_reason(group, resource).is_some(), expected, "{resource}.{group}");
        }
    }
}
