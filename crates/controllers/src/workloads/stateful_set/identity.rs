//! Identity of the pods of a StatefulSet: names, ordinals, labels, volumes.

// upstream: pkg/controller/statefulset/stateful_set_utils.go

use std::ops::Range;

use atoll_informer::resources;
use atoll_meta::object;
use atoll_meta::views::{PodView, VolumeView};
use serde_json::{Value, json};

use crate::shared::pods;
use crate::shared::views::StatefulSetView;
use crate::workloads::history::REVISION_LABEL;

const POD_NAME_LABEL: &str = "statefulset.kubernetes.io/pod-name";
const POD_INDEX_LABEL: &str = "apps.kubernetes.io/pod-index";

/// Returns the name of a pod's set, and its ordinal if that is a valid number.
pub fn parent_and_ordinal(pod: &Value) -> Option<(&str, Option<i64>)> {
    let (parent, digits) = object::name(pod).rsplit_once('-')?;
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some((parent, digits.parse::<i32>().ok().map(i64::from)))
}

pub fn ordinal(pod: &Value) -> Option<i64> {
    parent_and_ordinal(pod).and_then(|(_, ordinal)| ordinal)
}

pub fn is_member(set: &Value, pod: &Value) -> bool {
    parent_and_ordinal(pod).is_some_and(|(parent, _)| parent == object::name(set))
}

/// Returns the ordinals that the set should have pods for.
pub fn ordinals(set: &Value) -> Range<i64> {
    let view = StatefulSetView::of(set);
    view.first_ordinal()..view.first_ordinal() + view.replicas()
}

/// Whether the set should have a pod with this ordinal.
pub fn is_wanted(set: &Value, ordinal: i64) -> bool {
    ordinals(set).contains(&ordinal)
}

pub fn pod_name(set: &Value, ordinal: i64) -> String {
    format!("{}-{ordinal}", object::name(set))
}

pub fn claim_name(set: &Value, template: &Value, ordinal: i64) -> String {
    format!("{}-{}-{ordinal}", object::name(template), object::name(set))
}

/// Returns the volume claim of a template for one pod.
pub fn claim(set: &Value, template: &Value, ordinal: i64) -> Value {
    let mut claim = template.clone();
    object::set_type(&mut claim, "v1", "PersistentVolumeClaim");
    object::set_name(&mut claim, &claim_name(set, template, ordinal));
    object::set_namespace(&mut claim, object::namespace(set));
    for (key, value) in StatefulSetView::of(set).selector_labels().into_iter().flatten() {
        object::set_label(&mut claim, key, value.as_str().unwrap_or_default());
    }
    claim
}

pub fn revision(pod: &Value) -> &str {
    object::label(pod, REVISION_LABEL).unwrap_or_default()
}

/// Returns a pod of a set from a template.
pub fn new_pod(set: &Value, template: &Value, revision: &str, ordinal: i64) -> Value {
    let mut pod = pods::from_template(&resources::STATEFUL_SETS, set, template);
    object::set_name(&mut pod, &pod_name(set, ordinal));
    set_identity(set, &mut pod, ordinal);
    pod["spec"]["hostname"] = object::name(&pod).into();
    match (StatefulSetView::of(set).service_name(), pod["spec"].as_object_mut()) {
        (Some(service), _) => pod["spec"]["subdomain"] = service.into(),
        (None, Some(spec)) => drop(spec.remove("subdomain")),
        (None, None) => {}
    }
    set_storage(set, &mut pod, ordinal);
    object::set_label(&mut pod, REVISION_LABEL, revision);
    pod
}

pub fn identity_matches(set: &Value, pod: &Value) -> bool {
    let name = object::name(pod);
    ordinal(pod).is_some_and(|ordinal| name == pod_name(set, ordinal))
        && object::namespace(pod) == object::namespace(set)
        && object::label(pod, POD_NAME_LABEL) == Some(name)
}

pub fn set_identity(set: &Value, pod: &mut Value, ordinal: i64) {
    let name = pod_name(set, ordinal);
    object::set_name(pod, &name);
    object::set_namespace(pod, object::namespace(set));
    object::set_label(pod, POD_NAME_LABEL, &name);
    object::set_label(pod, POD_INDEX_LABEL, &ordinal.to_string());
}

/// Whether a pod has a volume for each volume claim template of the set.
pub fn storage_matches(set: &Value, pod: &Value) -> bool {
    let Some(ordinal) = ordinal(pod) else { return false };
    let spec = PodView::of(pod).spec();
    let volume = |name: &str| spec.volumes().rev().find(|volume| volume.name() == name);
    StatefulSetView::of(set).claim_templates().all(|template| {
        let wanted = claim_name(set, template, ordinal);
        volume(object::name(template)).is_some_and(|volume| volume.named_claim() == Some(&wanted))
    })
}

/// Adds the pod's volume claims to its volumes, replacing others with their names.
pub fn set_storage(set: &Value, pod: &mut Value, ordinal: i64) {
    let view = StatefulSetView::of(set);
    let claims = view.claim_templates().map(|template| {
        let name = claim_name(set, template, ordinal);
        json!({"name": object::name(template), "persistentVolumeClaim": {"claimName": name}})
    });
    let mut volumes: Vec<Value> = claims.collect();
    let is_claim = |volume: &VolumeView<'_>| {
        view.claim_templates().any(|template| volume.name() == object::name(template))
    };
    let others = PodView::of(pod).spec().volumes().filter(|volume| !is_claim(volume));
    volumes.extend(others.map(|volume| volume.json().clone()));
    if !volumes.is_empty() {
        pod["spec"]["volumes"] = volumes.into();
    }
}

#[cfg(test)]
mod tests;
