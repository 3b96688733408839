//! Authorization: the permissions of a user in a workspace, denied by default.
//!
//! ```text
//!   every write ─► Policies (Observer) ─► Index of a workspace, over that of the bootstrap layer
//!                                             │
//!   user, verb, target ─► Authorizer ─► WorkspacePolicies ───────┴─► bindings of the user ─► rules of their roles ─► Decision
//!                          │
//!                          ├─► the path from root: administrators of an ancestor may do everything below
//!                          └─► Escalation: users cannot grant permissions that they do not have
//! ```
//!
//! Rules are upstream's RBAC, and so are the messages. Access to a workspace is Atoll's own: see
//! [`Authorizer::has_access`].

// upstream: plugin/pkg/auth/authorizer/rbac/rbac.go
// upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/responsewriters/errors.go

pub mod binding;
mod covers;
mod escalation;
mod index;
mod policies;
mod rule;
mod workspace_policies;

use std::sync::Arc;

use atoll_authn::{MASTERS, User};
use atoll_meta::quote::quote;
use atoll_meta::{Deadline, Status};

use crate::binding::Binding;
pub use crate::escalation::RoleChange;
pub use crate::policies::Policies;
pub use crate::rule::Rule;
pub use crate::workspace_policies::{MissingRole, Verdict, WorkspacePolicies};

/// The attributes of a request.
#[derive(Clone, Copy, Debug)]
pub struct Attributes<'a> {
    pub user: &'a User,
    pub verb: &'a str,
    pub target: Target<'a>,
}

#[derive(Clone, Copy, Debug)]
pub enum Target<'a> {
    Resource {
        group: &'a str,
        resource: &'a str,
        subresource: &'a str,
        namespace: &'a str,
        name: &'a str,
    },
    /// A path that is not a resource, such as `/healthz`.
    Path(&'a str),
}

/// The location of a workspace in the hierarchy.
#[derive(Clone, Copy, Debug)]
pub struct Location<'a> {
    pub id: &'a str,
    /// The path from root; empty for root itself.
    pub steps: &'a [Step],
}

/// A step from a workspace to one of its children.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// ID of the parent workspace.
    pub parent: String,
    /// Name of the child in the parent.
    pub name: String,
}

/// Authorizes requests in one workspace. Results are valid only if the deadline has not passed: users write
/// the rules, so evaluating them can take any time.
pub struct Authorizer<'a> {
    policies: &'a Policies,
    deadline: &'a Deadline<'a>,
    location: Location<'a>,
    workspace_policies: WorkspacePolicies<'a>,
}

#[derive(Debug)]
pub enum Decision {
    Allowed(Grant),
    Refused(Vec<MissingRole>),
}

/// The reason why a request is allowed.
#[derive(Debug)]
pub enum Grant {
    /// The user is in system:masters.
    Master,
    Binding(Arc<Binding>),
    /// The user is an administrator of an ancestor, by this binding. The name is that of the workspace on the
    /// path.
    Ancestor(String, Arc<Binding>),
}

/// The target of access to a workspace, in its parent.
const fn content_target(name: &str) -> Target<'_> {
    Target::Resource {
        group: "atoll.dev",
        resource: "workspaces",
        subresource: "content",
        namespace: "",
        name,
    }
}

impl Policies {
    pub fn authorizer<'a>(&'a self, location: Location<'a>, deadline: &'a Deadline<'a>) -> Authorizer<'a> {
        Authorizer { policies: self, deadline, location, workspace_policies: self.at(location.id, deadline) }
    }
}

impl Authorizer<'_> {
    /// Returns upstream's Status if the request is not allowed.
    pub fn authorize(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        match self.decide(attributes) {
            Decision::Allowed(_) => Ok(()),
            Decision::Refused(missing) => Err(refusal(attributes, &reason(&missing))),
        }
    }

    pub fn decide(&self, attributes: &Attributes<'_>) -> Decision {
        let Attributes { user, verb, target } = attributes;
        if self.is_master(user) {
            return Decision::Allowed(Grant::Master);
        }
        match self.workspace_policies.evaluate(user, verb, target) {
            Verdict::Granted(binding) => Decision::Allowed(Grant::Binding(binding)),
            Verdict::NotGranted(missing) => match self.administrator_grant(user) {
                Some(grant) => Decision::Allowed(grant),
                None => Decision::Refused(missing),
            },
        }
    }

    /// Whether a user has access to the workspace. All users have access to root, and users with a credential
    /// of the workspace, such as its ServiceAccounts, have access to it. Others need the verb `access` on the
    /// path `/` in it, or on `workspaces/content` of its name in the parent, or must be administrators there.
    pub fn has_access(&self, user: &User) -> bool {
        user.home.as_deref() == Some(self.location.id) || self.is_granted_access(user)
    }

    /// The same for a user without a credential: an impersonated user, or the user of a review.
    pub fn is_granted_access(&self, user: &User) -> bool {
        let Some(last) = self.location.steps.last() else { return true };
        self.is_master(user)
            || self.workspace_policies.allows(user, "access", &Target::Path("/"))
            || self.policies.at(&last.parent, self.deadline).allows(
                user,
                "access",
                &content_target(&last.name),
            )
            || self.administrator_grant(user).is_some()
    }

    /// Returns the roles of a user in a namespace, or cluster-scoped, and the missing ones.
    pub fn roles_of(&self, user: &User, namespace: &str) -> (Vec<&[Rule]>, Vec<MissingRole>) {
        let (mut roles, missing) = self.workspace_policies.roles_of(user, namespace);
        if self.administrator_grant(user).is_some() {
            roles.push(Rule::everything());
        }
        (roles, missing)
    }

    /// Whether a user may do everything here by permissions from outside of this workspace.
    pub fn is_administrator(&self, user: &User) -> bool {
        is_master(user) || self.administrator_grant(user).is_some()
    }

    /// Whether a user is in system:masters, for all workspaces or for this one.
    pub(crate) fn is_master(&self, user: &User) -> bool {
        user.is_in(MASTERS) && user.home.as_deref().is_none_or(|home| home == self.location.id)
    }

    /// Whether an ancestor makes the user an administrator of its descendants.
    fn administrator_grant(&self, user: &User) -> Option<Grant> {
        self.location.steps.iter().rev().find_map(|step| {
            let parent = self.policies.at(&step.parent, self.deadline);
            match parent.evaluate(user, "admin", &content_target(&step.name)) {
                Verdict::Granted(binding) => Some(Grant::Ancestor(step.name.clone(), binding)),
                Verdict::NotGranted(_) => None,
            }
        })
    }
}

impl Grant {
    /// Returns the reason as reviews show it.
    pub fn reason(&self, user: &User) -> String {
        match self {
            Grant::Master => String::new(),
            Grant::Binding(binding) => format!("RBAC: allowed by {}", binding.describe(user)),
            Grant::Ancestor(workspace, binding) => {
                format!(
                    "RBAC: allowed above the workspace {} by {}",
                    quote(workspace),
                    binding.describe(user)
                )
            }
        }
    }
}

/// Whether a user is in system:masters for all workspaces. Members in one workspace only are not.
pub fn is_master(user: &User) -> bool {
    user.home.is_none() && user.is_in(MASTERS)
}

/// Returns the part of a refusal about missing roles.
pub fn reason(missing: &[MissingRole]) -> String {
    MissingRole::joined(missing).map(|missing| format!("RBAC: {missing}")).unwrap_or_default()
}

/// Returns a refusal in upstream's words.
pub fn refusal(attributes: &Attributes<'_>, reason: &str) -> Status {
    let (user, verb) = (quote(&attributes.user.name), attributes.verb);
    let (group, resource, name, what) = match attributes.target {
        Target::Path(path) => ("", "", "", format!("path {}", quote(path))),
        Target::Resource { group, resource, subresource, namespace, name } => {
            let shown = match subresource {
                "" => quote(resource),
                subresource => quote(&format!("{resource}/{subresource}")),
            };
            let place = match namespace {
                "" => "at the cluster scope".to_string(),
                namespace => format!("in the namespace {}", quote(namespace)),
            };
            (group, resource, name, format!("resource {shown} in API group {} {place}", quote(group)))
        }
    };
    // Escape HTML, as upstream.
    let message = format!("User {user} cannot {verb} {what}");
    let message = message.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    match reason {
        "" => Status::forbidden(group, resource, name, message),
        reason => Status::forbidden(group, resource, name, format!("{message}: {reason}")),
    }
}

#[cfg(test)]
mod tests;
