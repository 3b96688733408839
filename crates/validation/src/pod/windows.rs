//! Rules that depend on the operating system.

// upstream: pkg/apis/core/validation/validation.go

use atoll_meta::{FieldError, FieldPath, names};
use serde_json::Value;

use super::each_container;
use crate::fields::{Errors, Fields, named};

const WINDOWS: &str = "cannot be set for a windows pod";

/// Fields that pods on Windows must not set: the path in upstream's order, and whether it is in the security
/// context.
const NOT_ON_WINDOWS: &[(&str, bool)] = &[
    ("appArmorProfile", true),
    ("seLinuxOptions", true),
    ("hostUsers", false),
    ("hostPID", false),
    ("hostIPC", false),
    ("seccompProfile", true),
    ("fsGroup", true),
    ("fsGroupChangePolicy", true),
    ("sysctls", true),
    ("shareProcessNamespace", false),
    ("runAsUser", true),
    ("runAsGroup", true),
    ("supplementalGroups", true),
    ("supplementalGroupsPolicy", true),
    ("seLinuxChangePolicy", true),
];

const NOT_IN_WINDOWS_CONTAINERS: &[&str] = &[
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "capabilities",
    "readOnlyRootFilesystem",
    "privileged",
    "allowPrivilegeEscalation",
    "procMount",
    "runAsUser",
    "runAsGroup",
];

/// Checks `os` and the fields that it excludes.
pub(super) fn check_os(errors: &mut Errors, spec: &Value, path: &FieldPath) {
    let Some(os) = spec.field("os") else { return };
    match os.text("name") {
        "" => errors.push(FieldError::required(&path.child("os").child("name"), "")),
        "linux" => linux(errors, spec, path),
        "windows" => windows(errors, spec, path),
        other => {
            let supported = ["linux", "windows"];
            errors.push(FieldError::not_supported(&path.child("os"), named(other), &supported));
        }
    }
}

fn linux(errors: &mut Errors, spec: &Value, path: &FieldPath) {
    let mut refuse = |holder: &Value, path: &FieldPath| {
        if holder.part("securityContext").field("windowsOptions").is_some() {
            let path = path.child("securityContext").child("windowsOptions");
            errors.push(FieldError::forbidden(&path, "windows options cannot be set for a linux pod"));
        }
    };
    refuse(spec, path);
    each_container(spec, path, |container, path| refuse(container, path));
}

fn windows(errors: &mut Errors, spec: &Value, path: &FieldPath) {
    let context = spec.part("securityContext");
    for (field, is_in_context) in NOT_ON_WINDOWS {
        let holder = if *is_in_context { context } else { spec };
        let is_set = match holder.field(field) {
            // The flags for host namespaces are not pointers upstream.
            Some(Value::Bool(false)) => matches!(*field, "hostUsers" | "shareProcessNamespace"),
            Some(Value::Array(list)) => !list.is_empty(),
            other => other.is_some(),
        };
        if is_set {
            let path = if *is_in_context { path.child("securityContext") } else { path.clone() };
            errors.push(FieldError::forbidden(&path.child(*field), WINDOWS));
        }
    }
    each_container(spec, path, |container, path| {
        let context = container.part("securityContext");
        for field in NOT_IN_WINDOWS_CONTAINERS {
            if context.field(field).is_some() {
                let path = path.child("securityContext").child(*field);
                errors.push(FieldError::forbidden(&path, WINDOWS));
            }
        }
    });
}

/// Checks that either all containers are host processes or none.
pub(super) fn check_host_processes(errors: &mut Errors, spec: &Value, path: &FieldPath) {
    let setting =
        |holder: &Value| holder.part("securityContext").part("windowsOptions").optional_flag("hostProcess");
    let of_pod = setting(spec);
    let (mut all, mut of_host) = (0, 0);
    each_container(spec, path, |container, path| {
        all += 1;
        let own = setting(container);
        if let (Some(pod), Some(own)) = (of_pod, own)
            && pod != own
        {
            let path = path.child("securityContext").child("windowsOptions").child("hostProcess");
            let detail = format!("pod hostProcess value must be identical if both are specified, was {pod}");
            errors.push(FieldError::invalid(&path, own, detail));
        }
        if own.or(of_pod) == Some(true) {
            of_host += 1;
        }
    });
    if of_host == 0 {
        return;
    }
    if of_host != all {
        let detail =
            "If pod contains any hostProcess containers then all containers must be HostProcess containers";
        errors.push(FieldError::invalid(path, "", detail));
    }
    if !spec.flag("hostNetwork") {
        let detail = "hostNetwork must be true if pod contains any hostProcess containers";
        errors.push(FieldError::invalid(&path.child("hostNetwork"), false, detail));
    }
}

/// Checks `windowsOptions` of a security context.
pub(super) fn options(errors: &mut Errors, context: &Value, path: &FieldPath) {
    const CREDENTIAL_LIMIT: usize = 64 * 1024;
    let Some(options) = context.field("windowsOptions") else { return };
    let path = path.child("windowsOptions");
    let mut refuse = |field: &'static str, text: &str, detail: &str| {
        errors.push(FieldError::invalid(&path.child(field), named(text), detail));
    };
    if let Some(name) = options.optional_text("gmsaCredentialSpecName") {
        for rule in names::dns1123_subdomain(name) {
            refuse("gmsaCredentialSpecName", name, &rule);
        }
    }
    match options.optional_text("gmsaCredentialSpec") {
        Some("") => refuse("gmsaCredentialSpec", "", "gmsaCredentialSpec cannot be an empty string"),
        Some(text) if text.len() > CREDENTIAL_LIMIT => {
            refuse("gmsaCredentialSpec", text, "gmsaCredentialSpec size must be under 64 KiB");
        }
        _ => {}
    }
    if let Some(name) = options.optional_text("runAsUserName") {
        for detail in user_name(name) {
            refuse("runAsUserName", name, detail);
        }
    }
}

/// Returns messages about `user` or `domain\user`.
fn user_name(name: &str) -> Vec<&'static str> {
    if name.is_empty() {
        return vec!["runAsUserName cannot be an empty string"];
    }
    if name.contains(|character: char| character.is_ascii_control()) {
        return vec!["runAsUserName cannot contain control characters"];
    }
    if name.matches('\\').count() > 1 {
        return vec!["runAsUserName cannot contain more than one backslash"];
    }
    let (domain, user) = match name.split_once('\\') {
        Some((domain, user)) => (Some(domain), user),
        None => (None, name),
    };
    let mut details = Vec::new();
    if let Some(domain) = domain {
        if domain.len() >= 256 {
            details.push("runAsUserName's Domain length must be under 256 characters");
        }
        if !is_net_bios(domain) && !is_dns(domain) {
            details.push("runAsUserName's Domain doesn't match the NetBios nor the DNS format");
        }
    }
    if user.is_empty() {
        details.push("runAsUserName's User cannot be empty");
    } else if user.len() > 104 {
        details.push("runAsUserName's User length must not be longer than 104 characters");
    }
    if !user.is_empty() && user.chars().all(|character| matches!(character, '.' | ' ')) {
        details.push("runAsUserName's User cannot contain only periods or spaces");
    }
    if user.contains(['"', '/', '\\', ':', ';', '|', '=', ',', '+', '*', '?', '<', '>', '@', '[', ']']) {
        details.push("runAsUserName's User cannot contain the following characters: \"/\\:;|=,+*?<>@[]");
    }
    details
}

fn is_net_bios(domain: &str) -> bool {
    (1..=15).contains(&domain.chars().count())
        && !domain.starts_with('.')
        && !domain.contains(['\\', '/', ':', '*', '?', '"', '<', '>', '|'])
}

fn is_dns(domain: &str) -> bool {
    domain.split('.').all(|label| {
        let bytes = label.as_bytes();
        (1..=63).contains(&bytes.len())
            && bytes[0].is_ascii_alphanumeric()
            && bytes[bytes.len() - 1].is_ascii_alphanumeric()
            && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-')
    })
}
