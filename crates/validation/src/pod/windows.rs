//! Rules that depend on the operating system.

// upstream: pkg/apis/core/validation/validation.go

use atoll_meta::names;
use serde_json::Value;

use super::each_container;
use crate::field_value::{Errors, FieldValue};

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
pub(super) fn check_os(errors: &mut Errors, spec: &FieldValue<'_>) {
    let Some(os) = spec.given("os") else { return };
    let name = os.get("name");
    match name.text() {
        "" => errors.push(name.required("")),
        "linux" => linux(errors, spec),
        "windows" => windows(errors, spec),
        _ => errors.push(os.unsupported_as(name.named(), &["linux", "windows"])),
    }
}

fn linux(errors: &mut Errors, spec: &FieldValue<'_>) {
    let mut refuse = |holder: &FieldValue<'_>| {
        if let Some(options) = holder.get("securityContext").given("windowsOptions") {
            errors.push(options.forbidden("windows options cannot be set for a linux pod"));
        }
    };
    refuse(spec);
    each_container(spec, refuse);
}

fn windows(errors: &mut Errors, spec: &FieldValue<'_>) {
    let context = spec.get("securityContext");
    for (field, is_in_context) in NOT_ON_WINDOWS {
        let setting = if *is_in_context { context.get(field) } else { spec.get(field) };
        let is_set = match setting.value {
            // The flags for host namespaces are not pointers upstream.
            Value::Bool(false) => matches!(*field, "hostUsers" | "shareProcessNamespace"),
            Value::Array(list) => !list.is_empty(),
            _ => setting.is_set(),
        };
        if is_set {
            errors.push(setting.forbidden(WINDOWS));
        }
    }
    each_container(spec, |container| {
        let context = container.get("securityContext");
        for field in NOT_IN_WINDOWS_CONTAINERS {
            errors.extend(context.given(field).map(|setting| setting.forbidden(WINDOWS)));
        }
    });
}

/// Checks that either all containers are host processes or none.
pub(super) fn check_host_processes(errors: &mut Errors, spec: &FieldValue<'_>) {
    let setting = |holder: &FieldValue<'_>| {
        let options = holder.value_of("securityContext").get("windowsOptions")?;
        options.get("hostProcess")?.as_bool()
    };
    let of_pod = setting(spec);
    let (mut all, mut of_host) = (0, 0);
    each_container(spec, |container| {
        all += 1;
        let own = setting(container);
        if let (Some(pod), Some(own)) = (of_pod, own)
            && pod != own
        {
            let detail = format!("pod hostProcess value must be identical if both are specified, was {pod}");
            let options = container.get("securityContext").get("windowsOptions");
            errors.push(options.get("hostProcess").invalid(detail));
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
        errors.push(spec.invalid_as("", detail));
    }
    let network = spec.get("hostNetwork");
    if !network.flag() {
        let detail = "hostNetwork must be true if pod contains any hostProcess containers";
        errors.push(network.invalid_as(false, detail));
    }
}

/// Checks `windowsOptions` of a security context.
pub(super) fn options(errors: &mut Errors, context: &FieldValue<'_>) {
    const CREDENTIAL_LIMIT: usize = 64 * 1024;
    let Some(options) = context.given("windowsOptions") else { return };
    if let Some(name) = options.given("gmsaCredentialSpecName") {
        errors.extend(names::dns1123_subdomain(name.text()).into_iter().map(|rule| name.invalid_named(rule)));
    }
    let credential = options.get("gmsaCredentialSpec");
    match credential.optional_text() {
        Some("") => errors.push(credential.invalid_named("gmsaCredentialSpec cannot be an empty string")),
        Some(text) if text.len() > CREDENTIAL_LIMIT => {
            errors.push(credential.invalid_named("gmsaCredentialSpec size must be under 64 KiB"));
        }
        _ => {}
    }
    if let Some(name) = options.given("runAsUserName") {
        errors.extend(user_name(name.text()).into_iter().map(|detail| name.invalid_named(detail)));
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
