//! Decides what to do with a volume.

// upstream: pkg/controller/volume/persistentvolume/pv_controller.go
// upstream: staging/src/k8s.io/component-helpers/storage/volume/pv_helpers.go

use std::sync::Arc;

use atoll_meta::object;
use serde_json::{Value, json};

use super::claims::BOUND_BY_CONTROLLER;
use super::matching;

const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
const MIGRATED_TO: &str = "pv.kubernetes.io/migrated-to";

#[derive(Debug, PartialEq)]
pub enum VolumeDecision {
    Available,
    Bound,
    /// Enqueue its claim, which completes the binding.
    EnqueueClaim,
    /// The claim cannot use this volume.
    Mismatch(Arc<Value>),
    /// The claim is gone, or uses another volume.
    Released,
    /// The claim uses another volume; this one is free again.
    Unbind,
}

/// Decides about a volume. `claim` is the one that it refers to, if it exists.
pub fn decide(volume: &Value, claim: Option<&Arc<Value>>) -> VolumeDecision {
    let reference = &volume["spec"]["claimRef"];
    let uid = reference["uid"].as_str().unwrap_or_default();
    if uid.is_empty() {
        return VolumeDecision::Available;
    }
    let Some(claim) = claim.filter(|claim| object::uid(claim) == uid) else {
        return VolumeDecision::Released;
    };
    match claim["spec"]["volumeName"].as_str().unwrap_or_default() {
        "" if matching::has_other_mode(volume, claim) => VolumeDecision::Mismatch(claim.clone()),
        "" => VolumeDecision::EnqueueClaim,
        name if name == object::name(volume) => VolumeDecision::Bound,
        _ if object::annotation(volume, PROVISIONED_BY).is_some()
            && volume["spec"]["persistentVolumeReclaimPolicy"] == "Delete" =>
        {
            VolumeDecision::Released
        }
        _ => VolumeDecision::Unbind,
    }
}

/// Action for a released volume.
#[derive(Debug, PartialEq, Eq)]
pub enum Reclaim {
    Nothing,
    Delete,
    /// The volume cannot be reclaimed: reason and message.
    Failed(&'static str, String),
}

pub fn reclaim(volume: &Value) -> Reclaim {
    if object::annotation(volume, MIGRATED_TO).is_some_and(|driver| !driver.is_empty()) {
        return Reclaim::Nothing;
    }
    match volume["spec"]["persistentVolumeReclaimPolicy"].as_str().unwrap_or_default() {
        "Retain" => Reclaim::Nothing,
        "Delete" => deletion(volume),
        // Recycling needs pods, which are not supported here.
        "Recycle" => {
            Reclaim::Failed("VolumeFailedRecycle", "No recycler plugin found for the volume!".into())
        }
        _ => Reclaim::Failed(
            "VolumeUnknownReclaimPolicy",
            "Volume has unrecognized PersistentVolumeReclaimPolicy".into(),
        ),
    }
}

/// Provisioned volumes are deleted by their provisioner. HostPath volumes below /tmp are deleted here, because
/// upstream supports them for tests.
fn deletion(volume: &Value) -> Reclaim {
    const REASON: &str = "VolumeFailedDelete";
    match object::annotation(volume, PROVISIONED_BY) {
        Some(provisioner) if provisioner.starts_with("kubernetes.io/") => {
            return Reclaim::Failed(REASON, format!("no volume plugin matched name: {provisioner}"));
        }
        Some(provisioner) if !provisioner.is_empty() => return Reclaim::Nothing,
        _ => {}
    }
    let spec = &volume["spec"];
    if spec["csi"].is_object() {
        return Reclaim::Nothing;
    }
    if let Some(path) = spec["hostPath"]["path"].as_str() {
        return match path.split_once("/tmp/").is_some_and(|(_, rest)| !rest.is_empty()) {
            true => Reclaim::Delete,
            false => Reclaim::Failed(
                REASON,
                format!("host_path deleter only supports /tmp/.+ but received provided {path}"),
            ),
        };
    }
    let why = if spec["nfs"].is_object() {
        "no deletable volume plugin matched"
    } else {
        "no volume plugin matched"
    };
    let name = object::name(volume);
    Reclaim::Failed(REASON, format!("error getting deleter volume plugin for volume \"{name}\": {why}"))
}

/// Returns the volume with another phase; `None` if unchanged.
pub fn with_phase(volume: &Value, phase: &str, message: &str) -> Option<Value> {
    if volume["status"]["phase"] == phase {
        return None;
    }
    let mut updated = volume.clone();
    if !updated["status"].is_object() {
        updated["status"] = json!({});
    }
    updated["status"]["phase"] = phase.into();
    match message {
        "" => drop(updated["status"].as_object_mut().map(|status| status.remove("message"))),
        message => updated["status"]["message"] = message.into(),
    }
    Some(updated)
}

/// Returns the volume with its claim reference; `None` if unchanged.
pub fn bound_to(volume: &Value, claim: &Value) -> Option<Value> {
    let reference = &volume["spec"]["claimRef"];
    let is_complete = matching::is_bound_to(volume, claim) && reference["uid"] == object::uid(claim);
    if is_complete {
        return None;
    }
    let mut updated = volume.clone();
    updated["spec"]["claimRef"] = json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": object::namespace(claim),
        "name": object::name(claim),
        "uid": object::uid(claim),
        "resourceVersion": object::resource_version(claim),
    });
    if !matching::is_bound_to(volume, claim) {
        object::set_annotation(&mut updated, BOUND_BY_CONTROLLER, "yes");
    }
    Some(updated)
}

/// Returns the volume without its claim; a reservation by a user stays.
pub fn unbound(volume: &Value) -> Value {
    let mut updated = volume.clone();
    match object::annotation(volume, BOUND_BY_CONTROLLER) {
        Some(_) => {
            object::remove_annotation(&mut updated, BOUND_BY_CONTROLLER);
            updated["spec"].as_object_mut().map(|spec| spec.remove("claimRef"));
        }
        None => drop(updated["spec"]["claimRef"].as_object_mut().map(|reference| reference.remove("uid"))),
    }
    updated
}

#[cfg(test)]
mod tests;
