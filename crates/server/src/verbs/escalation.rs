//! Before a role or a binding is written: does it grant more than its writer has?

use atoll_authz::Change;
use atoll_authz::binding::GROUP;
use atoll_meta::Status;
use atoll_registry::Row;
use serde_json::Value;

use crate::Server;
use crate::chain::Call;

/// Judges what a request makes of `old`, as it is before anything else is checked.
pub fn check(
    server: &Server,
    row: &Row,
    call: &Call,
    new: &Value,
    old: Option<&Value>,
) -> Result<(), Status> {
    if row.group != GROUP {
        return Ok(());
    }
    let mut new = new.clone();
    row.defaults.apply(&mut new);
    server.here(&call.workspace)?.check_escalation(&Change {
        user: &call.user,
        resource: &row.resource,
        namespace: if row.namespaced { &call.info.namespace } else { "" },
        name: &call.info.name,
        new: &new,
        old,
    })
}
