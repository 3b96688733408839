//! Authorization of a request: access to the workspace, impersonation, and the request itself.
//!
//! Access to the workspace is checked first, so that a user without access cannot learn whether the workspace
//! exists. It is checked again for the impersonated user.

use atoll_authn::{MASTERS, User};
use atoll_authz::{Attributes, Here, Target, is_master, refusal};
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
    pub fn admit(
        &self,
        caller: User,
        headers: &HeaderMap,
        info: &RequestInfo,
        workspace: &Result<Workspace, Status>,
    ) -> Result<User, Status> {
        let asked = info.workspace.as_deref().unwrap_or_default();
        let workspace = match workspace {
            Ok(workspace) => workspace,
            Err(missing) if is_master(&caller) => return Err(missing.clone()),
            Err(_) => return Err(closed(&caller, asked)),
        };
        let Some(location) = workspace.location() else { return across(caller, headers, info) };
        let here = self.policies.here(location);
        if !here.may_enter(&caller) {
            return Err(closed(&caller, asked));
        }
        let Some(wanted) = impersonation::wanted(headers)? else {
            here.authorize(&attributes(&caller, info))?;
            return Ok(caller);
        };
        let attributes_of = attributes(&caller, info);
        let user =
            impersonation::acting_as(wanted, &attributes_of, &|attributes| here.authorize(attributes))?;
        // Impersonation that is allowed by a workspace's own rules is valid in that workspace only. An
        // administrator from outside impersonates the user as known everywhere, unless the user is a
        // ServiceAccount, which always belongs to this workspace.
        let is_account = impersonation::account(&user.name).is_some();
        // Only a member of system:masters can impersonate a member of system:masters in all workspaces.
        let claims_everything = user.is_in(MASTERS) && !is_master(&caller);
        let user = match is_account || claims_everything || !here.is_administrator(&caller) {
            true => user.of_workspace(location.id),
            false => user,
        };
        if !is_account && !here.may_enter_as(&user) {
            return Err(closed(&user, asked));
        }
        here.authorize(&attributes(&user, info))?;
        Ok(user)
    }

    /// Returns the authorizer of the workspace of a request.
    pub fn here<'a>(&'a self, workspace: &'a Workspace) -> Result<Here<'a>, Status> {
        workspace.id()?;
        workspace
            .location()
            .map(|location| self.policies.here(location))
            .ok_or_else(Status::not_found_generic)
    }
}

/// Authorizes a request to all workspaces at once: only members of system:masters may send one.
fn across(user: User, headers: &HeaderMap, info: &RequestInfo) -> Result<User, Status> {
    let may = |attributes: &Attributes<'_>| match is_master(attributes.user) {
        true => Ok(()),
        false => Err(refusal(attributes, &format!("only members of {MASTERS} see all workspaces at once"))),
    };
    may(&attributes(&user, info))?;
    let Some(wanted) = impersonation::wanted(headers)? else { return Ok(user) };
    let user = impersonation::acting_as(wanted, &attributes(&user, info), &may)?;
    may(&attributes(&user, info))?;
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
fn closed(user: &User, path: &str) -> Status {
    let message = format!("User {} cannot access the workspace", quote(&user.name));
    Status::forbidden(ATOLL, "workspaces", path, message)
}
