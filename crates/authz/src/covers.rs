//! Whether rules cover other rules, for escalation checks.

use std::collections::{BTreeSet, HashMap};

use atoll_meta::quote::quote;

use crate::rule::{Rule, Texts, has, has_or_all, path_covers};

/// A single permission of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grain<'a> {
    verb: &'a str,
    what: What<'a>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum What<'a> {
    Resource { group: &'a str, resource: &'a str, name: Option<&'a str> },
    Path(&'a str),
}

/// Returns the permissions of `wanted` that `held` does not cover.
pub fn uncovered<'a>(held: &[Rule], wanted: &'a [Rule]) -> Vec<Grain<'a>> {
    let grains = wanted.iter().flat_map(grains);
    grains.filter(|grain| !held.iter().any(|rule| covers(rule, grain))).collect()
}

fn grains(rule: &Rule) -> Vec<Grain<'_>> {
    let mut grains = Vec::new();
    for group in &rule.groups {
        for resource in &rule.resources {
            for verb in &rule.verbs {
                let grain = |name| Grain { verb, what: What::Resource { group, resource, name } };
                match &*rule.names {
                    [] => grains.push(grain(None)),
                    names => grains.extend(names.iter().map(|name| grain(Some(&**name)))),
                }
            }
        }
    }
    for path in &rule.paths {
        grains.extend(rule.verbs.iter().map(|verb| Grain { verb, what: What::Path(path) }));
    }
    grains
}

fn covers(rule: &Rule, grain: &Grain<'_>) -> bool {
    has_or_all(&rule.verbs, grain.verb)
        && match grain.what {
            // A rule with resource names does not apply to paths.
            What::Path(path) => rule.names.is_empty() && rule.paths.iter().any(|own| path_covers(own, path)),
            What::Resource { group, resource, name } => {
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
pub fn describe(grains: &[Grain<'_>]) -> String {
    let mut resources: HashMap<What<'_>, Vec<&str>> = HashMap::new();
    let mut lines = BTreeSet::new();
    for grain in grains {
        match grain.what {
            What::Path(path) => {
                let line = format!("{{NonResourceURLs:[{}], Verbs:[{}]}}", quote(path), quote(grain.verb));
                lines.insert(line);
            }
            what => resources.entry(what).or_default().push(grain.verb),
        }
    }
    for (what, verbs) in resources {
        let What::Resource { group, resource, name } = what else { continue };
        let names = name.map(|name| format!(", ResourceNames:[{}]", quote(name))).unwrap_or_default();
        lines.insert(format!(
            "{{APIGroups:[{}], Resources:[{}]{names}, Verbs:{}}}",
            quote(group),
            quote(resource),
            quoted(verbs)
        ));
    }
    lines.into_iter().collect::<Vec<_>>().join("\n")
}

/// Formats a list as Go's `%q`.
pub fn quoted<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> String {
    let quoted: Vec<String> = texts.into_iter().map(|text| quote(text.as_ref())).collect();
    format!("[{}]", quoted.join(" "))
}
