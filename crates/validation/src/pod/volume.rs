//! Volumes of a pod: each has a unique name and exactly one source.

// upstream: pkg/apis/core/validation/validation.go

use std::collections::{HashMap, HashSet};

use atoll_meta::object::{validate_annotations, validate_labels};
use atoll_meta::quote::quote;
use atoll_meta::{FieldError, names, object};

use super::volume_source::{self as source, required};
use super::{Scope, container, projection};
use crate::field_value::{Errors, FieldValue};
use crate::volume_claim::{self, ValidationOptions};

/// The valid volumes of a pod, by name. Containers can mount only these.
pub(super) type Volumes<'a> = HashMap<&'a str, FieldValue<'a>>;

const ONE_SOURCE: &str = "may not specify more than 1 volume type";

/// One kind of volume source. Upstream's paths sometimes differ from the field's name.
struct Source {
    field: &'static str,
    /// Path of the error about a second source.
    second_path: &'static str,
    /// Path of errors about the source itself.
    path: &'static str,
    check: fn(&mut Errors, &FieldValue<'_>),
}

const fn plain(field: &'static str, check: fn(&mut Errors, &FieldValue<'_>)) -> Source {
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
    plain("glusterfs", |errors, volume| required(errors, volume, &["endpoints", "path"])),
    plain("flocker", source::flocker),
    plain("persistentVolumeClaim", |errors, volume| required(errors, volume, &["claimName"])),
    plain("rbd", source::rbd),
    plain("cinder", source::cinder),
    Source { second_path: "cephFS", ..plain("cephfs", source::cephfs) },
    plain("quobyte", source::quobyte),
    Source { second_path: "downwarAPI", ..plain("downwardAPI", projection::downward_api) },
    plain("fc", source::fibre_channel),
    plain("flexVolume", source::flex_volume),
    plain("configMap", source::config_map),
    plain("azureFile", |errors, volume| required(errors, volume, &["secretName", "shareName"])),
    plain("vsphereVolume", |errors, volume| required(errors, volume, &["volumePath"])),
    plain("photonPersistentDisk", |errors, volume| required(errors, volume, &["pdID"])),
    plain("portworxVolume", |errors, volume| required(errors, volume, &["volumeID"])),
    plain("azureDisk", source::azure_disk),
    plain("storageos", source::storage_os),
    plain("projected", projection::projected),
    plain("scaleIO", |errors, volume| {
        required(errors, volume, &["gateway", "system", "volumeName"]);
    }),
    plain("csi", source::csi),
    plain("ephemeral", ephemeral),
    plain("image", |errors, volume| container::pull_policy(errors, &volume.get("pullPolicy"))),
];

/// Checks the volumes of a pod and returns those that can be mounted.
pub(super) fn check<'a>(errors: &mut Errors, volumes: &FieldValue<'a>, scope: &Scope<'_>) -> Volumes<'a> {
    let mut good = Volumes::with_capacity(volumes.len());
    let pod_name = scope.pod.map(object::name).filter(|name| !name.is_empty());
    let ephemeral = volumes.items().filter(|volume| volume.has("ephemeral"));
    let ephemeral: HashSet<&str> = ephemeral.map(|volume| volume.text_of("name")).collect();
    for volume in volumes.items() {
        let name = volume.get("name");
        let before = errors.len();
        check_source(errors, &volume, pod_name, scope);
        if name.is_empty() {
            errors.push(name.required(""));
        } else {
            name.rules(errors, names::dns1123_label(name.text()));
        }
        if good.contains_key(name.text()) {
            errors.push(name.duplicate_as(name.text()));
        }
        if errors.len() == before {
            good.insert(name.text(), volume.clone());
        }
        if let (Some(pod_name), Some(claim)) = (pod_name, volume.given("persistentVolumeClaim")) {
            let claim = claim.get("claimName");
            let is_made_for_pod = claim
                .text()
                .strip_prefix(pod_name)
                .and_then(|rest| rest.strip_prefix('-'))
                .is_some_and(|rest| ephemeral.contains(rest));
            if is_made_for_pod {
                let detail = "must not reference a PVC that gets created for an ephemeral volume";
                errors.push(claim.invalid_text(detail));
            }
        }
    }
    good
}

fn check_source(errors: &mut Errors, volume: &FieldValue<'_>, pod_name: Option<&str>, scope: &Scope<'_>) {
    let name = volume.get("name");
    // A volume has few fields. Looking up every source would take most of the time of a pod's checks.
    let given: Vec<&str> = volume.given_names().collect();
    let mut found = false;
    for source in SOURCES.iter().filter(|source| given.contains(&source.field)) {
        let value = volume.get(source.field).with_path(volume.path.child(source.path));
        if found {
            errors.push(FieldError::forbidden(&volume.path.child(source.second_path), ONE_SOURCE));
        } else {
            // In a template the image reference may be empty; the creator of the pods can set it.
            if source.field == "image" && scope.is_pod() {
                required(errors, &value, &["reference"]);
            }
            (source.check)(errors, &value);
            if let (Some(pod_name), "ephemeral", false) = (pod_name, source.field, name.is_empty()) {
                let claim = format!("{pod_name}-{}", name.text());
                for rule in names::name_is_dns_subdomain(&claim, false) {
                    errors.push(name.invalid_text(format!("PVC name {}: {rule}", quote(&claim))));
                }
            }
        }
        found = true;
        if source.field == "iscsi"
            && value.has("initiatorName")
            && name.len() + 1 + value.text_of("targetPortal").len() > 64
        {
            let detail = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if \
                          iscsi.initiatorName is specified.";
            errors.push(name.invalid_text(detail));
        }
    }
    if !found {
        errors.push(volume.required("must specify a volume type"));
    }
}

fn ephemeral(errors: &mut Errors, volume: &FieldValue<'_>) {
    let template = volume.get("volumeClaimTemplate");
    if template.is_set() {
        claim_metadata(errors, &template.get("metadata"));
        volume_claim::spec(errors, &template.get("spec"), &ValidationOptions::default());
    } else {
        errors.push(template.required(""));
    }
}

/// Checks the metadata of a claim template. Only labels and annotations are copied to claims, so upstream
/// rejects other fields.
pub(crate) fn claim_metadata(errors: &mut Errors, metadata: &FieldValue<'_>) {
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
    let (annotations, labels) = (metadata.get("annotations"), metadata.get("labels"));
    errors.extend(validate_annotations(annotations.text_entries(), &annotations.path));
    errors.extend(validate_labels(labels.text_entries(), &labels.path));
    for (field, rendered) in DECIDED {
        if metadata.has(field) {
            errors.push(FieldError::forbidden(&metadata.path.child(*rendered), "cannot be set"));
        }
    }
}
