//! Volumes and storage classes.

// upstream: pkg/printers/internalversion/printers.go

use atoll_meta::time::Timestamp;
use serde_json::Value;

use super::{AGE, NAME, NAME_DESCRIPTION, PLAIN};
use crate::fields::{annotation, at, is_deleting, list, text};
use crate::{Cell, Column, Printer};

pub fn printer(kind: &str) -> &'static Printer {
    match kind {
        "StorageClass" => &STORAGE_CLASS,
        "VolumeAttributesClass" => &VOLUME_ATTRIBUTES_CLASS,
        "VolumeAttachment" => &VOLUME_ATTACHMENT,
        "CSINode" => &CSI_NODE,
        "CSIDriver" => &CSI_DRIVER,
        _ => &PLAIN,
    }
}

const ATTRIBUTES: Column = Column::new(
    "VolumeAttributesClass",
    Cell::Given("spec.volumeAttributesClassName", "<unset>"),
    "Class of its attributes.",
);
const MODE: Column =
    Column::new("VolumeMode", Cell::Given("spec.volumeMode", "<unset>"), "A file system or a block device.")
        .wide();

pub static PERSISTENT_VOLUME: Printer = Printer::new(&[
    NAME,
    Column::new("Capacity", Cell::TextOr("spec.capacity.storage", "0"), "Capacity of the volume."),
    Column::new(
        "Access Modes",
        Cell::Special(|volume, _| access_modes(volume, "spec.accessModes").into()),
        "Access modes.",
    ),
    Column::new(
        "Reclaim Policy",
        Cell::Text("spec.persistentVolumeReclaimPolicy"),
        "Reclaim policy of the volume.",
    ),
    Column::new("Status", Cell::Special(phase), "Phase of the volume."),
    Column::new("Claim", Cell::Special(claim), "Claim that is bound to the volume."),
    Column::new("StorageClass", Cell::Special(class), "Class of the volume."),
    ATTRIBUTES,
    Column::new("Reason", Cell::Text("status.reason"), "Reason of the status."),
    AGE,
    MODE,
]);

pub static PERSISTENT_VOLUME_CLAIM: Printer = Printer::new(&[
    NAME,
    Column::new("Status", Cell::Special(phase), "Phase of the claim."),
    Column::new("Volume", Cell::Text("spec.volumeName"), "Volume that is bound to the claim."),
    Column::new("Capacity", Cell::Special(capacity), "Capacity of the volume."),
    Column::new("Access Modes", Cell::Special(bound_modes), "Access modes."),
    Column::new("StorageClass", Cell::Special(class), "Class of the volume."),
    ATTRIBUTES,
    AGE,
    MODE,
]);

fn phase(object: &Value, _: Timestamp) -> Value {
    if is_deleting(object) { "Terminating".into() } else { text(object, "status.phase").into() }
}

fn claim(volume: &Value, _: Timestamp) -> Value {
    match at(volume, "spec.claimRef") {
        Some(claim) => format!("{}/{}", text(claim, "namespace"), text(claim, "name")).into(),
        None => "".into(),
    }
}

/// The deprecated annotation takes precedence over the field.
fn class(object: &Value, _: Timestamp) -> Value {
    let annotated = annotation(object, "volume.beta.kubernetes.io/storage-class");
    annotated.unwrap_or_else(|| text(object, "spec.storageClassName")).into()
}

fn access_modes(object: &Value, path: &str) -> String {
    let modes = list(object, path);
    let short = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let given = short.iter().filter(|(name, _)| modes.iter().any(|mode| mode == name));
    given.map(|(_, short)| *short).collect::<Vec<_>>().join(",")
}

/// A claim without a volume has no capacity and access modes.
fn is_bound(claim: &Value) -> bool {
    !text(claim, "spec.volumeName").is_empty()
}

fn bound_modes(claim: &Value, _: Timestamp) -> Value {
    if is_bound(claim) { access_modes(claim, "status.accessModes").into() } else { "".into() }
}

fn capacity(claim: &Value, _: Timestamp) -> Value {
    match (is_bound(claim), text(claim, "status.capacity.storage")) {
        (false, _) => "".into(),
        (true, "") => "0".into(),
        (true, capacity) => capacity.into(),
    }
}

static STORAGE_CLASS: Printer = Printer::new(&[
    Column::new("Name", Cell::Special(class_name), NAME_DESCRIPTION).naming(),
    Column::new("Provisioner", Cell::Text("provisioner"), "Provisioner of volumes."),
    Column::new("ReclaimPolicy", Cell::Given("reclaimPolicy", "Delete"), "Reclaim policy of volumes."),
    Column::new(
        "VolumeBindingMode",
        Cell::Given("volumeBindingMode", "Immediate"),
        "When volumes are bound and provisioned.",
    ),
    Column::new(
        "AllowVolumeExpansion",
        Cell::Flag("allowVolumeExpansion", false),
        "Whether volumes can be expanded.",
    ),
    AGE,
]);

fn class_name(class: &Value, _: Timestamp) -> Value {
    let name = text(class, "metadata.name");
    let marks =
        ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];
    match marks.iter().any(|mark| annotation(class, mark) == Some("true")) {
        true => format!("{name} (default)").into(),
        false => name.into(),
    }
}

static VOLUME_ATTRIBUTES_CLASS: Printer =
    Printer::new(&[NAME, Column::new("DriverName", Cell::Text("driverName"), "Driver of the class."), AGE]);

static VOLUME_ATTACHMENT: Printer = Printer::new(&[
    NAME,
    Column::new("Attacher", Cell::Text("spec.attacher"), "Driver that attaches the volume.").naming(),
    Column::new("PV", Cell::Text("spec.source.persistentVolumeName"), "Volume that is attached."),
    Column::new("Node", Cell::Text("spec.nodeName"), "Node to which the volume is attached."),
    Column::new("Attached", Cell::Flag("status.attached", false), "Whether the volume is attached.")
        .boolean(),
    AGE,
]);

static CSI_NODE: Printer = Printer::new(&[
    NAME,
    Column::new("Drivers", Cell::Length("spec.drivers"), "Drivers on the node.").integer(),
    AGE,
]);

static CSI_DRIVER: Printer = Printer::new(&[
    NAME,
    Column::new(
        "AttachRequired",
        Cell::Flag("spec.attachRequired", true),
        "Whether volumes must be attached.",
    )
    .boolean(),
    Column::new(
        "PodInfoOnMount",
        Cell::Flag("spec.podInfoOnMount", false),
        "Whether pod information is passed on mount.",
    )
    .boolean(),
    Column::new(
        "StorageCapacity",
        Cell::Flag("spec.storageCapacity", false),
        "Whether the driver reports storage capacity.",
    )
    .boolean(),
    Column::new("TokenRequests", Cell::Special(audiences), "Audiences of service account tokens."),
    Column::new(
        "RequiresRepublish",
        Cell::Flag("spec.requiresRepublish", false),
        "Whether volumes are republished periodically.",
    )
    .boolean(),
    Column::new("Modes", Cell::Special(modes), "Volume lifecycle modes."),
    AGE,
]);

fn audiences(driver: &Value, _: Timestamp) -> Value {
    match list(driver, "spec.tokenRequests") {
        [] => "<unset>".into(),
        requests => {
            requests.iter().map(|request| text(request, "audience")).collect::<Vec<_>>().join(",").into()
        }
    }
}

fn modes(driver: &Value, _: Timestamp) -> Value {
    let modes = list(driver, "spec.volumeLifecycleModes").iter().filter_map(Value::as_str);
    match modes.collect::<Vec<_>>().join(",") {
        modes if modes.is_empty() => "<none>".into(),
        modes => modes.into(),
    }
}
