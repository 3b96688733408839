//! Strategies: the behavior of a kind beyond the rules for all kinds. Most kinds need none.

// upstream: staging/src/k8s.io/apiserver/pkg/registry/rest/create.go
// upstream: staging/src/k8s.io/apiserver/pkg/registry/rest/update.go

pub mod api_extension;
pub mod certificate_request;
pub mod cluster;
pub mod config_map;
pub mod device;
mod disabled;
pub mod effects;
pub mod event;
pub mod job;
pub mod lease;
pub mod namespace;
pub mod node;
pub mod placement_policy;
pub mod pod;
pub mod secret;
pub mod service;
pub mod volume;
pub mod workload;
pub mod workspace;

use std::collections::BTreeMap;
use std::sync::Arc;

use atoll_meta::names::{self, NameRule};
use atoll_meta::{FieldError, FieldPath, object};
use atoll_validation::Checks;
use serde_json::Value;

use self::effects::Effects;
use crate::Catalog;
use crate::definitions::Definition;

/// The strategy of one kind. Functions get complete objects and do no I/O, except for its effects.
#[derive(Debug)]
pub struct Strategy {
    pub name_rule: NameRule,
    /// Whether new objects have `metadata.generation` 1.
    pub generation: bool,
    /// Whether a change raises `metadata.generation`.
    pub raises_generation: fn(&Value, &Value) -> bool,
    /// Whether a PUT creates a missing object.
    pub create_on_update: bool,
    /// Whether an update may omit the resource version and then overwrites any version.
    pub unconditional_update: bool,
    /// Whether a DELETE responds with the object instead of a Status.
    pub returns_deleted: bool,
    /// Selectable fields besides `metadata.name` and `metadata.namespace`.
    pub fields: &'static [Selectable],
    /// Whether a new object keeps the status in the request (Nodes, Pods).
    pub keeps_status: bool,
    /// Records the requesting user in the object.
    pub set_requester: fn(&mut Value, &Requester<'_>),
    pub prepare_create: fn(&mut Value, &Context<'_>),
    /// Prepares an update: the new object, then the old one.
    pub prepare_update: fn(&mut Value, &Value, &Context<'_>),
    /// Prepares an update of a subresource, whose name is the first argument. Fields that are not part of it
    /// have been restored already.
    pub prepare_subresource: fn(&str, &mut Value, &Value, &Context<'_>),
    pub validate: fn(&Value) -> Vec<FieldError>,
    /// Validates changes: the new object, then the old one.
    pub validate_update: fn(&Value, &Value) -> Vec<FieldError>,
    /// Validates an update of a subresource, whose name is the first argument.
    pub validate_subresource: fn(&str, &Value, &Value) -> Vec<FieldError>,
    /// How often the metadata of an update is validated.
    pub metadata_checks: MetadataChecks,
    /// Whether finalizers must be qualified names. Kinds whose upstream validation does not use the core's do
    /// not require it.
    pub finalizer_names: bool,
    /// Metadata that a status update cannot change.
    pub status_keeps: &'static [&'static str],
    /// Whether deletion always marks the object first and has its own messages about preconditions
    /// (Namespaces).
    pub custom_deletion: bool,
    /// The grace period between marking and removing an object, if the kind has one.
    pub grace_period: Option<GracePeriod>,
    /// Whether something other than `metadata.finalizers` prevents the removal of a terminating object.
    pub blocks_removal: fn(&Value) -> bool,
    /// Changes an object, apart from its metadata, when its deletion starts.
    pub begin_delete: fn(&mut Value),
    /// Whether the propagation policy of a deletion applies to its dependents.
    pub propagates_deletion: bool,
    /// Whether objects are stored. Otherwise the server computes its responses.
    pub is_stored: bool,
    /// Whether objects are stored as JSON upstream, where most are stored as protobuf and lose empty fields.
    pub stored_as_json: bool,
    /// Whether validation compiles schemas or expressions, and therefore runs on another thread.
    pub slow_validation: bool,
    /// Compiles the resource that an object defines.
    pub compile: Option<Compile>,
    /// Whether objects grant rights: a user cannot grant more than they have.
    pub grants_rights: bool,
    /// Whether objects may run in clusters that do not report them, so that some empty lists are explained.
    pub explains_empty_lists: bool,
    /// Whether tables show the time of the last heartbeat, which is kept in a Lease.
    pub has_heartbeats: bool,
    /// Changes the empty object in a bookmark.
    pub prepare_bookmark: fn(&mut Value),
    /// The parts that subresources besides `status` update.
    pub parts: &'static [(&'static str, Part)],
    pub effects: Effects,
}

/// The part of an object that an update can change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Everything but the status.
    Object,
    Spec,
    Status,
    /// All fields that `prepare_subresource` does not restore.
    Own,
}

/// Compiles the definition of a resource.
pub type Compile = fn(&Catalog, &Value) -> Arc<Definition>;

/// Computes the grace period in seconds from the object and the requested one.
pub type GracePeriod = fn(&Value, Option<i64>) -> i64;

/// Upstream validates the metadata of an update for all kinds, most kinds validate it again, and some
/// validate the whole object again. Every cause is then listed repeatedly, and Atoll returns the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetadataChecks {
    Once,
    Twice,
    /// Twice, and then the whole object as a new one.
    TwiceAndFull,
}

/// Context for preparing an object.
pub struct Context<'a> {
    /// The random bytes of a new object's uid.
    pub random: [u8; 16],
    /// The time in the format of object timestamps.
    pub now: &'a str,
    /// Whether the request for a new object had labels, before defaults were applied.
    pub labelled: bool,
}

/// The requesting user.
pub struct Requester<'a> {
    pub name: &'a str,
    pub uid: &'a str,
    pub groups: &'a [String],
    pub extra: &'a BTreeMap<String, Vec<String>>,
}

/// A field that lists and watches can select by.
#[derive(Debug)]
pub struct Selectable {
    pub label: &'static str,
    /// Path in the object, separated by dots.
    pub path: &'static str,
    /// Value if the field is absent.
    pub absent: &'static str,
    /// Path of the fallback if the field is empty.
    pub fallback: Option<&'static str>,
}

impl Strategy {
    pub const GENERIC: Strategy = Strategy {
        name_rule: names::name_is_dns_subdomain,
        generation: false,
        raises_generation: |_, _| false,
        create_on_update: false,
        unconditional_update: true,
        returns_deleted: false,
        fields: &[],
        keeps_status: false,
        set_requester: |_, _| {},
        prepare_create: |_, _| {},
        prepare_update: |_, _, _| {},
        prepare_subresource: |_, _, _, _| {},
        validate: |_| Vec::new(),
        validate_update: |_, _| Vec::new(),
        validate_subresource: |_, _, _| Vec::new(),
        metadata_checks: MetadataChecks::Twice,
        finalizer_names: true,
        status_keeps: &[],
        custom_deletion: false,
        grace_period: None,
        blocks_removal: |_| false,
        begin_delete: |_| {},
        propagates_deletion: true,
        is_stored: true,
        stored_as_json: false,
        slow_validation: false,
        compile: None,
        grants_rights: false,
        explains_empty_lists: false,
        has_heartbeats: false,
        prepare_bookmark: |_| {},
        parts: &[],
        effects: Effects::NONE,
    };

    /// The part that an update of a subresource can change; of the object itself if the name is empty.
    pub(crate) fn part(&self, subresource: &str) -> Part {
        match subresource {
            "" => Part::Object,
            "status" => Part::Status,
            name => self.parts.iter().find(|(own, _)| *own == name).map_or(Part::Object, |(_, part)| *part),
        }
    }

    /// All validation errors of a new object, those of its metadata first.
    pub fn check_create(&self, new: &Value, namespaced: bool, checks: &Checks) -> Vec<FieldError> {
        let mut errors = self.check_new(new, namespaced);
        errors.extend((checks.create)(new));
        errors
    }

    /// The validation errors without the separate checks of the kind.
    fn check_new(&self, new: &Value, namespaced: bool) -> Vec<FieldError> {
        let mut errors = object::validate_object_meta(new, namespaced, self.name_rule, &metadata());
        errors.extend(self.unknown_finalizers(new));
        errors.extend((self.validate)(new));
        errors
    }

    fn unknown_finalizers(&self, object: &Value) -> Vec<FieldError> {
        if self.finalizer_names { finalizer_names(object) } else { Vec::new() }
    }

    /// All validation errors of an updated object or subresource.
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
        if self.metadata_checks == MetadataChecks::TwiceAndFull {
            errors.extend(self.check_new(new, namespaced));
        }
        errors.extend((checks.update)(new, old));
        errors
    }
}

/// Built-in kinds require qualified finalizer names, except for the standard ones.
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
    Selectable { label, path, absent, fallback: None }
}

const WITH_GENERATION: Strategy =
    Strategy { generation: true, raises_generation: spec_differs, ..Strategy::GENERIC };

/// Metadata that is protected from status updates by less trusted clients.
const ONLY_STATUS: &[&str] = &["labels", "annotations", "finalizers", "ownerReferences"];

const REVALIDATED: Strategy = Strategy { metadata_checks: MetadataChecks::TwiceAndFull, ..Strategy::GENERIC };

static GENERIC: Strategy = Strategy::GENERIC;
static ADMISSION_POLICIES: Strategy = Strategy {
    status_keeps: ONLY_STATUS,
    unconditional_update: false,
    finalizer_names: false,
    slow_validation: true,
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
static ROLES: Strategy = Strategy {
    name_rule: names::name_is_path_segment,
    create_on_update: true,
    grants_rights: true,
    ..REVALIDATED
};
static UNSTORED: Strategy = Strategy { is_stored: false, ..Strategy::GENERIC };
static SERVICE_ACCOUNTS: Strategy = Strategy {
    returns_deleted: true,
    metadata_checks: MetadataChecks::TwiceAndFull,
    prepare_create: |account, _| only_names_of_secrets(account),
    prepare_update: |new, _, _| only_names_of_secrets(new),
    ..Strategy::GENERIC
};
static LIMIT_RANGES: Strategy = Strategy { create_on_update: true, ..Strategy::GENERIC };
static RETURNS_DELETED: Strategy = Strategy { returns_deleted: true, ..Strategy::GENERIC };
static ENDPOINTS: Strategy = Strategy { create_on_update: true, ..REVALIDATED };
static STORAGE_CAPACITIES: Strategy = Strategy { unconditional_update: false, ..REVALIDATED };
static STORAGE_CLASSES: Strategy = Strategy { returns_deleted: true, ..REVALIDATED };
static ADMISSION: Strategy = Strategy {
    unconditional_update: false,
    finalizer_names: false,
    slow_validation: true,
    ..WITH_GENERATION
};
/// Upstream validates only the spec of a budget.
static BUDGETS: Strategy = Strategy {
    name_rule: names::name_is_path_segment,
    metadata_checks: MetadataChecks::Once,
    finalizer_names: false,
    unconditional_update: false,
    ..WITH_GENERATION
};
static INGRESSES: Strategy = Strategy { metadata_checks: MetadataChecks::TwiceAndFull, ..WITH_GENERATION };
static ADDRESSES: Strategy = Strategy { name_rule: atoll_validation::address_name, ..REVALIDATED };
static CONDITIONAL_RETURNS_DELETED: Strategy =
    Strategy { unconditional_update: false, returns_deleted: true, ..Strategy::GENERIC };
static STORAGE_DRIVERS: Strategy = Strategy {
    unconditional_update: false,
    returns_deleted: true,
    raises_generation: spec_differs,
    prepare_create: |driver, _| disabled::drop_from(driver, disabled::STORAGE_DRIVER),
    prepare_update: |new, _, _| disabled::drop_from(new, disabled::STORAGE_DRIVER),
    ..Strategy::GENERIC
};
static RUNTIME_CLASSES: Strategy =
    Strategy { create_on_update: true, unconditional_update: false, finalizer_names: false, ..REVALIDATED };
static GENERATION_RETURNS_DELETED: Strategy = Strategy { returns_deleted: true, ..WITH_GENERATION };
/// Upstream sets the generation at creation and never raises it.
static PRIORITY_CLASSES: Strategy = Strategy { generation: true, ..Strategy::GENERIC };
static ENDPOINT_SLICES: Strategy = Strategy {
    raises_generation: |new, old| {
        spec_differs(new, old) || new["metadata"].get("labels") != old["metadata"].get("labels")
    },
    prepare_create: |slice, _| disabled::drop_from(slice, &[&["endpoints", "[]", "deprecatedTopology"]]),
    prepare_update: |new, old, _| {
        // Upstream raises the generation before it drops disabled fields.
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
        ("", "bindings" | "componentstatuses") => &UNSTORED,
        ("authentication.k8s.io" | "authorization.k8s.io", _) => &UNSTORED,
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
        ("apiextensions.k8s.io", "customresourcedefinitions") => &api_extension::DEFINITION,
        ("apiregistration.k8s.io", "apiservices") => &api_extension::API_SERVICE,
        _ => &GENERIC,
    }
}

pub(crate) fn metadata() -> FieldPath {
    FieldPath::new("metadata")
}

/// The value at a path that is separated by dots.
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

/// Whether anything except metadata and status differs.
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
