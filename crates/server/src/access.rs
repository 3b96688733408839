//! Authorization of a request: access to the workspace, impersonation, and the request itself.
//!
//! Access to the workspace is checked first, so that a user without access cannot learn whether the workspace
//! exists. It is checked again for the impersonated user.

// upstream: staging/src/k8s.io/apiserver/pkg/endpoints/filters/authorization.go

use atoll_authn::{MASTERS, User};
use atoll_authz::{Attributes, Authorizer, Location, Target, is_master, refusal};
use atoll_meta::quote::quote;
use atoll_meta::{Deadline, Status};
use atoll_registry::catalog::ATOLL;
use atoll_registry::{EVALUATION_TIMEOUT, INLINE_TIMEOUT, run_with_deadline};
use http::HeaderMap;

use crate::request::RequestInfo;
use crate::sync::{clusters, tunnel};
use crate::workspace::Workspace;
use crate::{Server, impersonation, what_if};

impl Server {
    /// Returns the user that the request runs as, or the reason why it is forbidden. `workspace` is the
    /// resolved path.
    pub async fn authorize(
        &self,
        caller: User,
        headers: &HeaderMap,
        info: &RequestInfo,
        workspace: &Result<Workspace, Status>,
    ) -> Result<User, Status> {
        let workspace = match workspace {
            // Other users do not learn from it which workspaces exist.
            Ok(Workspace::Below(_)) if !is_master(&caller) => return Err(workspace_forbidden(&caller, info)),
            Ok(workspace) => workspace,
            Err(missing) if is_master(&caller) => return Err(missing.clone()),
            Err(_) => return Err(workspace_forbidden(&caller, info)),
        };
        let Some(location) = workspace.location() else {
            return authorize_across_workspaces(caller, headers, info);
        };
        let wanted = impersonation::requested_user(headers)?;
        let work = |authorizer: &Authorizer<'_>| {
            authorize_request(authorizer, location, &caller, wanted.as_ref(), info)
        };
        let impersonated = self.evaluate(location, 0, work).await??;
        Ok(impersonated.unwrap_or(caller))
    }

    /// Runs work with the authorizer of the workspace of a request. `size` is the number of bytes of the object
    /// that the work is about.
    pub async fn with_authorizer<T>(
        &self,
        workspace: &Workspace,
        size: usize,
        work: impl Fn(&Authorizer<'_>) -> T,
    ) -> Result<T, Status> {
        workspace.id()?;
        let location = workspace.location().ok_or_else(Status::not_found_generic)?;
        self.evaluate(location, size, work).await
    }

    async fn evaluate<T>(
        &self,
        location: Location<'_>,
        size: usize,
        work: impl Fn(&Authorizer<'_>) -> T,
    ) -> Result<T, Status> {
        let evaluate = |deadline: &Deadline<'_>| work(&self.policies.authorizer(location, deadline));
        let done = self.registry.evaluate(location.id, size, evaluate).await?;
        done.ok_or_else(|| {
            let seconds = EVALUATION_TIMEOUT.as_secs();
            let message = format!(
                "authorization took more than {seconds} seconds; reduce the number of rules in the roles of the user"
            );
            Status::timeout(message, 0)
        })
    }

    /// Whether a user may do something, for admission. A user whose rules take too long to evaluate may not.
    pub fn is_allowed(&self, workspace: &Workspace, attributes: &Attributes<'_>) -> bool {
        let Some(location) = workspace.location() else { return false };
        let is_allowed = |deadline: &Deadline<'_>| {
            self.policies.authorizer(location, deadline).authorize(attributes).is_ok()
        };
        workspace.id().is_ok() && run_with_deadline(INLINE_TIMEOUT, is_allowed).unwrap_or(false)
    }

    /// The same in the workspace that is `levels` above, to which the user must have access.
    pub fn is_allowed_above(
        &self,
        workspace: &Workspace,
        levels: usize,
        attributes: &Attributes<'_>,
    ) -> bool {
        if levels == 0 {
            return self.is_allowed(workspace, attributes);
        }
        let Some(location) = workspace.location().and_then(|location| above(location, levels)) else {
            return false;
        };
        let is_allowed = |deadline: &Deadline<'_>| {
            let authorizer = self.policies.authorizer(location, deadline);
            authorizer.has_access(attributes.user) && authorizer.authorize(attributes).is_ok()
        };
        run_with_deadline(INLINE_TIMEOUT, is_allowed).unwrap_or(false)
    }
}

/// Returns the location of the workspace that is `levels` above, at least one.
fn above(location: Location<'_>, levels: usize) -> Option<Location<'_>> {
    let remaining = location.steps.len().checked_sub(levels)?;
    let next = location.steps.get(remaining)?;
    Some(Location { id: &next.parent, steps: &location.steps[..remaining] })
}

/// Returns the impersonated user, if any, or the reason why the request is forbidden.
fn authorize_request(
    authorizer: &Authorizer<'_>,
    location: Location<'_>,
    caller: &User,
    wanted: Option<&User>,
    info: &RequestInfo,
) -> Result<Option<User>, Status> {
    if !authorizer.has_access(caller) {
        return Err(workspace_forbidden(caller, info));
    }
    let caller_attributes = attributes(caller, info);
    let Some(wanted) = wanted else {
        authorizer.authorize(&caller_attributes)?;
        return Ok(None);
    };
    let authorize = |attributes: &Attributes<'_>| authorizer.authorize(attributes);
    let user = impersonation::impersonate(wanted, &caller_attributes, &authorize)?;
    // Impersonation that is allowed by a workspace's own rules is valid in that workspace only. An administrator
    // from outside impersonates the user as known everywhere, unless the user is a ServiceAccount, which always
    // belongs to this workspace.
    let is_account = impersonation::account(&user.name).is_some();
    // Only a member of system:masters can impersonate a member of system:masters in all workspaces.
    let claims_everything = user.is_in(MASTERS) && !is_master(caller);
    let user = match is_account || claims_everything || !authorizer.is_administrator(caller) {
        true => user.of_workspace(location.id),
        false => user,
    };
    if !is_account && !authorizer.is_granted_access(&user) {
        return Err(workspace_forbidden(&user, info));
    }
    authorizer.authorize(&attributes(&user, info))?;
    Ok(Some(user))
}

/// Authorizes a request to all workspaces at once: only members of system:masters may send one.
fn authorize_across_workspaces(user: User, headers: &HeaderMap, info: &RequestInfo) -> Result<User, Status> {
    let authorize = |attributes: &Attributes<'_>| match is_master(attributes.user) {
        true => Ok(()),
        false => Err(refusal(attributes, &format!("only members of {MASTERS} see all workspaces at once"))),
    };
    authorize(&attributes(&user, info))?;
    let Some(wanted) = impersonation::requested_user(headers)? else { return Ok(user) };
    let user = impersonation::impersonate(&wanted, &attributes(&user, info), &authorize)?;
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
    // A tunnel serves the syncer whose view this is.
    if let Some(view) = tunnel::view_path(&info.path) {
        return Attributes { user, verb: info.verb, target: Target::Path(view) };
    }
    // The right to make the change is checked when the body is known. Until then, the right that every
    // authenticated user has is enough.
    if info.path == what_if::PATH {
        let target = Target::Resource {
            group: "authorization.k8s.io",
            resource: "selfsubjectaccessreviews",
            subresource: "",
            namespace: "",
            name: "",
        };
        return Attributes { user, verb: "create", target };
    }
    Attributes { user, verb: info.verb, target: info.target() }
}

/// The same error is returned for a workspace that does not exist.
fn workspace_forbidden(user: &User, info: &RequestInfo) -> Status {
    let path = info.workspace.as_deref().unwrap_or_default();
    let message = format!("User {} cannot access the workspace", quote(&user.name));
    Status::forbidden(ATOLL, "workspaces", path, message)
}
