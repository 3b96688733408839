//! What a kind does beyond the rules that all kinds share. Most kinds need none of it.

pub mod config_map;
pub mod event;
pub mod lease;
pub mod namespace;
pub mod pod;
pub mod secret;
pub mod workspace;

use atoll_meta::names::{self, NameRule};
use atoll_meta::{FieldError, FieldPath, object};
use atoll_validation::Checks;
use serde_json::Value;

/// The rules of one kind. Functions get whole objects; none of them does I/O.
#[derive(Debug)]
pub struct Strategy {
    pub name_rule: NameRule,
    /// `metadata.generation` counts changes of the spec.
    pub generation: bool,
    /// A PUT on a name that does not exist creates it.
    pub create_on_update: bool,
    /// An update may leave out the resource version and then overwrites whatever is there.
    pub unconditional_update: bool,
    /// A DELETE is answered with the object rather than with a Status.
    pub returns_deleted: bool,
    /// Selectable fields besides `metadata.name` and `metadata.namespace`.
    pub fields: &'static [Selectable],
    pub prepare_create: fn(&mut Value, &Context),
    pub prepare_update: fn(&mut Value, &Value),
    /// What goes without saying about an object that comes in, whichever part of it is to be written.
    pub defaults: fn(&mut Value),
    pub validate: fn(&Value) -> Vec<FieldError>,
    /// What may not change.
    pub validate_update: fn(&Value, &Value) -> Vec<FieldError>,
    /// The same for a subresource, which is named first.
    pub validate_subresource: fn(&str, &Value, &Value) -> Vec<FieldError>,
    /// How often the metadata of a change is looked at.
    pub metadata_checks: MetadataChecks,
    /// What of the metadata a write of the status cannot change.
    pub status_keeps: &'static [&'static str],
    /// Deletion is a matter of its own: it always marks first, and speaks of preconditions in other words (Namespaces).
    pub own_deletion: bool,
    /// Kinds that end gracefully are given some seconds between the mark and the end.
    pub grace_period: Option<GracePeriod>,
    /// Whether something other than `metadata.finalizers` still keeps a deleted object.
    pub is_held: fn(&Value) -> bool,
    /// What changes about an object, other than its metadata, when its deletion begins.
    pub begin_delete: fn(&mut Value),
}

/// The seconds that an object is given to end, from those that were asked for.
pub type GracePeriod = fn(&Value, Option<i64>) -> i64;

/// Upstream checks the metadata of a changed object for all kinds, most kinds do so again, and some check the whole
/// object once more. Every cause is then listed as often, and clients see the same from us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetadataChecks {
    Once,
    Twice,
    /// Twice, and then everything as for a new object.
    WithTheWhole,
}

/// What preparing a new object may need to know.
pub struct Context {
    /// The random bytes that the uid was made of, fresh for each object.
    pub random: [u8; 16],
}

/// A field that lists and watches can select on.
#[derive(Debug)]
pub struct Selectable {
    pub label: &'static str,
    /// The way to it in the object; dots separate.
    pub path: &'static str,
    /// What it counts as when it is absent.
    pub absent: &'static str,
    /// The way to what stands in for it when it is empty.
    pub otherwise: Option<&'static str>,
}

impl Strategy {
    pub const GENERIC: Strategy = Strategy {
        name_rule: names::name_is_dns_subdomain,
        generation: false,
        create_on_update: false,
        unconditional_update: true,
        returns_deleted: false,
        fields: &[],
        prepare_create: |_, _| {},
        prepare_update: |_, _| {},
        defaults: |_| {},
        validate: |_| Vec::new(),
        validate_update: |_, _| Vec::new(),
        validate_subresource: |_, _, _| Vec::new(),
        metadata_checks: MetadataChecks::Twice,
        status_keeps: &[],
        own_deletion: false,
        grace_period: None,
        is_held: |_| false,
        begin_delete: |_| {},
    };

    /// All that is wrong with a new object, its metadata first.
    pub fn check_create(&self, new: &Value, namespaced: bool, checks: &Checks) -> Vec<FieldError> {
        let mut errors = object::validate_object_meta(new, namespaced, self.name_rule, &metadata());
        errors.extend(finalizer_names(new));
        errors.extend((self.validate)(new));
        errors.extend((checks.create)(new));
        errors
    }

    /// All that is wrong with a changed object, or with a subresource of it.
    pub fn check_update(
        &self,
        subresource: &str,
        new: &Value,
        old: &Value,
        namespaced: bool,
        checks: &Checks,
    ) -> Vec<FieldError> {
        let mut errors =
            object::validate_object_meta(new, namespaced, names::name_is_path_segment, &metadata());
        let update = object::validate_object_meta_update(new, old, &metadata());
        errors.extend(update.iter().cloned());
        if self.metadata_checks != MetadataChecks::Once {
            errors.extend(update);
            errors.extend(finalizer_names(new));
        }
        if !subresource.is_empty() {
            errors.extend((self.validate_subresource)(subresource, new, old));
            errors.extend((checks.subresource)(subresource, new, old));
            return errors;
        }
        errors.extend((self.validate_update)(new, old));
        errors.extend((checks.update)(new, old));
        if self.metadata_checks == MetadataChecks::WithTheWhole {
            errors.extend(self.check_create(new, namespaced, checks));
        }
        errors
    }
}

/// Built-in kinds want finalizers that say whose they are, besides the few that everybody knows.
fn finalizer_names(object: &Value) -> Vec<FieldError> {
    let path = metadata().child("finalizers");
    let names = object::finalizers(object).enumerate();
    names.filter_map(|(position, name)| unknown_finalizer(name, &path.index(position))).collect()
}

pub(crate) fn unknown_finalizer(name: &str, path: &FieldPath) -> Option<FieldError> {
    let known = name.contains('/') || matches!(name, "kubernetes" | "orphan" | "foregroundDeletion");
    let message = "name is neither a standard finalizer name nor is it fully qualified";
    (!known).then(|| FieldError::invalid(path, name, message))
}

const fn field(label: &'static str) -> Selectable {
    counted(label, label, "")
}

const fn counted(label: &'static str, path: &'static str, absent: &'static str) -> Selectable {
    Selectable { label, path, absent, otherwise: None }
}

const WITH_GENERATION: Strategy = Strategy { generation: true, ..Strategy::GENERIC };

/// Where a status comes from somebody who is not to be trusted with the rest.
const ONLY_STATUS: &[&str] = &["labels", "annotations", "finalizers", "ownerReferences"];

static GENERIC: Strategy = Strategy::GENERIC;
static DEPLOYMENTS: Strategy = Strategy { status_keeps: &["labels"], ..WITH_GENERATION };
static ADMISSION_POLICIES: Strategy = Strategy {
    status_keeps: ONLY_STATUS,
    generation: true,
    unconditional_update: false,
    ..Strategy::GENERIC
};
static VOLUME_ATTACHMENTS: Strategy = Strategy {
    status_keeps: ONLY_STATUS,
    unconditional_update: false,
    returns_deleted: true,
    ..Strategy::GENERIC
};
static RESOURCE_CLAIMS: Strategy =
    Strategy { status_keeps: ONLY_STATUS, returns_deleted: true, ..Strategy::GENERIC };
static SERVICE_RANGES: Strategy = Strategy { status_keeps: ONLY_STATUS, ..Strategy::GENERIC };
static GENERATION: Strategy = WITH_GENERATION;
static PATH_SEGMENT_NAMES: Strategy =
    Strategy { name_rule: names::name_is_path_segment, create_on_update: true, ..Strategy::GENERIC };
static SERVICE_ACCOUNTS: Strategy =
    Strategy { returns_deleted: true, metadata_checks: MetadataChecks::WithTheWhole, ..Strategy::GENERIC };
static RETURNS_DELETED: Strategy = Strategy { returns_deleted: true, ..Strategy::GENERIC };
static SERVICES: Strategy = Strategy {
    name_rule: names::name_is_dns1035_label,
    create_on_update: true,
    returns_deleted: true,
    fields: &[field("spec.clusterIP"), field("spec.type")],
    ..Strategy::GENERIC
};
static NODES: Strategy =
    Strategy { fields: &[counted("spec.unschedulable", "spec.unschedulable", "false")], ..Strategy::GENERIC };
static REPLICATED: Strategy =
    Strategy { fields: &[counted("status.replicas", "status.replicas", "0")], ..WITH_GENERATION };
static JOBS: Strategy =
    Strategy { fields: &[counted("status.successful", "status.succeeded", "0")], ..WITH_GENERATION };
static CERTIFICATE_REQUESTS: Strategy = Strategy { fields: &[field("spec.signerName")], ..Strategy::GENERIC };
static CREATE_ON_UPDATE: Strategy = Strategy { create_on_update: true, ..Strategy::GENERIC };
static CONDITIONAL_UPDATE: Strategy = Strategy { unconditional_update: false, ..Strategy::GENERIC };
static CONDITIONAL_GENERATION: Strategy =
    Strategy { generation: true, unconditional_update: false, ..Strategy::GENERIC };
static CONDITIONAL_RETURNS_DELETED: Strategy =
    Strategy { unconditional_update: false, returns_deleted: true, ..Strategy::GENERIC };
static RUNTIME_CLASSES: Strategy =
    Strategy { create_on_update: true, unconditional_update: false, ..Strategy::GENERIC };
static GENERATION_RETURNS_DELETED: Strategy = Strategy { returns_deleted: true, ..WITH_GENERATION };

/// The strategy of a built-in resource.
pub fn builtin(group: &str, resource: &str) -> &'static Strategy {
    match (group, resource) {
        ("", "namespaces") => &namespace::STRATEGY,
        ("", "configmaps") => &config_map::STRATEGY,
        ("", "secrets") => &secret::STRATEGY,
        ("", "events") => &event::STRATEGY,
        ("coordination.k8s.io", "leases") => &lease::STRATEGY,
        ("", "pods") => &pod::STRATEGY,
        ("", "nodes") => &NODES,
        ("", "services") => &SERVICES,
        ("", "replicationcontrollers") => &REPLICATED,
        ("batch", "jobs") => &JOBS,
        ("", "endpoints" | "limitranges") => &CREATE_ON_UPDATE,
        ("", "persistentvolumes" | "persistentvolumeclaims" | "resourcequotas") => &RETURNS_DELETED,
        ("", "serviceaccounts") => &SERVICE_ACCOUNTS,
        ("", "podtemplates") => &GENERATION_RETURNS_DELETED,
        ("storage.k8s.io", "storageclasses" | "volumeattributesclasses") => &RETURNS_DELETED,
        ("storage.k8s.io", "volumeattachments") => &VOLUME_ATTACHMENTS,
        ("storage.k8s.io", "csidrivers" | "csinodes") => &CONDITIONAL_RETURNS_DELETED,
        ("storage.k8s.io", "csistoragecapacities") => &CONDITIONAL_UPDATE,
        ("resource.k8s.io", "deviceclasses" | "resourceslices") => &GENERATION_RETURNS_DELETED,
        ("resource.k8s.io", "resourceclaims" | "devicetaintrules") => &RESOURCE_CLAIMS,
        ("resource.k8s.io", _) => &RETURNS_DELETED,
        ("rbac.authorization.k8s.io", _) => &PATH_SEGMENT_NAMES,
        ("certificates.k8s.io", "certificatesigningrequests") => &CERTIFICATE_REQUESTS,
        ("node.k8s.io", "runtimeclasses") => &RUNTIME_CLASSES,
        ("admissionregistration.k8s.io", "validatingadmissionpolicies") => &ADMISSION_POLICIES,
        ("apps", "deployments") => &DEPLOYMENTS,
        ("networking.k8s.io", "servicecidrs") => &SERVICE_RANGES,
        ("policy", "poddisruptionbudgets") | ("admissionregistration.k8s.io", _) => &CONDITIONAL_GENERATION,
        ("apps", "controllerrevisions") => &GENERIC,
        ("apps" | "batch" | "flowcontrol.apiserver.k8s.io", _)
        | ("scheduling.k8s.io", "priorityclasses")
        | ("networking.k8s.io", "ingressclasses" | "ingresses" | "networkpolicies")
        | ("discovery.k8s.io", "endpointslices")
        | ("apiextensions.k8s.io", "customresourcedefinitions") => &GENERATION,
        _ => &GENERIC,
    }
}

pub(crate) fn metadata() -> FieldPath {
    FieldPath::new("metadata")
}

/// The value at a path whose steps are separated by dots.
pub(crate) fn at<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(object, |value, step| value.get(step))
}

pub(crate) fn text<'a>(object: &'a Value, path: &str) -> &'a str {
    at(object, path).and_then(Value::as_str).unwrap_or_default()
}
