//! The checks of the baseline level, which prevent known privilege escalations.

// upstream: staging/src/k8s.io/pod-security-admission/policy/check_appArmorProfile.go
// upstream: staging/src/k8s.io/pod-security-admission/policy/check_capabilities_baseline.go
// upstream: staging/src/k8s.io/pod-security-admission/policy/check_hostNamespaces.go
// upstream: staging/src/k8s.io/pod-security-admission/policy/check_hostPathVolumes.go
// upstream: staging/src/k8s.io/pod-security-admission/policy/check_hostPorts.go
// upstream: staging/src/k8s.io/pod-security-admission/policy/check_hostProbesAndhostLifecycle.go
// upstream: staging/src/k8s.io/pod-security-admission/policy/check_privileged.go
// upstream: staging/src/k8s.io/pod-security-admission/policy/check_procMount_baseline.go
// upstream: staging/src/k8s.io/pod-security-admission/policy/check_seLinuxOptions.go
// upstream: staging/src/k8s.io/pod-security-admission/policy/check_seccompProfile_baseline.go
// upstream: staging/src/k8s.io/pod-security-admission/policy/check_sysctls.go
// upstream: staging/src/k8s.io/pod-security-admission/policy/check_windowsHostProcess.go

use std::collections::BTreeSet;

use atoll_meta::quote::quote;
use serde_json::Value;

use super::{
    Pod, Violation, format_containers, format_setters, name, plural, quoted, quoted_set, text,
    unless_user_namespace, violation,
};
use crate::items;

const CAPABILITIES: [&str; 13] = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];

/// Safe sysctls, in the order in which versions allowed them.
const SYSCTLS: [&str; 12] = [
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.ping_group_range",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",
];

/// Allowed SELinux types. The last one was added in v1.31.
const SE_LINUX_TYPES: [&str; 5] =
    ["", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"];

const POD_SECCOMP: &str = "seccomp.security.alpha.kubernetes.io/pod";
const CONTAINER_SECCOMP: &str = "container.seccomp.security.alpha.kubernetes.io/";
const CONTAINER_APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";

pub fn app_armor(pod: &Pod<'_>) -> Option<Violation> {
    let mut values = BTreeSet::new();
    let mut is_bad = |holder: &Value| {
        let Some(profile) = holder["securityContext"].get("appArmorProfile") else { return false };
        let kind = text(profile, "type");
        let bad = !matches!(kind, "RuntimeDefault" | "Localhost");
        if bad {
            values.insert(kind.to_owned());
        }
        bad
    };
    let by_pod = is_bad(pod.spec);
    let containers = pod.container_names(&mut is_bad);
    let mut annotations: Vec<String> = pod
        .annotations()
        .filter(|(key, value)| {
            let allowed = value.is_empty() || *value == "runtime/default" || value.starts_with("localhost/");
            key.starts_with(CONTAINER_APP_ARMOR) && !allowed
        })
        .map(|(key, value)| format!("{key}={}", quote(value)))
        .collect();
    annotations.sort();
    let mut who = format_setters(by_pod, &containers);
    if !annotations.is_empty() {
        let and = if who.is_empty() { "" } else { " and " };
        who = format!("{who}{and}{}", plural("annotation", annotations.len()));
    }
    if who.is_empty() {
        return None;
    }
    let values: Vec<String> = values.into_iter().chain(annotations).collect();
    violation(
        &plural("forbidden AppArmor profile", values.len()),
        format!("{who} must not set AppArmor profile type to {}", quoted(&values)),
    )
}

pub fn capabilities(pod: &Pod<'_>) -> Option<Violation> {
    let mut added = BTreeSet::new();
    let bad = pod.container_names(|container| {
        let other = added_except(container, |capability| CAPABILITIES.contains(&capability));
        let any = !other.is_empty();
        added.extend(other);
        any
    });
    let detail = || {
        let (who, which) = (format_containers(&bad), quoted_set(&added));
        format!("{who} must not include {which} in securityContext.capabilities.add")
    };
    if bad.is_empty() { None } else { violation("non-default capabilities", detail()) }
}

/// Returns the capabilities that a container adds and that are not allowed.
pub fn added_except(container: &Value, allowed: impl Fn(&str) -> bool) -> Vec<String> {
    let added = container["securityContext"]["capabilities"]["add"].as_array().into_iter().flatten();
    added.filter_map(Value::as_str).filter(|capability| !allowed(capability)).map(str::to_owned).collect()
}

pub fn host_namespaces(pod: &Pod<'_>) -> Option<Violation> {
    let shared = ["hostNetwork", "hostPID", "hostIPC"].into_iter().filter(|field| pod.spec[*field] == true);
    let shared: Vec<String> = shared.map(|field| format!("{field}=true")).collect();
    if shared.is_empty() { None } else { violation("host namespaces", shared.join(", ")) }
}

pub fn host_paths(pod: &Pod<'_>) -> Option<Violation> {
    let volumes = items(pod.spec, "volumes");
    let bad: Vec<&str> = volumes.filter(|volume| volume.get("hostPath").is_some()).map(name).collect();
    let detail = || format!("{} {}", plural("volume", bad.len()), quoted(&bad));
    if bad.is_empty() { None } else { violation("hostPath volumes", detail()) }
}

pub fn host_ports(pod: &Pod<'_>) -> Option<Violation> {
    let mut ports = BTreeSet::new();
    let bad = pod.container_names(|container| {
        let used = items(container, "ports").filter_map(|port| port["hostPort"].as_i64());
        let used: Vec<String> = used.filter(|port| *port != 0).map(|port| port.to_string()).collect();
        let any = !used.is_empty();
        ports.extend(used);
        any
    });
    if bad.is_empty() {
        return None;
    }
    let use_them = if bad.len() == 1 { "uses" } else { "use" };
    let which = ports.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    let detail =
        format!("{} {use_them} {} {which}", format_containers(&bad), plural("hostPort", ports.len()));
    violation("hostPort", detail)
}

pub fn probe_hosts(pod: &Pod<'_>) -> Option<Violation> {
    let mut hosts = BTreeSet::new();
    let bad = pod.container_names(|container| {
        let lifecycle = &container["lifecycle"];
        let handlers = ["livenessProbe", "readinessProbe", "startupProbe"]
            .map(|probe| &container[probe])
            .into_iter()
            .chain(["postStart", "preStop"].map(|moment| &lifecycle[moment]));
        let used =
            handlers.flat_map(|handler| ["httpGet", "tcpSocket"].map(|way| text(&handler[way], "host")));
        let used: Vec<&str> = used.filter(|host| !host.is_empty()).collect();
        hosts.extend(used.iter().map(|host| (*host).to_owned()));
        !used.is_empty()
    });
    if bad.is_empty() {
        return None;
    }
    let bad: Vec<&str> = bad.into_iter().collect::<BTreeSet<_>>().into_iter().collect();
    let use_them = if bad.len() == 1 { "uses" } else { "use" };
    let what = plural("probe or lifecycle host", hosts.len());
    let detail = format!("{} {use_them} {what} {}", format_containers(&bad), quoted_set(&hosts));
    violation("probe or lifecycle host", detail)
}

pub fn privileged(pod: &Pod<'_>) -> Option<Violation> {
    let bad = pod.container_names(|container| container["securityContext"]["privileged"] == true);
    let detail = || format!("{} must not set securityContext.privileged=true", format_containers(&bad));
    if bad.is_empty() { None } else { violation("privileged", detail()) }
}

pub fn proc_mount(pod: &Pod<'_>) -> Option<Violation> {
    let mut kinds = BTreeSet::new();
    let bad = pod.container_names(|container| match container["securityContext"]["procMount"].as_str() {
        None | Some("Default") => false,
        Some(kind) => {
            kinds.insert(kind.to_owned());
            true
        }
    });
    let detail = || {
        format!(
            "{} must not set securityContext.procMount to {}",
            format_containers(&bad),
            quoted_set(&kinds)
        )
    };
    if bad.is_empty() { None } else { violation("procMount", detail()) }
}

pub fn proc_mount_unless_user_namespace(pod: &Pod<'_>) -> Option<Violation> {
    unless_user_namespace(pod, proc_mount)
}

pub fn se_linux(pod: &Pod<'_>) -> Option<Violation> {
    se_linux_of(pod, &SE_LINUX_TYPES[..4])
}

pub fn se_linux_with_engine(pod: &Pod<'_>) -> Option<Violation> {
    se_linux_of(pod, &SE_LINUX_TYPES)
}

fn se_linux_of(pod: &Pod<'_>, allowed: &[&str]) -> Option<Violation> {
    let (mut types, mut user, mut role) = (BTreeSet::new(), false, false);
    let mut is_bad = |holder: &Value| {
        let Some(options) = holder["securityContext"].get("seLinuxOptions") else { return false };
        let kind = text(options, "type");
        let (bad_type, has_user, has_role) =
            (!allowed.contains(&kind), !text(options, "user").is_empty(), !text(options, "role").is_empty());
        if bad_type {
            types.insert(kind.to_owned());
        }
        user |= has_user;
        role |= has_role;
        bad_type || has_user || has_role
    };
    let by_pod = is_bad(pod.spec);
    let containers = pod.container_names(&mut is_bad);
    if !by_pod && containers.is_empty() {
        return None;
    }
    let mut what = Vec::new();
    if !types.is_empty() {
        what.push(format!("{} {}", plural("type", types.len()), quoted_set(&types)));
    }
    if user {
        what.push("user may not be set".to_owned());
    }
    if role {
        what.push("role may not be set".to_owned());
    }
    let who = format_setters(by_pod, &containers);
    violation(
        "seLinuxOptions",
        format!("{who} set forbidden securityContext.seLinuxOptions: {}", what.join("; ")),
    )
}

pub fn seccomp_annotations(pod: &Pod<'_>) -> Option<Violation> {
    let is_bad = |value: &str| {
        !(matches!(value, "runtime/default" | "docker/default") || value.starts_with("localhost/"))
    };
    let keys = pod.containers().map(|container| format!("{CONTAINER_SECCOMP}{}", name(container)));
    let keys: BTreeSet<String> = keys.chain([POD_SECCOMP.to_owned()]).collect();
    let bad = pod.annotations().filter(|(key, value)| keys.contains(*key) && is_bad(value));
    let bad: BTreeSet<String> = bad.map(|(key, value)| format!("{key}={}", quote(value))).collect();
    let detail = || {
        let which: Vec<&str> = bad.iter().map(String::as_str).collect();
        format!("forbidden {} {}", plural("annotation", bad.len()), which.join(", "))
    };
    if bad.is_empty() { None } else { violation("seccompProfile", detail()) }
}

pub fn seccomp(pod: &Pod<'_>) -> Option<Violation> {
    let mut values = BTreeSet::new();
    let by_pod = is_bad_seccomp(pod.spec, &mut values);
    let containers = pod.container_names(|container| is_bad_seccomp(container, &mut values));
    forbidden_seccomp(by_pod, &containers, &values)
}

/// Whether a pod or a container has a forbidden seccomp profile, which is then added to `values`.
pub fn is_bad_seccomp(holder: &Value, values: &mut BTreeSet<String>) -> bool {
    let Some(profile) = holder["securityContext"].get("seccompProfile") else { return false };
    let kind = text(profile, "type");
    let bad = !matches!(kind, "Localhost" | "RuntimeDefault");
    if bad {
        values.insert(kind.to_owned());
    }
    bad
}

pub fn forbidden_seccomp(by_pod: bool, containers: &[&str], values: &BTreeSet<String>) -> Option<Violation> {
    if !by_pod && containers.is_empty() {
        return None;
    }
    let who = format_setters(by_pod, containers);
    violation(
        "seccompProfile",
        format!("{who} must not set securityContext.seccompProfile.type to {}", quoted_set(values)),
    )
}

/// Checks sysctls. `known` is the number of safe sysctls that the version allows.
pub fn sysctls(pod: &Pod<'_>, known: usize) -> Option<Violation> {
    let set = items(&pod.spec["securityContext"], "sysctls").map(name);
    let bad: Vec<&str> = set.filter(|name| !SYSCTLS[..known].contains(name)).collect();
    if bad.is_empty() { None } else { violation("forbidden sysctls", bad.join(", ")) }
}

pub fn windows_host_process(pod: &Pod<'_>) -> Option<Violation> {
    let is_bad = |holder: &Value| holder["securityContext"]["windowsOptions"]["hostProcess"] == true;
    let (by_pod, containers) = (is_bad(pod.spec), pod.container_names(is_bad));
    if !by_pod && containers.is_empty() {
        return None;
    }
    let who = format_setters(by_pod, &containers);
    violation("hostProcess", format!("{who} must not set securityContext.windowsOptions.hostProcess=true"))
}
