//! Volume sources.

// upstream: pkg/apis/core/validation/validation.go

use atoll_meta::names;

use crate::csi_names;
use crate::field_value::{Errors, FieldValue};

/// Checks that these strings or lists are not empty.
pub(super) fn required(errors: &mut Errors, object: &FieldValue<'_>, fields: &[&'static str]) {
    for field in fields {
        let value = object.get(field);
        if value.is_empty() {
            errors.push(value.required(""));
        }
    }
}

/// Checks that a string, if it is set, is one of these values.
fn one_of(errors: &mut Errors, setting: &FieldValue<'_>, supported: &[&str]) {
    if setting.optional_text().is_some_and(|text| !supported.contains(&text)) {
        errors.push(setting.unsupported(supported));
    }
}

/// Checks that a number is in the range of one byte.
fn byte(errors: &mut Errors, number: &FieldValue<'_>, detail: &str) {
    if !(0..=255).contains(&number.integer()) {
        errors.push(number.invalid_integer(detail));
    }
}

pub(super) fn empty_dir(errors: &mut Errors, volume: &FieldValue<'_>) {
    let limit = volume.get("sizeLimit");
    if limit.quantity().is_some_and(|limit| limit.is_negative()) {
        errors.push(limit.forbidden("SizeLimit field must be a valid resource quantity"));
    }
}

pub(super) fn host_path(errors: &mut Errors, volume: &FieldValue<'_>) {
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
    let target = volume.get("path");
    if target.is_empty() {
        errors.push(target.required(""));
        return;
    }
    no_backsteps(errors, &target);
    one_of(errors, &volume.get("type"), TYPES);
}

pub(super) fn git_repo(errors: &mut Errors, volume: &FieldValue<'_>) {
    required(errors, volume, &["repository"]);
    descending_path(errors, &volume.get("directory"));
}

pub(super) fn gce_persistent_disk(errors: &mut Errors, volume: &FieldValue<'_>) {
    required(errors, volume, &["pdName"]);
    partition(errors, volume);
}

pub(super) fn aws_elastic_block_store(errors: &mut Errors, volume: &FieldValue<'_>) {
    required(errors, volume, &["volumeID"]);
    partition(errors, volume);
}

/// Checks a partition. Zero is allowed, although the message says otherwise.
fn partition(errors: &mut Errors, volume: &FieldValue<'_>) {
    byte(errors, &volume.get("partition"), "must be between 1 and 255, inclusive");
}

pub(super) fn secret(errors: &mut Errors, volume: &FieldValue<'_>) {
    required(errors, volume, &["secretName"]);
    files(errors, volume);
}

pub(super) fn config_map(errors: &mut Errors, volume: &FieldValue<'_>) {
    required(errors, volume, &["name"]);
    files(errors, volume);
}

fn files(errors: &mut Errors, volume: &FieldValue<'_>) {
    mode(errors, &volume.get("defaultMode"));
    for item in volume.get("items").items() {
        key_to_path(errors, &item);
    }
}

/// Checks the mode bits of a file.
pub(super) fn mode(errors: &mut Errors, mode: &FieldValue<'_>) {
    if mode.number().is_some_and(|mode| !(0..=0o777).contains(&mode)) {
        errors.push(mode.invalid("must be a number between 0 and 0777 (octal), both inclusive"));
    }
}

/// Checks a mapping of a key to a file.
pub(super) fn key_to_path(errors: &mut Errors, item: &FieldValue<'_>) {
    required(errors, item, &["key", "path"]);
    local_path(errors, &item.get("path"));
    mode(errors, &item.get("mode"));
}

pub(super) fn nfs(errors: &mut Errors, volume: &FieldValue<'_>) {
    required(errors, volume, &["server", "path"]);
    let target = volume.get("path");
    if !target.text().starts_with('/') {
        errors.push(target.invalid_text("must be an absolute path"));
    }
}

pub(super) fn iscsi(errors: &mut Errors, volume: &FieldValue<'_>) {
    required(errors, volume, &["targetPortal"]);
    let (name, secret) = (volume.get("iqn"), volume.get("secretRef"));
    if name.is_empty() {
        errors.push(name.required(""));
    } else {
        iscsi_name(errors, &name);
    }
    byte(errors, &volume.get("lun"), "must be between 0 and 255, inclusive");
    if (volume.get("chapAuthDiscovery").flag() || volume.get("chapAuthSession").flag()) && !secret.is_set() {
        errors.push(secret.required(""));
    }
    if let Some(initiator) = volume.given("initiatorName") {
        iscsi_name(errors, &initiator.with_path(volume.path.child("initiatorname")));
    }
}

/// Checks the name of an iSCSI target or initiator.
fn iscsi_name(errors: &mut Errors, field: &FieldValue<'_>) {
    let name = field.text();
    let is_good = match name.get(..3) {
        Some("iqn") => name.match_indices("iqn.").any(|(start, found)| is_iqn(&name[start + found.len()..])),
        Some("eui") => has_identifier(name, 16),
        Some("naa") => has_identifier(name, 32),
        _ => {
            errors.push(field.invalid("must be valid format starting with iqn, eui, or naa"));
            return;
        }
    };
    if !is_good {
        errors.push(field.invalid("must be valid format"));
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

pub(super) fn flocker(errors: &mut Errors, volume: &FieldValue<'_>) {
    let (name, identifier) = (volume.get("datasetName"), volume.get("datasetUUID"));
    if name.is_empty() && identifier.is_empty() {
        errors.push(volume.required("one of datasetName and datasetUUID is required"));
    }
    if !name.is_empty() && !identifier.is_empty() {
        let detail = "datasetName and datasetUUID can not be specified simultaneously";
        errors.push(volume.invalid_as("resource", detail));
    }
    if name.text().contains('/') {
        errors.push(name.invalid("must not contain '/'"));
    }
}

pub(super) fn rbd(errors: &mut Errors, volume: &FieldValue<'_>) {
    required(errors, volume, &["monitors", "image"]);
}

pub(super) fn cephfs(errors: &mut Errors, volume: &FieldValue<'_>) {
    required(errors, volume, &["monitors"]);
}

pub(super) fn cinder(errors: &mut Errors, volume: &FieldValue<'_>) {
    required(errors, volume, &["volumeID"]);
    secret_name(errors, volume);
}

/// Checks that a reference to a secret, if there is one, has a name.
fn secret_name(errors: &mut Errors, volume: &FieldValue<'_>) {
    if let Some(secret) = volume.given("secretRef") {
        required(errors, &secret, &["name"]);
    }
}

pub(super) fn quobyte(errors: &mut Errors, volume: &FieldValue<'_>) {
    const PAIRS: &str = "must be a host:port pair or multiple pairs separated by commas";
    let (registry, tenant) = (volume.get("registry"), volume.get("tenant"));
    if registry.is_empty() {
        errors.push(registry.required(PAIRS));
    } else if tenant.len() >= 65 {
        errors.push(tenant.required("must be a UUID and may not exceed a length of 64 characters"));
    } else {
        for _ in registry.text().split(',').filter(|pair| !is_host_and_port(pair)) {
            errors.push(registry.invalid(PAIRS));
        }
    }
    required(errors, volume, &["volume"]);
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

pub(super) fn fibre_channel(errors: &mut Errors, volume: &FieldValue<'_>) {
    let (names, identifiers, unit) = (volume.get("targetWWNs"), volume.get("wwids"), volume.get("lun"));
    if names.is_empty() && identifiers.is_empty() {
        errors.push(names.required("must specify either targetWWNs or wwids, but not both"));
    }
    if !names.is_empty() && !identifiers.is_empty() {
        errors.push(names.invalid("targetWWNs and wwids can not be specified simultaneously"));
    }
    if names.is_empty() {
        return;
    }
    if unit.is_set() {
        byte(errors, &unit, "must be between 0 and 255, inclusive");
    } else {
        errors.push(unit.required("lun is required if targetWWNs is specified"));
    }
}

pub(super) fn flex_volume(errors: &mut Errors, volume: &FieldValue<'_>) {
    required(errors, volume, &["driver"]);
    for (key, option) in volume.get("options").entries() {
        let domain = key.split('/').next().unwrap_or_default().to_lowercase();
        let is_reserved = |reserved: &str| {
            domain.strip_suffix(reserved).is_some_and(|before| before.is_empty() || before.ends_with('.'))
        };
        if is_reserved("kubernetes.io") || is_reserved("k8s.io") {
            errors.push(option.invalid_as(key, "kubernetes.io and k8s.io namespaces are reserved"));
        }
    }
}

pub(super) fn azure_disk(errors: &mut Errors, volume: &FieldValue<'_>) {
    const MANAGED: &str =
        "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}";
    const BLOB: &str = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd";
    required(errors, volume, &["diskName", "diskURI"]);
    let (kind, uri) = (volume.get("kind"), volume.get("diskURI"));
    one_of(errors, &volume.get("cachingMode"), &["None", "ReadOnly", "ReadWrite"]);
    one_of(errors, &kind, &["Dedicated", "Managed", "Shared"]);
    let (beginning, shape) = match kind.optional_text() {
        None => return,
        Some("Managed") => ("/subscriptions/", MANAGED),
        Some(_) => ("https://", BLOB),
    };
    if !uri.text().starts_with(beginning) {
        errors.push(uri.unsupported_text(&[shape]));
    }
}

pub(super) fn storage_os(errors: &mut Errors, volume: &FieldValue<'_>) {
    required(errors, volume, &["volumeName"]);
    for field in ["volumeName", "volumeNamespace"] {
        let name = volume.get(field);
        if !name.is_empty() {
            name.rules(errors, names::dns1123_label(name.text()));
        }
    }
    secret_name(errors, volume);
}

pub(super) fn csi(errors: &mut Errors, volume: &FieldValue<'_>) {
    csi_names::driver(errors, &volume.get("driver"));
    if let Some(secret) = volume.given("nodePublishSecretRef") {
        let name = secret.get("name");
        if name.is_empty() {
            errors.push(name.required(""));
        } else {
            let name = name.with_path(volume.path.child("name"));
            name.rules(errors, names::name_is_dns_subdomain(name.text(), false));
        }
    }
}

/// Checks a relative path that must not contain `..`.
pub(super) fn descending_path(errors: &mut Errors, target: &FieldValue<'_>) {
    if target.text().starts_with('/') {
        errors.push(target.invalid("must be a relative path"));
    }
    no_backsteps(errors, target);
}

pub(super) fn no_backsteps(errors: &mut Errors, target: &FieldValue<'_>) {
    if has_backsteps(target.text()) {
        errors.push(target.invalid("must not contain '..'"));
    }
}

pub(super) fn has_backsteps(target: &str) -> bool {
    target.split('/').any(|part| part == "..")
}

/// Checks a path within a volume, which must not start with `..`, because the kubelet reserves those names.
pub(super) fn local_path(errors: &mut Errors, target: &FieldValue<'_>) {
    descending_path(errors, target);
    if target.text().starts_with("..") && !target.text().starts_with("../") {
        errors.push(target.invalid("must not start with '..'"));
    }
}
