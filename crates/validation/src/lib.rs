//! Validation of the built-in kinds, beyond the validation of metadata that all kinds share.
//!
//! ```text
//! checks_for(group, resource) ─ Checks ─┬ create          a new object
//!                                       ├ update          an updated object, with the old one
//!                                       └ subresource     an update through a subresource
//! warnings::warnings_for(group, resource)   warnings about accepted objects
//! ```
//!
//! Objects have been decoded and defaulted, so their fields have the right types. All errors of an object are
//! returned at once, in upstream's order.

mod addresses;
mod admission_policies;
mod api_service;
mod apps;
mod autoscaling;
mod batch;
#[cfg(test)]
mod cases;
mod certificates;
mod classes;
mod conditions;
mod csi_names;
mod definitions;
mod devices;
mod endpoints;
mod field_value;
mod flowcontrol;
mod go_json;
mod ingress;
mod internal;
mod networking;
mod node;
mod node_selector;
mod pod;
mod policy;
mod ports;
mod quantities;
mod quota;
mod rbac;
mod resources;
mod selectors;
mod service;
mod storage;
mod topology;
mod volume;
mod volume_claim;
pub mod warnings;
mod webhooks;

use atoll_meta::{Deadline, FieldError};
use serde_json::Value;

pub use addresses::address_name;
pub use definitions::{size as definition_size, too_large as definition_too_large};

/// The checks of one kind.
#[derive(Debug)]
pub struct Checks {
    pub create: fn(&Value) -> Vec<FieldError>,
    /// Arguments: the new object, the old one.
    pub update: fn(&Value, &Value) -> Vec<FieldError>,
    /// Arguments: the name of the subresource, the new object, the old one.
    pub subresource: fn(&str, &Value, &Value) -> Vec<FieldError>,
}

impl Checks {
    pub const NONE: Checks =
        Checks { create: |_| Vec::new(), update: |_, _| Vec::new(), subresource: |_, _, _| Vec::new() };
}

static NONE: Checks = Checks::NONE;

/// Checks that may take long. What is not checked before the deadline is refused with its field.
#[derive(Debug)]
pub struct SlowChecks {
    pub create: fn(&Value, &Deadline<'_>) -> Vec<FieldError>,
    /// Arguments: the new object, the old one.
    pub update: fn(&Value, &Value, &Deadline<'_>) -> Vec<FieldError>,
}

/// Returns the checks of a built-in resource with a deadline, which replace its others except for those of subresources.
pub fn slow_checks_for(group: &str, resource: &str) -> Option<&'static SlowChecks> {
    let is_definition = (group, resource) == ("apiextensions.k8s.io", "customresourcedefinitions");
    is_definition.then_some(&definitions::SLOW)
}

/// Returns the checks of a built-in resource.
pub fn checks_for(group: &str, resource: &str) -> &'static Checks {
    match group {
        "" => core(resource),
        "admissionregistration.k8s.io" => admission(resource),
        "apiextensions.k8s.io" => &definitions::DEFINITIONS,
        "apiregistration.k8s.io" => &api_service::API_SERVICES,
        "apps" => apps(resource),
        "autoscaling" => &autoscaling::AUTOSCALERS,
        "batch" => batch(resource),
        "certificates.k8s.io" => &certificates::REQUESTS,
        "coordination.k8s.io" => &classes::LEASES,
        "discovery.k8s.io" => &endpoints::ENDPOINT_SLICES,
        "flowcontrol.apiserver.k8s.io" if resource == "flowschemas" => &flowcontrol::SCHEMAS,
        "flowcontrol.apiserver.k8s.io" => &flowcontrol::LEVELS,
        "networking.k8s.io" => networking(resource),
        "node.k8s.io" => &classes::RUNTIME_CLASSES,
        "policy" => &policy::BUDGETS,
        "rbac.authorization.k8s.io" => rbac(resource),
        "resource.k8s.io" => devices(resource),
        "scheduling.k8s.io" => &classes::PRIORITY_CLASSES,
        "storage.k8s.io" => storage(resource),
        _ => &NONE,
    }
}

fn core(resource: &str) -> &'static Checks {
    match resource {
        "endpoints" => &endpoints::ENDPOINTS,
        "limitranges" => &quota::LIMIT_RANGES,
        "nodes" => &node::NODES,
        "persistentvolumeclaims" => &volume_claim::CLAIMS,
        "persistentvolumes" => &volume::VOLUMES,
        "pods" => &pod::PODS,
        "podtemplates" => &pod::POD_TEMPLATES,
        "replicationcontrollers" => &pod::REPLICATION_CONTROLLERS,
        "resourcequotas" => &quota::QUOTAS,
        "services" => &service::SERVICES,
        _ => &NONE,
    }
}

fn admission(resource: &str) -> &'static Checks {
    match resource {
        "mutatingadmissionpolicies" => &admission_policies::MUTATING,
        "mutatingadmissionpolicybindings" => &admission_policies::MUTATING_BINDINGS,
        "mutatingwebhookconfigurations" => &webhooks::MUTATING,
        "validatingadmissionpolicies" => &admission_policies::VALIDATING,
        "validatingadmissionpolicybindings" => &admission_policies::VALIDATING_BINDINGS,
        "validatingwebhookconfigurations" => &webhooks::VALIDATING,
        _ => &NONE,
    }
}

fn apps(resource: &str) -> &'static Checks {
    match resource {
        "controllerrevisions" => &apps::CONTROLLER_REVISIONS,
        "daemonsets" => &apps::DAEMON_SETS,
        "deployments" => &apps::DEPLOYMENTS,
        "replicasets" => &apps::REPLICA_SETS,
        "statefulsets" => &apps::STATEFUL_SETS,
        _ => &NONE,
    }
}

fn batch(resource: &str) -> &'static Checks {
    match resource {
        "cronjobs" => &batch::CRON_JOBS,
        "jobs" => &batch::JOBS,
        _ => &NONE,
    }
}

fn devices(resource: &str) -> &'static Checks {
    match resource {
        "deviceclasses" => &devices::CLASSES,
        "resourceclaims" => &devices::CLAIMS,
        "resourceclaimtemplates" => &devices::CLAIM_TEMPLATES,
        "resourceslices" => &devices::SLICES,
        _ => &NONE,
    }
}

fn networking(resource: &str) -> &'static Checks {
    match resource {
        "ingressclasses" => &ingress::CLASSES,
        "ingresses" => &ingress::INGRESSES,
        "ipaddresses" => &networking::ADDRESSES,
        "networkpolicies" => &networking::POLICIES,
        "servicecidrs" => &networking::SERVICE_RANGES,
        _ => &NONE,
    }
}

fn rbac(resource: &str) -> &'static Checks {
    match resource {
        "clusterrolebindings" => &rbac::CLUSTER_ROLE_BINDINGS,
        "clusterroles" => &rbac::CLUSTER_ROLES,
        "rolebindings" => &rbac::ROLE_BINDINGS,
        "roles" => &rbac::ROLES,
        _ => &NONE,
    }
}

fn storage(resource: &str) -> &'static Checks {
    match resource {
        "csidrivers" => &storage::DRIVERS,
        "csinodes" => &storage::NODES,
        "csistoragecapacities" => &storage::CAPACITIES,
        "storageclasses" => &storage::CLASSES,
        "volumeattachments" => &storage::ATTACHMENTS,
        "volumeattributesclasses" => &storage::ATTRIBUTES_CLASSES,
        _ => &NONE,
    }
}
