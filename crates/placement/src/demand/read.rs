//! Reads what an object needs.

use std::sync::Arc;

use atoll_meta::object;
use atoll_meta::views::{PodSpecView, items, text};
use serde_json::Value;

use super::requests::pod_requests;
use super::{Demand, Needs, ObjectKey, Work};
use crate::cluster::Classes;
use crate::node::NodeRequirements;

impl Demand {
    /// Reads an object of a resource, in the workspace with this id and path. Where it is now, and the rest
    /// that an object does not say, is left empty.
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
            may_rebalance: true,
            ..Demand::default()
        }
    }
}

/// Returns how the work of an object can be divided, and its replicas.
fn work(group: &str, resource: &str, object: &Value) -> (Work, i64) {
    let spec = &object["spec"];
    let number = |field: &str| spec[field].as_i64().map(|number| number.max(0));
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
            _ => (Work::Whole, number("parallelism").unwrap_or(1)),
        },
        ("batch", "cronjobs") => (Work::Whole, 1),
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

impl Needs {
    /// Reads what one replica of an object needs.
    pub fn of(group: &str, resource: &str, object: &Value) -> Needs {
        let template = template(group, resource, object);
        let mut classes = Classes::default();
        if (group, resource) == ("networking.k8s.io", "ingresses") {
            classes.ingress.extend(text(&object["spec"]["ingressClassName"]).map(str::to_string));
        }
        for claim in items(&object["spec"]["volumeClaimTemplates"]) {
            classes.storage.extend(text(&claim["spec"]["storageClassName"]).map(str::to_string));
        }
        if template.is_null() {
            return Needs { classes, ..Needs::default() };
        }
        let pod = &template["spec"];
        classes.priority.extend(text(&pod["priorityClassName"]).map(str::to_string));
        classes.runtime.extend(text(&pod["runtimeClassName"]).map(str::to_string));
        let spec = PodSpecView::of(pod);
        Needs { requests: pod_requests(spec), node: NodeRequirements::of(spec), classes }
    }
}
