//! Warnings about pods and pod templates.

// upstream: pkg/api/pod/warnings.go

use std::collections::{HashMap, HashSet};

use atoll_meta::FieldPath;
use atoll_meta::quote::quote;
use serde_json::{Value, json};

use super::{addresses, fraction, node_label, node_selector_term, storage, volumes};
use crate::field_value::FieldValue;

const CONTAINERS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

const ANNOTATIONS: [(&str, &str); 3] = [
    (
        "scheduler.alpha.kubernetes.io/critical-pod",
        r#"non-functional in v1.16+; use the "priorityClassName" field instead"#,
    ),
    ("security.alpha.kubernetes.io/sysctls", r#"non-functional in v1.11+; use the "sysctls" field instead"#),
    (
        "security.alpha.kubernetes.io/unsafe-sysctls",
        r#"non-functional in v1.11+; use the "sysctls" field instead"#,
    ),
];

/// Deprecated volume sources: field, name in the message, and message.
const SOURCES: [(&str, &str, &str); 10] = [
    ("photonPersistentDisk", "photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("gitRepo", "gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
    ("scaleIO", "scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("flocker", "flocker", "deprecated in v1.22, non-functional in v1.25+"),
    ("storageos", "storageOS", "deprecated in v1.22, non-functional in v1.25+"),
    ("quobyte", "quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    // Not deprecated, but listed here to keep upstream's order.
    ("ephemeral", "ephemeral", ""),
    ("cephfs", "cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("rbd", "rbd", "deprecated in v1.28, non-functional in v1.31+"),
];

const SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";
const SECCOMP_MESSAGE: &str = r#"non-functional in v1.27+; use the "seccompProfile" field instead"#;
const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";
const APP_ARMOR_MESSAGE: &str = r#"deprecated since v1.30; use the "appArmorProfile" field instead"#;
const MAX_PROFILE_LENGTH: usize = 4095;
const NO_SELECTOR: &str = "a null labelSelector results in matching no pod";

pub fn pod(pod: &Value, warnings: &mut Vec<String>) {
    spec_and_metadata(&FieldValue::root(pod), false, warnings);
}

pub fn template(template: &FieldValue<'_>, warnings: &mut Vec<String>) {
    if template.is_set() {
        spec_and_metadata(template, true, warnings);
    }
}

fn spec_and_metadata(holder: &FieldValue<'_>, is_template: bool, warnings: &mut Vec<String>) {
    let (spec, annotations) = (holder.get("spec"), holder.get("metadata").get("annotations"));
    placement(&spec, warnings);
    for (name, message) in ANNOTATIONS {
        if annotations.has(name) {
            warnings.push(format!("{}: {message}", annotations.path.key(name)));
        }
    }
    spec.get("volumes").items().for_each(|volume| sources(&volume, warnings));
    volumes::overlaps(&spec.get("volumes"), warnings);
    names(&spec, warnings);
    bytes(&spec.get("overhead"), &["memory", "ephemeral-storage"], warnings);
    if !spec.get("securityContext").has("seccompProfile") && annotations.has(SECCOMP_POD) {
        warnings.push(format!("{}: {SECCOMP_MESSAGE}", annotations.path.key(SECCOMP_POD)));
    }
    let pod_profile = &spec.get("securityContext").get("appArmorProfile");
    each_container(&spec, |container| {
        let context = container.get("securityContext");
        let name = container.text_of("name");
        let seccomp = format!("{SECCOMP_CONTAINER}{name}");
        if !context.has("seccompProfile") && annotations.has(&seccomp) {
            warnings.push(format!("{}: {SECCOMP_MESSAGE}", annotations.path.key(&seccomp)));
        }
        let key = format!("{APP_ARMOR}{name}");
        if is_template && !context.has("appArmorProfile") && annotations.has(&key) {
            let profile = app_armor_profile(annotations.text_of(&key));
            if !pod_profile.is_set() || profile.as_ref() != Some(pod_profile.value) {
                warnings.push(format!("{}: {APP_ARMOR_MESSAGE}", annotations.path.key(&key)));
            }
        }
        for resource in ["memory", "ephemeral-storage"] {
            for list in ["limits", "requests"] {
                bytes(&container.get("resources").get(list), &[resource], warnings);
            }
        }
        environment(&container.get("env"), warnings);
    });
    ports(&spec, warnings);
    let period = spec.get("terminationGracePeriodSeconds");
    if period.number().is_some_and(|seconds| seconds < 0) {
        let path = &period.path;
        warnings.push(format!("{path}: must be >= 0; negative values are invalid and will be treated as 1"));
    }
    affinity(&spec.get("affinity"), warnings);
    let servers = spec.get("dnsConfig").get("nameservers");
    servers.items().for_each(|server| addresses::address(&server, warnings));
    let aliases = spec.get("hostAliases");
    aliases.items().for_each(|alias| addresses::address(&alias.get("ip"), warnings));
}

fn each_container<'a>(spec: &FieldValue<'a>, mut visit: impl FnMut(&FieldValue<'a>)) {
    for list in CONTAINERS {
        spec.get(list).items().for_each(|container| visit(&container));
    }
}

fn bytes(amounts: &FieldValue<'_>, resources: &[&str], warnings: &mut Vec<String>) {
    for resource in resources {
        if let Some((_, amount)) = amounts.entries().find(|(name, _)| name == resource) {
            fraction(&amount, warnings);
        }
    }
}

/// Warns about deprecated node labels and about selectors that select nothing.
fn placement(spec: &FieldValue<'_>, warnings: &mut Vec<String>) {
    for (label, field) in spec.get("nodeSelector").entries() {
        warnings.extend(node_label(label).map(|message| format!("{}: {message}", field.path)));
    }
    let affinity = spec.get("affinity").get("nodeAffinity");
    let required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution").get("nodeSelectorTerms");
    required.items().for_each(|term| node_selector_term(&term, false, warnings));
    let preferred = affinity.get("preferredDuringSchedulingIgnoredDuringExecution");
    preferred.items().for_each(|term| node_selector_term(&term.get("preference"), true, warnings));
    for constraint in spec.get("topologySpreadConstraints").items() {
        let key = constraint.get("topologyKey");
        if let Some(message) = node_label(key.text()) {
            warnings.push(format!("{}: {} is {message}", key.path, key.text()));
        }
        no_selector(&constraint, warnings);
    }
}

fn no_selector(holder: &FieldValue<'_>, warnings: &mut Vec<String>) {
    let selector = holder.get("labelSelector");
    if !selector.is_set() {
        warnings.push(format!("{}: {NO_SELECTOR}", selector.path));
    }
}

fn affinity(affinity: &FieldValue<'_>, warnings: &mut Vec<String>) {
    for kind in ["podAffinity", "podAntiAffinity"] {
        let terms = affinity.get(kind);
        let required = terms.get("requiredDuringSchedulingIgnoredDuringExecution");
        required.items().for_each(|term| no_selector(&term, warnings));
        let preferred = terms.get("preferredDuringSchedulingIgnoredDuringExecution");
        preferred.items().for_each(|term| no_selector(&term.get("podAffinityTerm"), warnings));
    }
}

fn sources(volume: &FieldValue<'_>, warnings: &mut Vec<String>) {
    for (name, upstream_name, message) in SOURCES {
        if !volume.has(name) {
            continue;
        }
        if name == "ephemeral" {
            let claim = volume.get("ephemeral").get("volumeClaimTemplate");
            storage::claim_spec(&claim.get("spec"), warnings);
        } else {
            warnings.push(format!("{}: {message}", volume.path.child(upstream_name)));
        }
    }
}

/// Warns about duplicate or empty names of host aliases and pull secrets.
fn names(spec: &FieldValue<'_>, warnings: &mut Vec<String>) {
    let mut seen = HashSet::new();
    for alias in spec.get("hostAliases").items() {
        let address = alias.get("ip");
        if !seen.insert(address.text()) {
            warnings.push(format!("{}: duplicate ip {}", address.path, quote(address.text())));
        }
    }
    let mut seen = HashSet::new();
    let secrets = spec.get("imagePullSecrets");
    for secret in secrets.items() {
        let name = secret.get("name");
        if !seen.insert(name.text()) {
            warnings.push(format!("{}: duplicate name {}", name.path, quote(name.text())));
        }
    }
    for secret in secrets.items().filter(|secret| secret.text_of("name").is_empty()) {
        warnings.push(format!("{}: invalid empty name \"\"", secret.get("name").path));
    }
}

/// Warns about duplicate environment variables. A variable that refers to the earlier one is not a duplicate.
fn environment(variables: &FieldValue<'_>, warnings: &mut Vec<String>) {
    let mut seen = HashSet::new();
    for variable in variables.items() {
        let name = variable.text_of("name");
        if seen.insert(name) {
            continue;
        }
        let reference = format!("$({name})");
        let value = variable.text_of("value");
        if variable.has("valueFrom") || value == reference || !value.contains(&reference) {
            warnings.push(format!(
                "{}: hides previous definition of {}, which may be dropped when using apply",
                variable.path,
                quote(name)
            ));
        }
    }
}

/// Maximum number of pairs of ports that are compared. The headers of a response have room for far fewer warnings.
const MAX_PAIRS: usize = 500_000;

fn ports(spec: &FieldValue<'_>, warnings: &mut Vec<String>) {
    let mut all: HashMap<(i64, &str), Vec<FieldValue<'_>>> = HashMap::new();
    let mut pairs = 0;
    let number = |port: &FieldValue<'_>, name: &'static str| port.get(name).number().unwrap_or_default();
    each_container(spec, |container| {
        for port in container.get("ports").items() {
            let (host, host_port) = (port.text_of("hostIP"), number(&port, "hostPort"));
            let (inside, protocol) = (number(&port, "containerPort"), port.text_of("protocol"));
            if !host.is_empty() && host_port == 0 {
                warnings.push(format!(
                    "{}: hostIP set without hostPort: {{Name:{} HostPort:0 ContainerPort:{inside} Protocol:{protocol} \
                     HostIP:{host}}}",
                    port.path,
                    port.text_of("name")
                ));
            }
            let others = all.entry((inside, protocol)).or_default();
            pairs += others.len();
            if pairs > MAX_PAIRS {
                continue;
            }
            for other in others.iter() {
                let (other_host, other_port) = (other.text_of("hostIP"), number(other, "hostPort"));
                let how = if host == other_host && host_port == other_port {
                    "duplicate"
                } else if host_port == 0 || other_port == 0 {
                    "overlapping"
                } else if host_port == other_port && host.is_empty() != other_host.is_empty() {
                    "dangerously ambiguous"
                } else {
                    continue;
                };
                warnings.push(format!("{}: {how} port definition with {}", port.path, other.path));
            }
            others.push(port);
        }
    });
    let mut named: HashMap<&str, FieldPath> = HashMap::new();
    each_container(spec, |container| {
        for port in container.get("ports").items() {
            let name = port.text_of("name");
            match named.get(name) {
                _ if name.is_empty() => {}
                None => drop(named.insert(name, port.path)),
                Some(other) => warnings.push(format!(
                    "{}: duplicate port name {} with {other}, services and probes that select ports by name will use \
                     {other}",
                    port.path,
                    quote(name)
                )),
            }
        }
    });
}

/// Warns about AppArmor annotations without the corresponding fields. Once defaulted, a pod has both.
pub fn app_armor_annotations(pod: &Value) -> Vec<String> {
    let holder = FieldValue::root(pod);
    let (spec, annotations) = (holder.get("spec"), holder.get("metadata").get("annotations"));
    let mut warnings = Vec::new();
    if annotations.is_empty() || spec.get("os").text_of("name") == "windows" {
        return warnings;
    }
    let pod_profile = spec.get("securityContext").get("appArmorProfile");
    each_container(&spec, |container| {
        let key = format!("{APP_ARMOR}{}", container.text_of("name"));
        if !annotations.has(&key) || container.get("securityContext").has("appArmorProfile") {
            return;
        }
        if app_armor_profile(annotations.text_of(&key)).is_none_or(|profile| profile != *pod_profile.value) {
            warnings.push(format!("{}: {APP_ARMOR_MESSAGE}", annotations.path.key(&key)));
        }
    });
    warnings
}

/// Returns the field that corresponds to an AppArmor annotation.
pub fn app_armor_profile(annotation: &str) -> Option<Value> {
    match annotation {
        "unconfined" => Some(json!({"type": "Unconfined"})),
        "runtime/default" => Some(json!({"type": "RuntimeDefault"})),
        _ => {
            let name = annotation.strip_prefix("localhost/")?;
            let fits = !name.is_empty() && name.trim() == name && name.len() <= MAX_PROFILE_LENGTH;
            fits.then(|| json!({"type": "Localhost", "localhostProfile": name}))
        }
    }
}
