//! Security contexts of pods and containers.

// upstream: pkg/apis/core/validation/validation.go

use std::collections::HashSet;

use atoll_meta::names;

use super::volume_source::descending_path;
use super::windows;
use crate::field_value::{Errors, FieldValue};
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
pub(super) fn container(errors: &mut Errors, context: &FieldValue<'_>, uses_host_users: bool) {
    unix_ids(errors, context, &["runAsUser", "runAsGroup"]);
    if let Some(mount) = context.given("procMount") {
        one_of(errors, &mount, &["Default", "Unmasked"]);
        if uses_host_users && mount.text() == "Unmasked" {
            errors.push(mount.invalid_named("`hostUsers` must be false to use `Unmasked`"));
        }
    }
    seccomp(errors, context);
    if context.value_of("allowPrivilegeEscalation").as_bool() == Some(false) {
        let mut refuse = |what: &str| {
            let detail = format!("cannot set `allowPrivilegeEscalation` to false and {what}");
            errors.push(context.invalid_as(internal::render("SecurityContext", context.value), detail));
        };
        if context.flag_of("privileged") {
            refuse("`privileged` to true");
        }
        let added = context.get("capabilities").get("add");
        for _ in added.texts().filter(|name| *name == "CAP_SYS_ADMIN") {
            refuse("`capabilities.Add` CAP_SYS_ADMIN");
        }
    }
    windows::options(errors, context);
    app_armor(errors, context);
}

/// Checks the security context of a pod. The fields that upstream's internal type keeps there too, such as
/// `hostNetwork`, are in the spec.
pub(super) fn pod(errors: &mut Errors, spec: &FieldValue<'_>, old: Option<&FieldValue<'_>>) {
    let context = spec.get("securityContext");
    unix_ids(errors, &context, &["fsGroup", "runAsUser", "runAsGroup"]);
    for group in context.get("supplementalGroups").items() {
        group.number_rules(errors, names::unix_id(group.integer()));
    }
    if spec.flag_of("shareProcessNamespace") && spec.flag_of("hostPID") {
        let detail = "ShareProcessNamespace and HostPID cannot both be enabled";
        errors.push(context.get("shareProcessNamespace").invalid_as(true, detail));
    }
    sysctls(errors, spec, &context);
    one_of(errors, &context.get("fsGroupChangePolicy"), &["Always", "OnRootMismatch"]);
    seccomp(errors, &context);
    windows::options(errors, &context);
    app_armor(errors, &context);
    one_of(errors, &context.get("supplementalGroupsPolicy"), &["Merge", "Strict"]);
    // SELinuxMount is behind a feature gate, which upstream ignores if the old pod has a policy.
    let policy = context.get("seLinuxChangePolicy");
    let had_policy = old.is_some_and(|old| old.get("securityContext").has("seLinuxChangePolicy"));
    one_of(errors, &policy, if had_policy { &["MountOption", "Recursive"] } else { &["Recursive"] });
}

/// Checks that a string, if it is set, is one of these values.
fn one_of(errors: &mut Errors, setting: &FieldValue<'_>, supported: &[&str]) {
    if setting.optional_text().is_some_and(|text| !supported.contains(&text)) {
        errors.push(setting.unsupported(supported));
    }
}

fn unix_ids(errors: &mut Errors, context: &FieldValue<'_>, fields: &[&'static str]) {
    for field in fields {
        if let Some(id) = context.given(field) {
            id.number_rules(errors, names::unix_id(id.integer()));
        }
    }
}

fn sysctls(errors: &mut Errors, spec: &FieldValue<'_>, context: &FieldValue<'_>) {
    let mut seen = HashSet::new();
    for sysctl in context.get("sysctls").items() {
        let name = sysctl.get("name");
        if name.is_empty() {
            errors.push(name.required(""));
        } else if !is_sysctl(name.text()) {
            let detail = "must have at most 253 characters and match regex \
                          ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
            errors.push(name.invalid(detail));
        } else if seen.contains(name.text()) {
            errors.push(name.duplicate());
        }
        let (is_network, is_ipc) = namespaces(name.text());
        for (concerns, flag) in [(is_network, "hostNetwork"), (is_ipc, "hostIPC")] {
            if concerns && spec.flag_of(flag) {
                errors.push(name.invalid_text(format!("may not be specified when '{flag}' is true")));
            }
        }
        seen.insert(name.text());
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

fn seccomp(errors: &mut Errors, context: &FieldValue<'_>) {
    const TYPES: &[&str] = &["Localhost", "RuntimeDefault", "Unconfined"];
    let Some(profile) = context.given("seccompProfile") else { return };
    let (kind, file) = (profile.get("type"), profile.get("localhostProfile"));
    if kind.is_empty() {
        errors.push(kind.required("type is required when seccompProfile is set"));
    } else if !TYPES.contains(&kind.text()) {
        errors.push(kind.unsupported(TYPES));
    }
    match (kind.text(), file.is_set()) {
        ("Localhost", false) => {
            errors.push(file.required("must be set when seccomp type is Localhost"));
        }
        ("Localhost", true) => descending_path(errors, &file),
        (_, true) => {
            let detail = "can only be set when seccomp type is Localhost";
            errors.push(file.invalid_as(internal::render("SeccompProfile", profile.value), detail));
        }
        (_, false) => {}
    }
}

fn app_armor(errors: &mut Errors, context: &FieldValue<'_>) {
    const LIMIT: usize = 4095;
    const NEEDED: &str = "must be set when AppArmor type is Localhost";
    let Some(profile) = context.given("appArmorProfile") else { return };
    let (kind, file) = (profile.get("type"), profile.get("localhostProfile"));
    match kind.text() {
        "Localhost" => {
            if file.text().trim() != file.text() {
                errors.push(file.invalid("must not be padded with whitespace"));
            } else if file.is_empty() {
                errors.push(file.required(NEEDED));
            }
            if file.len() > LIMIT {
                errors.push(file.too_long(LIMIT));
            }
        }
        "RuntimeDefault" | "Unconfined" => {
            if file.is_set() {
                errors.push(file.invalid_named("can only be set when AppArmor type is Localhost"));
            }
        }
        "" => errors.push(kind.required("type is required when appArmorProfile is set")),
        _ => errors.push(kind.unsupported(&["Localhost", "RuntimeDefault", "Unconfined"])),
    }
}
