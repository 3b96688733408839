//! Whether rules cover other rules, for escalation checks.

// upstream: staging/src/k8s.io/component-helpers/auth/rbac/validation/policy_comparator.go

use std::collections::{BTreeSet, HashMap};

use atoll_meta::Deadline;
use atoll_meta::quote::{quote, quote_list};

use crate::rule::{Rule, Texts, has, has_or_all, path_covers};

/// A single permission of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permission<'a> {
    verb: &'a str,
    target: PermissionTarget<'a>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum PermissionTarget<'a> {
    Resource { group: &'a str, resource: &'a str, name: Option<&'a str> },
    Path(&'a str),
}

/// Returns the permissions of `wanted` that no role in `held` covers. The result is valid only before the
/// deadline.
pub fn uncovered<'a>(held: &[&[Rule]], wanted: &'a [Rule], deadline: &Deadline<'_>) -> Vec<Permission<'a>> {
    let permissions = wanted.iter().flat_map(permissions);
    let is_covered = |permission: &Permission<'_>| {
        let mut rules = held.iter().copied().flatten();
        rules.any(|rule| deadline.steps(rule.evaluation_cost()) || covers(rule, permission))
    };
    permissions.filter(|permission| !is_covered(permission)).collect()
}

fn permissions(rule: &Rule) -> Vec<Permission<'_>> {
    let mut permissions = Vec::new();
    for group in &rule.groups {
        for resource in &rule.resources {
            for verb in &rule.verbs {
                let permission =
                    |name| Permission { verb, target: PermissionTarget::Resource { group, resource, name } };
                match &*rule.names {
                    [] => permissions.push(permission(None)),
                    names => permissions.extend(names.iter().map(|name| permission(Some(&**name)))),
                }
            }
        }
    }
    for path in &rule.paths {
        permissions
            .extend(rule.verbs.iter().map(|verb| Permission { verb, target: PermissionTarget::Path(path) }));
    }
    permissions
}

fn covers(rule: &Rule, permission: &Permission<'_>) -> bool {
    has_or_all(&rule.verbs, permission.verb)
        && match permission.target {
            // A rule with resource names does not apply to paths.
            PermissionTarget::Path(path) => {
                rule.names.is_empty() && rule.paths.iter().any(|own| path_covers(own, path))
            }
            PermissionTarget::Resource { group, resource, name } => {
                has_or_all(&rule.groups, group)
                    && covers_resource(&rule.resources, resource)
                    && (rule.names.is_empty() || name.is_some_and(|name| has(&rule.names, name)))
            }
        }
}

fn covers_resource(own: &Texts, resource: &str) -> bool {
    let everywhere = || {
        resource
            .split_once('/')
            .is_some_and(|(_, subresource)| own.iter().any(|own| own.strip_prefix("*/") == Some(subresource)))
    };
    has_or_all(own, resource) || everywhere()
}

/// Formats missing permissions as upstream's errors do: a line for each resource or path, sorted.
pub fn describe(permissions: &[Permission<'_>]) -> String {
    let mut resources: HashMap<PermissionTarget<'_>, Vec<&str>> = HashMap::new();
    let mut lines = BTreeSet::new();
    for permission in permissions {
        match permission.target {
            PermissionTarget::Path(path) => {
                let line =
                    format!("{{NonResourceURLs:[{}], Verbs:[{}]}}", quote(path), quote(permission.verb));
                lines.insert(line);
            }
            target => resources.entry(target).or_default().push(permission.verb),
        }
    }
    for (target, verbs) in resources {
        let PermissionTarget::Resource { group, resource, name } = target else { continue };
        let names = name.map(|name| format!(", ResourceNames:[{}]", quote(name))).unwrap_or_default();
        lines.insert(format!(
            "{{APIGroups:[{}], Resources:[{}]{names}, Verbs:{}}}",
            quote(group),
            quote(resource),
            quote_list(verbs)
        ));
    }
    lines.into_iter().collect::<Vec<_>>().join("\n")
}
