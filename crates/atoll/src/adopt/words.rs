//! Words for what cannot be adopted.

use atoll_fleet::adoption::Obstacle;

use crate::advice::{Failure, invocation};

/// Groups that Kubernetes has itself.
pub fn is_kubernetes(group: &str) -> bool {
    !group.contains('.') || group.ends_with(".k8s.io")
}

pub fn unknown(word: &str) -> Failure {
    Failure::new(
        format!("the server has no resource type {word:?}"),
        "see what there is with: kubectl api-resources",
    )
}

pub fn inside(namespace: &str) -> String {
    if namespace.is_empty() { String::new() } else { format!(" in namespace {namespace}") }
}

pub fn there(namespace: &str) -> String {
    if namespace.is_empty() { String::new() } else { format!(" --namespace {namespace}") }
}

pub fn refused(shown: &str, obstacle: &Obstacle) -> Failure {
    match obstacle {
        Obstacle::Owned { kind, name } => Failure::new(
            format!("{shown} was made by {kind} {name}"),
            format!("adopt that instead: {} adopt {}/{name}", invocation(), kind.to_lowercase()),
        ),
        Obstacle::Going => {
            Failure::new(format!("{shown} is being deleted in the cluster"), "there is nothing left to adopt")
        }
        Obstacle::OtherControlPlane(id) => Failure::new(
            format!("{shown} belongs to another control plane, {id}"),
            format!("let go of it there first: {} release", invocation()),
        ),
        Obstacle::OtherWorkspace(id) => Failure::new(
            format!("{shown} belongs to another workspace of this control plane, {id}"),
            format!("let go of it there first: {} release", invocation()),
        ),
        Obstacle::Generated => Failure::new(
            format!("{shown} is one that every cluster makes for itself"),
            "it stays where it is; nothing has to be done",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_say_what_to_do() {
        let owned = Obstacle::Owned { kind: "Deployment".into(), name: "web".into() };
        let failure = refused("ReplicaSet shop/web-1", &owned);
        assert_eq!(failure.what, "ReplicaSet shop/web-1 was made by Deployment web");
        assert_eq!(failure.next.as_deref(), Some("adopt that instead: atoll adopt deployment/web"));
        for obstacle in [
            Obstacle::Going,
            Obstacle::Generated,
            Obstacle::OtherControlPlane("x".into()),
            Obstacle::OtherWorkspace("x".into()),
        ] {
            assert!(refused("ConfigMap a", &obstacle).next.is_some(), "{obstacle:?}");
        }
    }

    #[test]
    fn only_kubernetes_own_groups_are_meant_by_all() {
        for (group, expected) in
            [("", true), ("apps", true), ("networking.k8s.io", true), ("example.com", false)]
        {
            assert_eq!(is_kubernetes(group), expected, "{group}");
        }
    }
}
