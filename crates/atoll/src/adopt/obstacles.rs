//! Messages about objects that cannot be adopted.

use atoll_fleet::adoption::Obstacle;
use atoll_fleet::references;
use atoll_meta::names::{dns1123_subdomain, path_segment_name};
use atoll_meta::object;
use serde_json::Value;

use crate::advice::{Failure, invocation};

/// Whether an API group is one of Kubernetes' own.
pub fn is_kubernetes(group: &str) -> bool {
    !group.contains('.') || group.ends_with(".k8s.io")
}

pub fn unknown_resource(word: &str) -> Failure {
    Failure::new(
        format!("the server has no resource type {word:?}"),
        "list the resource types with: kubectl api-resources",
    )
}

pub fn in_namespace(namespace: &str) -> String {
    if namespace.is_empty() { String::new() } else { format!(" in namespace {namespace}") }
}

pub fn namespace_flag(namespace: &str) -> String {
    if namespace.is_empty() { String::new() } else { format!(" --namespace {namespace}") }
}

pub fn obstacle_failure(shown: &str, obstacle: &Obstacle) -> Failure {
    match obstacle {
        Obstacle::Owned { kind, name } => Failure::new(
            format!("{shown} is owned by {kind} {name}"),
            format!("adopt that instead: {} adopt {}/{name}", invocation(), kind.to_lowercase()),
        ),
        Obstacle::Deleting => {
            Failure::new(format!("{shown} is being deleted in the cluster"), "there is nothing left to adopt")
        }
        Obstacle::OtherControlPlane(id) => Failure::new(
            format!("{shown} belongs to another control plane, {id}"),
            format!("release it there first: {} release", invocation()),
        ),
        Obstacle::OtherWorkspace(id) => Failure::new(
            format!("{shown} belongs to another workspace of this control plane, {id}"),
            format!("release it there first: {} release", invocation()),
        ),
        Obstacle::Generated => Failure::new(
            format!("{shown} is created by every cluster for itself"),
            "it stays as it is; no action is needed",
        ),
    }
}

/// Returns why an object with an impossible name, or with a reference to such a name, cannot be adopted. Only a
/// hostile cluster has such objects.
pub fn name_failure(shown: &str, found: &Value) -> Option<Failure> {
    let hint = "correct the object in the cluster";
    if !path_segment_name(object::name(found)).is_empty() {
        return Some(Failure::new(format!("{shown} has a name that is not valid"), hint));
    }
    let bad = references(found).into_iter().find(|one| !dns1123_subdomain(&one.name).is_empty())?;
    let message = format!("{shown} refers to {} {:?}, which is not a valid name", bad.resource, bad.name);
    Some(Failure::new(message, hint))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_must_be_possible() {
        let pod = |name: &str, secret: &str| {
            let volume = json!({ "name": "v", "secret": { "secretName": secret } });
            json!({ "kind": "Pod", "metadata": { "name": name }, "spec": { "volumes": [volume] } })
        };
        assert_eq!(name_failure("Pod a", &pod("a", "top.secret")), None);
        let reference = name_failure("Pod a", &pod("a", "../../x")).unwrap();
        assert_eq!(reference.message, "Pod a refers to secrets \"../../x\", which is not a valid name");
        let name = name_failure("Pod a/b", &pod("a/b", "top")).unwrap();
        assert_eq!(name.message, "Pod a/b has a name that is not valid");
    }

    #[test]
    fn failures_have_hints() {
        let owned = Obstacle::Owned { kind: "Deployment".into(), name: "web".into() };
        let failure = obstacle_failure("ReplicaSet shop/web-1", &owned);
        assert_eq!(failure.message, "ReplicaSet shop/web-1 is owned by Deployment web");
        assert_eq!(failure.hint.as_deref(), Some("adopt that instead: atoll adopt deployment/web"));
        for obstacle in [
            Obstacle::Deleting,
            Obstacle::Generated,
            Obstacle::OtherControlPlane("x".into()),
            Obstacle::OtherWorkspace("x".into()),
        ] {
            assert!(obstacle_failure("ConfigMap a", &obstacle).hint.is_some(), "{obstacle:?}");
        }
    }

    #[test]
    fn only_groups_of_kubernetes_are_built_in() {
        for (group, expected) in
            [("", true), ("apps", true), ("networking.k8s.io", true), ("example.com", false)]
        {
            assert_eq!(is_kubernetes(group), expected, "{group}");
        }
    }
}
