//! Volumes of a pod: each has a unique name and exactly one source.

// upstream: pkg/apis/core/validation/validation.go

use std::collections::{HashMap, HashSet};

use atoll_meta::object::{validate_annotations, validate_labels};
use atoll_meta::quote::quote;
use atoll_meta::{FieldError, FieldPath, names, object};
use serde_json::Value;

use super::volume_source::{self as source, required};
use super::{Scope, projection};
use crate::field_value::FieldValue;
use crate::fields::{Errors, Fields, broken_rules};
use crate::volume_claim::{self, ValidationOptions};

/// The valid volumes of a pod, by name. Containers can mount only these.
pub(super) type Volumes<'a> = HashMap<&'a str, &'a Value>;

const ONE_SOURCE: &str = "may not specify more than 1 volume type";

/// One kind of volume source. Upstream's paths sometimes differ from the field's name.
struct Source {
    field: &'static str,
    /// Path of the error about a second source.
    second_path: &'static str,
    /// Path of errors about the source itself.
    path: &'static str,
    check: fn(&mut Errors, &Value, &FieldPath),
}

const fn plain(field: &'static str, check: fn(&mut Errors, &Value, &FieldPath)) -> Source {
    Source { field, second_path: field, path: field, check }
}

/// All sources, in upstream's order.
const SOURCES: &[Source] = &[
    plain("emptyDir", source::empty_dir),
    plain("hostPath", source::host_path),
    plain("gitRepo", source::git_repo),
    Source { path: "persistentDisk", ..plain("gcePersistentDisk", source::gce_persistent_disk) },
    plain("awsElasticBlockStore", source::aws_elastic_block_store),
    plain("secret", source::secret),
    plain("nfs", source::nfs),
    plain("iscsi", source::iscsi),
    plain("glusterfs", |errors, volume, path| required(errors, volume, &["endpoints", "path"], path)),
    plain("flocker", source::flocker),
    plain("persistentVolumeClaim", |errors, volume, path| required(errors, volume, &["claimName"], path)),
    plain("rbd", source::rbd),
    plain("cinder", source::cinder),
    Source { second_path: "cephFS", ..plain("cephfs", source::cephfs) },
    plain("quobyte", source::quobyte),
    Source { second_path: "downwarAPI", ..plain("downwardAPI", projection::downward_api) },
    plain("fc", source::fibre_channel),
    plain("flexVolume", source::flex_volume),
    plain("configMap", source::config_map),
    plain("azureFile", |errors, volume, path| required(errors, volume, &["secretName", "shareName"], path)),
    plain("vsphereVolume", |errors, volume, path| required(errors, volume, &["volumePath"], path)),
    plain("photonPersistentDisk", |errors, volume, path| required(errors, volume, &["pdID"], path)),
    plain("portworxVolume", |errors, volume, path| required(errors, volume, &["volumeID"], path)),
    plain("azureDisk", source::azure_disk),
    plain("storageos", source::storage_os),
    plain("projected", projection::projected),
    plain("scaleIO", |errors, volume, path| {
        required(errors, volume, &["gateway", "system", "volumeName"], path);
    }),
    plain("csi", source::csi),
    plain("ephemeral", ephemeral),
    plain("image", |errors, volume, path| super::container::pull_policy(errors, volume, "pullPolicy", path)),
];

/// Checks the volumes of a pod and returns those that can be mounted.
pub(super) fn check<'a>(
    errors: &mut Errors,
    volumes: &'a [Value],
    scope: &Scope<'_>,
    path: &FieldPath,
) -> Volumes<'a> {
    let mut good = Volumes::with_capacity(volumes.len());
    let pod_name = scope.pod.map(object::name).filter(|name| !name.is_empty());
    let ephemeral = volumes.iter().filter(|volume| volume.field("ephemeral").is_some());
    let ephemeral: HashSet<&str> = ephemeral.map(|volume| volume.text("name")).collect();
    for (index, volume) in volumes.iter().enumerate() {
        let path = path.index(index);
        let name = volume.text("name");
        let before = errors.len();
        check_source(errors, volume, pod_name, scope, &path);
        if name.is_empty() {
            errors.push(FieldError::required(&path.child("name"), ""));
        } else {
            broken_rules(errors, || path.child("name"), name, names::dns1123_label(name));
        }
        if good.contains_key(name) {
            errors.push(FieldError::duplicate(&path.child("name"), name));
        }
        if errors.len() == before {
            good.insert(name, volume);
        }
        if let (Some(pod_name), Some(claim)) = (pod_name, volume.field("persistentVolumeClaim")) {
            let claim = claim.text("claimName");
            let is_made_for_pod = claim
                .strip_prefix(pod_name)
                .and_then(|rest| rest.strip_prefix('-'))
                .is_some_and(|rest| ephemeral.contains(rest));
            if is_made_for_pod {
                let path = path.child("persistentVolumeClaim").child("claimName");
                let detail = "must not reference a PVC that gets created for an ephemeral volume";
                errors.push(FieldError::invalid(&path, claim, detail));
            }
        }
    }
    good
}

fn check_source(
    errors: &mut Errors,
    volume: &Value,
    pod_name: Option<&str>,
    scope: &Scope<'_>,
    path: &FieldPath,
) {
    let name = volume.text("name");
    let mut found = false;
    for source in SOURCES {
        let Some(value) = volume.field(source.field) else { continue };
        if found {
            errors.push(FieldError::forbidden(&path.child(source.second_path), ONE_SOURCE));
        } else {
            // In a template the image reference may be empty; the creator of the pods can set it.
            if source.field == "image" && scope.is_pod() {
                required(errors, value, &["reference"], &path.child(source.path));
            }
            (source.check)(errors, value, &path.child(source.path));
            if let (Some(pod_name), "ephemeral", false) = (pod_name, source.field, name.is_empty()) {
                let claim = format!("{pod_name}-{name}");
                for rule in names::name_is_dns_subdomain(&claim, false) {
                    let detail = format!("PVC name {}: {rule}", quote(&claim));
                    errors.push(FieldError::invalid(&path.child("name"), name, detail));
                }
            }
        }
        found = true;
        if source.field == "iscsi"
            && value.field("initiatorName").is_some()
            && name.len() + 1 + value.text("targetPortal").len() > 64
        {
            let detail = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if \
                          iscsi.initiatorName is specified.";
            errors.push(FieldError::invalid(&path.child("name"), name, detail));
        }
    }
    if !found {
        errors.push(FieldError::required(path, "must specify a volume type"));
    }
}

fn ephemeral(errors: &mut Errors, volume: &Value, path: &FieldPath) {
    let path = path.child("volumeClaimTemplate");
    match volume.field("volumeClaimTemplate") {
        Some(template) => {
            claim_metadata(errors, template.part("metadata"), &path.child("metadata"));
            let spec = FieldValue::under(template.get("spec"), path.child("spec"));
            volume_claim::spec(errors, &spec, &ValidationOptions::default());
        }
        None => errors.push(FieldError::required(&path, "")),
    }
}

/// Checks the metadata of a claim template. Only labels and annotations are copied to claims, so upstream
/// rejects other fields.
pub(crate) fn claim_metadata(errors: &mut Errors, metadata: &Value, path: &FieldPath) {
    const DECIDED: &[(&str, &str)] = &[
        ("name", "name"),
        ("generateName", "generateName"),
        ("namespace", "namespace"),
        ("selfLink", "selfLink"),
        ("uid", "uID"),
        ("resourceVersion", "resourceVersion"),
        ("generation", "generation"),
        ("creationTimestamp", "creationTimestamp"),
        ("deletionTimestamp", "deletionTimestamp"),
        ("deletionGracePeriodSeconds", "deletionGracePeriodSeconds"),
        ("ownerReferences", "ownerReferences"),
        ("finalizers", "finalizers"),
        ("managedFields", "managedFields"),
    ];
    errors.extend(validate_annotations(metadata.text_entries("annotations"), &path.child("annotations")));
    errors.extend(validate_labels(metadata.text_entries("labels"), &path.child("labels")));
    for (field, rendered) in DECIDED {
        if metadata.field(field).is_some() {
            errors.push(FieldError::forbidden(&path.child(*rendered), "cannot be set"));
        }
    }
}
