//! May they: what a user is allowed to do in a workspace, denied by default.
//!
//! ```text
//!   every write ─► Policies (Observer) ─► Index of a workspace, over the one of the layer under all of them
//!                                             │
//!   user, verb, target ─► Here ─► Site ───────┴─► bindings that name the user ─► rules of their roles ─► Decision
//!                          │
//!                          ├─► the way to it: administrators of what lies above may do everything below
//!                          └─► Escalation: nobody grants what they do not have
//! ```
//!
//! Rules are upstream's RBAC, and so are the words of refusals. What is Atoll's own is the door of a workspace: see
//! [`Here::may_enter`].

pub mod binding;
mod covers;
mod escalation;
mod index;
mod policies;
mod rule;
mod site;

use std::sync::Arc;

use atoll_authn::{MASTERS, User};
use atoll_meta::Status;
use atoll_meta::quote::quote;

use crate::binding::Binding;
pub use crate::escalation::Change;
pub use crate::policies::Policies;
pub use crate::rule::Rule;
pub use crate::site::{Missing, Site, Verdict};

/// What someone wants to do.
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

/// Where a workspace is.
#[derive(Clone, Copy, Debug)]
pub struct Location<'a> {
    pub id: &'a str,
    /// The way to it, from the root down; none for the root itself.
    pub steps: &'a [Step],
}

/// From a workspace into one of those that it contains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Id of the workspace that is left.
    pub parent: String,
    /// Name, in there, of the one that is entered.
    pub name: String,
}

/// What counts in one workspace.
pub struct Here<'a> {
    policies: &'a Policies,
    location: Location<'a>,
    site: Site<'a>,
}

#[derive(Debug)]
pub enum Decision {
    Allowed(Grant),
    Refused(Vec<Missing>),
}

/// Why somebody may.
#[derive(Debug)]
pub enum Grant {
    /// They are one of those who may do everything.
    Master,
    Binding(Arc<Binding>),
    /// They are administrator of a workspace on the way to this one, whose name this is.
    Above(String, Arc<Binding>),
}

/// Entering a workspace, as the one above sees it.
const fn content(name: &str) -> Target<'_> {
    Target::Resource {
        group: "atoll.dev",
        resource: "workspaces",
        subresource: "content",
        namespace: "",
        name,
    }
}

impl Policies {
    pub fn here<'a>(&'a self, location: Location<'a>) -> Here<'a> {
        Here { policies: self, location, site: self.at(location.id) }
    }
}

impl Here<'_> {
    /// Refuses with the Status that upstream gives.
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
        match self.site.judge(user, verb, target) {
            Verdict::Granted(binding) => Decision::Allowed(Grant::Binding(binding)),
            Verdict::NotGranted(missing) => match self.administered(user) {
                Some(grant) => Decision::Allowed(grant),
                None => Decision::Refused(missing),
            },
        }
    }

    /// Whether somebody may come in at all. Everybody may enter the root, and whoever has a credential of the workspace, as its
    /// ServiceAccounts have. Others need the verb `access` on the path `/` in it, or on `workspaces/content` of its name in the
    /// one above, or to be administrators there.
    pub fn may_enter(&self, user: &User) -> bool {
        user.home.as_deref() == Some(self.location.id) || self.may_enter_as(user)
    }

    /// The same for somebody whose credential was not shown: a user that the caller acts as, or that a review is about.
    pub fn may_enter_as(&self, user: &User) -> bool {
        let Some(last) = self.location.steps.last() else { return true };
        self.is_master(user)
            || self.site.allows(user, "access", &Target::Path("/"))
            || self.policies.at(&last.parent).allows(user, "access", &content(&last.name))
            || self.administered(user).is_some()
    }

    /// All rules that count for a user in a namespace, or outside of any, and which roles are missing.
    pub fn rules_for(&self, user: &User, namespace: &str) -> (Vec<Rule>, Vec<Missing>) {
        let (mut rules, missing) = self.site.rules_for(user, namespace);
        if self.administered(user).is_some() {
            rules.extend(Rule::everything());
        }
        (rules, missing)
    }

    /// Whether somebody may do everything here by rights that do not come from this workspace.
    pub fn is_administrator(&self, user: &User) -> bool {
        is_master(user) || self.administered(user).is_some()
    }

    /// Whether somebody may do everything here: everywhere, or because this is the only workspace that they are known in.
    pub(crate) fn is_master(&self, user: &User) -> bool {
        user.is_in(MASTERS) && user.home.as_deref().is_none_or(|home| home == self.location.id)
    }

    /// Whether, on the way here, somebody was made administrator of what lies below.
    fn administered(&self, user: &User) -> Option<Grant> {
        self.location.steps.iter().rev().find_map(|step| {
            match self.policies.at(&step.parent).judge(user, "admin", &content(&step.name)) {
                Verdict::Granted(binding) => Some(Grant::Above(step.name.clone(), binding)),
                Verdict::NotGranted(_) => None,
            }
        })
    }
}

impl Grant {
    /// As reviews tell it.
    pub fn reason(&self, user: &User) -> String {
        match self {
            Grant::Master => String::new(),
            Grant::Binding(binding) => format!("RBAC: allowed by {}", binding.describe(user)),
            Grant::Above(workspace, binding) => {
                format!(
                    "RBAC: allowed above the workspace {} by {}",
                    quote(workspace),
                    binding.describe(user)
                )
            }
        }
    }
}

/// Whether somebody may do everything, whatever is written in any workspace. Who is in `system:masters` of one workspace only
/// is not among them.
pub fn is_master(user: &User) -> bool {
    user.home.is_none() && user.is_in(MASTERS)
}

/// What a refusal says of roles that are bound and not there.
pub fn reason(missing: &[Missing]) -> String {
    Missing::joined(missing).map(|missing| format!("RBAC: {missing}")).unwrap_or_default()
}

/// A refusal as upstream words it.
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
    // Nothing in it may look like a tag.
    let message = format!("User {user} cannot {verb} {what}");
    let message = message.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    match reason {
        "" => Status::forbidden(group, resource, name, message),
        reason => Status::forbidden(group, resource, name, format!("{message}: {reason}")),
    }
}

#[cfg(test)]
mod tests;
