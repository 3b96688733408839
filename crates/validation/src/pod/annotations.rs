//! Annotations that the server interprets, most of which predate fields.

// upstream: pkg/apis/core/validation/validation.go

use atoll_meta::quote::quote;
use atoll_meta::{FieldError, FieldPath, object};
use serde_json::Value;

use super::volume_source::descending_path;
use super::{each_container, placement};
use crate::fields::{Errors, Fields};

/// Annotation of mirror pods, which represent static pods.
pub(super) const MIRROR: &str = "kubernetes.io/config.mirror";
const TOLERATIONS: &str = "scheduler.alpha.kubernetes.io/tolerations";
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
const SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";
const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";

/// Checks the annotations of a pod or a template. `path` is the path of the annotations.
pub(crate) fn check(errors: &mut Errors, holder: &Value, spec: &Value, path: &FieldPath) {
    if object::annotations(holder).next().is_none() {
        return;
    }
    if let Some(value) = object::annotation(holder, MIRROR)
        && spec.text("nodeName").is_empty()
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
        seccomp(errors, profile, || path.child(SECCOMP_POD));
    }
    for (key, profile) in object::annotations(holder) {
        if key.starts_with(SECCOMP_CONTAINER) {
            seccomp(errors, profile, || path.child(key.to_owned()));
        }
    }
    for (key, profile) in object::annotations(holder) {
        let Some(name) = key.strip_prefix(APP_ARMOR) else { continue };
        let mut is_known = false;
        each_container(spec, &FieldPath::nil(), |container, _| is_known |= container.text("name") == name);
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
        Ok(list) => placement::tolerations(errors, &list, &path.child(TOLERATIONS)),
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

fn seccomp(errors: &mut Errors, profile: &str, path: impl Fn() -> FieldPath) {
    if matches!(profile, "runtime/default" | "docker/default" | "unconfined") {
        return;
    }
    match profile.strip_prefix("localhost/") {
        Some(file) => descending_path(errors, file, path),
        None => errors.push(FieldError::invalid(&path(), profile, "must be a valid seccomp profile")),
    }
}

/// Checks that profiles in annotations and in fields are equal.
pub(super) fn check_profiles(errors: &mut Errors, holder: &Value, spec: &Value, path: &FieldPath) {
    if object::annotations(holder).next().is_none() {
        return;
    }
    let profile_of = |holder: &'_ Value, field: &str| holder.part("securityContext").field(field).cloned();
    let default_names = ["runtime/default", "docker/default"];
    if let (Some(profile), Some(annotation)) =
        (profile_of(spec, "seccompProfile"), object::annotation(holder, SECCOMP_POD))
    {
        compare(errors, annotation, &profile, "seccomp", &default_names, path);
    }
    each_container(spec, path, |container, path| {
        let key = format!("{SECCOMP_CONTAINER}{}", container.text("name"));
        if let (Some(profile), Some(annotation)) =
            (profile_of(container, "seccompProfile"), object::annotation(holder, &key))
        {
            compare(errors, annotation, &profile, "seccomp", &default_names, path);
        }
    });
    if spec.part("os").text("name") == "windows" {
        return;
    }
    each_container(spec, path, |container, path| {
        let field = "appArmorProfile";
        let key = format!("{APP_ARMOR}{}", container.text("name"));
        let profile = profile_of(container, field).or_else(|| profile_of(spec, field));
        if let (Some(profile), Some(annotation)) = (profile, object::annotation(holder, &key)) {
            compare(errors, annotation, &profile, "apparmor", &default_names[..1], path);
        }
    });
}

fn compare(
    errors: &mut Errors,
    annotation: &str,
    profile: &Value,
    what: &str,
    default_names: &[&str],
    path: &FieldPath,
) {
    let (is_type, is_file) = match profile.text("type") {
        "Unconfined" => (annotation == "unconfined", true),
        "RuntimeDefault" => (default_names.contains(&annotation), true),
        "Localhost" => {
            let file = annotation.strip_prefix("localhost/");
            (file.is_some(), file == profile.optional_text("localhostProfile"))
        }
        _ => return,
    };
    let field = if what == "seccomp" { "seccompProfile" } else { "appArmorProfile" };
    let path = path.child("securityContext").child(field);
    if !is_type {
        let detail = format!("{what} type in annotation and field must match");
        errors.push(FieldError::forbidden(&path.child("type"), detail));
    } else if !is_file {
        let detail = format!("{what} profile in annotation and field must match");
        errors.push(FieldError::forbidden(&path.child("localhostProfile"), detail));
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
    check(errors, new, new.part("spec"), &path);
}
