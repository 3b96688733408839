//! The checks of each level, by version.

// upstream: staging/src/k8s.io/pod-security-admission/policy/checks.go
// upstream: staging/src/k8s.io/pod-security-admission/policy/registry.go

mod baseline;
mod restricted;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use serde_json::Value;

use crate::items;
use crate::policy::{Level, LevelVersion, Version};

/// A pod or a pod template.
pub struct Pod<'a> {
    metadata: &'a Value,
    spec: &'a Value,
}

pub struct Violation {
    reason: String,
    detail: String,
}

/// All violations of a pod.
pub struct Violations(Vec<Violation>);

type Check = fn(&Pod<'_>) -> Option<Violation>;

/// A check in all its versions.
struct VersionedCheck {
    level: Level,
    /// Implementations by the minor version since which they apply.
    versions: &'static [(u64, Check)],
    /// Minor version since which a check of the restricted level includes this one.
    replaced: Option<u64>,
}

/// The newest version in which a check changed. Later versions have the same checks.
const NEWEST: u64 = 35;

const fn baseline(versions: &'static [(u64, Check)], replaced: Option<u64>) -> VersionedCheck {
    VersionedCheck { level: Level::Baseline, versions, replaced }
}

const fn restricted(versions: &'static [(u64, Check)]) -> VersionedCheck {
    VersionedCheck { level: Level::Restricted, versions, replaced: None }
}

/// All checks, in upstream's order.
const CHECKS: [VersionedCheck; 19] = [
    baseline(&[(0, baseline::app_armor)], None),
    baseline(&[(0, baseline::capabilities)], Some(22)),
    baseline(&[(0, baseline::host_namespaces)], None),
    baseline(&[(0, baseline::host_paths)], Some(0)),
    baseline(&[(0, baseline::host_ports)], None),
    baseline(&[(34, baseline::probe_hosts)], None),
    baseline(&[(0, baseline::privileged)], None),
    baseline(&[(0, baseline::proc_mount), (35, baseline::proc_mount_unless_user_namespace)], Some(35)),
    baseline(&[(0, baseline::se_linux), (31, baseline::se_linux_with_engine)], None),
    baseline(&[(0, baseline::seccomp_annotations), (19, baseline::seccomp)], Some(19)),
    baseline(
        &[
            (0, |pod| baseline::sysctls(pod, 5)),
            (27, |pod| baseline::sysctls(pod, 6)),
            (29, |pod| baseline::sysctls(pod, 10)),
            (32, |pod| baseline::sysctls(pod, 12)),
        ],
        None,
    ),
    baseline(&[(0, baseline::windows_host_process)], None),
    restricted(&[(8, restricted::escalation), (25, |pod| unless_windows(pod, restricted::escalation))]),
    restricted(&[(22, restricted::capabilities), (25, |pod| unless_windows(pod, restricted::capabilities))]),
    restricted(&[(35, baseline::proc_mount)]),
    restricted(&[(0, restricted::volumes)]),
    restricted(&[(0, restricted::non_root), (35, |pod| unless_user_namespace(pod, restricted::non_root))]),
    restricted(&[(23, restricted::user), (35, |pod| unless_user_namespace(pod, restricted::user))]),
    restricted(&[(19, restricted::seccomp), (25, |pod| unless_windows(pod, restricted::seccomp))]),
];

/// Evaluates a pod against a level and version.
pub fn evaluate(required: LevelVersion, metadata: &Value, spec: &Value) -> Violations {
    let minor = match required.version {
        Version::Minor(minor) => minor.min(NEWEST),
        Version::Latest => NEWEST,
    };
    let pod = Pod { metadata, spec };
    let applies = |check: &&VersionedCheck| {
        let replaced =
            required.level == Level::Restricted && check.replaced.is_some_and(|since| since <= minor);
        required.level >= check.level && !replaced
    };
    let implementation =
        |check: &VersionedCheck| check.versions.iter().rev().find(|(since, _)| *since <= minor).copied();
    let checks = CHECKS.iter().filter(applies).filter_map(implementation);
    Violations(checks.filter_map(|(_, check)| check(&pod)).collect())
}

impl Violations {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the reasons without details.
    pub fn reasons(&self) -> String {
        self.0.iter().map(|violation| violation.reason.as_str()).collect::<Vec<_>>().join(", ")
    }

    pub fn details(&self) -> String {
        let format_violation = |Violation { reason, detail }: &Violation| match detail.as_str() {
            "" => reason.clone(),
            detail => format!("{reason} ({detail})"),
        };
        self.0.iter().map(format_violation).collect::<Vec<_>>().join(", ")
    }
}

fn violation(reason: &str, detail: String) -> Option<Violation> {
    Some(Violation { reason: reason.to_owned(), detail })
}

/// Skips a check for Windows pods, in which validation forbids these fields.
fn unless_windows(pod: &Pod<'_>, check: Check) -> Option<Violation> {
    if pod.spec["os"]["name"] == "windows" { None } else { check(pod) }
}

/// Skips a check for pods in a user namespace, whose root is not root on the host.
fn unless_user_namespace(pod: &Pod<'_>, check: Check) -> Option<Violation> {
    if pod.spec["hostUsers"] == false { None } else { check(pod) }
}

impl<'a> Pod<'a> {
    fn containers(&self) -> impl Iterator<Item = &'a Value> + use<'a> {
        let spec = self.spec;
        ["initContainers", "containers", "ephemeralContainers"].into_iter().flat_map(|list| items(spec, list))
    }

    /// Returns the names of the containers that match.
    fn container_names(&self, mut matches: impl FnMut(&'a Value) -> bool) -> Vec<&'a str> {
        self.containers().filter(|container| matches(container)).map(name).collect()
    }

    fn annotations(&self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        let annotations = self.metadata["annotations"].as_object().into_iter().flatten();
        annotations.map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()))
    }
}

fn name(value: &Value) -> &str {
    value["name"].as_str().unwrap_or_default()
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

/// Formats `container "a"` or `containers "a", "b"`.
fn format_containers(names: &[&str]) -> String {
    format!("{} {}", plural("container", names.len()), quoted(names))
}

/// Formats the objects that set a field: the pod, its containers or both.
fn format_setters(by_pod: bool, names: &[&str]) -> String {
    let containers = (!names.is_empty()).then(|| format_containers(names));
    let all: Vec<String> = by_pod.then(|| "pod".to_owned()).into_iter().chain(containers).collect();
    all.join(" and ")
}

fn plural(word: &str, count: usize) -> String {
    if count == 1 { word.to_owned() } else { format!("{word}s") }
}

fn quoted<S: AsRef<str>>(items: &[S]) -> String {
    items.iter().map(|item| format!("\"{}\"", item.as_ref())).collect::<Vec<_>>().join(", ")
}

fn quoted_set(items: &BTreeSet<String>) -> String {
    quoted(&items.iter().collect::<Vec<_>>())
}
