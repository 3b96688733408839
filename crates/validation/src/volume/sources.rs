//! Sources of PersistentVolumes.

// upstream: pkg/apis/core/validation/validation.go

use atoll_meta::names;
use serde_json::Value;

use crate::field_value::{Errors, FieldValue, StringRule};
use crate::internal::unified;
use crate::{csi_names, go_json};

/// One kind of source: its field, the paths of errors about a second source and about the source itself, its
/// required fields, and its other checks.
struct Source {
    field: &'static str,
    second_path: &'static str,
    path: &'static str,
    required: &'static [&'static str],
    more: fn(&mut Errors, &FieldValue<'_>, &str),
}

const fn source(
    field: &'static str,
    required: &'static [&'static str],
    more: fn(&mut Errors, &FieldValue<'_>, &str),
) -> Source {
    Source { field, second_path: field, path: field, required, more }
}

const fn plain(field: &'static str, required: &'static [&'static str]) -> Source {
    source(field, required, |_, _, _| {})
}

/// Sources in upstream's order.
static SOURCES: &[Source] = &[
    source("hostPath", &[], host_path),
    Source { path: "persistentDisk", ..source("gcePersistentDisk", &["pdName"], partition) },
    source("awsElasticBlockStore", &["volumeID"], partition),
    source("glusterfs", &["endpoints", "path"], glusterfs),
    source("flocker", &[], flocker),
    source("nfs", &["server", "path"], |errors, nfs, _| {
        let path = nfs.get("path");
        if !path.text().starts_with('/') {
            errors.push(path.invalid_as(path.text(), "must be an absolute path"));
        }
    }),
    plain("rbd", &["monitors", "image"]),
    source("quobyte", &[], quobyte),
    Source { second_path: "cephFS", ..plain("cephfs", &["monitors"]) },
    source("iscsi", &[], iscsi),
    source("cinder", &["volumeID"], |errors, cinder, _| secret(errors, &cinder.get("secretRef"))),
    source("fc", &[], fibre_channel),
    source("flexVolume", &["driver"], flex),
    source("azureFile", &["secretName", "shareName"], |errors, azure, _| {
        let namespace = azure.get("secretNamespace");
        if namespace.is_set() && namespace.is_empty() {
            errors.push(namespace.required(""));
        }
    }),
    plain("vsphereVolume", &["volumePath"]),
    plain("photonPersistentDisk", &["pdID"]),
    plain("portworxVolume", &["volumeID"]),
    source("azureDisk", &["diskName", "diskURI"], azure_disk),
    plain("scaleIO", &["gateway", "system", "volumeName"]),
    source("local", &["path"], |errors, local, _| no_backsteps(errors, &local.get("path"))),
    source("storageos", &["volumeName"], storage_os),
    source("csi", &[], csi),
];

pub(super) fn check(errors: &mut Errors, spec: &FieldValue<'_>, name: &str, placed: bool) {
    let mut found = 0;
    for source in SOURCES.iter().filter(|source| spec.has(source.field)) {
        // Upstream accepts a FlexVolume as a second source.
        if found > 0 && source.field != "flexVolume" {
            errors.push(spec.get(source.second_path).forbidden("may not specify more than 1 volume type"));
            continue;
        }
        found += 1;
        let at = spec.get(source.field).with_path(spec.path.child(source.path));
        for field in source.required.iter().map(|field| at.get(field)).filter(FieldValue::is_empty) {
            errors.push(field.required(""));
        }
        (source.more)(errors, &at, name);
        if source.field == "local" && !placed {
            errors.push(spec.get("nodeAffinity").required("Local volume requires node affinity"));
        }
    }
    if found == 0 {
        errors.push(spec.required("must specify a volume type"));
    }
}

/// Whether both sources are equal. The secret for expansion may be added.
pub(super) fn same(new: &FieldValue<'_>, old: &FieldValue<'_>) -> bool {
    SOURCES.iter().all(|source| {
        let (new, old) = (new.get(source.field), old.get(source.field));
        let added =
            |field: &str| source.field == "csi" && field == "controllerExpandSecretRef" && !old.has(field);
        match (new.value, old.value) {
            (Value::Object(fields), Value::Object(before)) => {
                fields.iter().all(|(field, value)| before.get(field) == Some(value) || added(field))
                    && before.keys().all(|field| fields.contains_key(field))
            }
            (new, old) => new == old,
        }
    })
}

/// Returns the diff of the sources, without the secret that may be added.
pub(super) fn difference(new: &FieldValue<'_>, old: &FieldValue<'_>) -> String {
    let mut new = new.value.clone();
    if old.get("csi").is_set()
        && !old.get("csi").has("controllerExpandSecretRef")
        && let Some(csi) = new.get_mut("csi").and_then(Value::as_object_mut)
    {
        csi.remove("controllerExpandSecretRef");
    }
    let lines = |spec: &Value| go_json::lines(&go_json::text("core/v1.PersistentVolumeSource", spec));
    unified::difference(&lines(old.value), &lines(&new))
}

fn no_backsteps(errors: &mut Errors, path: &FieldValue<'_>) {
    if path.text().split('/').any(|step| step == "..") {
        errors.push(path.invalid("must not contain '..'"));
    }
}

const HOST_PATHS: &[&str] =
    &["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];

fn host_path(errors: &mut Errors, field: &FieldValue<'_>, _: &str) {
    let (path, kind) = (field.get("path"), field.get("type"));
    if path.is_empty() {
        errors.push(path.required(""));
        return;
    }
    no_backsteps(errors, &path);
    if kind.is_set() && !HOST_PATHS.contains(&kind.text()) {
        errors.push(kind.unsupported(HOST_PATHS));
    }
}

fn partition(errors: &mut Errors, field: &FieldValue<'_>, _: &str) {
    let partition = field.get("partition");
    if partition.number().is_some_and(|number| !(0..=255).contains(&number)) {
        errors.push(partition.invalid("must be between 1 and 255, inclusive"));
    }
}

fn glusterfs(errors: &mut Errors, field: &FieldValue<'_>, _: &str) {
    let namespace = field.get("endpointsNamespace");
    if namespace.is_set() && namespace.is_empty() {
        let detail = "if the endpointnamespace is set, it must be a valid namespace name";
        errors.push(namespace.invalid(detail));
    } else if namespace.is_set() {
        namespace.rules(errors, names::dns1123_label(namespace.text()));
    }
}

fn flocker(errors: &mut Errors, field: &FieldValue<'_>, _: &str) {
    let (name, uuid) = (field.get("datasetName"), field.get("datasetUUID"));
    match (name.is_empty(), uuid.is_empty()) {
        (true, true) => errors.push(field.required("one of datasetName and datasetUUID is required")),
        (false, false) => {
            let detail = "datasetName and datasetUUID can not be specified simultaneously";
            errors.push(field.invalid_as("resource", detail));
        }
        _ => {}
    }
    if name.text().contains('/') {
        errors.push(name.invalid("must not contain '/'"));
    }
}

fn quobyte(errors: &mut Errors, field: &FieldValue<'_>, _: &str) {
    let (registry, tenant, volume) = (field.get("registry"), field.get("tenant"), field.get("volume"));
    let detail = "must be a host:port pair or multiple pairs separated by commas";
    if registry.is_empty() {
        errors.push(registry.required(detail));
    } else if tenant.len() >= 65 {
        errors.push(tenant.required("must be a UUID and may not exceed a length of 64 characters"));
    } else {
        for _ in registry.text().split(',').filter(|pair| !is_host_and_port(pair)) {
            errors.push(registry.invalid(detail));
        }
    }
    if volume.is_empty() {
        errors.push(volume.required(""));
    }
}

fn is_host_and_port(pair: &str) -> bool {
    let Some((host, port)) = pair.rsplit_once(':') else { return false };
    let host = match host.strip_prefix('[') {
        Some(host) => host.strip_suffix(']').unwrap_or("["),
        None if host.contains(':') => return false,
        None => host,
    };
    !host.contains(['[', ']']) && !port.contains(['[', ']'])
}

fn iscsi(errors: &mut Errors, field: &FieldValue<'_>, name: &str) {
    let (portal, target, initiator) =
        (field.get("targetPortal"), field.get("iqn"), field.get("initiatorName"));
    if portal.is_empty() {
        errors.push(portal.required(""));
    }
    if initiator.is_set() && name.len() + 1 + portal.len() > 64 {
        let detail = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified.";
        errors.push(portal.with_path(field.path.child("targetportal")).invalid_as(portal.text(), detail));
    }
    if target.is_empty() {
        errors.push(target.required(""));
    } else if !is_iscsi_name(target.text()) {
        errors.push(target.invalid("must be valid format"));
    }
    let unit = field.get("lun");
    unit.number_rules(errors, names::in_range(unit.number().unwrap_or_default(), 0, 255));
    let secret = field.get("secretRef");
    if (field.get("chapAuthDiscovery").flag() || field.get("chapAuthSession").flag()) && !secret.is_set() {
        errors.push(secret.required(""));
    }
    if secret.is_set() && secret.text_of("name").is_empty() {
        errors.push(secret.get("name").required(""));
    }
    if initiator.is_set() && !is_iscsi_name(initiator.text()) {
        let field = initiator.with_path(field.path.child("initiatorname"));
        errors.push(field.invalid("must be valid format"));
    }
}

/// Whether this is `iqn.2001-04.com.example:storage`, `eui.` with 16 or `naa.` with 32 letters or digits.
fn is_iscsi_name(name: &str) -> bool {
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let alphanumeric = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let qualified = |name: &str| -> Option<bool> {
        let rest = name.strip_prefix("iqn.")?;
        let (year, rest) = (rest.get(..4)?, rest.get(4..)?.strip_prefix('-')?);
        let (month, rest) = (rest.get(..2)?, rest.get(2..)?.strip_prefix('.')?);
        let (authority, tail) = rest.split_once(':')?;
        let is_authority = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
        let is_tail =
            |c: char| !matches!(c, ',' | ';' | '*' | '&' | '$' | '|' | '\t' | '\n' | '\x0c' | '\r' | ' ');
        Some(
            digits(year)
                && digits(month)
                && !authority.is_empty()
                && authority.bytes().all(is_authority)
                && !tail.is_empty()
                && tail.chars().all(is_tail),
        )
    };
    match name.get(..3) {
        Some("iqn") => name.match_indices("iqn.").any(|(start, _)| qualified(&name[start..]) == Some(true)),
        Some("eui") => name.len() == 20 && name.is_char_boundary(4) && alphanumeric(&name[4..]),
        Some("naa") => name.len() == 36 && name.is_char_boundary(4) && alphanumeric(&name[4..]),
        _ => false,
    }
}

fn fibre_channel(errors: &mut Errors, field: &FieldValue<'_>, _: &str) {
    let (names, ids, unit) = (field.get("targetWWNs"), field.get("wwids"), field.get("lun"));
    match (names.is_empty(), ids.is_empty()) {
        (true, true) => errors.push(names.required("must specify either targetWWNs or wwids, but not both")),
        (false, false) => {
            errors.push(names.invalid("targetWWNs and wwids can not be specified simultaneously"));
        }
        _ => {}
    }
    if !names.is_empty() {
        match unit.number() {
            None => errors.push(unit.required("lun is required if targetWWNs is specified")),
            Some(number) => unit.number_rules(errors, atoll_meta::names::in_range(number, 0, 255)),
        }
    }
}

fn flex(errors: &mut Errors, field: &FieldValue<'_>, _: &str) {
    for (key, option) in field.get("options").entries() {
        let namespace = key.split_once('/').map_or(key, |(namespace, _)| namespace).to_ascii_lowercase();
        let reserved = ["kubernetes.io", "k8s.io"].iter().any(|domain| {
            namespace.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        });
        if reserved {
            errors.push(option.invalid_as(key, "kubernetes.io and k8s.io namespaces are reserved"));
        }
    }
}

fn azure_disk(errors: &mut Errors, field: &FieldValue<'_>, _: &str) {
    let (caching, kind, uri) = (field.get("cachingMode"), field.get("kind"), field.get("diskURI"));
    for (field, known) in
        [(&caching, &["None", "ReadOnly", "ReadWrite"]), (&kind, &["Dedicated", "Managed", "Shared"])]
    {
        if field.is_set() && !known.contains(&field.text()) {
            errors.push(field.unsupported(known));
        }
    }
    if !kind.is_set() {
        return;
    }
    let (prefix, known) = match kind.text() {
        "Managed" => (
            "/subscriptions/",
            "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}",
        ),
        _ => ("https://", "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"),
    };
    if !uri.text().starts_with(prefix) {
        errors.push(uri.unsupported_text(&[known]));
    }
}

fn storage_os(errors: &mut Errors, field: &FieldValue<'_>, _: &str) {
    for name in [field.get("volumeName"), field.get("volumeNamespace")] {
        if !name.is_empty() {
            name.rules(errors, names::dns1123_label(name.text()));
        }
    }
    secret(errors, &field.get("secretRef"));
}

fn secret(errors: &mut Errors, at: &FieldValue<'_>) {
    if at.is_set() {
        let missing =
            ["name", "namespace"].into_iter().map(|field| at.get(field)).filter(FieldValue::is_empty);
        errors.extend(missing.map(|field| field.required("")));
    }
}

fn csi(errors: &mut Errors, at: &FieldValue<'_>, _: &str) {
    csi_names::driver(errors, &at.get("driver"));
    let handle = at.get("volumeHandle");
    if handle.is_empty() {
        errors.push(handle.required(""));
    }
    for field in [
        "controllerPublishSecretRef",
        "controllerExpandSecretRef",
        "nodePublishSecretRef",
        "nodeExpandSecretRef",
    ] {
        let secret = at.get(field);
        let rules: [(_, StringRule); 2] =
            [("name", names::dns1123_subdomain), ("namespace", names::dns1123_label)];
        for (part, rule) in rules.into_iter().filter(|_| secret.is_set()) {
            let part = secret.get(part);
            if part.is_empty() {
                errors.push(part.required(""));
            } else {
                part.rules(errors, rule(part.text()));
            }
        }
    }
}
