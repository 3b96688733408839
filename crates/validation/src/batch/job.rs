//! Jobs.

// upstream: pkg/apis/batch/validation/validation.go
// upstream: pkg/registry/batch/job/strategy.go

use atoll_meta::object::FIELD_IS_IMMUTABLE;
use atoll_meta::{LabelSelector, names, object};
use serde_json::{Value, json};

use super::{job_status, policy};
use crate::Checks;
use crate::apps::{check_selected, render_selector, same_selector, selects};
use crate::field_value::{Errors, FieldValue};
use crate::internal;
use crate::pod::{same, template};

pub(crate) static CHECKS: Checks = Checks {
    create: |job| {
        let mut errors = Errors::new();
        check(&mut errors, job, None, true);
        errors
    },
    update,
    subresource: |name, new, old| match name {
        "status" => job_status::update(new, old),
        _ => Errors::new(),
    },
};

/// Labels that tie pods to their Job, with the legacy name first.
const NAME: [&str; 2] = ["job-name", "batch.kubernetes.io/job-name"];
const UID: [&str; 2] = ["controller-uid", "batch.kubernetes.io/controller-uid"];

const INDEXED_LIMIT: i64 = 100_000;
/// Number of completions above which the parallelism has a lower limit.
const MANY_COMPLETIONS: i64 = 100_000;
const LIMIT_FOR_MANY: i64 = 10_000;
const MANAGER_LENGTH: usize = 63;

fn check(errors: &mut Errors, job: &Value, old: Option<&FieldValue<'_>>, with_new_labels: bool) {
    let spec = FieldValue::field(job, "spec");
    generated_selector(errors, job, &spec, with_new_labels);
    check_spec_with_selector(errors, &spec, old);
    let completions = spec.get("completions").integer();
    if spec.text_of("completionMode") == "Indexed" && completions > 0 {
        let name = FieldValue::field(job, "metadata").get("name");
        let host = format!("{}-{}", name.text(), completions - 1);
        if !names::dns1123_label(&host).is_empty() {
            let detail = format!("will not able to create pod with invalid DNS label: {host}");
            errors.push(name.invalid_text(detail));
        }
    }
}

/// Checks that the selector is the generated one, unless `manualSelector` is set.
fn generated_selector(errors: &mut Errors, job: &Value, spec: &FieldValue<'_>, with_new_labels: bool) {
    let selector = spec.get("selector");
    if spec.get("manualSelector").flag() || !selector.is_set() {
        return;
    }
    let metadata = FieldValue::field(job, "metadata");
    let (uid, name) = (metadata.get("uid"), metadata.text_of("name"));
    if uid.is_empty() {
        errors.push(uid.required(""));
    }
    let uid = uid.text();
    let labels = spec.get("template").get("metadata").get("labels");
    for generation in 0..=usize::from(with_new_labels) {
        for (key, expected) in [(UID[generation], uid), (NAME[generation], name)] {
            let label = FieldValue::under(labels.value.get(key), labels.path.key(key));
            match label.optional_text() {
                Some(value) if value == expected => {}
                Some(_) => {
                    errors.push(label.invalid_as(labels.value.clone(), format!("must be '{expected}'")));
                }
                None => errors.push(label.required(format!("must be '{expected}'"))),
            }
        }
    }
    let mut expected = json!({ UID[0]: uid, NAME[0]: name });
    if with_new_labels {
        expected[UID[1]] = Value::from(uid);
        expected[NAME[1]] = Value::from(name);
    }
    if LabelSelector::from_object(selector.value).is_ok_and(|selector| !selects(&selector, &expected)) {
        errors.push(selector.invalid_as(render_selector(&selector), "`selector` not auto-generated"));
    }
}

/// Checks a spec with its selector. Specs in templates have none.
fn check_spec_with_selector(errors: &mut Errors, spec: &FieldValue<'_>, old: Option<&FieldValue<'_>>) {
    check_spec(errors, spec, old);
    let selector = spec.get("selector");
    if selector.is_set() {
        errors.extend(object::validate_label_selector(selector.value, &selector.path));
    } else {
        errors.push(selector.required(""));
    }
    if let Ok(selector) = LabelSelector::from_object(selector.value) {
        check_selected(errors, &selector, &spec.get("template"));
    }
}

/// Checks the fields that all Job specs share.
pub(super) fn check_spec(errors: &mut Errors, spec: &FieldValue<'_>, old: Option<&FieldValue<'_>>) {
    for field in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ] {
        spec.get(field).not_negative(errors);
    }
    let per_index = spec.get("backoffLimitPerIndex");
    if spec.has("maxFailedIndexes") && !per_index.is_set() {
        errors.push(per_index.required("when maxFailedIndexes is specified"));
    }
    if let Some(manager) = spec.given("managedBy") {
        errors.extend(names::domain_prefixed_path(&manager.path, manager.text()));
        if manager.len() > MANAGER_LENGTH {
            errors.push(manager.too_long(MANAGER_LENGTH));
        }
    }
    completion_mode(errors, spec);
    policy::failure(errors, spec);
    policy::success(errors, spec);
    policy::replacement(errors, spec);
    template::check(errors, &spec.get("template"), old.map(|old| old.get("template")).as_ref());
    restart_policy(errors, spec);
}

fn completion_mode(errors: &mut Errors, spec: &FieldValue<'_>) {
    let (mode, completions) = (spec.get("completionMode"), spec.get("completions"));
    let (parallelism, failed) = (spec.get("parallelism"), spec.get("maxFailedIndexes"));
    let per_index = spec.get("backoffLimitPerIndex");
    match mode.optional_text() {
        Some("Indexed") => {}
        None | Some("NonIndexed") => {
            for limit in [&per_index, &failed] {
                if limit.is_set() {
                    errors.push(limit.invalid("requires indexed completion mode"));
                }
            }
            return;
        }
        Some(_) => {
            errors.push(mode.unsupported(&["NonIndexed", "Indexed"]));
            return;
        }
    }
    if !completions.is_set() {
        errors.push(completions.required("when completion mode is Indexed"));
    }
    if parallelism.integer() > INDEXED_LIMIT {
        errors.push(parallelism.invalid(format!(
            "must be less than or equal to {INDEXED_LIMIT} when completion mode is Indexed"
        )));
    }
    if failed.is_set() && completions.number().is_some_and(|completions| failed.integer() > completions) {
        errors.push(failed.invalid("must be less than or equal to completions"));
    }
    if failed.integer() > INDEXED_LIMIT {
        errors.push(failed.invalid(format!("must be less than or equal to {INDEXED_LIMIT}")));
    }
    if completions.integer() <= MANY_COMPLETIONS || !per_index.is_set() {
        return;
    }
    if !failed.is_set() {
        let detail = format!("must be specified when completions is above {MANY_COMPLETIONS}");
        errors.push(failed.required(detail));
    }
    for count in [&parallelism, &failed] {
        if count.integer() > LIMIT_FOR_MANY {
            errors.push(count.invalid(format!(
                "must be less than or equal to {LIMIT_FOR_MANY} when completions are above {MANY_COMPLETIONS} and used with \
                 backoff limit per index"
            )));
        }
    }
}

/// Checks that pods of the Job can terminate.
fn restart_policy(errors: &mut Errors, spec: &FieldValue<'_>) {
    let policy = spec.get("template").get("spec").get("restartPolicy");
    match policy.text() {
        "Never" => {}
        "" | "Always" => errors.push(policy.required("valid values: \"OnFailure\", \"Never\"")),
        "OnFailure" => {
            if spec.has("podFailurePolicy") {
                let detail = "only \"Never\" is supported when podFailurePolicy is specified";
                errors.push(policy.invalid_named(detail));
            }
        }
        _ => errors.push(policy.unsupported(&["OnFailure", "Never"])),
    }
}

fn update(new: &Value, old_job: &Value) -> Errors {
    let mut errors = Errors::new();
    let (spec, before) = (FieldValue::field(new, "spec"), FieldValue::field(old_job, "spec"));
    let before_labels = before.get("template").get("metadata").get("labels");
    let had_new_labels = [NAME[1], UID[1]].iter().all(|key| before_labels.value.get(key).is_some());
    check(&mut errors, new, Some(&before), had_new_labels);
    // Upstream validates the spec a second time.
    check_spec_with_selector(&mut errors, &spec, Some(&before));
    completions(&mut errors, &spec, &before);
    same_selector(&mut errors, &spec, &before);
    changed_template(&mut errors, &spec, &before, &FieldValue::field(old_job, "status"));
    for (field, kind) in [
        ("completionMode", None),
        ("podFailurePolicy", Some("*PodFailurePolicy")),
        ("backoffLimitPerIndex", None),
        ("managedBy", None),
        ("successPolicy", Some("*SuccessPolicy")),
    ] {
        let setting = spec.get(field);
        if !same(setting.value, before.get(field).value) {
            let rendered = match kind {
                Some(kind) => internal::render(kind, setting.value),
                None => setting.value.clone().into(),
            };
            errors.push(setting.invalid_as(rendered, FIELD_IS_IMMUTABLE));
        }
    }
    errors
}

/// Checks a change of `completions`, which only indexed Jobs allow.
fn completions(errors: &mut Errors, spec: &FieldValue<'_>, before: &FieldValue<'_>) {
    let completions = spec.get("completions");
    if completions.value == before.get("completions").value {
        return;
    }
    let detail = if spec.text_of("completionMode") != "Indexed" {
        FIELD_IS_IMMUTABLE
    } else if completions.is_set() && completions.integer() != spec.get("parallelism").integer() {
        "can only be modified in tandem with spec.parallelism"
    } else {
        return;
    };
    errors.push(completions.invalid(detail));
}

/// Checks a change of the template. Scheduling directives and resources can change while the Job is suspended
/// and has no running pods. `status` is the old status.
fn changed_template(
    errors: &mut Errors,
    spec: &FieldValue<'_>,
    before: &FieldValue<'_>,
    status: &FieldValue<'_>,
) {
    let is_suspended = before.get("suspend").flag();
    let has_stopped = !status.has("startTime") || job_status::is_condition(status, "Suspended", "True");
    let may_change = is_suspended && has_stopped && status.get("active").integer() == 0;
    let (template, old_template) = (spec.get("template"), before.get("template"));
    if !may_change {
        if !same(template.value, old_template.value) {
            let rendered = internal::render("PodTemplateSpec", template.value);
            errors.push(template.invalid_as(rendered, FIELD_IS_IMMUTABLE));
        }
        return;
    }
    let pod = template.get("spec");
    let mut expected = old_template.get("spec").value.clone();
    adopt_placement(&mut expected, &pod);
    for field in ["containers", "initContainers"] {
        let Some(expected) = expected.get_mut(field).and_then(Value::as_array_mut) else { continue };
        let containers = pod.get(field);
        if expected.len() != containers.len() {
            continue;
        }
        for (expected, new) in expected.iter_mut().zip(containers.items()) {
            if FieldValue::root(expected).text_of("name") == new.text_of("name") {
                adopt(expected, &new, "resources");
            }
        }
    }
    if !same(pod.value, &expected) {
        let rendered = internal::render("PodSpec", pod.value);
        errors.push(pod.invalid_as(rendered, FIELD_IS_IMMUTABLE));
    }
}

/// Copies a field, or its absence.
fn adopt(object: &mut Value, new: &FieldValue<'_>, field: &'static str) {
    let Some(object) = object.as_object_mut() else { return };
    match new.given(field) {
        Some(field_value) => object.insert(field.to_owned(), field_value.value.clone()),
        None => object.remove(field),
    };
}

fn adopt_placement(expected: &mut Value, new: &FieldValue<'_>) {
    for field in ["nodeSelector", "tolerations", "schedulingGates"] {
        adopt(expected, new, field);
    }
    let had_affinity = FieldValue::root(expected).has("affinity");
    let affinity = new.get("affinity");
    match (affinity.is_set(), had_affinity) {
        (false, true) => {
            adopt(&mut expected["affinity"], &affinity, "nodeAffinity");
            if expected["affinity"].as_object().is_some_and(|affinity| affinity.is_empty()) {
                adopt(expected, new, "affinity");
            }
        }
        (true, true) => adopt(&mut expected["affinity"], &affinity, "nodeAffinity"),
        (true, false) => {
            expected["affinity"] = json!({});
            adopt(&mut expected["affinity"], &affinity, "nodeAffinity");
        }
        (false, false) => {}
    }
}
