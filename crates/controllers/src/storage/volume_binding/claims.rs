//! Decides what to do with a volume claim.

// upstream: pkg/controller/volume/persistentvolume/pv_controller.go

use std::sync::Arc;

use atoll_meta::object;
use serde_json::Value;

use super::matching;

pub const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
pub const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

pub struct Observed<'a> {
    pub claim: &'a Value,
    /// All volumes of the workspace.
    pub volumes: &'a [Arc<Value>],
    pub classes: &'a [Arc<Value>],
    /// Names of unscheduled pods that use the claim.
    pub pods: &'a [String],
}

/// An event about the claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimEvent {
    pub warning: bool,
    pub reason: &'static str,
    pub message: String,
}

impl ClaimEvent {
    fn normal(reason: &'static str, message: impl Into<String>) -> ClaimEvent {
        ClaimEvent { warning: false, reason, message: message.into() }
    }

    fn warning(reason: &'static str, message: impl Into<String>) -> ClaimEvent {
        ClaimEvent { warning: true, reason, message: message.into() }
    }
}

#[derive(Debug, PartialEq)]
pub enum ClaimDecision {
    Bind(Arc<Value>),
    /// The claim stays pending, with an event.
    Pending(Option<ClaimEvent>),
    AssignClass(String),
    /// An external provisioner creates the volume.
    Provision(String),
    Lost(ClaimEvent),
    /// Only an event is recorded.
    RecordOnly(ClaimEvent),
    /// Inconsistent state; retried.
    Inconsistent(ClaimEvent, String),
}

/// Decides about a claim, or fails if the claim is invalid.
pub fn decide(observed: &Observed<'_>) -> Result<ClaimDecision, String> {
    let claim = observed.claim;
    let named = claim["spec"]["volumeName"].as_str().filter(|name| !name.is_empty());
    let volume = named.map(|name| observed.volumes.iter().find(|volume| object::name(volume) == name));
    match object::annotation(claim, BIND_COMPLETED).is_some() {
        true => Ok(bound(claim, volume)),
        false => match (named, volume) {
            (Some(name), Some(volume)) => Ok(with_requested_volume(claim, name, volume)),
            _ => unbound(observed),
        },
    }
}

fn bound(claim: &Value, volume: Option<Option<&Arc<Value>>>) -> ClaimDecision {
    let lost = |reason, message: &str| ClaimDecision::Lost(ClaimEvent::warning(reason, message));
    match volume {
        None => lost(
            "ClaimLost",
            "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!",
        ),
        Some(None) => {
            lost("ClaimLost", "Bound claim has lost its PersistentVolume. Data on the volume is lost!")
        }
        Some(Some(volume)) => {
            let reference = &volume["spec"]["claimRef"];
            match reference.is_null() || reference["uid"] == object::uid(claim) {
                true => ClaimDecision::Bind(volume.clone()),
                false => lost(
                    "ClaimMisbound",
                    "Two claims are bound to the same volume, this one is bound incorrectly",
                ),
            }
        }
    }
}

/// Decides about a claim that names its volume.
fn with_requested_volume(claim: &Value, name: &str, volume: Option<&Arc<Value>>) -> ClaimDecision {
    let Some(volume) = volume else { return ClaimDecision::Pending(None) };
    if volume["spec"]["claimRef"].is_null() {
        return match matching::mismatch(volume, claim) {
            None => ClaimDecision::Bind(volume.clone()),
            Some(mismatch) => {
                let message = format!("Cannot bind to requested volume \"{name}\": {mismatch}");
                ClaimDecision::Pending(Some(ClaimEvent::warning("VolumeMismatch", message)))
            }
        };
    }
    if matching::is_bound_to(volume, claim) {
        return ClaimDecision::Bind(volume.clone());
    }
    let event = ClaimEvent::warning(
        "FailedBinding",
        format!("volume \"{name}\" already bound to a different claim."),
    );
    match object::annotation(claim, BOUND_BY_CONTROLLER) {
        None => ClaimDecision::Pending(Some(event)),
        Some(_) => {
            let place = |namespace: &str, name: &str| format!("\"{namespace}/{name}\"");
            let reference = &volume["spec"]["claimRef"];
            let text = |field: &str| reference[field].as_str().unwrap_or_default();
            let problem = format!(
                "invalid binding of claim {} to volume \"{name}\": volume already claimed by {}",
                place(object::namespace(claim), object::name(claim)),
                place(text("namespace"), text("name")),
            );
            ClaimDecision::Inconsistent(event, problem)
        }
    }
}

fn unbound(observed: &Observed<'_>) -> Result<ClaimDecision, String> {
    let Observed { claim, volumes, classes, pods } = *observed;
    let class_name = matching::class(claim);
    let class = classes.iter().find(|class| object::name(class) == class_name && !class_name.is_empty());
    let waits = class.is_some_and(|class| class["volumeBindingMode"] == "WaitForFirstConsumer");
    let found = matching::best(claim, volumes, waits).map_err(|problem| {
        format!(
            "error finding PV for claim \"{}/{}\": {problem}",
            object::namespace(claim),
            object::name(claim)
        )
    })?;
    if let Some(volume) = found {
        return Ok(ClaimDecision::Bind(volume.clone()));
    }
    if !matching::has_class(claim)
        && let Some(class) = matching::default_class(classes)
    {
        return Ok(ClaimDecision::AssignClass(object::name(class).into()));
    }
    Ok(match class {
        _ if waits && object::annotation(claim, SELECTED_NODE).is_none() => {
            ClaimDecision::Pending(Some(waiting_for(pods)))
        }
        _ if class_name.is_empty() => ClaimDecision::Pending(Some(ClaimEvent::normal(
            "FailedBinding",
            "no persistent volumes available for this claim and no storage class is set",
        ))),
        None => {
            let message = format!("storageclass.storage.k8s.io \"{class_name}\" not found");
            ClaimDecision::RecordOnly(ClaimEvent::warning("ProvisioningFailed", message))
        }
        Some(class) => {
            let provisioner = class["provisioner"].as_str().unwrap_or_default();
            match provisioner.starts_with("kubernetes.io/") {
                true => {
                    let message = format!("no volume plugin matched name: {provisioner}");
                    ClaimDecision::RecordOnly(ClaimEvent::warning("ProvisioningFailed", message))
                }
                false => ClaimDecision::Provision(provisioner.into()),
            }
        }
    })
}

fn waiting_for(pods: &[String]) -> ClaimEvent {
    match pods {
        [] => ClaimEvent::normal(
            "WaitForFirstConsumer",
            "waiting for first consumer to be created before binding",
        ),
        [pod] => ClaimEvent::normal("WaitForPodScheduled", format!("waiting for pod {pod} to be scheduled")),
        pods => ClaimEvent::normal(
            "WaitForPodScheduled",
            format!("waiting for pods {} to be scheduled", pods.join(",")),
        ),
    }
}

/// Returns the event message for a claim that waits for an external provisioner.
pub fn provisioning(provisioner: &str) -> String {
    format!(
        "Waiting for a volume to be created either by the external provisioner '{provisioner}' or manually by the system administrator. If volume creation is delayed, please verify that the provisioner is running and correctly registered."
    )
}

/// Returns the claim with a phase and the properties of its volume; `None` if unchanged.
pub fn with_status(claim: &Value, phase: &str, volume: Option<&Value>) -> Option<Value> {
    let mut updated = claim.clone();
    if !updated["status"].is_object() {
        updated["status"] = serde_json::json!({});
    }
    let status = updated["status"].as_object_mut()?;
    let before = status.get("phase").cloned().unwrap_or_default();
    status.insert("phase".into(), phase.into());
    match volume {
        None => {
            for field in ["accessModes", "capacity", "currentVolumeAttributesClassName"] {
                status.remove(field);
            }
        }
        Some(volume) => {
            let spec = &volume["spec"];
            if let Some(modes) = spec.get("accessModes") {
                status.insert("accessModes".into(), modes.clone());
            }
            // Later, the size may differ because of a resize.
            if before != phase {
                match object::annotation(volume, "volume.alpha.kubernetes.io/pre-resize-capacity") {
                    Some(size) => {
                        drop(status.insert("capacity".into(), serde_json::json!({"storage": size})))
                    }
                    None => drop(status.insert("capacity".into(), spec["capacity"].clone())),
                }
            }
            if before == "Pending"
                && phase == "Bound"
                && let Some(class) = spec.get("volumeAttributesClassName")
            {
                status.insert("currentVolumeAttributesClassName".into(), class.clone());
            }
        }
    }
    (updated != *claim).then_some(updated)
}

#[cfg(test)]
mod tests;
