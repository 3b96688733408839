//! Adoption: bringing existing objects of a cluster under Atoll's management unchanged.

use atoll_meta::object;
use serde_json::{Map, Value};

use crate::references::EVERYWHERE;
use crate::shape::{is_local, shape};
use crate::{api_access, marks};

/// Annotation that kubectl compares with. It stays, because it describes what the user wrote.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Type of Secrets with a token of a ServiceAccount, which are valid in one cluster only.
const TOKEN: &str = "kubernetes.io/service-account-token";

/// Returns an object of a cluster as it is created above: without fields that the cluster has filled in.
pub fn portable(found: &Value) -> Value {
    let mut whole = found.clone();
    // Without managed fields, all fields count as set by a user.
    object::metadata_mut(&mut whole).remove("managedFields");
    let mut portable = shape(&whole, "", None);
    if let Some(applied) = object::annotation(found, LAST_APPLIED) {
        object::set_annotation(&mut portable, LAST_APPLIED, applied);
    }
    portable
}

/// Reason why an object in a cluster cannot be adopted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// A controller created it for another object, and would create it again.
    Owned {
        kind: String,
        name: String,
    },
    Deleting,
    OtherControlPlane(String),
    OtherWorkspace(String),
    /// Every cluster generates its own.
    Generated,
}

/// Returns why an object cannot be adopted into a workspace of a control plane, if so.
pub fn obstacle(found: &Value, control_plane: &str, workspace: &str) -> Option<Obstacle> {
    let mut owners = found["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    if let Some(owner) = owners.find(|owner| owner["controller"] == true) {
        let text = |field: &str| owner[field].as_str().unwrap_or_default().to_string();
        return Some(Obstacle::Owned { kind: text("kind"), name: text("name") });
    }
    if object::is_being_deleted(found) {
        return Some(Obstacle::Deleting);
    }
    if is_generated(found) {
        return Some(Obstacle::Generated);
    }
    let plane = object::label(found, marks::CONTROL_PLANE).unwrap_or_default();
    if !plane.is_empty() && plane != control_plane {
        return Some(Obstacle::OtherControlPlane(plane.to_string()));
    }
    let other_workspace = object::annotation(found, marks::WORKSPACE).unwrap_or_default();
    if !plane.is_empty() && !other_workspace.is_empty() && other_workspace != workspace {
        return Some(Obstacle::OtherWorkspace(other_workspace.to_string()));
    }
    None
}

/// Whether every cluster generates this object itself.
fn is_generated(found: &Value) -> bool {
    let (kind, name) = (object::kind(found), object::name(found));
    let of_every_namespace = [("ServiceAccount", "serviceaccounts"), ("ConfigMap", "configmaps")]
        .iter()
        .any(|(its_kind, resource)| kind == *its_kind && EVERYWHERE.contains(&(*resource, name)));
    let is_token = kind == "Secret" && (found["type"] == TOKEN || found["type"] == api_access::SECRET_TYPE);
    let is_api = kind == "Service" && (object::namespace(found), name) == ("default", "kubernetes");
    of_every_namespace || is_token || is_api
}

/// Returns the paths of fields in which two states of an object differ, except status, marks, and labels and
/// annotations that depend on the cluster.
pub fn differences(before: &Value, after: &Value) -> Vec<String> {
    let mut found = Vec::new();
    compare("", &said(before), &said(after), &mut found);
    found
}

/// Returns the paths of fields that would differ after a configuration is applied to an object without lists.
pub fn differences_if_applied(found: &Value, configuration: &Value) -> Vec<String> {
    let mut after = found.clone();
    overlay(&mut after, configuration);
    differences(found, &after)
}

fn overlay(below: &mut Value, above: &Value) {
    match (below, above) {
        (Value::Object(below), Value::Object(above)) => {
            for (name, value) in above {
                overlay(below.entry(name.clone()).or_insert(Value::Null), value);
            }
        }
        (below, above) => *below = above.clone(),
    }
}

/// Returns the content of an object that does not depend on the cluster.
fn said(object: &Value) -> Value {
    let mut said = object.clone();
    if let Some(fields) = said.as_object_mut() {
        for field in ["apiVersion", "kind", "status", "metadata"] {
            fields.remove(field);
        }
        for field in ["labels", "annotations"] {
            let entries = object["metadata"][field].as_object().into_iter().flatten();
            let kept: Map<String, Value> = entries
                .filter(|(key, _)| !is_local(key))
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect();
            fields.insert(field.into(), Value::Object(kept));
        }
    }
    said
}

fn compare(path: &str, before: &Value, after: &Value, found: &mut Vec<String>) {
    match (before, after) {
        (Value::Object(one), Value::Object(other)) => {
            let names: std::collections::BTreeSet<&String> = one.keys().chain(other.keys()).collect();
            for name in names {
                let (one, other) = (one.get(name), other.get(name));
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                compare(&path, one.unwrap_or(&Value::Null), other.unwrap_or(&Value::Null), found);
            }
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            for (index, (one, other)) in one.iter().zip(other).enumerate() {
                compare(&format!("{path}[{index}]"), one, other, found);
            }
        }
        (one, other) if one == other => {}
        _ => found.push(path.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn configurations_that_would_change_an_object_are_found() {
        let found = json!({
            "apiVersion": "v1", "kind": "Secret", "type": "Opaque", "data": { "a": "1", "b": "2" },
            "metadata": { "name": "s", "uid": "u", "annotations": { "note": "mine" } },
        });
        for (configuration, expected) in [
            (json!({ "metadata": { "name": "s" }, "data": { "a": "1" } }), vec![]),
            (json!({ "metadata": { "annotations": { "atoll.dev/uid": "u" } }, "type": "Opaque" }), vec![]),
            (json!({ "data": { "a": "2", "c": "3" } }), vec!["data.a", "data.c"]),
            (json!({ "metadata": { "annotations": { "note": "other" } } }), vec!["annotations.note"]),
            (json!({ "binaryData": { "a": "1" } }), vec!["binaryData"]),
        ] {
            assert_eq!(differences_if_applied(&found, &configuration), expected, "{configuration}");
        }
    }

    #[test]
    fn fields_filled_in_by_the_cluster_are_removed() {
        for (found, expected) in [
            (
                json!({
                    "apiVersion": "v1", "kind": "Service",
                    "metadata": {
                        "name": "web", "namespace": "shop", "uid": "u", "resourceVersion": "7", "finalizers": ["x"],
                        "creationTimestamp": "2026-11-16T01:00:00Z", "managedFields": [{ "manager": "kubectl" }],
                        "labels": { "app": "web", "atoll.dev/control-plane": "old" },
                        "annotations": { "note": "mine", LAST_APPLIED: "{}", "atoll.dev/uid": "old" },
                    },
                    "spec": {
                        "type": "NodePort", "clusterIP": "10.0.0.7", "clusterIPs": ["10.0.0.7"], "ipFamilies": ["IPv4"],
                        "ports": [{ "port": 80, "nodePort": 30080 }],
                    },
                    "status": { "loadBalancer": {} },
                }),
                json!({
                    "apiVersion": "v1", "kind": "Service",
                    "metadata": {
                        "name": "web", "namespace": "shop", "labels": { "app": "web" },
                        "annotations": { "note": "mine", LAST_APPLIED: "{}" },
                    },
                    "spec": { "type": "NodePort", "ports": [{ "port": 80 }] },
                }),
            ),
            (
                json!({
                    "apiVersion": "apps/v1", "kind": "Deployment",
                    "metadata": { "name": "web", "annotations": { "deployment.kubernetes.io/revision": "3" } },
                    "spec": { "replicas": 2 }, "status": { "replicas": 2 },
                }),
                json!({
                    "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web" },
                    "spec": { "replicas": 2 },
                }),
            ),
            (
                json!({
                    "apiVersion": "v1", "kind": "PersistentVolumeClaim",
                    "metadata": { "name": "disk", "annotations": { "pv.kubernetes.io/bind-completed": "yes" } },
                    "spec": { "volumeName": "pvc-1", "storageClassName": "fast" },
                }),
                json!({
                    "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": "disk" },
                    "spec": { "storageClassName": "fast" },
                }),
            ),
        ] {
            assert_eq!(portable(&found), expected);
        }
    }

    #[test]
    fn foreign_objects_are_not_adopted() {
        let marked = |plane: &str, workspace: &str| {
            json!({ "kind": "ConfigMap", "metadata": {
                "name": "a", "labels": { "atoll.dev/control-plane": plane },
                "annotations": { "atoll.dev/workspace": workspace },
            } })
        };
        let owned = |controller: bool| {
            let owner = json!({ "kind": "Deployment", "name": "web", "controller": controller });
            json!({ "kind": "ReplicaSet", "metadata": { "name": "web-1", "ownerReferences": [owner] } })
        };
        let of = |kind: &str, name: &str| json!({ "kind": kind, "metadata": { "name": name, "namespace": "default" } });
        let mut token = of("Secret", "builder-token-x");
        token["type"] = TOKEN.into();
        let mut access = of("Secret", "atoll-api-x");
        access["type"] = api_access::SECRET_TYPE.into();
        let going = json!({ "kind": "ConfigMap", "metadata": { "name": "a", "deletionTimestamp": "now" } });
        for (found, expected) in [
            (of("ConfigMap", "a"), None),
            (marked("me", "w"), None),
            (marked("you", "w"), Some(Obstacle::OtherControlPlane("you".into()))),
            (marked("me", "v"), Some(Obstacle::OtherWorkspace("v".into()))),
            (owned(true), Some(Obstacle::Owned { kind: "Deployment".into(), name: "web".into() })),
            (owned(false), None),
            (going, Some(Obstacle::Deleting)),
            (of("ServiceAccount", "default"), Some(Obstacle::Generated)),
            (of("ConfigMap", "kube-root-ca.crt"), Some(Obstacle::Generated)),
            (of("Service", "kubernetes"), Some(Obstacle::Generated)),
            (of("Service", "default"), None),
            (token, Some(Obstacle::Generated)),
            (access, Some(Obstacle::Generated)),
        ] {
            assert_eq!(obstacle(&found, "me", "w"), expected, "{found}");
        }
    }

    #[test]
    fn differing_fields_are_named() {
        let before = json!({
            "metadata": { "generation": 3, "labels": { "app": "web" } },
            "spec": { "replicas": 2, "template": { "spec": { "containers": [{ "name": "a", "image": "x:1" }] } } },
            "status": { "replicas": 2 },
        });
        let mut same = before.clone();
        same["metadata"]["labels"]["atoll.dev/control-plane"] = "me".into();
        same["metadata"]["generation"] = 4.into();
        same["status"] = json!({});
        assert_eq!(differences(&before, &same), Vec::<String>::new());
        let mut other = same;
        other["spec"]["template"]["spec"]["containers"][0]["image"] = "x:2".into();
        other["spec"]["paused"] = true.into();
        other["metadata"]["labels"]["app"] = "shop".into();
        assert_eq!(
            differences(&before, &other),
            ["labels.app", "spec.paused", "spec.template.spec.containers[0].image"]
        );
    }
}
