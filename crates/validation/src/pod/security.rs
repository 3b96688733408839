//! Security contexts of pods and containers.

// upstream: pkg/apis/core/validation/validation.go

use std::collections::HashSet;

use atoll_meta::{FieldError, FieldPath, names};
use serde_json::Value;

use super::volume_source::descending_path;
use super::windows;
use crate::fields::{Errors, Fields, named};
use crate::internal;

/// Sysctls that belong to the IPC namespace.
const IPC_PARAMETERS: &[&str] = &[
    "kernel.sem",
    "kernel.shmall",
    "kernel.shmmax",
    "kernel.shmmni",
    "kernel.shm_rmid_forced",
    "kernel.shm",
    "kernel.msgmax",
    "kernel.msgmnb",
    "kernel.msgmni",
    "kernel.msg",
];

/// Checks the security context of a container.
pub(super) fn container(errors: &mut Errors, context: &Value, uses_host_users: bool, path: &FieldPath) {
    unix_ids(errors, context, &["runAsUser", "runAsGroup"], path);
    if let Some(mount) = context.optional_text("procMount") {
        let path = path.child("procMount");
        if !matches!(mount, "Default" | "Unmasked") {
            errors.push(FieldError::not_supported(&path, named(mount), &["Default", "Unmasked"]));
        }
        if uses_host_users && mount == "Unmasked" {
            let detail = "`hostUsers` must be false to use `Unmasked`";
            errors.push(FieldError::invalid(&path, named(mount), detail));
        }
    }
    seccomp(errors, context, path);
    if context.optional_flag("allowPrivilegeEscalation") == Some(false) {
        let mut refuse = |what: &str| {
            let detail = format!("cannot set `allowPrivilegeEscalation` to false and {what}");
            errors.push(FieldError::invalid(path, internal::render("SecurityContext", context), detail));
        };
        if context.flag("privileged") {
            refuse("`privileged` to true");
        }
        for _ in context.part("capabilities").texts("add").filter(|name| *name == "CAP_SYS_ADMIN") {
            refuse("`capabilities.Add` CAP_SYS_ADMIN");
        }
    }
    windows::options(errors, context, path);
    app_armor(errors, context, path);
}

/// Checks the security context of a pod. The fields that upstream's internal type keeps there too, such as
/// `hostNetwork`, are in the spec.
pub(super) fn pod(errors: &mut Errors, spec: &Value, old: Option<&Value>, path: &FieldPath) {
    let empty = Value::Null;
    let context = spec.field("securityContext").unwrap_or(&empty);
    let path = &path.child("securityContext");
    unix_ids(errors, context, &["fsGroup", "runAsUser", "runAsGroup"], path);
    for (index, group) in context.list("supplementalGroups").iter().enumerate() {
        let group = group.as_i64().unwrap_or_default();
        for rule in names::unix_id(group) {
            errors.push(FieldError::invalid(&path.child("supplementalGroups").index(index), group, rule));
        }
    }
    if spec.flag("shareProcessNamespace") && spec.flag("hostPID") {
        let detail = "ShareProcessNamespace and HostPID cannot both be enabled";
        errors.push(FieldError::invalid(&path.child("shareProcessNamespace"), true, detail));
    }
    sysctls(errors, spec, context, path);
    one_of(errors, context, "fsGroupChangePolicy", &["Always", "OnRootMismatch"], path);
    seccomp(errors, context, path);
    windows::options(errors, context, path);
    app_armor(errors, context, path);
    one_of(errors, context, "supplementalGroupsPolicy", &["Merge", "Strict"], path);
    // SELinuxMount is behind a feature gate, which upstream ignores if the old pod has a policy.
    let had_policy =
        old.is_some_and(|old| old.part("securityContext").field("seLinuxChangePolicy").is_some());
    let policies: &[&str] = if had_policy { &["MountOption", "Recursive"] } else { &["Recursive"] };
    one_of(errors, context, "seLinuxChangePolicy", policies, path);
}

fn one_of(errors: &mut Errors, context: &Value, field: &'static str, supported: &[&str], path: &FieldPath) {
    if let Some(text) = context.optional_text(field)
        && !supported.contains(&text)
    {
        errors.push(FieldError::not_supported(&path.child(field), named(text), supported));
    }
}

fn unix_ids(errors: &mut Errors, context: &Value, fields: &[&'static str], path: &FieldPath) {
    for field in fields {
        if let Some(id) = context.optional_integer(field) {
            for rule in names::unix_id(id) {
                errors.push(FieldError::invalid(&path.child(*field), id, rule));
            }
        }
    }
}

fn sysctls(errors: &mut Errors, spec: &Value, context: &Value, path: &FieldPath) {
    let mut seen = HashSet::new();
    for (index, sysctl) in context.list("sysctls").iter().enumerate() {
        let path = || path.child("sysctls").index(index).child("name");
        let name = sysctl.text("name");
        if name.is_empty() {
            errors.push(FieldError::required(&path(), ""));
        } else if !is_sysctl(name) {
            let detail = "must have at most 253 characters and match regex \
                          ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
            errors.push(FieldError::invalid(&path(), name, detail));
        } else if seen.contains(name) {
            errors.push(FieldError::duplicate(&path(), name));
        }
        let (is_network, is_ipc) = namespaces(name);
        for (uses_host, concerns, flag) in
            [(spec.flag("hostNetwork"), is_network, "hostNetwork"), (spec.flag("hostIPC"), is_ipc, "hostIPC")]
        {
            if uses_host && concerns {
                let detail = format!("may not be specified when '{flag}' is true");
                errors.push(FieldError::invalid(&path(), name, detail));
            }
        }
        seen.insert(name);
    }
}

fn is_sysctl(name: &str) -> bool {
    let is_edge = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    name.len() <= 253
        && name.split(['.', '/']).all(|segment| {
            let bytes = segment.as_bytes();
            bytes.first().is_some_and(is_edge)
                && bytes.last().is_some_and(is_edge)
                && bytes.iter().all(|byte| is_edge(byte) || matches!(byte, b'-' | b'_'))
        })
}

/// Whether a sysctl belongs to the network namespace, and whether to the IPC namespace.
fn namespaces(name: &str) -> (bool, bool) {
    let swapped: String;
    let name = match name.find(['.', '/']) {
        // The first of `.` and `/` in the name determines which one is the separator.
        Some(first) if name.as_bytes()[first] == b'/' => {
            let swap = |character| match character {
                '.' => '/',
                '/' => '.',
                other => other,
            };
            swapped = name.chars().map(swap).collect();
            &swapped
        }
        _ => name,
    };
    let name = name.split('*').next().unwrap_or_default();
    (name.starts_with("net."), IPC_PARAMETERS.contains(&name) || name.starts_with("fs.mqueue."))
}

fn seccomp(errors: &mut Errors, context: &Value, path: &FieldPath) {
    const TYPES: &[&str] = &["Localhost", "RuntimeDefault", "Unconfined"];
    let Some(profile) = context.field("seccompProfile") else { return };
    let path = path.child("seccompProfile");
    let kind = profile.text("type");
    if kind.is_empty() {
        let detail = "type is required when seccompProfile is set";
        errors.push(FieldError::required(&path.child("type"), detail));
    } else if !TYPES.contains(&kind) {
        errors.push(FieldError::not_supported(&path.child("type"), named(kind), TYPES));
    }
    let file_path = || path.child("localhostProfile");
    match (kind, profile.optional_text("localhostProfile")) {
        ("Localhost", None) => {
            let detail = "must be set when seccomp type is Localhost";
            errors.push(FieldError::required(&file_path(), detail));
        }
        ("Localhost", Some(file)) => descending_path(errors, file, file_path),
        (_, Some(_)) => {
            let detail = "can only be set when seccomp type is Localhost";
            let rendered = internal::render("SeccompProfile", profile);
            errors.push(FieldError::invalid(&file_path(), rendered, detail));
        }
        (_, None) => {}
    }
}

fn app_armor(errors: &mut Errors, context: &Value, path: &FieldPath) {
    const LIMIT: usize = 4095;
    const NEEDED: &str = "must be set when AppArmor type is Localhost";
    let Some(profile) = context.field("appArmorProfile") else { return };
    let path = path.child("appArmorProfile");
    let file_path = || path.child("localhostProfile");
    let file = profile.optional_text("localhostProfile");
    match (profile.text("type"), file) {
        ("Localhost", None) => errors.push(FieldError::required(&file_path(), NEEDED)),
        ("Localhost", Some(file)) => {
            if file.trim() != file {
                let detail = "must not be padded with whitespace";
                errors.push(FieldError::invalid(&file_path(), file, detail));
            } else if file.is_empty() {
                errors.push(FieldError::required(&file_path(), NEEDED));
            }
            if file.len() > LIMIT {
                errors.push(FieldError::too_long(&file_path(), LIMIT));
            }
        }
        ("RuntimeDefault" | "Unconfined", file) => {
            if let Some(file) = file {
                let detail = "can only be set when AppArmor type is Localhost";
                errors.push(FieldError::invalid(&file_path(), named(file), detail));
            }
        }
        ("", _) => {
            let detail = "type is required when appArmorProfile is set";
            errors.push(FieldError::required(&path.child("type"), detail));
        }
        (other, _) => errors.push(FieldError::not_supported(
            &path.child("type"),
            named(other),
            &["Localhost", "RuntimeDefault", "Unconfined"],
        )),
    }
}
