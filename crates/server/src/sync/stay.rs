//! What stays up although it is placed: rights, what gives them, and controllers where nobody let them in.

use atoll_meta::object;
use atoll_registry::placement;
use atoll_store::{Key, key};
use serde_json::Value;

use super::parse;
use crate::Server;

/// Why an object does not go to a cluster, if it does not. `sent` is what would go; `controllers` is whether an administrator
/// lets controllers run there.
pub fn objection(
    server: &Server,
    parts: &key::Parts<'_>,
    object: &Value,
    sent: &Value,
    controllers: bool,
) -> Option<String> {
    let group = parts.api_group();
    if atoll_fleet::placement::stays(group, parts.resource) {
        return Some(format!("{} stay in the control plane", parts.resource));
    }
    if let Some(reason) = placement::is_kept(group, parts.resource, object) {
        return Some(reason.to_string());
    }
    let name = (!controllers).then(|| controller(server, parts, sent)).flatten()?;
    Some(format!(
        "this is a controller: ServiceAccount {name} has rights in its workspace, which do not go to clusters; an administrator \
         lets controllers run there with: kubectl patch clusters.atoll.dev CLUSTER --type merge -p \
         '{{\"spec\":{{\"controllers\":\"allow\"}}}}'"
    ))
}

/// The account of an object's Pods, if they get its token and it has rights.
fn controller<'a>(server: &Server, parts: &key::Parts<'_>, sent: &'a Value) -> Option<&'a str> {
    let account = atoll_fleet::controllers::account(sent)?;
    if !server.policies.at(parts.workspace).empowers(parts.namespace, account.name) {
        return None;
    }
    let gets_token = account.token.unwrap_or_else(|| {
        let key = Key::object("", "serviceaccounts", parts.workspace, parts.namespace, account.name);
        let found = server.registry.snapshot().get(&key).and_then(|found| parse(&found.json()).ok());
        found.is_none_or(|found| found["automountServiceAccountToken"] != false)
    });
    gets_token.then_some(account.name)
}

/// Whether an administrator lets controllers run in a cluster.
pub fn allows_controllers(cluster: &Value) -> bool {
    !object::is_being_deleted(cluster) && cluster["spec"]["controllers"] == "allow"
}
