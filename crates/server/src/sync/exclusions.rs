//! Objects that stay in the control plane although they are placed: RBAC objects and, unless allowed,
//! controllers.

use atoll_fleet::ClusterView;
use atoll_meta::{Deadline, object};
use atoll_registry::placement;
use atoll_store::{Key, key};
use serde_json::Value;

use super::parse;
use crate::Server;

/// Returns why an object is not sent to a cluster. `sent` is its shape; `controllers` is whether controllers
/// are allowed in the cluster.
pub fn exclusion_reason(
    server: &Server,
    parts: &key::Parts<'_>,
    object: &Value,
    sent: &Value,
    controllers: bool,
) -> Option<String> {
    let group = parts.api_group();
    if atoll_fleet::placement::is_never_placed(group, parts.resource) {
        return Some(format!("{} stay in the control plane", parts.resource));
    }
    if let Some(reason) = placement::unplaceable_reason(group, parts.resource, object) {
        return Some(reason.to_string());
    }
    let name = (!controllers).then(|| controller(server, parts, sent)).flatten()?;
    Some(format!(
        "this is a controller: ServiceAccount {name} has rights in its workspace, which do not apply in clusters; an administrator \
         allows controllers in a cluster with: kubectl patch clusters.atoll.dev CLUSTER --type merge -p \
         '{{\"spec\":{{\"controllers\":\"allow\"}}}}'"
    ))
}

/// Returns the ServiceAccount of an object's Pods, if they mount its token and it has rights.
fn controller<'a>(server: &Server, parts: &key::Parts<'_>, sent: &'a Value) -> Option<&'a str> {
    let account = atoll_fleet::service_account::account(sent)?;
    if !server.policies.at(parts.workspace, &Deadline::never()).grants_any(parts.namespace, account.name) {
        return None;
    }
    let gets_token = account.token.unwrap_or_else(|| {
        let key = Key::object("", "serviceaccounts", parts.workspace, parts.namespace, account.name);
        let found = server.registry.snapshot().get(&key).and_then(|found| parse(&found.json()).ok());
        found.is_none_or(|found| found["automountServiceAccountToken"] != false)
    });
    gets_token.then_some(account.name)
}

/// Whether controllers are allowed in a cluster.
pub fn allows_controllers(cluster: &Value) -> bool {
    !object::is_being_deleted(cluster) && ClusterView::of(cluster).allows_controllers()
}
