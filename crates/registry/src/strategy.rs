//! What a kind does beyond the rules that all kinds share. Most kinds need none of it.

pub mod certificate_request;
pub mod cluster;
pub mod config_map;
pub mod device;
mod disabled;
pub mod event;
pub mod extension;
pub mod job;
pub mod lease;
pub mod namespace;
pub mod node;
pub mod pod;
pub mod secret;
pub mod service;
pub mod volume;
pub mod workload;
pub mod workspace;

use std::collections::BTreeMap;

use atoll_meta::names::{self, NameRule};
use atoll_meta::{FieldError, FieldPath, object};
use atoll_validation::Checks;
use serde_json::Value;

/// The rules of one kind. Functions get whole objects; none of them does I/O.
#[derive(Debug)]
pub struct Strategy {
    pub name_rule: NameRule,
    /// `metadata.generation` is 1 at first.
    pub generation: bool,
    /// Whether a change raises `metadata.generation`.
    pub is_counted: fn(&Value, &Value) -> bool,
    /// A PUT on a name that does not exist creates it.
    pub create_on_update: bool,
    /// An update may leave out the resource version and then overwrites whatever is there.
    pub unconditional_update: bool,
    /// A DELETE is answered with the object rather than with a Status.
    pub returns_deleted: bool,
    /// Selectable fields besides `metadata.name` and `metadata.namespace`.
    pub fields: &'static [Selectable],
    /// A new object is prepared with the status that it comes with (Nodes, Pods); all others have none yet.
    pub keeps_status: bool,
    /// Notes in the object who asked for it.
    pub attribute: fn(&mut Value, &Requester<'_>),
    pub prepare_create: fn(&mut Value, &Context<'_>),
    /// Gets the new object, then the old one.
    pub prepare_update: fn(&mut Value, &Value, &Context<'_>),
    /// The same for a subresource, which is named first. What is not part of it has been put back already.
    pub prepare_subresource: fn(&str, &mut Value, &Value, &Context<'_>),
    pub validate: fn(&Value) -> Vec<FieldError>,
    /// What may not change.
    pub validate_update: fn(&Value, &Value) -> Vec<FieldError>,
    /// The same for a subresource, which is named first.
    pub validate_subresource: fn(&str, &Value, &Value) -> Vec<FieldError>,
    /// How often the metadata of a change is looked at.
    pub metadata_checks: MetadataChecks,
    /// Finalizers must say whose they are. Kinds whose checks upstream wrote without those of the core do not ask.
    pub finalizer_names: bool,
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

/// What preparing an object may need to know.
pub struct Context<'a> {
    /// The random bytes that the uid of a new object is made of.
    pub random: [u8; 16],
    /// The time, as it stands in objects.
    pub now: &'a str,
    /// Whether a new object came with labels, before anything was filled in.
    pub labelled: bool,
}

/// Who sends a request.
pub struct Requester<'a> {
    pub name: &'a str,
    pub uid: &'a str,
    pub groups: &'a [String],
    pub extra: &'a BTreeMap<String, Vec<String>>,
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
        is_counted: |_, _| false,
        create_on_update: false,
        unconditional_update: true,
        returns_deleted: false,
        fields: &[],
        keeps_status: false,
        attribute: |_, _| {},
        prepare_create: |_, _| {},
        prepare_update: |_, _, _| {},
        prepare_subresource: |_, _, _, _| {},
        validate: |_| Vec::new(),
        validate_update: |_, _| Vec::new(),
        validate_subresource: |_, _, _| Vec::new(),
        metadata_checks: MetadataChecks::Twice,
        finalizer_names: true,
        status_keeps: &[],
        own_deletion: false,
        grace_period: None,
        is_held: |_| false,
        begin_delete: |_| {},
    };

    /// All that is wrong with a new object, its metadata first.
    pub fn check_create(&self, new: &Value, namespaced: bool, checks: &Checks) -> Vec<FieldError> {
        let mut errors = self.check_new(new, namespaced);
        errors.extend((checks.create)(new));
        errors
    }

    /// The same without the checks that are kept apart.
    fn check_new(&self, new: &Value, namespaced: bool) -> Vec<FieldError> {
        let mut errors = object::validate_object_meta(new, namespaced, self.name_rule, &metadata());
        errors.extend(self.unknown_finalizers(new));
        errors.extend((self.validate)(new));
        errors
    }

    fn unknown_finalizers(&self, object: &Value) -> Vec<FieldError> {
        if self.finalizer_names { finalizer_names(object) } else { Vec::new() }
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
            errors.extend(self.unknown_finalizers(new));
        }
        if !subresource.is_empty() {
            errors.extend((self.validate_subresource)(subresource, new, old));
            errors.extend((checks.subresource)(subresource, new, old));
            return errors;
        }
        errors.extend((self.validate_update)(new, old));
        if self.metadata_checks == MetadataChecks::WithTheWhole {
            errors.extend(self.check_new(new, namespaced));
        }
        errors.extend((checks.update)(new, old));
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

const WITH_GENERATION: Strategy =
    Strategy { generation: true, is_counted: spec_differs, ..Strategy::GENERIC };

/// Where a status comes from somebody who is not to be trusted with the rest.
const ONLY_STATUS: &[&str] = &["labels", "annotations", "finalizers", "ownerReferences"];

const WITH_THE_WHOLE: Strategy =
    Strategy { metadata_checks: MetadataChecks::WithTheWhole, ..Strategy::GENERIC };

static GENERIC: Strategy = Strategy::GENERIC;
static ADMISSION_POLICIES: Strategy = Strategy {
    status_keeps: ONLY_STATUS,
    unconditional_update: false,
    finalizer_names: false,
    ..WITH_GENERATION
};
static VOLUME_ATTACHMENTS: Strategy = Strategy {
    status_keeps: ONLY_STATUS,
    unconditional_update: false,
    returns_deleted: true,
    ..Strategy::GENERIC
};
static SERVICE_RANGES: Strategy = Strategy { status_keeps: ONLY_STATUS, ..Strategy::GENERIC };
static FLOW_CONTROL: Strategy = Strategy { status_keeps: ONLY_STATUS, ..WITH_GENERATION };
static GENERATION: Strategy = WITH_GENERATION;
static ROLES: Strategy =
    Strategy { name_rule: names::name_is_path_segment, create_on_update: true, ..WITH_THE_WHOLE };
static SERVICE_ACCOUNTS: Strategy = Strategy {
    returns_deleted: true,
    metadata_checks: MetadataChecks::WithTheWhole,
    prepare_create: |account, _| only_names_of_secrets(account),
    prepare_update: |new, _, _| only_names_of_secrets(new),
    ..Strategy::GENERIC
};
static LIMIT_RANGES: Strategy = Strategy { create_on_update: true, ..Strategy::GENERIC };
static RETURNS_DELETED: Strategy = Strategy { returns_deleted: true, ..Strategy::GENERIC };
static ENDPOINTS: Strategy = Strategy { create_on_update: true, ..WITH_THE_WHOLE };
static STORAGE_CAPACITIES: Strategy = Strategy { unconditional_update: false, ..WITH_THE_WHOLE };
static STORAGE_CLASSES: Strategy = Strategy { returns_deleted: true, ..WITH_THE_WHOLE };
static ADMISSION: Strategy =
    Strategy { unconditional_update: false, finalizer_names: false, ..WITH_GENERATION };
/// Upstream looks at a budget's spec only.
static BUDGETS: Strategy = Strategy {
    name_rule: names::name_is_path_segment,
    metadata_checks: MetadataChecks::Once,
    finalizer_names: false,
    unconditional_update: false,
    ..WITH_GENERATION
};
static INGRESSES: Strategy = Strategy { metadata_checks: MetadataChecks::WithTheWhole, ..WITH_GENERATION };
static ADDRESSES: Strategy = Strategy { name_rule: atoll_validation::address_name, ..WITH_THE_WHOLE };
static CONDITIONAL_RETURNS_DELETED: Strategy =
    Strategy { unconditional_update: false, returns_deleted: true, ..Strategy::GENERIC };
static STORAGE_DRIVERS: Strategy = Strategy {
    unconditional_update: false,
    returns_deleted: true,
    is_counted: spec_differs,
    prepare_create: |driver, _| disabled::drop_from(driver, disabled::STORAGE_DRIVER),
    prepare_update: |new, _, _| disabled::drop_from(new, disabled::STORAGE_DRIVER),
    ..Strategy::GENERIC
};
static RUNTIME_CLASSES: Strategy = Strategy {
    create_on_update: true,
    unconditional_update: false,
    finalizer_names: false,
    ..WITH_THE_WHOLE
};
static GENERATION_RETURNS_DELETED: Strategy = Strategy { returns_deleted: true, ..WITH_GENERATION };
/// Upstream begins to count and then does not.
static PRIORITY_CLASSES: Strategy = Strategy { generation: true, ..Strategy::GENERIC };
static ENDPOINT_SLICES: Strategy = Strategy {
    is_counted: |new, old| {
        spec_differs(new, old) || new["metadata"].get("labels") != old["metadata"].get("labels")
    },
    prepare_create: |slice, _| disabled::drop_from(slice, &[&["endpoints", "[]", "deprecatedTopology"]]),
    prepare_update: |new, old, _| {
        // Counted first and dropped then.
        if spec_differs(new, old) {
            raise_generation(new, old);
        }
        disabled::drop_from(new, &[&["endpoints", "[]", "deprecatedTopology"]]);
    },
    ..WITH_GENERATION
};

/// The strategy of a built-in resource.
pub fn builtin(group: &str, resource: &str) -> &'static Strategy {
    match (group, resource) {
        ("", "namespaces") => &namespace::STRATEGY,
        ("", "configmaps") => &config_map::STRATEGY,
        ("", "secrets") => &secret::STRATEGY,
        ("", "events") => &event::STRATEGY,
        ("events.k8s.io", "events") => &event::NEWER,
        ("coordination.k8s.io", "leases") => &lease::STRATEGY,
        ("", "pods") => &pod::STRATEGY,
        ("", "nodes") => &node::STRATEGY,
        ("", "services") => &service::STRATEGY,
        ("", "replicationcontrollers") => &workload::REPLICATION_CONTROLLER,
        ("", "endpoints") => &ENDPOINTS,
        ("", "limitranges") => &LIMIT_RANGES,
        ("", "persistentvolumes") => &volume::VOLUME,
        ("", "persistentvolumeclaims") => &volume::CLAIM,
        ("", "resourcequotas") => &RETURNS_DELETED,
        ("", "serviceaccounts") => &SERVICE_ACCOUNTS,
        ("", "podtemplates") => &workload::POD_TEMPLATE,
        ("apps", "daemonsets") => &workload::DAEMON_SET,
        ("apps", "deployments") => &workload::DEPLOYMENT,
        ("apps", "replicasets") => &workload::REPLICA_SET,
        ("apps", "statefulsets") => &workload::STATEFUL_SET,
        ("batch", "cronjobs") => &workload::CRON_JOB,
        ("batch", "jobs") => &job::STRATEGY,
        ("storage.k8s.io", "storageclasses" | "volumeattributesclasses") => &STORAGE_CLASSES,
        ("storage.k8s.io", "volumeattachments") => &VOLUME_ATTACHMENTS,
        ("storage.k8s.io", "csidrivers") => &STORAGE_DRIVERS,
        ("storage.k8s.io", "csinodes") => &CONDITIONAL_RETURNS_DELETED,
        ("storage.k8s.io", "csistoragecapacities") => &STORAGE_CAPACITIES,
        ("resource.k8s.io", "deviceclasses") => &GENERATION_RETURNS_DELETED,
        ("resource.k8s.io", "resourceslices") => &device::SLICE,
        ("resource.k8s.io", "resourceclaims") => &device::CLAIM,
        ("resource.k8s.io", _) => &RETURNS_DELETED,
        ("rbac.authorization.k8s.io", _) => &ROLES,
        ("certificates.k8s.io", "certificatesigningrequests") => &certificate_request::STRATEGY,
        ("node.k8s.io", "runtimeclasses") => &RUNTIME_CLASSES,
        ("admissionregistration.k8s.io", "validatingadmissionpolicies") => &ADMISSION_POLICIES,
        ("networking.k8s.io", "servicecidrs") => &SERVICE_RANGES,
        ("policy", "poddisruptionbudgets") => &BUDGETS,
        ("admissionregistration.k8s.io", _) => &ADMISSION,
        ("flowcontrol.apiserver.k8s.io", _) => &FLOW_CONTROL,
        ("scheduling.k8s.io", "priorityclasses") => &PRIORITY_CLASSES,
        ("networking.k8s.io", "ingressclasses" | "ingresses") => &INGRESSES,
        ("networking.k8s.io", "networkpolicies") => &GENERATION,
        ("networking.k8s.io", "ipaddresses") => &ADDRESSES,
        ("discovery.k8s.io", "endpointslices") => &ENDPOINT_SLICES,
        ("apiextensions.k8s.io", "customresourcedefinitions") => &extension::DEFINITION,
        ("apiregistration.k8s.io", "apiservices") => &extension::API_SERVICE,
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

pub(crate) fn raise_generation(new: &mut Value, old: &Value) {
    let generation = object::generation(old).saturating_add(1);
    object::metadata_mut(new).insert("generation".into(), generation.into());
}

/// Whether anything but metadata and status changed.
pub(crate) fn spec_differs(new: &Value, old: &Value) -> bool {
    let is_spec = |name: &str| !matches!(name, "metadata" | "status" | "kind" | "apiVersion");
    let (Some(new), Some(old)) = (new.as_object(), old.as_object()) else { return true };
    let changed = |(name, value): (&String, &Value)| is_spec(name) && old.get(name) != Some(value);
    new.iter().any(changed) || old.keys().any(|name| is_spec(name) && !new.contains_key(name))
}

fn only_names_of_secrets(account: &mut Value) {
    for secret in account.get_mut("secrets").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(fields) = secret.as_object_mut() {
            fields.retain(|field, _| field == "name");
        }
    }
}

#[cfg(test)]
mod tests;
