//! From a CustomResourceDefinition to what it means.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use atoll_defaults::Defaults;
use atoll_merge::apply::Kind;
use atoll_validation::warnings;
use bytes::Bytes;
use serde_json::{Value, json};

use super::custom::{self, Custom, ScalePaths};
use super::intern::Interned;
use super::{Definition, Names, conditions};
use crate::row::{Row, SharedRow, Subresource};

/// Numbers of definitions and of their versions' forms; 0 is none.
static NUMBERS: AtomicU64 = AtomicU64::new(1);

fn number() -> u64 {
    NUMBERS.fetch_add(1, Ordering::Relaxed)
}

const VERBS: [&str; 8] = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];
/// What a resource whose definition is going still says it can do.
const VERBS_AT_THE_END: [&str; 5] = ["delete", "deletecollection", "get", "list", "watch"];

/// The definition that an object is, shared with all that say the same.
pub fn definition(interned: &Interned, object: &Value) -> Arc<Definition> {
    let has = |kind: &str| conditions::is_true(object, kind);
    let is_established = has("Established");
    let source = json!({
        "spec": object["spec"],
        "accepted": object["status"]["acceptedNames"],
        "served": is_established || has("NamesAccepted"),
        "established": is_established,
        "terminating": has("Terminating"),
    });
    interned.get(Bytes::from(atoll_meta::json::to_vec(&source)), |text| compile(&source, text))
}

fn compile(source: &Value, text: Bytes) -> Definition {
    let (spec, accepted) = (&source["spec"], Names::read(&source["accepted"]));
    let flag = |name: &str| source[name] == true;
    let is_complete = [&accepted.plural, &accepted.singular, &accepted.kind, &accepted.list_kind]
        .iter()
        .all(|name| !name.is_empty());
    let compiler = Compiler {
        spec,
        group: spec["group"].as_str().unwrap_or_default(),
        names: &accepted,
        is_terminating: flag("terminating"),
    };
    let stored = compiler.versions().find(|version| version["storage"] == true);
    let stored = stored.map(|version| compiler.row(version, None)).filter(|_| is_complete);
    let served = compiler.versions().filter(|version| version["served"] == true);
    let rows = served.filter_map(|version| {
        let stored = stored.as_ref()?;
        match version["name"] == *stored.version {
            true => Some(stored.clone()),
            false => Some(compiler.row(version, stored.custom.clone())),
        }
    });
    Definition {
        id: number(),
        group: compiler.group.into(),
        waits: accepted != Names::read(&spec["names"]),
        is_served: flag("served") && is_complete,
        is_established: flag("established") && is_complete,
        is_terminating: compiler.is_terminating,
        rows: rows.collect(),
        stored,
        accepted,
        source: text,
    }
}

struct Compiler<'a> {
    spec: &'a Value,
    group: &'a str,
    names: &'a Names,
    is_terminating: bool,
}

impl Compiler<'_> {
    fn versions(&self) -> impl Iterator<Item = &Value> {
        self.spec["versions"].as_array().into_iter().flatten()
    }

    fn row(&self, version: &Value, stored: Option<Arc<Custom>>) -> SharedRow {
        let name = version["name"].as_str().unwrap_or_default();
        let owned = |texts: &[&str]| texts.iter().map(ToString::to_string).collect();
        let verbs = if self.is_terminating { owned(&VERBS_AT_THE_END) } else { owned(&VERBS) };
        let names = self.names;
        let api_version = format!("{}/{name}", self.group);
        Arc::new(Row {
            group: self.group.into(),
            version: name.into(),
            resource: names.plural.clone(),
            singular: names.singular.clone(),
            kind: names.kind.clone(),
            namespaced: self.spec["scope"] == "Namespaced",
            verbs,
            short_names: names.short_names.clone(),
            categories: names.categories.clone(),
            storage_version_hash: String::new(),
            subresources: self.subresources(version),
            type_id: None,
            view: None,
            strategy: &custom::STRATEGY,
            defaults: Defaults::NONE,
            checks: atoll_validation::of("", ""),
            warnings: warnings::of("", ""),
            managed: Kind::new(api_version, &names.kind, None),
            custom: Some(Arc::new(self.custom(version, stored))),
        })
    }

    fn subresources(&self, version: &Value) -> Vec<Subresource> {
        let part = |name: &str, group: &str, version: &str, kind: &str| Subresource {
            name: name.into(),
            kind: kind.into(),
            group: group.into(),
            version: version.into(),
            verbs: ["get", "patch", "update"].map(String::from).into(),
        };
        let said = &version["subresources"];
        let status = said["status"].is_object().then(|| part("status", "", "", &self.names.kind));
        let scale = said["scale"].is_object().then(|| part("scale", "autoscaling", "v1", "Scale"));
        status.into_iter().chain(scale).collect()
    }

    fn custom(&self, version: &Value, stored: Option<Arc<Custom>>) -> Custom {
        let scale = &version["subresources"]["scale"];
        let path = |field: &str| scale[field].as_str().map(Box::from);
        let scale = scale.is_object().then(|| ScalePaths {
            spec_replicas: path("specReplicasPath").unwrap_or_default(),
            status_replicas: path("statusReplicasPath").unwrap_or_default(),
            selector: path("labelSelectorPath"),
        });
        let fields = version["selectableFields"].as_array().into_iter().flatten();
        let selectable = fields.filter_map(|field| {
            let path = custom::steps(field["jsonPath"].as_str()?);
            Some((Arc::from(path), path.split('.').map(Box::from).collect()))
        });
        Custom {
            form: number(),
            version: version["name"].as_str().unwrap_or_default().into(),
            list_kind: self.names.list_kind.as_str().into(),
            stored,
            deprecation: self.deprecation(version).map(Box::from),
            scale,
            selectable: selectable.collect(),
            is_terminating: self.is_terminating,
        }
    }

    fn deprecation(&self, version: &Value) -> Option<String> {
        if version["deprecated"] != true {
            return None;
        }
        if let Some(own) = version["deprecationWarning"].as_str() {
            return Some(own.to_string());
        }
        let (name, kind) = (version["name"].as_str().unwrap_or_default(), &self.spec["names"]["kind"]);
        let kind = kind.as_str().unwrap_or_default();
        let newer = self
            .versions()
            .filter(|other| other["served"] == true && other["deprecated"] != true)
            .filter_map(|other| other["name"].as_str())
            .filter(|other| compare_versions(other, name).is_gt())
            .max_by(|one, other| compare_versions(one, other));
        let group = self.group;
        let told = format!("{group}/{name} {kind} is deprecated");
        Some(match newer {
            Some(newer) => format!("{told}; use {group}/{newer} {kind}"),
            None => told,
        })
    }
}

/// How Kubernetes orders versions: releases before betas before alphas, each by number, then all else by name backwards.
pub fn compare_versions(one: &str, other: &str) -> std::cmp::Ordering {
    match (release(one), release(other)) {
        (Some(one), Some(other)) => one.cmp(&other),
        (Some(_), None) => std::cmp::Ordering::Greater,
        (None, Some(_)) => std::cmp::Ordering::Less,
        (None, None) => other.cmp(one),
    }
}

/// Stability, major number, number of the alpha or beta.
fn release(version: &str) -> Option<(u8, u64, u64)> {
    let rest = version.strip_prefix('v')?;
    let digits = rest.find(|character: char| !character.is_ascii_digit()).unwrap_or(rest.len());
    let (major, rest) = rest.split_at(digits);
    let positive = |text: &str| text.parse::<u64>().ok().filter(|_| !text.starts_with('0'));
    let major = positive(major)?;
    if rest.is_empty() {
        return Some((2, major, 0));
    }
    let (stability, minor) = match (rest.strip_prefix("beta"), rest.strip_prefix("alpha")) {
        (Some(minor), _) => (1, minor),
        (_, Some(minor)) => (0, minor),
        _ => return None,
    };
    Some((stability, major, positive(minor)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_as_kubernetes_does() {
        let ordered = [
            "v10", "v2", "v1", "v11beta2", "v10beta3", "v3beta1", "v12alpha1", "v11alpha2", "foo1", "foo10", "v0",
        ];
        let mut shuffled = ordered;
        shuffled.sort_unstable();
        shuffled.sort_by(|one, other| compare_versions(other, one));
        assert_eq!(shuffled, ordered);
    }
}
