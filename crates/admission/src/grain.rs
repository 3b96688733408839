//! Where the pods of an object are made is settled when it is created, by its namespace: here, one by one, or where the
//! object is placed, as a whole. Afterwards nothing changes that.

use atoll_meta::{Status, object};
use serde_json::Value;

use crate::{Operation, Plugin, Request};

/// The label of a namespace, and the annotation of what was created in it.
const GRAIN: &str = "atoll.dev/grain";
const POD: &str = "pod";

/// What makes pods, and what is about pods.
const CONCERNED: [(&str, &str); 11] = [
    ("", "persistentvolumeclaims"),
    ("", "replicationcontrollers"),
    ("", "services"),
    ("apps", "daemonsets"),
    ("apps", "deployments"),
    ("apps", "replicasets"),
    ("apps", "statefulsets"),
    ("autoscaling", "horizontalpodautoscalers"),
    ("batch", "cronjobs"),
    ("batch", "jobs"),
    ("policy", "poddisruptionbudgets"),
];

/// Knows what a namespace means that says nothing.
pub struct Grain {
    pub pods_by_default: bool,
}

impl Plugin for Grain {
    fn handles(&self, request: &Request<'_>) -> bool {
        matches!(request.operation, Operation::Create | Operation::Update)
            && request.subresource.is_empty()
            && CONCERNED.contains(&(&*request.row.group, &*request.row.resource))
    }

    fn mutate(&self, request: &Request<'_>, object: &mut Value) -> Result<(), Status> {
        let is_pod = match request.old {
            Some(old) => object::annotation(old, GRAIN) == Some(POD),
            None => {
                let namespace = request.namespace_object();
                let said = namespace.as_ref().and_then(|namespace| namespace.label(GRAIN));
                said.map_or(self.pods_by_default, |said| said == POD)
            }
        };
        match is_pod {
            true => object::set_annotation(object, GRAIN, POD),
            false if object::annotation(object, GRAIN).is_some() => object::remove_annotation(object, GRAIN),
            false => {}
        }
        Ok(())
    }
}
