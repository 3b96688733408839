//! Reads the needs of objects.

use std::sync::Arc;

use atoll_meta::object;
use atoll_meta::views::{PodSpecView, items, text};
use serde_json::Value;

use super::requests::pod_requests;
use super::{Demand, Needs, ObjectKey, Work};
use crate::cluster::Classes;
use crate::node::NodeRequirements;

impl Demand {
    /// Reads an object of a resource, in the workspace with this id and path. Its present shares, and other
    /// facts that the object does not contain, are left empty.
    pub fn of(workspace: (&str, &str), (group, resource): (&str, &str), object: &Value) -> Demand {
        let (id, path) = workspace;
        let (work, replicas) = work(group, resource, object);
        Demand {
            object: ObjectKey {
                workspace: id.into(),
                group: group.into(),
                resource: resource.into(),
                namespace: object::namespace(object).into(),
                name: object::name(object).into(),
                uid: object::uid(object).into(),
            },
            workspace_path: path.into(),
            work,
            replicas,
            needs: Arc::new(Needs::of(group, resource, object)),
            runs_once: atoll_fleet::placement::runs_once(group, resource),
            is_ordered: work == Work::Ordinals && object["spec"]["podManagementPolicy"] != "Parallel",
            may_rebalance: true,
            ..Demand::default()
        }
    }
}

/// Returns how the work of an object can be divided, and its replicas.
fn work(group: &str, resource: &str, object: &Value) -> (Work, i64) {
    let spec = &object["spec"];
    let number = |field: &str| spec[field].as_i64().map(|number| number.max(0));
    let pods = |spec: &Value| {
        let number = |field: &str| spec[field].as_i64().map(|number| number.max(0));
        let parallelism = number("parallelism").unwrap_or(1);
        number("completions").map_or(parallelism, |completions| completions.min(parallelism))
    };
    let replicas = number("replicas").unwrap_or(1);
    match (group, resource) {
        ("apps", "deployments" | "replicasets") | ("", "replicationcontrollers") => {
            (Work::Replicas, replicas)
        }
        ("apps", "statefulsets") => (Work::Ordinals, replicas),
        ("apps", "daemonsets") => (Work::EveryNode, 1),
        ("batch", "jobs") => match number("completions") {
            Some(completions) if spec["completionMode"] != "Indexed" => {
                (Work::Completions { parallelism: number("parallelism").unwrap_or(1) }, completions)
            }
            _ => (Work::Whole, pods(spec)),
        },
        // Each of its Jobs runs that number of pods.
        ("batch", "cronjobs") => (Work::Whole, pods(&spec["jobTemplate"]["spec"])),
        _ => (Work::Copy, 1),
    }
}

/// Returns the pod template of a workload; null for an object without one.
fn template<'a>(group: &str, resource: &str, object: &'a Value) -> &'a Value {
    match (group, resource) {
        ("apps", "deployments" | "replicasets" | "statefulsets" | "daemonsets")
        | ("", "replicationcontrollers")
        | ("batch", "jobs") => &object["spec"]["template"],
        ("batch", "cronjobs") => &object["spec"]["jobTemplate"]["spec"]["template"],
        _ => &Value::Null,
    }
}

/// Annotation with the storage class of a volume claim, from before there was a field. It has precedence.
const CLASS_BEFORE_THE_FIELD: &str = "volume.beta.kubernetes.io/storage-class";
/// Most volume claims of a workload that are looked up.
const MAX_CLAIMS: usize = 64;

/// The storage class that a volume claim, or a template of one, names. Without one, the cluster chooses.
pub fn storage_class(claim: &Value) -> Option<&str> {
    let named = object::annotation(claim, CLASS_BEFORE_THE_FIELD);
    named.or_else(|| text(&claim["spec"]["storageClassName"])).filter(|class| !class.is_empty())
}

/// The names of the volume claims that the pods of a workload mount.
pub fn claim_names<'a>((group, resource): (&str, &str), object: &'a Value) -> impl Iterator<Item = &'a str> {
    let volumes = items(&template(group, resource, object)["spec"]["volumes"]).iter();
    volumes.filter_map(|volume| text(&volume["persistentVolumeClaim"]["claimName"])).take(MAX_CLAIMS)
}

impl Needs {
    /// Reads what one replica of an object needs.
    pub fn of(group: &str, resource: &str, object: &Value) -> Needs {
        let template = template(group, resource, object);
        let mut classes = Classes::default();
        if (group, resource) == ("networking.k8s.io", "ingresses") {
            classes.ingress.extend(text(&object["spec"]["ingressClassName"]).map(str::to_string));
        }
        if (group, resource) == ("", "persistentvolumeclaims") {
            classes.storage.extend(storage_class(object).map(str::to_string));
        }
        for claim in items(&object["spec"]["volumeClaimTemplates"]) {
            classes.storage.extend(storage_class(claim).map(str::to_string));
        }
        if template.is_null() {
            return Needs { classes, ..Needs::default() };
        }
        let pod = &template["spec"];
        for volume in items(&pod["volumes"]) {
            let class = storage_class(&volume["ephemeral"]["volumeClaimTemplate"]);
            classes.storage.extend(class.map(str::to_string));
        }
        classes.priority.extend(text(&pod["priorityClassName"]).map(str::to_string));
        classes.runtime.extend(text(&pod["runtimeClassName"]).map(str::to_string));
        let spec = PodSpecView::of(pod);
        Needs { requests: pod_requests(spec), node: NodeRequirements::of(spec), classes }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn needs_name_the_classes_of_an_object() {
        let pod = json!({ "priorityClassName": "high", "runtimeClassName": "gvisor", "containers": [] });
        let claim = json!({ "spec": { "storageClassName": "fast" } });
        let set = json!({ "spec": { "template": { "spec": pod }, "volumeClaimTemplates": [claim] } });
        let classes = Needs::of("apps", "statefulsets", &set).classes;
        let one = |name: &str| [name.to_string()].into();
        let expected = Classes {
            priority: one("high"),
            storage: one("fast"),
            runtime: one("gvisor"),
            ..Classes::default()
        };
        assert_eq!(classes, expected);
        let ingress = json!({ "spec": { "ingressClassName": "nginx" } });
        assert_eq!(Needs::of("networking.k8s.io", "ingresses", &ingress).classes.ingress, one("nginx"));
        let claim = json!({ "spec": { "storageClassName": "fast" } });
        assert_eq!(Needs::of("", "persistentvolumeclaims", &claim).classes.storage, one("fast"));
        assert!(Needs::of("", "configmaps", &json!({ "spec": { "template": {} } })).classes.is_empty());
    }

    #[test]
    fn storage_classes_of_claims_are_found() {
        let beta = json!({ CLASS_BEFORE_THE_FIELD: "old" });
        for (claim, expected) in [
            (json!({ "spec": { "storageClassName": "fast" } }), Some("fast")),
            (
                json!({ "metadata": { "annotations": beta }, "spec": { "storageClassName": "fast" } }),
                Some("old"),
            ),
            (json!({ "spec": { "storageClassName": "" } }), None),
            (json!({ "spec": {} }), None),
            (Value::Null, None),
        ] {
            assert_eq!(storage_class(&claim), expected, "{claim}");
        }
        let volumes = json!([
            { "name": "a", "persistentVolumeClaim": { "claimName": "data" } },
            { "name": "b", "emptyDir": {} },
            { "name": "c", "ephemeral": { "volumeClaimTemplate": { "spec": { "storageClassName": "fast" } } } },
        ]);
        let pod = json!({ "spec": { "volumes": volumes, "containers": [] } });
        for (group, resource, spec) in [
            ("apps", "deployments", json!({ "template": pod })),
            ("batch", "cronjobs", json!({ "jobTemplate": { "spec": { "template": pod } } })),
        ] {
            let object = json!({ "spec": spec });
            let names: Vec<&str> = claim_names((group, resource), &object).collect();
            assert_eq!(names, ["data"], "{resource}");
            let mut demand = Demand::of(("w", "root"), (group, resource), &object);
            demand.need_storage(["slow".to_string()]);
            let found: Vec<&str> = demand.needs.classes.storage.iter().map(String::as_str).collect();
            assert_eq!(found, ["fast", "slow"], "{resource}");
        }
        assert_eq!(claim_names(("", "configmaps"), &json!({ "spec": { "template": pod } })).count(), 0);
    }

    #[test]
    fn work_is_known_by_kind() {
        for (group, resource, spec, expected) in [
            ("apps", "deployments", json!({ "replicas": 3 }), (Work::Replicas, 3)),
            ("apps", "deployments", json!({}), (Work::Replicas, 1)),
            ("", "replicationcontrollers", json!({ "replicas": 2 }), (Work::Replicas, 2)),
            ("apps", "statefulsets", json!({ "replicas": 0 }), (Work::Ordinals, 0)),
            (
                "batch",
                "jobs",
                json!({ "completions": 5, "parallelism": 2 }),
                (Work::Completions { parallelism: 2 }, 5),
            ),
            ("batch", "jobs", json!({ "completions": 5, "completionMode": "Indexed" }), (Work::Whole, 1)),
            ("batch", "jobs", json!({ "parallelism": 4 }), (Work::Whole, 4)),
            (
                "batch",
                "jobs",
                json!({ "completions": 5, "parallelism": 9, "completionMode": "Indexed" }),
                (Work::Whole, 5),
            ),
            ("batch", "cronjobs", json!({ "jobTemplate": { "spec": {} } }), (Work::Whole, 1)),
            (
                "batch",
                "cronjobs",
                json!({ "jobTemplate": { "spec": { "parallelism": 7 } } }),
                (Work::Whole, 7),
            ),
            (
                "batch",
                "cronjobs",
                json!({ "jobTemplate": { "spec": { "parallelism": 7, "completions": 3 } } }),
                (Work::Whole, 3),
            ),
            ("example.dev", "widgets", json!({ "replicas": 9 }), (Work::Copy, 1)),
        ] {
            assert_eq!(work(group, resource, &json!({ "spec": spec })), expected, "{resource} {spec}");
        }
    }
}
