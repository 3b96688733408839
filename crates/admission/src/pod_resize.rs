//! In-place resize of Pods needs capacity and support of the node.

// upstream: plugin/pkg/admission/podresize/admission.go
// upstream: plugin/pkg/admission/nodedeclaredfeatures/admission.go

use atoll_meta::{Status, object};
use serde_json::Value;

use crate::resource_list::{self, containers};
use crate::{Operation, Plugin, Request, StoredObject};

pub struct PodResizeValidator;
pub struct NodeDeclaredFeatureValidator;

impl Plugin for PodResizeValidator {
    fn handles(&self, request: &Request<'_>) -> bool {
        request.operation == Operation::Update && request.is_about("", "pods", "resize")
    }

    fn validate(&self, request: &Request<'_>, pod: &Value) -> Result<(), Status> {
        let Some((_, name)) = changed(request, pod) else { return Ok(()) };
        let node = node(request, pod, name)?;
        let system = node.label("kubernetes.io/os").unwrap_or("linux");
        if system != "linux" {
            let message = format!("pod resize is only supported on linux nodes, node {name:?} is {system:?}");
            return Err(request.forbidden(pod, message).with_cause("UnsupportedPlatform", "", ""));
        }
        let room = resource_list::read(&node.parse()?["status"]["allocatable"]);
        let mut wanted = resource_list::of_pod(pod, "requests");
        resource_list::add(&mut wanted, &resource_list::read(&pod["spec"]["overhead"]));
        let mut lacking = Vec::new();
        for (resource, in_millis) in [("cpu", true), ("memory", false)] {
            let number = |amounts: &resource_list::ResourceList| {
                let amount = amounts.get(resource);
                amount.map_or(0, |amount| if in_millis { amount.millis() } else { amount.units() })
            };
            let is_over = match (wanted.get(resource), room.get(resource)) {
                (Some(wanted), Some(room)) => wanted > room,
                (Some(wanted), None) => !wanted.is_zero(),
                (None, _) => false,
            };
            if is_over {
                let (wanted, room) = (number(&wanted), number(&room));
                lacking.push(format!("{resource}, requested: {wanted}, allocatable: {room}"));
            }
        }
        if lacking.is_empty() {
            return Ok(());
        }
        let message = format!("node didn't have enough allocatable resources: {}", lacking.join("; "));
        Err(request.forbidden(pod, message).with_cause("NodeCapacity", "", ""))
    }
}

impl Plugin for NodeDeclaredFeatureValidator {
    fn handles(&self, request: &Request<'_>) -> bool {
        request.operation == Operation::Update
            && (request.is_about("", "pods", "") || request.is_about("", "pods", "resize"))
    }

    fn validate(&self, request: &Request<'_>, pod: &Value) -> Result<(), Status> {
        let Some((old, name)) = changed(request, pod) else { return Ok(()) };
        let mut needed = Vec::new();
        if pod["spec"].get("resources") != old["spec"].get("resources") {
            needed.push("InPlacePodLevelResourcesVerticalScaling");
        }
        let mut pairs =
            containers(&old["spec"], "initContainers").zip(containers(&pod["spec"], "initContainers"));
        if pairs.any(|(old, new)| old["restartPolicy"] != "Always" && old["resources"] != new["resources"]) {
            needed.push("InPlacePodVerticalScalingInitContainers");
        }
        if needed.is_empty() {
            return Ok(());
        }
        let node = node(request, pod, name)?.parse()?;
        let declared = node["status"]["declaredFeatures"].as_array();
        let has = |feature: &&str| declared.is_some_and(|all| all.iter().any(|own| own == *feature));
        needed.retain(|feature| !has(feature));
        if needed.is_empty() {
            return Ok(());
        }
        let message = format!(
            "pod update requires features {} which are not available on node {name:?}",
            needed.join(", ")
        );
        Err(request.forbidden(pod, message))
    }
}

/// Returns the old Pod and its node, if the Pod is bound and its generation changes.
fn changed<'a>(request: &Request<'a>, pod: &'a Value) -> Option<(&'a Value, &'a str)> {
    let old = request.old.filter(|old| object::generation(old) != object::generation(pod))?;
    let node = pod["spec"]["nodeName"].as_str().filter(|node| !node.is_empty())?;
    Some((old, node))
}

fn node(request: &Request<'_>, pod: &Value, name: &str) -> Result<StoredObject, Status> {
    let node = request.find("", "nodes", "", name);
    node.ok_or_else(|| request.forbidden(pod, format!("node {name:?} not found")))
}
