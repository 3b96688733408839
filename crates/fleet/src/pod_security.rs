//! The Pod Security level that Pods of a workspace must meet on a cluster, and the labels that enforce it
//! below.

use std::collections::BTreeMap;

use atoll_meta::object;
pub use atoll_podsecurity::LABELS;
use atoll_podsecurity::{ENFORCE, ENFORCE_VERSION, Level, LevelVersion, Policy, Version, evaluate, template};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::cluster::ClusterView;
use crate::marks;

/// Default level for workspaces below the registering one.
const DEFAULT: Level = Level::Baseline;
/// Prefix of the priority classes that every cluster has for its own components.
const SYSTEM_PRIORITY: &str = "system-";

/// Returns `spec.podSecurity` of a Cluster.
fn set(cluster: &Value) -> Option<Level> {
    ClusterView::of(cluster).pod_security().and_then(Level::parse)
}

/// Returns the level that a Cluster requires of Pods of the registering workspace, or of a workspace below
/// it.
pub fn level(cluster: &Value, is_registered_there: bool) -> Level {
    set(cluster).unwrap_or(if is_registered_there { Level::Privileged } else { DEFAULT })
}

/// Returns the stricter of the cluster's level and the rule of the namespace above. The cluster's level
/// applies in its latest version, so that a namespace above with a higher level of an older version does not
/// weaken it.
fn stricter(level: Level, namespace: LevelVersion) -> LevelVersion {
    match level {
        Level::Privileged => namespace,
        level => LevelVersion { level: level.max(namespace.level), version: Version::Latest },
    }
}

/// Returns the rule for Pods of a namespace on a cluster. `label` looks up a label of the namespace above.
pub fn required<'a>(
    cluster: &Value,
    is_registered_there: bool,
    label: impl Fn(&str) -> Option<&'a str>,
) -> LevelVersion {
    stricter(level(cluster, is_registered_there), Policy::from_labels(label).0.enforce)
}

/// Whether an update changes the Pod template of an object.
pub fn changes_template(group: &str, resource: &str, new: &Value, old: &Value) -> bool {
    template(group, resource).is_some_and(|path| new.pointer(path) != old.pointer(path))
}

/// Returns the violations of an object's Pod template, in the words of Kubernetes.
pub fn violation(group: &str, resource: &str, object: &Value, rule: LevelVersion) -> Option<String> {
    let template = object.pointer(template(group, resource)?)?;
    let violations = evaluate(rule, &template["metadata"], &template["spec"]);
    (!violations.is_empty())
        .then(|| format!("violates PodSecurity {:?}: {}", rule.to_string(), violations.details()))
}

/// Returns why a Pod template of a workspace below the registering one would take precedence over the Pods of
/// the cluster's owner: by a system priority, which evicts them, or by naming a node, which bypasses the
/// scheduler.
fn precedence(cluster: &Value, group: &str, resource: &str, object: &Value) -> Option<String> {
    let pod = &object.pointer(template(group, resource)?)?["spec"];
    let field = |name: &str| pod[name].as_str().filter(|value| !value.is_empty());
    let reason = match (field("priorityClassName"), field("nodeName")) {
        (Some(class), _) if class.starts_with(SYSTEM_PRIORITY) => format!(
            "uses the priority class {class}, which is reserved for the owner of the cluster; use another \
             priorityClassName"
        ),
        (_, Some(_)) => {
            "sets spec.nodeName, which bypasses the scheduler of the cluster; use nodeSelector or \
                         affinity"
                .to_string()
        }
        _ => return None,
    };
    let name = object::name(cluster);
    Some(format!(
        "{reason}, or ask an administrator of the workspace in which cluster {name} is registered to set \
         spec.podSecurity of the Cluster to privileged"
    ))
}

/// Returns why a Cluster does not accept the Pods of an object. `label` looks up a label of the namespace
/// above.
pub fn refusal<'a>(
    cluster: &Value,
    is_registered_there: bool,
    label: impl Fn(&str) -> Option<&'a str>,
    (group, resource): (&str, &str),
    object: &Value,
) -> Option<String> {
    let Some(violation) = violation(group, resource, object, required(cluster, is_registered_there, label))
    else {
        let is_trusted = is_registered_there || level(cluster, is_registered_there) == Level::Privileged;
        return if is_trusted { None } else { precedence(cluster, group, resource, object) };
    };
    let name = object::name(cluster);
    Some(format!("{violation}; cluster {name} requires this level for pods of this workspace"))
}

/// Pod Security labels for the namespace below, as sent to the syncer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Labels {
    /// Requested labels: those of the namespace above, made stricter by `spec.podSecurity` of the Cluster.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The same with the default level. A namespace from before there was a default does not get it later,
    /// because its Pods could not be replaced.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub initial: BTreeMap<String, String>,
}

impl Labels {
    pub fn of(cluster: &Value, is_registered_there: bool, namespace: &Value) -> Labels {
        let asked = set(cluster).unwrap_or(Level::Privileged);
        Labels {
            labels: labels(asked, namespace),
            initial: labels(level(cluster, is_registered_there), namespace),
        }
    }

    /// Returns the labels for a workspace for which an older control plane sends none.
    pub fn fallback(is_registered_there: bool) -> Labels {
        Labels::of(&Value::Null, is_registered_there, &Value::Null)
    }

    /// Adds the labels to a new namespace.
    pub fn set_on(&self, namespace: &mut Value) {
        for (key, value) in &self.initial {
            namespace["metadata"]["labels"][key] = value.as_str().into();
        }
        if !self.initial.is_empty() {
            object::set_annotation(namespace, marks::POD_SECURITY, &text(&self.initial));
        }
    }

    /// Returns the merge patch that updates a namespace created by Atoll; `None` if it is up to date. Labels
    /// of other writers stay, except that a weaker level is raised.
    pub fn patch(&self, namespace: &Value) -> Option<Value> {
        let written = object::annotation(namespace, marks::POD_SECURITY);
        let wanted = if written.is_some() { &self.initial } else { &self.labels };
        let before: BTreeMap<String, String> =
            written.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
        let mut changes = serde_json::Map::new();
        let is_ours = |key: &str| match object::label(namespace, key) {
            Some(found) => before.get(key).is_some_and(|own| own == found),
            None => true,
        };
        let found = object::label(namespace, ENFORCE).and_then(Level::parse);
        let is_raised = wanted.get(ENFORCE).and_then(|level| Level::parse(level)) > found;
        for key in LABELS.iter().flat_map(|(level, version)| [*level, *version]) {
            let is_enforced = key == ENFORCE || key == ENFORCE_VERSION;
            if !(is_ours(key) || is_enforced && is_raised) {
                continue;
            }
            // A version belongs to the level that it was written for.
            if key == ENFORCE_VERSION && !is_ours(ENFORCE) && !is_raised {
                continue;
            }
            if object::label(namespace, key) != wanted.get(key).map(String::as_str) {
                changes.insert(key.to_string(), wanted.get(key).map_or(Value::Null, |value| json!(value)));
            }
        }
        let note = (!wanted.is_empty() || written.is_some()).then(|| text(wanted));
        if changes.is_empty() && note.as_deref() == written {
            return None;
        }
        Some(json!({ "metadata": {
            "resourceVersion": object::resource_version(namespace),
            "labels": changes,
            "annotations": { (marks::POD_SECURITY): note },
        } }))
    }
}

fn labels(level: Level, namespace: &Value) -> BTreeMap<String, String> {
    let of = |key: &str| object::label(namespace, key);
    let mut labels: BTreeMap<String, String> = LABELS
        .iter()
        .flat_map(|(level, version)| [*level, *version])
        .filter_map(|key| Some((key.to_string(), of(key)?.to_string())))
        .collect();
    let enforced = Policy::from_labels(of).0.enforce;
    let rule = stricter(level, enforced);
    if rule != enforced {
        labels.insert(ENFORCE.into(), rule.level.name().into());
        labels.remove(ENFORCE_VERSION);
    }
    labels
}

fn text(labels: &BTreeMap<String, String>) -> String {
    serde_json::to_string(labels).unwrap_or_default()
}

#[cfg(test)]
mod tests;
