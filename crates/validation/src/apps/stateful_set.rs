//! StatefulSets.

// upstream: pkg/apis/apps/validation/validation.go

use atoll_meta::{LabelSelector, names};
use serde_json::{Value, json};

use super::{
    amount, at_most_hundred_percent, check_selected, collisions, int_or_percent, not_negative,
    render_selector, required_selector,
};
use crate::Checks;
use crate::field_value::{Errors, FieldValue};
use crate::internal;
use crate::pod::{at_most, check_always_restarted, same, template};
use crate::volume_claim::{self, ValidationOptions};

pub(crate) static CHECKS: Checks = Checks {
    create: |object| {
        let mut errors = Errors::new();
        check(&mut errors, &FieldValue::field(object, "spec"), None);
        errors
    },
    update,
    subresource: |name, new, old| match name {
        "status" => status(&FieldValue::field(new, "status"), &FieldValue::field(old, "status")),
        _ => Errors::new(),
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

fn update(new: &Value, old: &Value) -> Errors {
    let mut errors = Errors::new();
    let (new, old) = (FieldValue::field(new, "spec"), FieldValue::field(old, "spec"));
    check(&mut errors, &new, Some(&old));
    let is_kept = |field: &str| {
        let [new, old] = [&new, &old].map(|spec| spec.value.get(field).unwrap_or(&Value::Null));
        match field {
            "volumeClaimTemplates" => same_claims(new, old),
            field => CHANGEABLE.contains(&field) || same(new, old),
        }
    };
    if !new.keys().chain(old.keys()).all(is_kept) {
        let detail = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', \
                      'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and \
                      'minReadySeconds' are forbidden";
        errors.push(new.forbidden(detail));
    }
    errors
}

/// Whether the volume claim templates are equal. Their `kind` and `apiVersion` are ignored.
fn same_claims(new: &Value, old: &Value) -> bool {
    let (new, old) = (FieldValue::root(new), FieldValue::root(old));
    let is_same = |new: &FieldValue<'_>, old: &FieldValue<'_>| {
        ["metadata", "spec", "status"].iter().all(|field| same(new.get(field).value, old.get(field).value))
    };
    new.len() == old.len() && new.items().zip(old.items()).all(|(new, old)| is_same(&new, &old))
}

/// Checks a spec. Immutable fields are not checked again on update.
fn check(errors: &mut Errors, spec: &FieldValue<'_>, old: Option<&FieldValue<'_>>) {
    let management = spec.get("podManagementPolicy");
    match management.text() {
        "OrderedReady" | "Parallel" => {}
        "" => errors.push(management.required("")),
        _ => errors.push(management.invalid_named("must be 'OrderedReady' or 'Parallel'")),
    }
    strategy(errors, &spec.get("updateStrategy"));
    if let Some(policy) = spec.given("persistentVolumeClaimRetentionPolicy") {
        for field in ["whenDeleted", "whenScaled"] {
            let action = policy.get(field);
            if !matches!(action.text(), "Retain" | "Delete") {
                errors.push(action.unsupported(&["Retain", "Delete"]));
            }
        }
    }
    if old.is_none() {
        for claim in spec.get("volumeClaimTemplates").items() {
            volume_claim::spec(errors, &claim.get("spec"), &ValidationOptions::default());
        }
    }
    spec.get("replicas").not_negative(errors);
    spec.get("minReadySeconds").not_negative(errors);
    spec.get("ordinals").get("start").not_negative(errors);
    let service = spec.get("serviceName");
    if old.is_none() && !service.is_empty() {
        service.rules(errors, names::dns1123_label(service.text()));
    }
    let (selector_field, pod) = (spec.get("selector"), spec.get("template"));
    required_selector(errors, &selector_field, "statefulset");
    match LabelSelector::from_object(selector_field.value) {
        Err(_) => errors.push(selector_field.invalid_as(render_selector(&selector_field), "")),
        Ok(selector) => check_template(errors, spec, old, &selector),
    }
    check_always_restarted(errors, &pod, "StatefulSet");
}

fn check_template(
    errors: &mut Errors,
    spec: &FieldValue<'_>,
    old: Option<&FieldValue<'_>>,
    selector: &LabelSelector,
) {
    let pod = spec.get("template");
    let completed = with_claims(spec);
    let pod = FieldValue { value: completed.as_ref().unwrap_or(pod.value), path: pod.path };
    if !selector.is_empty() {
        check_selected(errors, selector, &pod);
    }
    template::check(errors, &pod, old.map(|old| old.get("template")).as_ref());
    // Upstream validates the metadata a second time.
    template::check_metadata(errors, &pod);
}

/// Returns the template as pods get it: with a volume for each claim template and without a name. Returns
/// `None` if that is the template itself.
fn with_claims(spec: &FieldValue<'_>) -> Option<Value> {
    let template = spec.get("template");
    let (pod, claims) = (template.get("spec"), spec.get("volumeClaimTemplates"));
    if claims.is_empty() && ["subdomain", "hostname"].iter().all(|field| pod.text_of(field).is_empty()) {
        return None;
    }
    let mut template = template.value.clone();
    let pod = template.get_mut("spec")?.as_object_mut()?;
    pod.remove("subdomain");
    pod.remove("hostname");
    if claims.is_empty() {
        return Some(template);
    }
    let mut names: Vec<&str> = claims.items().map(|claim| claim.get("metadata").text_of("name")).collect();
    names.sort_unstable();
    names.dedup();
    let others = pod.remove("volumes").unwrap_or_default();
    let others = FieldValue::root(&others);
    let others = others.items().filter(|volume| !names.contains(&volume.text_of("name")));
    let claimed =
        names.iter().map(|name| json!({ "name": name, "persistentVolumeClaim": { "claimName": name } }));
    let volumes: Vec<Value> = claimed.chain(others.map(|volume| volume.value.clone())).collect();
    pod.insert("volumes".to_owned(), Value::Array(volumes));
    Some(template)
}

fn strategy(errors: &mut Errors, strategy: &FieldValue<'_>) {
    match (strategy.text_of("type"), strategy.given("rollingUpdate")) {
        ("", _) => errors.push(strategy.required("")),
        ("OnDelete", Some(rolling)) => {
            let rendered = internal::render("RollingUpdateStatefulSetStrategy", rolling.value);
            let detail = "only allowed for updateStrategy 'RollingUpdate'";
            errors.push(rolling.invalid_as(rendered, detail));
        }
        ("RollingUpdate", Some(rolling)) => {
            rolling.get("partition").not_negative(errors);
            if let Some(unavailable) = rolling.given("maxUnavailable") {
                int_or_percent(errors, &unavailable);
                if amount(&unavailable) == 0 {
                    errors.push(unavailable.invalid("cannot be 0"));
                }
                at_most_hundred_percent(errors, &unavailable);
            }
        }
        ("OnDelete" | "RollingUpdate", None) => {}
        _ => {
            let rendered = internal::render("StatefulSetUpdateStrategy", strategy.value);
            errors.push(strategy.invalid_as(rendered, "must be 'RollingUpdate' or 'OnDelete'"));
        }
    }
}

fn status(status: &FieldValue<'_>, old: &FieldValue<'_>) -> Errors {
    let mut errors = Errors::new();
    let parts = ["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"];
    let replicas = status.get("replicas");
    replicas.not_negative(&mut errors);
    not_negative(&mut errors, status, &parts);
    not_negative(&mut errors, status, &["observedGeneration", "collisionCount"]);
    for field in parts {
        at_most(&mut errors, &status.get(field), &replicas, "status.replicas");
    }
    let (available, ready) = (status.get("availableReplicas"), status.get("readyReplicas"));
    at_most(&mut errors, &available, &ready, "status.readyReplicas");
    collisions(&mut errors, status, old);
    errors
}
