//! The additional checks of the restricted level.

// upstream: staging/src/k8s.io/pod-security-admission/policy/check_allowPrivilegeEscalation.go
// upstream: staging/src/k8s.io/pod-security-admission/policy/check_capabilities_restricted.go
// upstream: staging/src/k8s.io/pod-security-admission/policy/check_procMount_restricted.go
// upstream: staging/src/k8s.io/pod-security-admission/policy/check_restrictedVolumes.go
// upstream: staging/src/k8s.io/pod-security-admission/policy/check_runAsNonRoot.go
// upstream: staging/src/k8s.io/pod-security-admission/policy/check_runAsUser.go
// upstream: staging/src/k8s.io/pod-security-admission/policy/check_seccompProfile_restricted.go

use std::collections::BTreeSet;

use serde_json::Value;

use super::baseline::{added_except, forbidden_seccomp, is_bad_seccomp};
use super::{Pod, Violation, format_containers, format_setters, name, plural, quoted, quoted_set, violation};
use crate::items;

const VOLUMES: [&str; 9] = [
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
];

const OTHER_VOLUMES: [&str; 21] = [
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "gitRepo",
    "nfs",
    "iscsi",
    "glusterfs",
    "rbd",
    "flexVolume",
    "cinder",
    "cephfs",
    "flocker",
    "fc",
    "azureFile",
    "vsphereVolume",
    "quobyte",
    "azureDisk",
    "photonPersistentDisk",
    "portworxVolume",
    "scaleIO",
    "storageos",
];

pub fn escalation(pod: &Pod<'_>) -> Option<Violation> {
    let bad =
        pod.container_names(|container| container["securityContext"]["allowPrivilegeEscalation"] != false);
    let detail =
        || format!("{} must set securityContext.allowPrivilegeEscalation=false", format_containers(&bad));
    if bad.is_empty() { None } else { violation("allowPrivilegeEscalation != false", detail()) }
}

pub fn capabilities(pod: &Pod<'_>) -> Option<Violation> {
    let keeping = pod.container_names(|container| {
        let dropped = container["securityContext"]["capabilities"]["drop"].as_array();
        !dropped.is_some_and(|dropped| dropped.iter().any(|capability| capability == "ALL"))
    });
    let mut added = BTreeSet::new();
    let adding = pod.container_names(|container| {
        let other = added_except(container, |capability| capability == "NET_BIND_SERVICE");
        let any = !other.is_empty();
        added.extend(other);
        any
    });
    let mut details = Vec::new();
    if !keeping.is_empty() {
        let who = format_containers(&keeping);
        details.push(format!("{who} must set securityContext.capabilities.drop=[\"ALL\"]"));
    }
    if !adding.is_empty() {
        let (who, which) = (format_containers(&adding), quoted_set(&added));
        details.push(format!("{who} must not include {which} in securityContext.capabilities.add"));
    }
    if details.is_empty() { None } else { violation("unrestricted capabilities", details.join("; ")) }
}

pub fn volumes(pod: &Pod<'_>) -> Option<Violation> {
    let mut kinds = BTreeSet::new();
    let mut bad = Vec::new();
    for volume in items(pod.spec, "volumes") {
        let has = |kind: &&&str| volume.get(**kind).is_some();
        if VOLUMES.iter().any(|kind| has(&kind)) {
            continue;
        }
        bad.push(name(volume));
        kinds.insert(OTHER_VOLUMES.iter().find(has).map_or("unknown", |kind| *kind).to_owned());
    }
    if bad.is_empty() {
        return None;
    }
    let use_them = if bad.len() == 1 { "uses" } else { "use" };
    let detail = format!(
        "{} {} {use_them} {} {}",
        plural("volume", bad.len()),
        quoted(&bad),
        plural("restricted volume type", kinds.len()),
        quoted_set(&kinds)
    );
    violation("restricted volume types", detail)
}

pub fn non_root(pod: &Pod<'_>) -> Option<Violation> {
    let run_as_non_root = |holder: &Value| holder["securityContext"]["runAsNonRoot"].as_bool();
    let of_pod = run_as_non_root(pod.spec);
    let explicit = pod.container_names(|container| run_as_non_root(container) == Some(false));
    if of_pod == Some(false) || !explicit.is_empty() {
        let who = format_setters(of_pod == Some(false), &explicit);
        let detail = format!("{who} must not set securityContext.runAsNonRoot=false");
        return violation("runAsNonRoot != true", detail);
    }
    let unset = pod.container_names(|container| run_as_non_root(container).is_none() && of_pod != Some(true));
    let detail =
        || format!("pod or {} must set securityContext.runAsNonRoot=true", format_containers(&unset));
    if unset.is_empty() { None } else { violation("runAsNonRoot != true", detail()) }
}

pub fn user(pod: &Pod<'_>) -> Option<Violation> {
    let is_root = |holder: &Value| holder["securityContext"]["runAsUser"] == 0;
    let (by_pod, containers) = (is_root(pod.spec), pod.container_names(is_root));
    if !by_pod && containers.is_empty() {
        return None;
    }
    violation("runAsUser=0", format!("{} must not set runAsUser=0", format_setters(by_pod, &containers)))
}

pub fn seccomp(pod: &Pod<'_>) -> Option<Violation> {
    let mut values = BTreeSet::new();
    let by_pod = is_bad_seccomp(pod.spec, &mut values);
    let containers = pod.container_names(|container| is_bad_seccomp(container, &mut values));
    if let Some(forbidden) = forbidden_seccomp(by_pod, &containers, &values) {
        return Some(forbidden);
    }
    let has = |holder: &Value| holder["securityContext"].get("seccompProfile").is_some();
    let unset = pod.container_names(|container| !has(container) && !has(pod.spec));
    let detail = || {
        format!(
            "pod or {} must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\"",
            format_containers(&unset)
        )
    };
    if unset.is_empty() { None } else { violation("seccompProfile", detail()) }
}
