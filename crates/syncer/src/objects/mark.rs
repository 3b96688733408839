//! Marks of objects in a cluster, and the configuration that is sent for an object.

use atoll_fleet::marks;
use atoll_fleet::view::ObjectTarget;
use atoll_meta::object;
use serde_json::{Map, Value};

/// The marks of an object in a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark<'a> {
    pub control_plane: &'a str,
    pub workspace: &'a str,
    pub uid: &'a str,
    /// Namespace and name above.
    pub source: &'a str,
    /// Whether the object is being released.
    pub is_released: bool,
}

impl<'a> Mark<'a> {
    pub fn of(found: &'a Value) -> Mark<'a> {
        let annotation = |key| object::annotation(found, key).unwrap_or_default();
        Mark {
            control_plane: object::label(found, marks::CONTROL_PLANE).unwrap_or_default(),
            workspace: annotation(marks::WORKSPACE),
            uid: annotation(marks::UID),
            source: annotation(marks::SOURCE),
            is_released: object::annotation(found, marks::RELEASED).is_some(),
        }
    }

    /// Returns the namespace and name above.
    pub fn origin(&self) -> (&'a str, &'a str) {
        self.source.split_once('/').unwrap_or(("", self.source))
    }

    /// Whether the object was created for exactly this target.
    pub fn is_of(&self, control_plane: &str, target: &ObjectTarget) -> bool {
        !self.is_released
            && !control_plane.is_empty()
            && !target.uid.is_empty()
            && self.control_plane == control_plane
            && self.workspace == target.workspace
            && self.uid == target.uid
    }

    /// Returns a message why the object does not belong to `target`.
    pub fn conflict_message(&self, control_plane: &str, target: &ObjectTarget) -> String {
        let what = match target.namespace.is_empty() {
            true => format!("{} {:?}", target.resource.kind, target.name),
            false => {
                format!("{} {:?} in namespace {:?}", target.resource.kind, target.name, target.namespace)
            }
        };
        match self.control_plane {
            _ if self.is_released => format!("{what} is being released in the cluster"),
            "" if self.uid == target.uid => {
                format!("{what} has lost the label {} in the cluster; it is left alone", marks::CONTROL_PLANE)
            }
            "" => format!(
                "{what} exists in the cluster and was not made by Atoll; adopt it or rename one of the two"
            ),
            other if other != control_plane => {
                format!("{what} exists in the cluster and belongs to another control plane, {other}")
            }
            _ => format!(
                "{what} exists in the cluster and was made for another object, uid {} of workspace {}",
                self.uid, self.workspace
            ),
        }
    }
}

/// Returns the configuration of a shaped object in its namespace below, with marks.
pub fn configuration(
    shaped: &Value,
    target: &ObjectTarget,
    namespace: &str,
    control_plane: &str,
    generation: i64,
    applied: &str,
) -> Value {
    let mut sent = shaped.clone();
    let (group, version) = (&target.resource.group, &target.resource.version);
    let api_version = if group.is_empty() { version.clone() } else { format!("{group}/{version}") };
    object::set_type(&mut sent, &api_version, &target.resource.kind);
    if let Some(content) = sent.as_object_mut() {
        content.remove("status");
    }
    let mut metadata = Map::new();
    // Finalizers are not copied: they belong to controllers above.
    for field in ["labels", "annotations"] {
        if let Some(kept) = shaped["metadata"].get(field).filter(|value| !value.is_null()) {
            metadata.insert(field.into(), kept.clone());
        }
    }
    *object::metadata_mut(&mut sent) = metadata;
    object::set_name(&mut sent, &target.name);
    if target.resource.namespaced {
        object::set_namespace(&mut sent, namespace);
    }
    object::set_label(&mut sent, marks::CONTROL_PLANE, control_plane);
    let source = format!("{}/{}", target.namespace, target.name);
    let generation = generation.to_string();
    for (key, value) in [
        (marks::WORKSPACE, target.workspace.as_str()),
        (marks::UID, &target.uid),
        (marks::SOURCE, &source),
        (marks::GENERATION, &generation),
        (marks::APPLIED, applied),
    ] {
        object::set_annotation(&mut sent, key, value);
    }
    sent
}

#[cfg(test)]
mod tests {
    use atoll_fleet::view::SyncResource;
    use serde_json::json;

    use super::*;

    fn target() -> ObjectTarget {
        ObjectTarget {
            resource: SyncResource {
                group: "apps".into(),
                version: "v1".into(),
                resource: "deployments".into(),
                kind: "Deployment".into(),
                namespaced: true,
            },
            workspace: "w".into(),
            namespace: "shop".into(),
            name: "web".into(),
            uid: "u".into(),
        }
    }

    #[test]
    fn configuration_has_marks() {
        let shaped = json!({
            "metadata": {"name": "web", "namespace": "shop", "uid": "u", "labels": {"app": "web"}, "finalizers": ["x"]},
            "spec": {"replicas": 2}, "status": {"replicas": 1},
        });
        let sent = configuration(&shaped, &target(), "shop-1", "cp", 4, "h");
        let desired = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {
                "name": "web", "namespace": "shop-1", "labels": {"app": "web", "atoll.dev/control-plane": "cp"},
                "annotations": {
                    "atoll.dev/workspace": "w", "atoll.dev/uid": "u", "atoll.dev/source": "shop/web",
                    "atoll.dev/generation": "4", "atoll.dev/applied": "h",
                },
            },
            "spec": {"replicas": 2},
        });
        assert_eq!(sent, desired);
        let mark = Mark::of(&sent);
        assert_eq!(mark.origin(), ("shop", "web"));
        assert!(mark.is_of("cp", &target()));
    }

    #[test]
    fn object_is_managed_only_with_all_marks() {
        let whole = configuration(&json!({}), &target(), "shop", "cp", 1, "h");
        let without = |pointer: &str, value: Value| {
            let mut found = whole.clone();
            *found.pointer_mut(pointer).expect("the field exists") = value;
            found
        };
        for (found, words) in [
            (without("/metadata/labels", json!({})), "has lost the label"),
            (without("/metadata", json!({"name": "web"})), "was not made by Atoll"),
            (without("/metadata/labels/atoll.dev~1control-plane", json!("x")), "another control plane, x"),
            (without("/metadata/annotations/atoll.dev~1uid", json!("x")), "another object, uid x"),
            (without("/metadata/annotations/atoll.dev~1workspace", json!("x")), "of workspace x"),
        ] {
            let mark = Mark::of(&found);
            assert!(!mark.is_of("cp", &target()), "{found}");
            let message = mark.conflict_message("cp", &target());
            assert!(message.contains(words), "{message}");
        }
        assert!(
            !Mark::of(&json!({})).is_of("", &ObjectTarget::default()),
            "an object without marks belongs to no target"
        );
    }
}
