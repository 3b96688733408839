//! Annotations that the server interprets, most of which predate fields.

// upstream: pkg/apis/core/validation/validation.go

use atoll_meta::quote::quote;
use atoll_meta::{FieldError, FieldPath, object};
use serde_json::Value;

use super::volume_source::descending_path;
use super::{each_container, placement};
use crate::field_value::{Errors, FieldValue};

/// Annotation of mirror pods, which represent static pods.
pub(super) const MIRROR: &str = "kubernetes.io/config.mirror";
const TOLERATIONS: &str = "scheduler.alpha.kubernetes.io/tolerations";
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
const SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";
/// Names of the runtime's default profile. AppArmor has only the first.
const DEFAULT_PROFILES: &[&str] = &["runtime/default", "docker/default"];
const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";

/// Checks the annotations of a pod or a template. `path` is the path of the annotations.
pub(super) fn check(errors: &mut Errors, holder: &Value, spec: &FieldValue<'_>, path: &FieldPath) {
    if object::annotations(holder).next().is_none() {
        return;
    }
    if let Some(value) = object::annotation(holder, MIRROR)
        && spec.text_of("nodeName").is_empty()
    {
        let detail = "must set spec.nodeName if mirror pod annotation is set";
        errors.push(FieldError::invalid(&path.key(MIRROR), value, detail));
    }
    if let Some(text) = object::annotation(holder, TOLERATIONS).filter(|text| !text.is_empty()) {
        tolerations(errors, text, path);
    }
    if let Some(cost) = object::annotation(holder, DELETION_COST)
        && !is_deletion_cost(cost)
    {
        errors.push(FieldError::invalid(&path.key(DELETION_COST), cost, "must be a 32bit integer"));
    }
    if let Some(profile) = object::annotation(holder, SECCOMP_POD) {
        seccomp(errors, profile, &path.child(SECCOMP_POD));
    }
    for (key, profile) in object::annotations(holder) {
        if key.starts_with(SECCOMP_CONTAINER) {
            seccomp(errors, profile, &path.child(key.to_owned()));
        }
    }
    for (key, profile) in object::annotations(holder) {
        let Some(name) = key.strip_prefix(APP_ARMOR) else { continue };
        let mut is_known = false;
        each_container(spec, |container| is_known |= container.text_of("name") == name);
        if !is_known {
            errors.push(FieldError::invalid(&path.key(key), name, "container not found"));
        }
        if !matches!(profile, "" | "runtime/default" | "unconfined") && !profile.starts_with("localhost/") {
            let detail = format!("invalid AppArmor profile name: {}", quote(profile));
            errors.push(FieldError::invalid(&path.key(key), profile, detail));
        }
    }
}

/// Checks tolerations as JSON. The decoder matches field names case-insensitively, as Go's does.
fn tolerations(errors: &mut Errors, text: &str, path: &FieldPath) {
    let mismatch = |value: &Value, expected: &str| {
        let found = match value {
            Value::Bool(_) => "bool",
            Value::Number(_) => "number",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            _ => "object",
        };
        format!("json: cannot unmarshal {found} into Go value of type {expected}")
    };
    let found = match atoll_meta::json::parse(text.as_bytes()) {
        Err(error) => Err(error.standard_library_message()),
        Ok(parsed) => match parsed.value {
            Value::Null => Ok(Vec::new()),
            Value::Array(list) => match list.iter().find(|entry| !entry.is_object() && !entry.is_null()) {
                Some(entry) => Err(mismatch(entry, "core.Toleration")),
                None => Ok(list.iter().map(lower_case_fields).collect::<Vec<Value>>()),
            },
            other => Err(mismatch(&other, "[]core.Toleration")),
        },
    };
    match found {
        Ok(list) => {
            let list = Value::Array(list);
            placement::tolerations(errors, &FieldValue::under(Some(&list), path.child(TOLERATIONS)));
        }
        Err(reason) => errors.push(FieldError::invalid(path, TOLERATIONS, reason)),
    }
}

fn lower_case_fields(toleration: &Value) -> Value {
    let fields = toleration.as_object().into_iter().flatten().map(|(key, value)| {
        let key = key.to_lowercase();
        let key = if key == "tolerationseconds" { "tolerationSeconds".to_owned() } else { key };
        (key, value.clone())
    });
    Value::Object(fields.collect())
}

fn is_deletion_cost(text: &str) -> bool {
    let is_plain = match text.as_bytes().first() {
        Some(b'0') => text == "0",
        Some(first) => *first == b'-' || first.is_ascii_digit(),
        None => false,
    };
    is_plain && text.parse::<i32>().is_ok()
}

fn seccomp(errors: &mut Errors, profile: &str, path: &FieldPath) {
    if matches!(profile, "runtime/default" | "docker/default" | "unconfined") {
        return;
    }
    match profile.strip_prefix("localhost/") {
        Some(file) => descending_path(errors, &FieldValue::under(Some(&Value::from(file)), path.clone())),
        None => errors.push(FieldError::invalid(path, profile, "must be a valid seccomp profile")),
    }
}

/// Checks that profiles in annotations and in fields are equal.
pub(super) fn check_profiles(errors: &mut Errors, holder: &Value, spec: &FieldValue<'_>) {
    if object::annotations(holder).next().is_none() {
        return;
    }
    fn profile_of<'a>(holder: &FieldValue<'a>, field: &'static str) -> Option<FieldValue<'a>> {
        holder.get("securityContext").given(field)
    }
    let field = "seccompProfile";
    if let (Some(profile), Some(annotation)) =
        (profile_of(spec, field), object::annotation(holder, SECCOMP_POD))
    {
        compare(errors, annotation, &profile, "seccomp", DEFAULT_PROFILES);
    }
    each_container(spec, |container| {
        let key = format!("{SECCOMP_CONTAINER}{}", container.text_of("name"));
        if let (Some(profile), Some(annotation)) =
            (profile_of(container, field), object::annotation(holder, &key))
        {
            compare(errors, annotation, &profile, "seccomp", DEFAULT_PROFILES);
        }
    });
    if spec.get("os").text_of("name") == "windows" {
        return;
    }
    each_container(spec, |container| {
        let own = container.get("securityContext").get("appArmorProfile");
        let key = format!("{APP_ARMOR}{}", container.text_of("name"));
        let profile = if own.is_set() { Some(own.clone()) } else { profile_of(spec, "appArmorProfile") };
        if let (Some(profile), Some(annotation)) = (profile, object::annotation(holder, &key)) {
            // The error is about the container, even if the profile is the pod's.
            compare(errors, annotation, &profile.with_path(own.path), "apparmor", &DEFAULT_PROFILES[..1]);
        }
    });
}

fn compare(
    errors: &mut Errors,
    annotation: &str,
    profile: &FieldValue<'_>,
    what: &str,
    default_names: &[&str],
) {
    let (kind, file) = (profile.get("type"), profile.get("localhostProfile"));
    let (is_type, is_file) = match kind.text() {
        "Unconfined" => (annotation == "unconfined", true),
        "RuntimeDefault" => (default_names.contains(&annotation), true),
        "Localhost" => {
            let annotated = annotation.strip_prefix("localhost/");
            (annotated.is_some(), annotated == file.optional_text())
        }
        _ => return,
    };
    if !is_type {
        errors.push(kind.forbidden(format!("{what} type in annotation and field must match")));
    } else if !is_file {
        errors.push(file.forbidden(format!("{what} profile in annotation and field must match")));
    }
}

/// Checks changes of immutable annotations.
pub(super) fn check_update(errors: &mut Errors, new: &Value, old: &Value) {
    let path = FieldPath::new("metadata").child("annotations");
    let mut refuse = |key: &str, what: [&str; 2]| {
        let [app_armor, mirror] = what;
        if key.starts_with(APP_ARMOR) {
            errors.push(FieldError::forbidden(&path.key(key), app_armor));
        }
        if key == MIRROR {
            errors.push(FieldError::forbidden(&path.key(key), mirror));
        }
    };
    for (key, value) in object::annotations(old) {
        if object::annotation(new, key) != Some(value) {
            refuse(
                key,
                [
                    "may not remove or update AppArmor annotations",
                    "may not remove or update mirror pod annotation",
                ],
            );
        }
    }
    for (key, _) in object::annotations(new) {
        if object::annotation(old, key).is_none() {
            refuse(key, ["may not add AppArmor annotations", "may not add mirror pod annotation"]);
        }
    }
    check(errors, new, &FieldValue::field(new, "spec"), &path);
}
