//! Volume mounts and block devices of a container.

// upstream: pkg/apis/core/validation/validation.go

use std::collections::{HashMap, HashSet};

use super::volume::Volumes;
use super::volume_source::{descending_path, has_backsteps};
use crate::field_value::{Errors, FieldValue};

const PROPAGATIONS: &[&str] = &["Bidirectional", "HostToContainer", "None"];
const UNIQUE: &str = "must be unique";

/// Checks `volumeMounts`.
pub(super) fn mounts(errors: &mut Errors, container: &FieldValue<'_>, volumes: &Volumes<'_>) {
    let devices = Occupied::by(&container.get("volumeDevices"), "devicePath");
    let mounts = container.get("volumeMounts");
    let mut seen = HashSet::new();
    for mount in mounts.items() {
        let (name, mount_path) = (mount.get("name"), mount.get("mountPath"));
        if name.is_empty() {
            errors.push(name.required(""));
        }
        if !volumes.contains_key(name.text()) {
            errors.push(name.not_found());
        }
        if mount_path.is_empty() {
            errors.push(mount_path.required(""));
        }
        if !seen.insert(mount_path.text()) {
            errors.push(mount_path.invalid_text(UNIQUE));
        }
        if devices.names.contains(name.text()) {
            errors.push(name.invalid_text("must not already exist in volumeDevices"));
        }
        if devices.paths.contains(mount_path.text()) {
            errors.push(mount_path.invalid_text("must not already exist as a path in volumeDevices"));
        }
        // From here on most of upstream's paths lack the index.
        let of_list = mount.with_path(mounts.path.clone());
        let (below, expression) = (of_list.get("subPath"), of_list.get("subPathExpr"));
        descending_path(errors, &below);
        if !expression.is_empty() {
            if !below.is_empty() {
                let detail = "subPathExpr and subPath are mutually exclusive";
                errors.push(mount.get("subPathExpr").invalid_text(detail));
            }
            descending_path(errors, &expression);
        }
        propagation(errors, &of_list, container);
        recursive_read_only(errors, &of_list);
    }
}

/// Names and paths that mounts or devices use.
struct Occupied<'a> {
    names: HashSet<&'a str>,
    /// Of the last element of each name, because upstream keeps mounts and devices in maps by name.
    paths: HashSet<&'a str>,
}

impl<'a> Occupied<'a> {
    fn by(list: &FieldValue<'a>, path_field: &str) -> Self {
        let last_paths: HashMap<&str, &str> =
            list.items().map(|entry| (entry.text_of("name"), entry.text_of(path_field))).collect();
        Occupied { names: last_paths.keys().copied().collect(), paths: last_paths.into_values().collect() }
    }
}

fn propagation(errors: &mut Errors, mount: &FieldValue<'_>, container: &FieldValue<'_>) {
    let Some(propagation) = mount.given("mountPropagation") else { return };
    if !PROPAGATIONS.contains(&propagation.text()) {
        errors.push(propagation.unsupported(PROPAGATIONS));
    }
    let is_privileged = || container.get("securityContext").flag_of("privileged");
    if propagation.text() == "Bidirectional" && !is_privileged() {
        let detail = "Bidirectional mount propagation is available only to privileged containers";
        errors.push(propagation.forbidden(detail));
    }
}

fn recursive_read_only(errors: &mut Errors, mount: &FieldValue<'_>) {
    let setting = mount.get("recursiveReadOnly");
    match setting.optional_text() {
        None | Some("Disabled") => {}
        Some("Enabled" | "IfPossible") => {
            if !mount.flag_of("readOnly") {
                errors.push(setting.forbidden("may only be specified when readOnly is true"));
            }
            let propagation = mount.get("mountPropagation");
            if propagation.optional_text().is_some_and(|propagation| propagation != "None") {
                let detail = "may only be specified when mountPropagation is None or not specified";
                errors.push(setting.forbidden(detail));
            }
        }
        Some(_) => errors.push(setting.unsupported(&["Disabled", "Enabled", "IfPossible"])),
    }
}

/// Checks `volumeDevices`.
pub(super) fn devices(errors: &mut Errors, container: &FieldValue<'_>, volumes: &Volumes<'_>) {
    let devices = container.get("volumeDevices");
    if devices.is_empty() {
        return;
    }
    let mounts = Occupied::by(&container.get("volumeMounts"), "mountPath");
    let (mut seen_names, mut seen_paths) = (HashSet::new(), HashSet::new());
    for device in devices.items() {
        let (name, device_path) = (device.get("name"), device.get("devicePath"));
        if name.is_empty() {
            errors.push(name.required(""));
        }
        if seen_names.contains(name.text()) {
            errors.push(name.invalid_text(UNIQUE));
        }
        match volumes.get(name.text()) {
            None => errors.push(name.not_found()),
            Some(volume) => {
                if !volume.has("persistentVolumeClaim") && !volume.has("ephemeral") {
                    let detail = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
                    errors.push(name.invalid_text(detail));
                }
            }
        }
        if device_path.is_empty() {
            errors.push(device_path.required(""));
        }
        if seen_paths.contains(device_path.text()) {
            errors.push(device_path.invalid_text(UNIQUE));
        }
        if has_backsteps(device_path.text()) {
            errors.push(device_path.invalid_text("can not contain backsteps ('..')"));
        } else {
            seen_paths.insert(device_path.text());
        }
        if mounts.names.contains(name.text()) {
            errors.push(name.invalid_text("must not already exist in volumeMounts"));
        }
        if mounts.paths.contains(device_path.text()) {
            errors.push(device_path.invalid_text("must not already exist as a path in volumeMounts"));
        }
        if !name.is_empty() {
            seen_names.insert(name.text());
        }
    }
}
