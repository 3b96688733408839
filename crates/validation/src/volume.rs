//! PersistentVolumes.

// upstream: pkg/apis/core/validation/validation.go
// upstream: pkg/volume/validation/pv_validation.go

mod sources;

use atoll_meta::{FieldError, FieldPath, names, object};
use serde_json::Value;

use crate::Checks;
use crate::field_value::{Errors, FieldValue, equal, immutable};
use crate::{go_json, node_selector, quantities, selectors};

pub(crate) static VOLUMES: Checks = Checks {
    create: |volume| {
        let mut errors = Errors::new();
        validate(&mut errors, volume, None);
        mount_options(&mut errors, volume);
        errors
    },
    update,
    ..Checks::NONE
};

pub(crate) const ACCESS_MODES: &[&str] =
    &["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
pub(crate) const MODES: &[&str] = &["Block", "Filesystem"];
const MOUNT_OPTIONS: &str = "volume.beta.kubernetes.io/mount-options";

/// Sources for which upstream accepts the mount options annotation.
const MOUNTABLE: &[&str] = &[
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "nfs",
    "rbd",
    "quobyte",
    "iscsi",
    "cinder",
    "cephfs",
    "azureFile",
    "vsphereVolume",
    "azureDisk",
    "photonPersistentDisk",
];

fn update(new: &Value, old: &Value) -> Errors {
    let mut errors = Errors::new();
    // Upstream validates the object twice.
    validate(&mut errors, new, Some(old));
    mount_options(&mut errors, new);
    validate(&mut errors, new, Some(old));
    let (spec, before) = (FieldValue::field(new, "spec"), FieldValue::field(old, "spec"));
    if !sources::same(&spec, &before) {
        let path = spec.path.child("persistentvolumesource");
        errors.push(FieldError::forbidden(
            &path,
            format!(
                "spec.persistentvolumesource is immutable after creation\n{}",
                sources::difference(&spec, &before)
            ),
        ));
    }
    immutable(
        &mut errors,
        &spec.get("volumeMode").with_path(FieldPath::new("volumeMode")),
        &before.get("volumeMode"),
    );
    if before.has("nodeAffinity") {
        node_affinity_kept(&mut errors, &spec, &before);
    }
    if before.has("volumeAttributesClassName") && !spec.has("volumeAttributesClassName") {
        let class = spec.get("volumeAttributesClassName");
        errors.push(class.forbidden("update from non-nil value to nil is forbidden"));
    }
    errors
}

fn mount_options(errors: &mut Errors, volume: &Value) {
    let spec = FieldValue::field(volume, "spec");
    if object::annotation(volume, MOUNT_OPTIONS).is_some() && !MOUNTABLE.iter().any(|source| spec.has(source))
    {
        let path = FieldPath::new("metadata").child("annotations").child(MOUNT_OPTIONS);
        errors.push(FieldError::forbidden(&path, "may not specify mount options for this volume type"));
    }
}

/// Checks the access modes of a volume or a claim.
pub(crate) fn access_modes(errors: &mut Errors, modes: &FieldValue<'_>) {
    for mode in modes.texts().filter(|mode| !ACCESS_MODES.contains(mode)) {
        let value = atoll_meta::field::BadValue::named_text(mode);
        errors.push(FieldError::not_supported(&modes.path, value, ACCESS_MODES));
    }
    let single = modes.texts().any(|mode| mode == "ReadWriteOncePod");
    if single && modes.texts().any(|mode| mode != "ReadWriteOncePod" && ACCESS_MODES.contains(&mode)) {
        errors.push(modes.forbidden("may not use ReadWriteOncePod with other access modes"));
    }
}

fn validate(errors: &mut Errors, volume: &Value, old: Option<&Value>) {
    let lenient = old.is_some_and(|old| has_bad_value(&FieldValue::field(old, "spec")));
    check_spec(
        errors,
        &FieldValue::field(volume, "spec"),
        object::name(volume),
        &VolumeSpecOptions { inline: false, lenient },
    );
}

/// Validation options for the spec of a volume.
pub(crate) struct VolumeSpecOptions {
    /// Whether the spec is inline in a VolumeAttachment.
    pub inline: bool,
    /// Whether the node selector may contain invalid label values.
    pub lenient: bool,
}

const INLINE: &str = "may not be specified in the context of inline volumes";

pub(crate) fn check_spec(
    errors: &mut Errors,
    spec: &FieldValue<'_>,
    name: &str,
    context: &VolumeSpecOptions,
) {
    let (capacity, modes) = (spec.get("capacity"), spec.get("accessModes"));
    if context.inline {
        errors.extend(spec.has("claimRef").then(|| spec.get("claimRef").forbidden(INLINE)));
        errors.extend((!capacity.is_empty()).then(|| capacity.forbidden(INLINE)));
        if !spec.has("csi") {
            errors.push(spec.get("csi").required("has to be specified in the context of inline volumes"));
        }
    }
    if modes.is_empty() {
        errors.push(modes.required(""));
    }
    access_modes(errors, &modes);
    if !context.inline {
        check_capacity(errors, &capacity);
    }
    let policy = spec.get("persistentVolumeReclaimPolicy");
    let policies = &["Delete", "Recycle", "Retain"];
    if context.inline && !matches!(policy.text(), "" | "Retain") {
        errors.push(policy.forbidden("may only be Retain in the context of inline volumes"));
    } else if !context.inline && !policy.is_empty() && !policies.contains(&policy.text()) {
        errors.push(policy.unsupported(policies));
    }
    let affinity = spec.get("nodeAffinity");
    if affinity.is_set() && context.inline {
        errors.push(affinity.forbidden(INLINE));
    } else if affinity.is_set() {
        node_affinity(errors, &affinity, context.lenient);
    }
    sources::check(errors, spec, name, affinity.is_set() && !context.inline);
    let is_root = |path: &str| {
        // The path is equivalent to `/`.
        path.starts_with('/') && path.split('/').all(|step| matches!(step, "" | "." | ".."))
    };
    if is_root(spec.get("hostPath").text_of("path")) && policy.text() == "Recycle" {
        errors.push(policy.forbidden("may not be 'recycle' for a hostPath mount of '/'"));
    }
    classes(errors, spec, context);
}

fn check_capacity(errors: &mut Errors, capacity: &FieldValue<'_>) {
    if capacity.is_empty() {
        errors.push(capacity.required(""));
    }
    if !capacity.has("storage") || capacity.len() > 1 {
        errors.push(FieldError::not_supported(&capacity.path, capacity.value.clone(), &["storage"]));
    }
    for (_, amount) in capacity.entries() {
        quantities::basic(errors, &amount);
        quantities::positive(errors, &amount);
    }
}

fn classes(errors: &mut Errors, spec: &FieldValue<'_>, context: &VolumeSpecOptions) {
    let class = spec.get("storageClassName");
    if !class.is_empty() && context.inline {
        errors.push(class.forbidden(INLINE));
    } else if !class.is_empty() {
        class.rules(errors, names::dns1123_subdomain(class.text()));
    }
    let mode = spec.get("volumeMode");
    if mode.is_set() && context.inline && mode.text() != "Filesystem" {
        let detail = "may not specify volumeMode other than Filesystem in the context of inline volumes";
        errors.push(mode.forbidden(detail));
    } else if mode.is_set() && !context.inline && !MODES.contains(&mode.text()) {
        errors.push(mode.unsupported(MODES));
    }
    let class = spec.get("volumeAttributesClassName");
    if class.is_set() && !context.inline {
        if class.is_empty() {
            errors.push(class.required("an empty string is disallowed"));
        } else {
            class.rules(errors, names::dns1123_subdomain(class.text()));
        }
        if !spec.has("csi") {
            errors.push(spec.get("csi").required("has to be specified when using volumeAttributesClassName"));
        }
    }
}

fn has_bad_value(spec: &FieldValue<'_>) -> bool {
    let terms = spec.get("nodeAffinity").get("required").get("nodeSelectorTerms");
    terms.items().any(|term| selectors::has_bad_value(&term))
}

fn node_affinity(errors: &mut Errors, affinity: &FieldValue<'_>, lenient: bool) {
    let required = affinity.get("required");
    if !required.is_set() {
        errors.push(required.required("must specify required node constraints"));
    } else if lenient {
        let terms = required.get("nodeSelectorTerms");
        for term in terms.items() {
            node_selector::check_term(errors, &term, false);
        }
    } else {
        node_selector::check_selector(errors, &required);
    }
}

/// Checks that node affinity is unchanged, except for renamed topology labels.
fn node_affinity_kept(errors: &mut Errors, spec: &FieldValue<'_>, old: &FieldValue<'_>) {
    let (affinity, before) = (spec.get("nodeAffinity"), old.get("nodeAffinity"));
    if equal(affinity.value, before.value) {
        return;
    }
    let mut renamed = before.value.clone();
    rename_labels(&mut renamed, affinity.value);
    if renamed != *affinity.value {
        let detail = "field is immutable, except for updating from beta label to GA";
        let field = affinity.with_path(FieldPath::new("nodeAffinity"));
        errors.push(field.invalid_as(go_json::value("core/v1.VolumeNodeAffinity", affinity.value), detail));
    }
}

const RENAMED: &[(&str, &str)] = &[
    ("beta.kubernetes.io/arch", "kubernetes.io/arch"),
    ("beta.kubernetes.io/os", "kubernetes.io/os"),
    ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"),
    ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"),
    ("beta.kubernetes.io/instance-type", "node.kubernetes.io/instance-type"),
];

/// Renames labels in the old affinity to those of the new one, where upstream allows that.
fn rename_labels(old: &mut Value, new: &Value) {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            for (key, value) in old {
                let Some(new_value) = new.get(key) else { continue };
                // Upstream finds an empty name for a label without a new name.
                let renamed = RENAMED.iter().find(|(from, _)| value == from).map_or("", |(_, to)| *to);
                if key == "key" && new_value == renamed {
                    *value = new_value.clone();
                } else {
                    rename_labels(value, new_value);
                }
            }
        }
        (Value::Array(old), Value::Array(new)) => {
            old.iter_mut().zip(new).for_each(|(old, new)| rename_labels(old, new));
        }
        _ => {}
    }
}
