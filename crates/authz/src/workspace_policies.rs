//! The roles and bindings of one workspace, over those of the bootstrap layer.

// upstream: pkg/registry/rbac/validation/rule.go

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use atoll_authn::User;
use atoll_meta::quote::quote;
use atoll_meta::{Deadline, Status};

use crate::Target;
use crate::binding::{Binding, GROUP, RoleRef};
use crate::index::{Index, Level};
use crate::rule::Rule;

/// Number of rules from which a role that several bindings name is evaluated only once.
const LARGE_ROLE: usize = 16;

pub struct WorkspacePolicies<'a> {
    /// The workspace ID.
    pub(crate) workspace: &'a str,
    pub(crate) layer: &'a Index,
    pub(crate) own: Option<Index>,
    pub(crate) deadline: &'a Deadline<'a>,
}

/// The result of evaluating the rules.
#[derive(Debug)]
pub enum Verdict {
    /// By this binding.
    Granted(Arc<Binding>),
    /// With the errors of resolving roles.
    NotGranted(Vec<MissingRole>),
}

/// The reason why the rules of a role are not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MissingRole {
    Role(Box<str>),
    ClusterRole(Box<str>),
    /// A ClusterRoleBinding cannot refer to a Role.
    Namespace(Box<str>),
    Kind(Box<str>),
}

impl WorkspacePolicies<'_> {
    pub fn evaluate(&self, user: &User, verb: &str, target: &Target<'_>) -> Verdict {
        let namespace = match target {
            Target::Resource { namespace, .. } => namespace,
            Target::Path(_) => "",
        };
        let (mut missing, mut evaluated) = (Vec::new(), HashSet::new());
        let granted =
            self.find(user, namespace, |binding| match self.rules(&binding.role, &binding.namespace) {
                Ok(rules) if rules.len() >= LARGE_ROLE && !evaluated.insert(rules.as_ptr()) => false,
                Ok(rules) => rules
                    .iter()
                    .any(|rule| !self.deadline.steps(rule.evaluation_cost()) && rule.allows(verb, target)),
                Err(error) => {
                    missing.push(error);
                    false
                }
            });
        granted.map_or(Verdict::NotGranted(missing), Verdict::Granted)
    }

    pub fn allows(&self, user: &User, verb: &str, target: &Target<'_>) -> bool {
        matches!(self.evaluate(user, verb, target), Verdict::Granted(_))
    }

    /// Whether a workspace grants a ServiceAccount any permissions, by name or by a group of accounts,
    /// besides those of the bootstrap layer. It counts as granted once the deadline has passed.
    pub fn grants_any(&self, namespace: &str, account: &str) -> bool {
        let name = format!("system:serviceaccount:{namespace}:{account}");
        let groups = [format!("system:serviceaccounts:{namespace}"), "system:serviceaccounts".to_string()];
        let gives = |binding: &Arc<Binding>| {
            self.deadline.step()
                || self.rules(&binding.role, &binding.namespace).is_ok_and(|rules| !rules.is_empty())
        };
        self.own.iter().flat_map(Index::levels).any(|level| {
            let of_groups = groups.iter().flat_map(|group| level.of_group(group));
            level.of_user(&name).iter().chain(of_groups).any(gives)
        })
    }

    /// Returns the roles of a user in a namespace, or cluster-scoped, and the missing ones. A role is returned
    /// once for each binding.
    pub fn roles_of(&self, user: &User, namespace: &str) -> (Vec<&[Rule]>, Vec<MissingRole>) {
        let (mut bindings, mut seen): (Vec<Arc<Binding>>, _) = (Vec::new(), HashSet::new());
        self.find(user, namespace, |binding| {
            // A binding may name the user and a group of the user.
            if seen.insert(Arc::as_ptr(binding)) {
                bindings.push(binding.clone());
            }
            false
        });
        bindings.sort_by(|one, other| (&one.namespace, &one.name).cmp(&(&other.namespace, &other.name)));
        let (mut roles, mut missing) = (Vec::new(), Vec::new());
        for binding in bindings {
            match self.rules(&binding.role, &binding.namespace) {
                Ok(rules) => roles.push(rules),
                Err(error) => missing.push(error),
            }
        }
        (roles, missing)
    }

    /// Returns the rules of a role, for a binding in a namespace or a cluster-scoped one.
    pub fn rules(&self, role: &RoleRef, namespace: &str) -> Result<&[Rule], MissingRole> {
        let (namespace, missing): (&str, fn(Box<str>) -> MissingRole) = match &*role.kind {
            "ClusterRole" => ("", MissingRole::ClusterRole),
            "Role" if namespace.is_empty() => return Err(MissingRole::Namespace(role.name.clone())),
            "Role" => (namespace, MissingRole::Role),
            other => return Err(MissingRole::Kind(other.into())),
        };
        let found = self.own(namespace).and_then(|level| level.role(&role.name));
        let found = found.unwrap_or_else(|| self.layer.level(namespace)?.role(&role.name)?);
        found.map(|rules| &**rules).ok_or_else(|| missing(role.name.clone()))
    }

    fn own(&self, namespace: &str) -> Option<&Level> {
        self.own.as_ref().and_then(|index| index.level(namespace))
    }

    /// Returns the first binding of this user that matches: cluster-scoped ones first, then the namespace's.
    fn find(
        &self,
        user: &User,
        namespace: &str,
        mut is_it: impl FnMut(&Arc<Binding>) -> bool,
    ) -> Option<Arc<Binding>> {
        // Users of other workspaces have no permissions here, even with the same names and groups.
        if user.home.as_deref().is_some_and(|home| home != self.workspace) {
            return None;
        }
        let mut is_it = |binding: &Arc<Binding>| !self.deadline.step() && is_it(binding);
        let namespaces = ["", namespace];
        let scopes = if namespace.is_empty() { &namespaces[..1] } else { &namespaces[..] };
        for scope in scopes {
            let own = self.own(scope);
            let counts = |binding: &&Arc<Binding>| own.is_none_or(|own| !own.hides(binding));
            if let Some(found) = own.and_then(|own| of(own, user).find(|binding| is_it(binding))) {
                return Some(found.clone());
            }
            let layered = self.layer.level(scope);
            if let Some(found) =
                layered.and_then(|level| of(level, user).filter(counts).find(|binding| is_it(binding)))
            {
                return Some(found.clone());
            }
        }
        None
    }
}

/// Returns the bindings of a level for this user and the user's groups.
fn of<'a>(level: &'a Level, user: &'a User) -> impl Iterator<Item = &'a Arc<Binding>> {
    let groups = user.groups.iter().flat_map(|group| level.of_group(group));
    level.of_user(&user.name).iter().chain(groups)
}

impl fmt::Display for MissingRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MissingRole::Role(name) | MissingRole::Namespace(name) => {
                write!(f, "role.{GROUP} {} not found", quote(name))
            }
            MissingRole::ClusterRole(name) => write!(f, "clusterrole.{GROUP} {} not found", quote(name)),
            MissingRole::Kind(kind) => write!(f, "unsupported role reference kind: {}", quote(kind)),
        }
    }
}

impl MissingRole {
    /// Returns the error for a write of a `resource` that needs the role. It names that resource, as
    /// upstream.
    pub fn status(&self, resource: &str) -> Status {
        match self {
            MissingRole::Role(name) | MissingRole::ClusterRole(name) => {
                Status::not_found(GROUP, resource, name)
            }
            MissingRole::Namespace(_) => Status::bad_request("Namespace parameter required."),
            MissingRole::Kind(_) => Status::plain_internal(self.to_string()),
        }
    }

    /// Joins several, without duplicates.
    pub fn joined(all: &[MissingRole]) -> Option<String> {
        MissingRole::join(all.iter().map(ToString::to_string))
    }

    /// The same for a write of a `resource`.
    pub fn joined_for(all: &[MissingRole], resource: &str) -> Option<String> {
        MissingRole::join(all.iter().map(|one| one.status(resource).message().to_string()))
    }

    fn join(all: impl Iterator<Item = String>) -> Option<String> {
        let mut seen = HashSet::new();
        let mut distinct: Vec<String> = all.filter(|one| seen.insert(one.clone())).collect();
        match distinct.len() {
            0 => None,
            1 => distinct.pop(),
            _ => Some(format!("[{}]", distinct.join(", "))),
        }
    }
}
