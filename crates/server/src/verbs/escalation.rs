//! Privilege escalation checks of roles and bindings.

// upstream: pkg/registry/rbac/escalation_check.go

use atoll_authz::{Authorizer, RoleChange};
use atoll_meta::Status;
use atoll_registry::size_of;
use serde_json::Value;

use super::admission::RequestAdmission;

impl RequestAdmission<'_> {
    /// Checks the result of any kind of write, after mutating admission and before validation.
    pub async fn check_escalation(&self, new: &Value, old: Option<&Value>) -> Result<(), Status> {
        if !self.row.strategy.grants_rights {
            return Ok(());
        }
        let change = RoleChange {
            user: self.user,
            resource: &self.row.resource,
            namespace: self.object_ref.namespace,
            name: self.object_ref.name,
            new,
            old,
        };
        let check = |authorizer: &Authorizer<'_>| authorizer.check_escalation(&change);
        self.server.with_authorizer(self.workspace, size_of(new), check).await?
    }
}
