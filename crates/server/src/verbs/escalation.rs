//! Privilege escalation checks of roles and bindings.

use atoll_authz::Change;
use atoll_authz::binding::GROUP;
use atoll_meta::Status;
use serde_json::Value;

use super::gate::Gate;

impl Gate<'_> {
    /// Checks the result of any kind of write, after mutating admission and before validation.
    pub fn check_escalation(&self, new: &Value, old: Option<&Value>) -> Result<(), Status> {
        if self.row.group != GROUP {
            return Ok(());
        }
        self.server.here(self.workspace)?.check_escalation(&Change {
            user: self.user,
            resource: &self.row.resource,
            namespace: self.place.namespace,
            name: self.place.name,
            new,
            old,
        })
    }
}
