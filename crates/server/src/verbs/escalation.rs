//! Before a role or a binding is written: does it grant more than its writer has?

use atoll_authz::Change;
use atoll_authz::binding::GROUP;
use atoll_meta::Status;
use serde_json::Value;

use super::gate::Gate;

impl Gate<'_> {
    /// Judges what a request makes of `old`, whichever way it does, once nobody changes it any more and before anything else
    /// is checked.
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
