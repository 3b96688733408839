//! Privilege escalation checks: a user who writes a role or binding must hold all permissions in it, or have
//! the verb `escalate` or `bind` on it.

// upstream: pkg/registry/rbac/escalation_check.go
// upstream: pkg/registry/rbac/clusterrole/policybased/storage.go
// upstream: pkg/registry/rbac/rolebinding/policybased/storage.go
// upstream: pkg/registry/rbac/validation/rule.go

use std::collections::HashSet;

use atoll_authn::User;
use atoll_meta::quote::{quote, quote_list};
use atoll_meta::{Status, object};
use serde_json::{Map, Value};

use crate::binding::{GROUP, RoleRef};
use crate::covers::{describe, uncovered};
use crate::rule::Rule;
use crate::{Attributes, Authorizer, Decision, MissingRole, Target};

/// A write of a role or binding.
pub struct RoleChange<'a> {
    pub user: &'a User,
    /// `roles`, `clusterroles`, `rolebindings` or `clusterrolebindings`.
    pub resource: &'a str,
    pub namespace: &'a str,
    /// The name in the request: empty for a new object.
    pub name: &'a str,
    /// The new object, with defaults.
    pub new: &'a Value,
    pub old: Option<&'a Value>,
}

/// Metadata that is managed by the garbage collector and others, without effect on permissions.
const GARBAGE_COLLECTION_FIELDS: [&str; 4] = ["ownerReferences", "finalizers", "selfLink", "managedFields"];

/// Maximum number of single permissions that are checked for one object.
const MAX_PERMISSIONS: usize = 1_000_000;

impl Authorizer<'_> {
    /// Refuses a change by which a user would grant more permissions than the user has.
    pub fn check_escalation(&self, change: &RoleChange<'_>) -> Result<(), Status> {
        if self.is_master(change.user) {
            return Ok(());
        }
        match change.resource {
            "roles" | "clusterroles" => self.check_role(change),
            "rolebindings" | "clusterrolebindings" => self.check_binding(change),
            _ => Ok(()),
        }
    }

    fn check_role(&self, change: &RoleChange<'_>) -> Result<(), Status> {
        let escalates =
            self.is_authorized(change.user, "escalate", change.resource, change.namespace, change.name);
        if escalates || changes_only_gc_fields(change) {
            return Ok(());
        }
        let refused =
            |message: &str| Err(Status::forbidden(GROUP, change.resource, object::name(change.new), message));
        let rules = Rule::all_of(change.new);
        if let Err(message) = self.check_held(change, &rules) {
            return refused(&message);
        }
        let aggregates = has_aggregation(change.new) || change.old.is_some_and(has_aggregation);
        // The aggregated rules are not known beforehand.
        if change.resource == "clusterroles"
            && aggregates
            && self.check_held(change, Rule::everything()).is_err()
        {
            return refused("must have cluster-admin privileges to use the aggregationRule");
        }
        Ok(())
    }

    fn check_binding(&self, change: &RoleChange<'_>) -> Result<(), Status> {
        let role = RoleRef::of(change.new);
        let resource = match &*role.kind {
            "ClusterRole" => "clusterroles",
            "Role" => "roles",
            _ => "",
        };
        let binds = !resource.is_empty() && {
            let (subresource, namespace) = ("", change.namespace);
            let target =
                Target::Resource { group: &role.group, resource, subresource, namespace, name: &role.name };
            self.is_allowed(change.user, "bind", target)
        };
        if changes_only_gc_fields(change) || binds {
            return Ok(());
        }
        let rules = self
            .workspace_policies
            .rules(&role, change.namespace)
            .map_err(|missing| missing.status(change.resource))?;
        self.check_held(change, rules)
            .map_err(|message| Status::forbidden(GROUP, change.resource, object::name(change.new), message))
    }

    fn is_authorized(&self, user: &User, verb: &str, resource: &str, namespace: &str, name: &str) -> bool {
        self.is_allowed(
            user,
            verb,
            Target::Resource { group: GROUP, resource, subresource: "", namespace, name },
        )
    }

    fn is_allowed(&self, user: &User, verb: &str, target: Target<'_>) -> bool {
        matches!(self.decide(&Attributes { user, verb, target }), Decision::Allowed(_))
    }

    /// Returns an error with the permissions that the user lacks.
    fn check_held(&self, change: &RoleChange<'_>, wanted: &[Rule]) -> Result<(), String> {
        let user = change.user;
        let who = || {
            let (name, groups) = (quote(&user.name), quote_list(&user.groups));
            format!(
                "user {name} (groups={groups}) is attempting to grant RBAC permissions not currently held:\n"
            )
        };
        if wanted.iter().fold(0, |sum: usize, rule| sum.saturating_add(rule.permissions())) > MAX_PERMISSIONS
        {
            return Err(format!("{}more than {MAX_PERMISSIONS} permissions at once", who()));
        }
        let (mut held, missing) = self.roles_of(user, change.namespace);
        let mut seen = HashSet::new();
        held.retain(|rules| seen.insert(rules.as_ptr()));
        let lacking = uncovered(&held, wanted, self.deadline);
        if lacking.is_empty() {
            return Ok(());
        }
        let errors = MissingRole::joined_for(&missing, change.resource)
            .map(|errors| format!("; resolution errors: [{errors}]"));
        Err(format!("{}{}{}", who(), describe(&lacking), errors.unwrap_or_default()))
    }
}

fn has_aggregation(role: &Value) -> bool {
    role["aggregationRule"]["clusterRoleSelectors"].as_array().is_some_and(|selectors| !selectors.is_empty())
}

/// Whether only metadata for garbage collection changes.
fn changes_only_gc_fields(change: &RoleChange<'_>) -> bool {
    let Some(old) = change.old else { return false };
    let (mut new, mut old) = (change.new.clone(), old.clone());
    for object in [&mut new, &mut old] {
        for field in GARBAGE_COLLECTION_FIELDS {
            object::metadata_mut(object).remove(field);
        }
        prune(object);
    }
    new == old
}

/// Removes values that are equivalent to absent ones.
fn prune(value: &mut Value) {
    let is_nothing = |value: &Value| match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    };
    match value {
        Value::Object(fields) => {
            let pruned = std::mem::take(fields).into_iter().filter_map(|(name, mut value)| {
                prune(&mut value);
                (!is_nothing(&value)).then_some((name, value))
            });
            *fields = pruned.collect::<Map<_, _>>();
        }
        Value::Array(items) => items.iter_mut().for_each(prune),
        _ => {}
    }
}
