//! What upstream refuses about the built-in kinds, beyond what it refuses about the metadata of all of them.
//!
//! ```text
//! of(group, resource) ─ Checks ─┬ create          a new object
//!                               ├ update          a changed one beside the old one
//!                               └ subresource     the same for a part of it that is written apart
//! ```
//!
//! Objects have been decoded and defaulted, so their types are right. All errors of an object come at once, in upstream's order.

mod addresses;
mod apps;
mod at;
mod batch;
mod csi_names;
mod endpoints;
mod fields;
mod internal;
mod node_selector;
mod pod;
mod ports;
mod quantities;
mod rbac;
mod resources;
mod selectors;
mod service;
mod topology;
mod volume;
mod volume_claim;

use atoll_meta::FieldError;
use serde_json::Value;

/// The checks of one kind.
#[derive(Debug)]
pub struct Checks {
    pub create: fn(&Value) -> Vec<FieldError>,
    /// The new object, then the old one.
    pub update: fn(&Value, &Value) -> Vec<FieldError>,
    /// The name of the subresource, the new object, then the old one.
    pub subresource: fn(&str, &Value, &Value) -> Vec<FieldError>,
}

impl Checks {
    pub const NONE: Checks =
        Checks { create: |_| Vec::new(), update: |_, _| Vec::new(), subresource: |_, _, _| Vec::new() };
}

static NONE: Checks = Checks::NONE;

/// The checks of a built-in resource.
pub fn of(group: &str, resource: &str) -> &'static Checks {
    match (group, resource) {
        ("apps", "controllerrevisions") => &apps::CONTROLLER_REVISIONS,
        ("apps", "daemonsets") => &apps::DAEMON_SETS,
        ("apps", "deployments") => &apps::DEPLOYMENTS,
        ("apps", "replicasets") => &apps::REPLICA_SETS,
        ("apps", "statefulsets") => &apps::STATEFUL_SETS,
        ("batch", "cronjobs") => &batch::CRON_JOBS,
        ("batch", "jobs") => &batch::JOBS,
        ("", "pods") => &pod::PODS,
        ("", "podtemplates") => &pod::POD_TEMPLATES,
        ("", "replicationcontrollers") => &pod::REPLICATION_CONTROLLERS,
        ("", "services") => &service::SERVICES,
        ("", "endpoints") => &endpoints::ENDPOINTS,
        ("discovery.k8s.io", "endpointslices") => &endpoints::ENDPOINT_SLICES,
        ("rbac.authorization.k8s.io", "roles") => &rbac::ROLES,
        ("rbac.authorization.k8s.io", "clusterroles") => &rbac::CLUSTER_ROLES,
        ("rbac.authorization.k8s.io", "rolebindings") => &rbac::ROLE_BINDINGS,
        ("rbac.authorization.k8s.io", "clusterrolebindings") => &rbac::CLUSTER_ROLE_BINDINGS,
        _ => &NONE,
    }
}
