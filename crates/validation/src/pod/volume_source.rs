//! Volume sources. PersistentVolumes use some of these checks too.

// upstream: pkg/apis/core/validation/validation.go

use atoll_meta::{FieldError, FieldPath, names};
use serde_json::Value;

use crate::fields::{Errors, Fields, broken_rules, named};

pub(super) const FILE_MODE: &str = "must be a number between 0 and 0777 (octal), both inclusive";

/// Checks that these strings or lists are not empty.
pub(crate) fn required(errors: &mut Errors, object: &Value, fields: &[&'static str], path: &FieldPath) {
    for field in fields {
        if object.text(field).is_empty() && object.list(field).is_empty() {
            errors.push(FieldError::required(&path.child(*field), ""));
        }
    }
}

pub(super) fn empty_dir(errors: &mut Errors, volume: &Value, path: &FieldPath) {
    if volume.quantity("sizeLimit").is_some_and(|limit| limit.is_negative()) {
        let detail = "SizeLimit field must be a valid resource quantity";
        errors.push(FieldError::forbidden(&path.child("sizeLimit"), detail));
    }
}

pub(crate) fn host_path(errors: &mut Errors, volume: &Value, path: &FieldPath) {
    /// Types of a host path. The empty type disables the check before mounting.
    const TYPES: &[&str] = &[
        "",
        "BlockDevice",
        "CharDevice",
        "Directory",
        "DirectoryOrCreate",
        "File",
        "FileOrCreate",
        "Socket",
    ];
    if volume.text("path").is_empty() {
        errors.push(FieldError::required(&path.child("path"), ""));
        return;
    }
    no_backsteps(errors, volume.text("path"), || path.child("path"));
    if let Some(kind) = volume.optional_text("type")
        && !TYPES.contains(&kind)
    {
        errors.push(FieldError::not_supported(&path.child("type"), named(kind), TYPES));
    }
}

pub(super) fn git_repo(errors: &mut Errors, volume: &Value, path: &FieldPath) {
    required(errors, volume, &["repository"], path);
    descending_path(errors, volume.text("directory"), || path.child("directory"));
}

pub(crate) fn gce_persistent_disk(errors: &mut Errors, volume: &Value, path: &FieldPath) {
    required(errors, volume, &["pdName"], path);
    partition(errors, volume, path);
}

pub(crate) fn aws_elastic_block_store(errors: &mut Errors, volume: &Value, path: &FieldPath) {
    required(errors, volume, &["volumeID"], path);
    partition(errors, volume, path);
}

/// Checks a partition. Zero is allowed, although the message says otherwise.
fn partition(errors: &mut Errors, volume: &Value, path: &FieldPath) {
    let partition = volume.integer("partition");
    if !(0..=255).contains(&partition) {
        let detail = "must be between 1 and 255, inclusive";
        errors.push(FieldError::invalid(&path.child("partition"), partition, detail));
    }
}

pub(super) fn secret(errors: &mut Errors, volume: &Value, path: &FieldPath) {
    required(errors, volume, &["secretName"], path);
    mode(errors, volume, "defaultMode", path);
    for (index, item) in volume.list("items").iter().enumerate() {
        key_to_path(errors, item, &path.child("items").index(index));
    }
}

pub(super) fn config_map(errors: &mut Errors, volume: &Value, path: &FieldPath) {
    required(errors, volume, &["name"], path);
    mode(errors, volume, "defaultMode", path);
    for (index, item) in volume.list("items").iter().enumerate() {
        key_to_path(errors, item, &path.child("items").index(index));
    }
}

/// Checks the mode bits of a file.
pub(super) fn mode(errors: &mut Errors, object: &Value, field: &'static str, path: &FieldPath) {
    if let Some(mode) = object.optional_integer(field)
        && !(0..=0o777).contains(&mode)
    {
        errors.push(FieldError::invalid(&path.child(field), mode, FILE_MODE));
    }
}

/// Checks a mapping of a key to a file.
pub(super) fn key_to_path(errors: &mut Errors, item: &Value, path: &FieldPath) {
    required(errors, item, &["key", "path"], path);
    local_path(errors, item.text("path"), || path.child("path"));
    mode(errors, item, "mode", path);
}

pub(crate) fn nfs(errors: &mut Errors, volume: &Value, path: &FieldPath) {
    required(errors, volume, &["server", "path"], path);
    if !volume.text("path").starts_with('/') {
        let detail = "must be an absolute path";
        errors.push(FieldError::invalid(&path.child("path"), volume.text("path"), detail));
    }
}

pub(super) fn iscsi(errors: &mut Errors, volume: &Value, path: &FieldPath) {
    required(errors, volume, &["targetPortal"], path);
    let name = volume.text("iqn");
    if name.is_empty() {
        errors.push(FieldError::required(&path.child("iqn"), ""));
    } else {
        iscsi_name(errors, name, || path.child("iqn"));
    }
    let unit = volume.integer("lun");
    if !(0..=255).contains(&unit) {
        errors.push(FieldError::invalid(&path.child("lun"), unit, "must be between 0 and 255, inclusive"));
    }
    if (volume.flag("chapAuthDiscovery") || volume.flag("chapAuthSession"))
        && volume.field("secretRef").is_none()
    {
        errors.push(FieldError::required(&path.child("secretRef"), ""));
    }
    if let Some(initiator) = volume.optional_text("initiatorName") {
        iscsi_name(errors, initiator, || path.child("initiatorname"));
    }
}

/// Checks the name of an iSCSI target or initiator.
pub(crate) fn iscsi_name(errors: &mut Errors, name: &str, path: impl Fn() -> FieldPath) {
    let is_good = match name.get(..3) {
        Some("iqn") => name.match_indices("iqn.").any(|(start, found)| is_iqn(&name[start + found.len()..])),
        Some("eui") => has_identifier(name, 16),
        Some("naa") => has_identifier(name, 32),
        _ => {
            let detail = "must be valid format starting with iqn, eui, or naa";
            errors.push(FieldError::invalid(&path(), name, detail));
            return;
        }
    };
    if !is_good {
        errors.push(FieldError::invalid(&path(), name, "must be valid format"));
    }
}

/// Whether this is the rest of a name after `iqn.`: the month of the domain's registration, the domain, a
/// colon and a name.
fn is_iqn(rest: &str) -> bool {
    let Some((owner, name)) = rest.split_once(':') else { return false };
    let owner = owner.as_bytes();
    owner.len() > 8
        && owner[..8].iter().enumerate().all(|(index, byte)| match index {
            4 => *byte == b'-',
            7 => *byte == b'.',
            _ => byte.is_ascii_digit(),
        })
        && owner[8..].iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.'))
        && !name.is_empty()
        && !name.contains([',', ';', '*', '&', '$', '|', ' ', '\t', '\n', '\r', '\u{c}'])
}

/// Whether a name has three letters, any character, then this number of letters and digits.
fn has_identifier(name: &str, length: usize) -> bool {
    let mut rest = name[3..].chars();
    rest.next().is_some_and(|separator| separator != '\n')
        && rest.as_str().len() == length
        && rest.all(|character| character.is_ascii_alphanumeric())
}

pub(crate) fn flocker(errors: &mut Errors, volume: &Value, path: &FieldPath) {
    let (name, identifier) = (volume.text("datasetName"), volume.text("datasetUUID"));
    if name.is_empty() && identifier.is_empty() {
        errors.push(FieldError::required(path, "one of datasetName and datasetUUID is required"));
    }
    if !name.is_empty() && !identifier.is_empty() {
        let detail = "datasetName and datasetUUID can not be specified simultaneously";
        errors.push(FieldError::invalid(path, "resource", detail));
    }
    if name.contains('/') {
        errors.push(FieldError::invalid(&path.child("datasetName"), name, "must not contain '/'"));
    }
}

pub(super) fn rbd(errors: &mut Errors, volume: &Value, path: &FieldPath) {
    required(errors, volume, &["monitors", "image"], path);
}

pub(super) fn cephfs(errors: &mut Errors, volume: &Value, path: &FieldPath) {
    required(errors, volume, &["monitors"], path);
}

pub(super) fn cinder(errors: &mut Errors, volume: &Value, path: &FieldPath) {
    required(errors, volume, &["volumeID"], path);
    if let Some(secret) = volume.field("secretRef") {
        required(errors, secret, &["name"], &path.child("secretRef"));
    }
}

pub(crate) fn quobyte(errors: &mut Errors, volume: &Value, path: &FieldPath) {
    const PAIRS: &str = "must be a host:port pair or multiple pairs separated by commas";
    let registry = volume.text("registry");
    if registry.is_empty() {
        errors.push(FieldError::required(&path.child("registry"), PAIRS));
    } else if volume.text("tenant").len() >= 65 {
        let detail = "must be a UUID and may not exceed a length of 64 characters";
        errors.push(FieldError::required(&path.child("tenant"), detail));
    } else {
        for _ in registry.split(',').filter(|pair| !is_host_and_port(pair)) {
            errors.push(FieldError::invalid(&path.child("registry"), registry, PAIRS));
        }
    }
    required(errors, volume, &["volume"], path);
}

/// Whether this is `host:port`, or `[host]:port` for hosts with colons.
fn is_host_and_port(pair: &str) -> bool {
    let Some((host, port)) = pair.rsplit_once(':') else { return false };
    let host = match host.strip_prefix('[') {
        Some(bracketed) => match bracketed.strip_suffix(']') {
            Some(inner) => inner,
            None => return false,
        },
        None if host.contains(':') => return false,
        None => host,
    };
    !host.contains(['[', ']']) && !port.contains(['[', ']'])
}

pub(crate) fn fibre_channel(errors: &mut Errors, volume: &Value, path: &FieldPath) {
    let (names, identifiers) = (volume.list("targetWWNs"), volume.list("wwids"));
    let names_path = || path.child("targetWWNs");
    if names.is_empty() && identifiers.is_empty() {
        let detail = "must specify either targetWWNs or wwids, but not both";
        errors.push(FieldError::required(&names_path(), detail));
    }
    if !names.is_empty() && !identifiers.is_empty() {
        let detail = "targetWWNs and wwids can not be specified simultaneously";
        errors.push(FieldError::invalid(&names_path(), names.to_vec(), detail));
    }
    if !names.is_empty() {
        match volume.optional_integer("lun") {
            None => {
                let detail = "lun is required if targetWWNs is specified";
                errors.push(FieldError::required(&path.child("lun"), detail));
            }
            Some(0..=255) => {}
            Some(unit) => {
                let detail = "must be between 0 and 255, inclusive";
                errors.push(FieldError::invalid(&path.child("lun"), unit, detail));
            }
        }
    }
}

pub(crate) fn flex_volume(errors: &mut Errors, volume: &Value, path: &FieldPath) {
    required(errors, volume, &["driver"], path);
    for (key, _) in volume.entries("options") {
        let domain = key.split('/').next().unwrap_or_default().to_lowercase();
        let is_reserved = |reserved: &str| {
            domain.strip_suffix(reserved).is_some_and(|before| before.is_empty() || before.ends_with('.'))
        };
        if is_reserved("kubernetes.io") || is_reserved("k8s.io") {
            let detail = "kubernetes.io and k8s.io namespaces are reserved";
            errors.push(FieldError::invalid(&path.child("options").key(key), key, detail));
        }
    }
}

pub(crate) fn azure_disk(errors: &mut Errors, volume: &Value, path: &FieldPath) {
    const MANAGED: &str =
        "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}";
    const BLOB: &str = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd";
    required(errors, volume, &["diskName", "diskURI"], path);
    for (field, supported) in
        [("cachingMode", ["None", "ReadOnly", "ReadWrite"]), ("kind", ["Dedicated", "Managed", "Shared"])]
    {
        if let Some(text) = volume.optional_text(field)
            && !supported.contains(&text)
        {
            errors.push(FieldError::not_supported(&path.child(field), named(text), &supported));
        }
    }
    let uri = volume.text("diskURI");
    let (beginning, shape) = match volume.optional_text("kind") {
        None => return,
        Some("Managed") => ("/subscriptions/", MANAGED),
        Some(_) => ("https://", BLOB),
    };
    if !uri.starts_with(beginning) {
        errors.push(FieldError::not_supported(&path.child("diskURI"), uri, &[shape]));
    }
}

pub(super) fn storage_os(errors: &mut Errors, volume: &Value, path: &FieldPath) {
    required(errors, volume, &["volumeName"], path);
    for field in ["volumeName", "volumeNamespace"] {
        let name = volume.text(field);
        if !name.is_empty() {
            broken_rules(errors, || path.child(field), name, names::dns1123_label(name));
        }
    }
    if let Some(secret) = volume.field("secretRef") {
        required(errors, secret, &["name"], &path.child("secretRef"));
    }
}

/// Checks the name of a CSI driver.
pub(crate) fn csi_driver(errors: &mut Errors, driver: &str, path: &FieldPath) {
    if driver.is_empty() {
        errors.push(FieldError::required(path, ""));
        return;
    }
    if driver.len() > 63 {
        errors.push(FieldError::too_long(path, 63));
    }
    broken_rules(errors, || path.clone(), driver, names::dns1123_subdomain(&driver.to_lowercase()));
}

pub(super) fn csi(errors: &mut Errors, volume: &Value, path: &FieldPath) {
    csi_driver(errors, volume.text("driver"), &path.child("driver"));
    if let Some(secret) = volume.field("nodePublishSecretRef") {
        let name = secret.text("name");
        if name.is_empty() {
            errors.push(FieldError::required(&path.child("nodePublishSecretRef").child("name"), ""));
        } else {
            let rules = names::name_is_dns_subdomain(name, false);
            broken_rules(errors, || path.child("name"), name, rules);
        }
    }
}

/// Checks a relative path that must not contain `..`.
pub(crate) fn descending_path(errors: &mut Errors, target: &str, path: impl Fn() -> FieldPath) {
    if target.starts_with('/') {
        errors.push(FieldError::invalid(&path(), target, "must be a relative path"));
    }
    no_backsteps(errors, target, path);
}

pub(crate) fn no_backsteps(errors: &mut Errors, target: &str, path: impl Fn() -> FieldPath) {
    if has_backsteps(target) {
        errors.push(FieldError::invalid(&path(), target, "must not contain '..'"));
    }
}

pub(super) fn has_backsteps(target: &str) -> bool {
    target.split('/').any(|part| part == "..")
}

/// Checks a path within a volume, which must not start with `..`, because the kubelet reserves those names.
pub(super) fn local_path(errors: &mut Errors, target: &str, path: impl Fn() -> FieldPath) {
    descending_path(errors, target, &path);
    if target.starts_with("..") && !target.starts_with("../") {
        errors.push(FieldError::invalid(&path(), target, "must not start with '..'"));
    }
}
