//! The grain of workloads: whether their Pods are created in the control plane, one by one, or the object is
//! placed as a whole. It is determined when the object is created and never changes. An owned object has the
//! grain of its owner; otherwise the namespace decides, then the workspace, then the server's default.

use atoll_meta::{FieldError, FieldPath, Status, object};
use atoll_registry::catalog::ATOLL;
use atoll_store::Key;
use serde_json::Value;

use crate::request::StoredObject;
use crate::{Operation, Plugin, Request};

/// The label of namespaces, and the annotation of objects.
const GRAIN: &str = "atoll.dev/grain";
const POD: &str = "pod";
const GRAINS: [&str; 2] = ["object", POD];

/// Resources that create Pods, and resources about Pods.
const RESOURCES: [(&str, &str); 12] = [
    ("", "persistentvolumeclaims"),
    ("", "persistentvolumes"),
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

/// Owners whose controllers create some of these: group, kind and resource.
const OWNERS: [(&str, &str, &str); 3] = [
    ("apps", "Deployment", "deployments"),
    ("apps", "StatefulSet", "statefulsets"),
    ("batch", "CronJob", "cronjobs"),
];

/// Sets the grain of new objects, with a default.
pub struct Grain {
    pub pods_by_default: bool,
}

impl Plugin for Grain {
    fn handles(&self, request: &Request<'_>) -> bool {
        matches!(request.operation, Operation::Create | Operation::Update)
            && request.subresource.is_empty()
            && (RESOURCES.contains(&(&*request.row.group, &*request.row.resource)) || is_namespace(request))
    }

    fn mutate(&self, request: &Request<'_>, object: &mut Value) -> Result<(), Status> {
        if is_namespace(request) {
            return Ok(());
        }
        let is_pod = match request.old {
            Some(old) => object::annotation(old, GRAIN) == Some(POD),
            None => {
                let namespace = (!request.namespace.is_empty()).then(|| request.namespace_object()).flatten();
                let workspace = workspace(request);
                let sources = GrainSources {
                    owner: owner(request, object)?,
                    namespace: namespace.as_ref().and_then(|namespace| namespace.label(GRAIN)),
                    workspace: workspace.as_ref().and_then(|workspace| workspace.field("spec.grain")),
                };
                sources.is_pod(self.pods_by_default)
            }
        };
        match is_pod {
            true => object::set_annotation(object, GRAIN, POD),
            false if object::annotation(object, GRAIN).is_some() => object::remove_annotation(object, GRAIN),
            false => {}
        }
        Ok(())
    }

    /// Checks the label of a namespace.
    fn validate(&self, request: &Request<'_>, object: &Value) -> Result<(), Status> {
        let said = object::label(object, GRAIN).filter(|_| is_namespace(request));
        let before = request.old.and_then(|old| object::label(old, GRAIN));
        match said.filter(|said| !GRAINS.contains(said) && before != Some(said)) {
            None => Ok(()),
            Some(said) => {
                let path = FieldPath::new("metadata").child("labels").key(GRAIN);
                let error = FieldError::not_supported(&path, said, &GRAINS);
                Err(Status::invalid("", "Namespace", request.display_name(object), vec![error]))
            }
        }
    }
}

fn is_namespace(request: &Request<'_>) -> bool {
    request.is_about("", "namespaces", "")
}

/// Returns the Workspace object of the request, `None` for root.
fn workspace(request: &Request<'_>) -> Option<StoredObject> {
    let step = request.step?;
    request.snapshot.get(&Key::object(ATOLL, "workspaces", &step.parent, "", &step.name)).map(StoredObject)
}

/// Returns the grain of the object whose controller creates this one.
fn owner(request: &Request<'_>, object: &Value) -> Result<Option<bool>, Status> {
    let Some(owner) = object::controller_of(object) else { return Ok(None) };
    let group = object::split_api_version(owner.api_version).map_or("", |(group, _)| group);
    // Objects that are owned by a Pod in the control plane belong there, too.
    if (group, owner.kind) == ("", "Pod") {
        return Ok(Some(true));
    }
    let resource = OWNERS.iter().find(|(of, kind, _)| (*of, *kind) == (group, owner.kind));
    let Some((_, _, resource)) = resource else { return Ok(None) };
    let Some(found) = request.find(group, resource, request.namespace, owner.name) else { return Ok(None) };
    let found = found.parse()?;
    let is_it = object::uid(&found) == owner.uid;
    Ok(is_it.then(|| object::annotation(&found, GRAIN) == Some(POD)))
}

/// The sources that determine the grain.
#[derive(Default)]
struct GrainSources<'a> {
    owner: Option<bool>,
    namespace: Option<&'a str>,
    workspace: Option<&'a str>,
}

impl GrainSources<'_> {
    fn is_pod(&self, by_default: bool) -> bool {
        let said = self.namespace.or(self.workspace).map(|said| said == POD);
        self.owner.or(said).unwrap_or(by_default)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_specific_source_wins() {
        let (object, pod) = (Some("object"), Some(POD));
        for (owner, namespace, workspace, by_default, expected) in [
            (None, None, None, false, false),
            (None, None, None, true, true),
            (None, None, pod, false, true),
            (None, None, object, true, false),
            (None, object, pod, true, false),
            (None, pod, object, false, true),
            (Some(true), object, object, false, true),
            (Some(false), pod, pod, true, false),
        ] {
            let sources = GrainSources { owner, namespace, workspace };
            assert_eq!(sources.is_pod(by_default), expected, "{owner:?} {namespace:?} {workspace:?}");
        }
    }
}
