//! Volume mounts and block devices of a container.

// upstream: pkg/apis/core/validation/validation.go

use std::collections::{HashMap, HashSet};

use atoll_meta::{FieldError, FieldPath};
use serde_json::Value;

use super::volume::Volumes;
use super::volume_source::{descending_path, has_backsteps};
use crate::fields::{Errors, Fields, named};

const PROPAGATIONS: &[&str] = &["Bidirectional", "HostToContainer", "None"];
const UNIQUE: &str = "must be unique";

/// Checks `volumeMounts`.
pub(super) fn mounts(errors: &mut Errors, container: &Value, volumes: &Volumes<'_>, path: &FieldPath) {
    let devices = Occupied::by(container.list("volumeDevices"), "devicePath");
    let mut seen = HashSet::new();
    for (index, mount) in container.list("volumeMounts").iter().enumerate() {
        let list_path = || path.child("volumeMounts");
        let name_path = || list_path().index(index).child("name");
        let mount_path_field = || list_path().index(index).child("mountPath");
        let (name, mount_path) = (mount.text("name"), mount.text("mountPath"));
        if name.is_empty() {
            errors.push(FieldError::required(&name_path(), ""));
        }
        if !volumes.contains_key(name) {
            errors.push(FieldError::not_found(&name_path(), name));
        }
        if mount_path.is_empty() {
            errors.push(FieldError::required(&mount_path_field(), ""));
        }
        if !seen.insert(mount_path) {
            errors.push(FieldError::invalid(&mount_path_field(), mount_path, UNIQUE));
        }
        if devices.names.contains(name) {
            let detail = "must not already exist in volumeDevices";
            errors.push(FieldError::invalid(&name_path(), name, detail));
        }
        if devices.paths.contains(mount_path) {
            let detail = "must not already exist as a path in volumeDevices";
            errors.push(FieldError::invalid(&mount_path_field(), mount_path, detail));
        }
        let (below, expression) = (mount.text("subPath"), mount.text("subPathExpr"));
        // From here on upstream's paths lack the index.
        descending_path(errors, below, || list_path().child("subPath"));
        if !expression.is_empty() {
            if !below.is_empty() {
                let detail = "subPathExpr and subPath are mutually exclusive";
                let path = list_path().index(index).child("subPathExpr");
                errors.push(FieldError::invalid(&path, expression, detail));
            }
            descending_path(errors, expression, || list_path().child("subPathExpr"));
        }
        propagation(errors, mount, container, list_path);
        recursive_read_only(errors, mount, list_path);
    }
}

/// Names and paths that mounts or devices use.
struct Occupied<'a> {
    names: HashSet<&'a str>,
    /// Of the last element of each name, because upstream keeps mounts and devices in maps by name.
    paths: HashSet<&'a str>,
}

impl<'a> Occupied<'a> {
    fn by(list: &'a [Value], path_field: &str) -> Self {
        let last_paths: HashMap<&str, &str> =
            list.iter().map(|entry| (entry.text("name"), entry.text(path_field))).collect();
        Occupied { names: last_paths.keys().copied().collect(), paths: last_paths.into_values().collect() }
    }
}

fn propagation(errors: &mut Errors, mount: &Value, container: &Value, path: impl Fn() -> FieldPath) {
    let Some(propagation) = mount.optional_text("mountPropagation") else { return };
    let path = || path().child("mountPropagation");
    if !PROPAGATIONS.contains(&propagation) {
        errors.push(FieldError::not_supported(&path(), named(propagation), PROPAGATIONS));
    }
    if propagation == "Bidirectional" && !container.part("securityContext").flag("privileged") {
        let detail = "Bidirectional mount propagation is available only to privileged containers";
        errors.push(FieldError::forbidden(&path(), detail));
    }
}

fn recursive_read_only(errors: &mut Errors, mount: &Value, path: impl Fn() -> FieldPath) {
    let path = || path().child("recursiveReadOnly");
    match mount.optional_text("recursiveReadOnly") {
        None | Some("Disabled") => {}
        Some("Enabled" | "IfPossible") => {
            if !mount.flag("readOnly") {
                errors.push(FieldError::forbidden(&path(), "may only be specified when readOnly is true"));
            }
            if mount.optional_text("mountPropagation").is_some_and(|propagation| propagation != "None") {
                let detail = "may only be specified when mountPropagation is None or not specified";
                errors.push(FieldError::forbidden(&path(), detail));
            }
        }
        Some(other) => {
            let supported = ["Disabled", "Enabled", "IfPossible"];
            errors.push(FieldError::not_supported(&path(), named(other), &supported));
        }
    }
}

/// Checks `volumeDevices`.
pub(super) fn devices(errors: &mut Errors, container: &Value, volumes: &Volumes<'_>, path: &FieldPath) {
    let mounts = Occupied::by(container.list("volumeMounts"), "mountPath");
    let (mut seen_names, mut seen_paths) = (HashSet::new(), HashSet::new());
    for (index, device) in container.list("volumeDevices").iter().enumerate() {
        let path = || path.child("volumeDevices").index(index);
        let name_path = || path().child("name");
        let mount_path_field = || path().child("devicePath");
        let (name, mount_path) = (device.text("name"), device.text("devicePath"));
        if name.is_empty() {
            errors.push(FieldError::required(&name_path(), ""));
        }
        if seen_names.contains(name) {
            errors.push(FieldError::invalid(&name_path(), name, UNIQUE));
        }
        match volumes.get(name) {
            None => errors.push(FieldError::not_found(&name_path(), name)),
            Some(volume) => {
                if volume.field("persistentVolumeClaim").is_none() && volume.field("ephemeral").is_none() {
                    let detail = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
                    errors.push(FieldError::invalid(&name_path(), name, detail));
                }
            }
        }
        if mount_path.is_empty() {
            errors.push(FieldError::required(&mount_path_field(), ""));
        }
        if seen_paths.contains(mount_path) {
            errors.push(FieldError::invalid(&mount_path_field(), mount_path, UNIQUE));
        }
        if has_backsteps(mount_path) {
            errors.push(FieldError::invalid(
                &mount_path_field(),
                mount_path,
                "can not contain backsteps ('..')",
            ));
        } else {
            seen_paths.insert(mount_path);
        }
        if mounts.names.contains(name) {
            errors.push(FieldError::invalid(&name_path(), name, "must not already exist in volumeMounts"));
        }
        if mounts.paths.contains(mount_path) {
            let detail = "must not already exist as a path in volumeMounts";
            errors.push(FieldError::invalid(&mount_path_field(), mount_path, detail));
        }
        if !name.is_empty() {
            seen_names.insert(name);
        }
    }
}
