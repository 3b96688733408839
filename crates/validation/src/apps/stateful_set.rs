//! StatefulSets.

// upstream: pkg/apis/apps/validation/validation.go

use atoll_meta::object::{validate_annotations, validate_labels};
use atoll_meta::{FieldError, FieldPath, LabelSelector, names};
use serde_json::{Value, json};

use super::{
    amount, at_most_hundred_percent, check_selected, collisions, int_or_percent, render_selector,
    required_selector,
};
use crate::Checks;
use crate::field_value::FieldValue;
use crate::fields::{Errors, Fields, NOT_NEGATIVE, broken_rules, named, not_negative};
use crate::internal;
use crate::pod::{at_most, check_always_restarted, check_annotations, same, template};
use crate::volume_claim::{self, ValidationOptions};

pub(crate) static CHECKS: Checks = Checks {
    create: |object| {
        let mut errors = Vec::new();
        check(&mut errors, object.part("spec"), None);
        errors
    },
    update,
    subresource: |name, new, old| match name {
        "status" => status(new.part("status"), old.part("status")),
        _ => Vec::new(),
    },
};

/// Fields that may change. Upstream lists them in the message.
const CHANGEABLE: &[&str] = &[
    "replicas",
    "template",
    "updateStrategy",
    "minReadySeconds",
    "ordinals",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
];

fn update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let (new, old) = (new.part("spec"), old.part("spec"));
    check(&mut errors, new, Some(old));
    let fields = |spec: &'_ Value| -> Vec<String> {
        spec.as_object().into_iter().flatten().map(|(field, _)| field.clone()).collect()
    };
    let is_kept = |field: &String| match field.as_str() {
        "volumeClaimTemplates" => same_claims(new.list(field), old.list(field)),
        field => CHANGEABLE.contains(&field) || same(new.part(field), old.part(field)),
    };
    if !fields(new).iter().chain(&fields(old)).all(is_kept) {
        let detail = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', \
                      'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and \
                      'minReadySeconds' are forbidden";
        errors.push(FieldError::forbidden(&FieldPath::new("spec"), detail));
    }
    errors
}

/// Whether the volume claim templates are equal. Their `kind` and `apiVersion` are ignored.
fn same_claims(new: &[Value], old: &[Value]) -> bool {
    let is_same = |new: &Value, old: &Value| {
        ["metadata", "spec", "status"].iter().all(|field| same(new.part(field), old.part(field)))
    };
    new.len() == old.len() && new.iter().zip(old).all(|(new, old)| is_same(new, old))
}

/// Checks a spec. Immutable fields are not checked again on update.
fn check(errors: &mut Errors, spec: &Value, old: Option<&Value>) {
    let path = FieldPath::new("spec");
    match spec.text("podManagementPolicy") {
        "OrderedReady" | "Parallel" => {}
        "" => errors.push(FieldError::required(&path.child("podManagementPolicy"), "")),
        other => {
            let detail = "must be 'OrderedReady' or 'Parallel'";
            errors.push(FieldError::invalid(&path.child("podManagementPolicy"), named(other), detail));
        }
    }
    strategy(errors, spec.part("updateStrategy"), &path.child("updateStrategy"));
    if let Some(policy) = spec.field("persistentVolumeClaimRetentionPolicy") {
        for field in ["whenDeleted", "whenScaled"] {
            let text = policy.text(field);
            if !matches!(text, "Retain" | "Delete") {
                let path = path.child("persistentVolumeClaimRetentionPolicy").child(field);
                errors.push(FieldError::not_supported(&path, named(text), &["Retain", "Delete"]));
            }
        }
    }
    if old.is_none() {
        for (index, claim) in spec.list("volumeClaimTemplates").iter().enumerate() {
            let path = path.child("volumeClaimTemplates").index(index).child("spec");
            volume_claim::spec(
                errors,
                &FieldValue::under(claim.get("spec"), path),
                &ValidationOptions::default(),
            );
        }
    }
    not_negative(errors, spec, "replicas", &path);
    not_negative(errors, spec, "minReadySeconds", &path);
    let start = spec.part("ordinals").integer("start");
    if start < 0 {
        errors.push(FieldError::invalid(&path.child("ordinals.start"), start, NOT_NEGATIVE));
    }
    let service = spec.text("serviceName");
    if old.is_none() && !service.is_empty() {
        broken_rules(errors, || path.child("serviceName"), service, names::dns1123_label(service));
    }
    required_selector(errors, spec, "statefulset", &path);
    match LabelSelector::from_object(spec.part("selector")) {
        Err(_) => {
            let rendered = render_selector(spec.part("selector"));
            errors.push(FieldError::invalid(&path.child("selector"), rendered, ""));
        }
        Ok(selector) => check_template(errors, spec, old, &selector, &path.child("template")),
    }
    check_always_restarted(errors, spec.part("template"), "StatefulSet", &path.child("template"));
}

fn check_template(
    errors: &mut Errors,
    spec: &Value,
    old: Option<&Value>,
    selector: &LabelSelector,
    path: &FieldPath,
) {
    let completed = with_claims(spec);
    let pod = completed.as_ref().unwrap_or_else(|| spec.part("template"));
    if !selector.is_empty() {
        check_selected(errors, selector, pod, path);
    }
    template::check_template(errors, pod, old.map(|old| old.part("template")), path);
    // Upstream validates the metadata a second time.
    let metadata = pod.part("metadata");
    let annotations_path = path.child("annotations");
    errors.extend(validate_labels(metadata.text_entries("labels"), &path.child("labels")));
    errors.extend(validate_annotations(metadata.text_entries("annotations"), &annotations_path));
    check_annotations(errors, pod, pod.part("spec"), &annotations_path);
}

/// Returns the template as pods get it: with a volume for each claim template and without a name.
fn with_claims(spec: &Value) -> Option<Value> {
    let pod = spec.part("template").part("spec");
    let claims = spec.list("volumeClaimTemplates");
    if claims.is_empty() && pod.text("subdomain").is_empty() && pod.text("hostname").is_empty() {
        return None;
    }
    let mut template = spec.part("template").clone();
    let pod = template.get_mut("spec")?.as_object_mut()?;
    pod.remove("subdomain");
    pod.remove("hostname");
    if claims.is_empty() {
        return Some(template);
    }
    let name_of = |claim: &Value| claim.part("metadata").text("name").to_owned();
    let mut names: Vec<String> = claims.iter().map(name_of).collect();
    names.sort();
    names.dedup();
    let others = pod.remove("volumes");
    let others = others.as_ref().and_then(Value::as_array).into_iter().flatten();
    let others = others.filter(|volume| !names.iter().any(|name| name == volume.text("name")));
    let claimed =
        names.iter().map(|name| json!({ "name": name, "persistentVolumeClaim": { "claimName": name } }));
    let volumes: Vec<Value> = claimed.chain(others.cloned()).collect();
    pod.insert("volumes".to_owned(), Value::Array(volumes));
    Some(template)
}

fn strategy(errors: &mut Errors, strategy: &Value, path: &FieldPath) {
    let rolling_path = || path.child("rollingUpdate");
    match (strategy.text("type"), strategy.field("rollingUpdate")) {
        ("", _) => errors.push(FieldError::required(path, "")),
        ("OnDelete", Some(rolling)) => {
            let rendered = internal::render("RollingUpdateStatefulSetStrategy", rolling);
            let detail = "only allowed for updateStrategy 'RollingUpdate'";
            errors.push(FieldError::invalid(&rolling_path(), rendered, detail));
        }
        ("RollingUpdate", Some(rolling)) => {
            let path = rolling_path();
            not_negative(errors, rolling, "partition", &path);
            if let Some(unavailable) = rolling.field("maxUnavailable") {
                let path = path.child("maxUnavailable");
                int_or_percent(errors, unavailable, &path);
                if amount(unavailable) == 0 {
                    errors.push(FieldError::invalid(&path, unavailable.clone(), "cannot be 0"));
                }
                at_most_hundred_percent(errors, unavailable, &path);
            }
        }
        ("OnDelete" | "RollingUpdate", None) => {}
        _ => {
            let rendered = internal::render("StatefulSetUpdateStrategy", strategy);
            errors.push(FieldError::invalid(path, rendered, "must be 'RollingUpdate' or 'OnDelete'"));
        }
    }
}

fn status(status: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let path = FieldPath::new("status");
    let parts = ["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"];
    not_negative(&mut errors, status, "replicas", &path);
    for field in parts.into_iter().chain(["observedGeneration", "collisionCount"]) {
        not_negative(&mut errors, status, field, &path);
    }
    for field in parts {
        at_most(&mut errors, status, field, "replicas", "status.replicas", &path);
    }
    at_most(&mut errors, status, "availableReplicas", "readyReplicas", "status.readyReplicas", &path);
    collisions(&mut errors, status, old, &path);
    errors
}
