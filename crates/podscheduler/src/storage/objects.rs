//! Volume claims, volumes and storage classes in compiled form.

use std::sync::Arc;

use atoll_meta::quantity::{Format, Quantity};
use atoll_meta::{LabelSelector, object};
use serde_json::Value;

use crate::labels::Labels;
use crate::node::Node;
use crate::node_affinity::Required;

const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
const OLD_CLASS: &str = "volume.beta.kubernetes.io/storage-class";
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

/// Zone and region labels of volumes and nodes.
pub const ZONES: [&str; 4] = [
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
];

/// Returns the current name of a deprecated zone label.
pub fn successor(key: &str) -> &str {
    match ZONES.iter().position(|own| *own == key) {
        Some(index @ (0 | 1)) => ZONES[index + 2],
        _ => key,
    }
}

#[derive(Debug)]
pub struct Claim {
    pub uid: Arc<str>,
    pub class: Box<str>,
    /// Name of the volume that it is or will be bound to; empty if none.
    pub volume: Box<str>,
    pub is_bound: bool,
    pub is_lost: bool,
    pub is_terminating: bool,
    pub selected_node: Option<Arc<str>>,
    /// Whether a node was selected before: if it is cleared, provisioning has failed.
    pub was_selected: bool,
    /// Uid of the Pod that owns it.
    pub owner: Option<Box<str>>,
    pub access_modes: Vec<Box<str>>,
    pub size: Quantity,
    pub mode: Box<str>,
    pub attributes: Box<str>,
    pub selector: Option<LabelSelector>,
}

impl Claim {
    pub fn of(claim: &Value) -> (Arc<str>, Box<str>, Self) {
        let spec = &claim["spec"];
        let volume: Box<str> = text(&spec["volumeName"]).into();
        let compiled = Claim {
            uid: object::uid(claim).into(),
            class: class_of(claim),
            is_bound: !volume.is_empty() && object::annotation(claim, BIND_COMPLETED).is_some(),
            volume,
            is_lost: claim["status"]["phase"] == "Lost",
            is_terminating: object::is_being_deleted(claim),
            selected_node: object::annotation(claim, SELECTED_NODE).map(Arc::from),
            was_selected: false,
            owner: object::controller_of(claim).map(|owner| owner.uid.into()),
            access_modes: texts(&spec["accessModes"]),
            size: storage(&spec["resources"]["requests"]),
            mode: mode_of(spec),
            attributes: text(&spec["volumeAttributesClassName"]).into(),
            selector: spec["selector"].is_object().then(|| {
                LabelSelector::from_object(&spec["selector"]).unwrap_or_else(|_| LabelSelector::nothing())
            }),
        };
        (object::namespace(claim).into(), object::name(claim).into(), compiled)
    }
}

/// The claim that a volume is bound to.
#[derive(Debug)]
pub struct ClaimRef {
    pub namespace: Arc<str>,
    pub name: Box<str>,
    pub uid: Arc<str>,
}

impl ClaimRef {
    pub fn is(&self, namespace: &str, name: &str, uid: &str) -> bool {
        *self.namespace == *namespace && *self.name == *name && (self.uid.is_empty() || *self.uid == *uid)
    }
}

#[derive(Debug)]
pub struct Volume {
    pub class: Box<str>,
    pub labels: Labels,
    pub capacity: Quantity,
    pub access_modes: Vec<Box<str>>,
    pub mode: Box<str>,
    pub attributes: Box<str>,
    pub claim: Option<ClaimRef>,
    pub is_available: bool,
    pub is_terminating: bool,
    pub zones: Vec<(&'static str, Vec<Box<str>>)>,
    nodes: Option<Required>,
}

impl Volume {
    pub fn of(volume: &Value) -> (Box<str>, Self) {
        let spec = &volume["spec"];
        let claim = &spec["claimRef"];
        let labels = Labels::of(volume);
        let zones = ZONES.into_iter().filter_map(|key| {
            let values: Vec<Box<str>> = labels.get(key)?.split("__").map(|zone| zone.trim().into()).collect();
            values.iter().all(|value| !value.is_empty()).then_some((key, values))
        });
        let compiled = Volume {
            class: class_of(volume),
            capacity: storage(&spec["capacity"]),
            access_modes: texts(&spec["accessModes"]),
            mode: mode_of(spec),
            attributes: text(&spec["volumeAttributesClassName"]).into(),
            claim: claim.is_object().then(|| ClaimRef {
                namespace: text(&claim["namespace"]).into(),
                name: text(&claim["name"]).into(),
                uid: text(&claim["uid"]).into(),
            }),
            is_available: volume["status"]["phase"] == "Available",
            is_terminating: object::is_being_deleted(volume),
            zones: zones.collect(),
            nodes: Required::of_selector(&spec["nodeAffinity"]["required"]),
            labels,
        };
        (object::name(volume).into(), compiled)
    }

    pub fn is_reachable_from(&self, node: &Node) -> bool {
        self.nodes.as_ref().is_none_or(|nodes| nodes.matches(&node.name, &node.labels))
    }
}

/// A label with its allowed values.
type Labelled = (Box<str>, Vec<Box<str>>);

#[derive(Debug)]
pub struct StorageClass {
    /// Whether the binding mode is `WaitForFirstConsumer`.
    pub waits_for_pod: bool,
    can_make: bool,
    /// Allowed topologies: label values of nodes, or empty for all nodes.
    places: Vec<Vec<Labelled>>,
}

impl StorageClass {
    pub fn of(class: &Value) -> (Box<str>, Self) {
        let provisioner = text(&class["provisioner"]);
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let place = |term: &Value| {
            let expressions = list(&term["matchLabelExpressions"]);
            expressions.iter().map(|one| (text(&one["key"]).into(), texts(&one["values"]))).collect()
        };
        let compiled = StorageClass {
            waits_for_pod: class["volumeBindingMode"] == "WaitForFirstConsumer",
            can_make: !provisioner.is_empty() && provisioner != NO_PROVISIONER,
            places: list(&class["allowedTopologies"]).iter().map(place).collect(),
        };
        (object::name(class).into(), compiled)
    }

    pub fn can_make_volume_at(&self, node: &Node) -> bool {
        let is_there = |(key, values): &Labelled| {
            node.labels.get(key).is_some_and(|own| values.iter().any(|value| **value == **own))
        };
        let places = &self.places;
        self.can_make
            && (places.is_empty()
                || places.iter().any(|place| !place.is_empty() && place.iter().all(is_there)))
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn texts(list: &Value) -> Vec<Box<str>> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).map(Box::from).collect()
}

fn class_of(object: &Value) -> Box<str> {
    object::annotation(object, OLD_CLASS).unwrap_or_else(|| text(&object["spec"]["storageClassName"])).into()
}

fn mode_of(spec: &Value) -> Box<str> {
    spec["volumeMode"].as_str().unwrap_or("Filesystem").into()
}

fn storage(amounts: &Value) -> Quantity {
    Quantity::parse(text(&amounts["storage"])).unwrap_or_else(|_| Quantity::new(0, Format::BinarySi))
}
