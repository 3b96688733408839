//! Authorization of a request: access to the workspace, impersonation, and the request itself.
//!
//! Access to the workspace is checked first, so that a user without access cannot learn whether the workspace
//! exists. It is checked again for the impersonated user.

// upstream: staging/src/k8s.io/apiserver/pkg/endpoints/filters/authorization.go

use atoll_authn::{MASTERS, User};
use atoll_authz::{Attributes, Authorizer, Target, is_master, refusal};
use atoll_meta::Status;
use atoll_meta::quote::quote;
use atoll_registry::catalog::ATOLL;
use http::HeaderMap;

use crate::request::RequestInfo;
use crate::sync::clusters;
use crate::workspace::Workspace;
use crate::{Server, impersonation};

impl Server {
    /// Returns the user that the request runs as, or the reason why it is forbidden. `workspace` is the
    /// resolved path.
    pub fn authorize(
        &self,
        caller: User,
        headers: &HeaderMap,
        info: &RequestInfo,
        workspace: &Result<Workspace, Status>,
    ) -> Result<User, Status> {
        let path = info.workspace.as_deref().unwrap_or_default();
        let workspace = match workspace {
            Ok(workspace) => workspace,
            Err(missing) if is_master(&caller) => return Err(missing.clone()),
            Err(_) => return Err(workspace_forbidden(&caller, path)),
        };
        let Some(location) = workspace.location() else {
            return authorize_across_workspaces(caller, headers, info);
        };
        let authorizer = self.policies.authorizer(location);
        if !authorizer.has_access(&caller) {
            return Err(workspace_forbidden(&caller, path));
        }
        let Some(wanted) = impersonation::requested_user(headers)? else {
            authorizer.authorize(&attributes(&caller, info))?;
            return Ok(caller);
        };
        let caller_attributes = attributes(&caller, info);
        let user = impersonation::impersonate(wanted, &caller_attributes, &|attributes| {
            authorizer.authorize(attributes)
        })?;
        // Impersonation that is allowed by a workspace's own rules is valid in that workspace only. An
        // administrator from outside impersonates the user as known everywhere, unless the user is a
        // ServiceAccount, which always belongs to this workspace.
        let is_account = impersonation::account(&user.name).is_some();
        // Only a member of system:masters can impersonate a member of system:masters in all workspaces.
        let claims_everything = user.is_in(MASTERS) && !is_master(&caller);
        let user = match is_account || claims_everything || !authorizer.is_administrator(&caller) {
            true => user.of_workspace(location.id),
            false => user,
        };
        if !is_account && !authorizer.is_granted_access(&user) {
            return Err(workspace_forbidden(&user, path));
        }
        authorizer.authorize(&attributes(&user, info))?;
        Ok(user)
    }

    /// Returns the authorizer of the workspace of a request.
    pub fn authorizer<'a>(&'a self, workspace: &'a Workspace) -> Result<Authorizer<'a>, Status> {
        workspace.id()?;
        workspace
            .location()
            .map(|location| self.policies.authorizer(location))
            .ok_or_else(Status::not_found_generic)
    }
}

/// Authorizes a request to all workspaces at once: only members of system:masters may send one.
fn authorize_across_workspaces(user: User, headers: &HeaderMap, info: &RequestInfo) -> Result<User, Status> {
    let authorize = |attributes: &Attributes<'_>| match is_master(attributes.user) {
        true => Ok(()),
        false => Err(refusal(attributes, &format!("only members of {MASTERS} see all workspaces at once"))),
    };
    authorize(&attributes(&user, info))?;
    let Some(wanted) = impersonation::requested_user(headers)? else { return Ok(user) };
    let user = impersonation::impersonate(wanted, &attributes(&user, info), &authorize)?;
    authorize(&attributes(&user, info))?;
    Ok(user)
}

fn attributes<'a>(user: &'a User, info: &'a RequestInfo) -> Attributes<'a> {
    // This path returns the list of clusters including inherited ones, so it needs the right to list
    // clusters.
    if info.path == clusters::PATH && info.verb == "get" {
        let target = Target::Resource {
            group: ATOLL,
            resource: clusters::RESOURCE,
            subresource: "",
            namespace: "",
            name: "",
        };
        return Attributes { user, verb: "list", target };
    }
    Attributes { user, verb: info.verb, target: info.target() }
}

/// The same error is returned for a workspace that does not exist.
fn workspace_forbidden(user: &User, path: &str) -> Status {
    let message = format!("User {} cannot access the workspace", quote(&user.name));
    Status::forbidden(ATOLL, "workspaces", path, message)
}
