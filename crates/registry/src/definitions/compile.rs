//! Compiles CustomResourceDefinitions.

// upstream: staging/src/k8s.io/apimachinery/pkg/version/helpers.go

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use atoll_crd::Version;
use atoll_crd::limits::has_too_many_versions;
use atoll_defaults::Defaults;
use atoll_merge::apply::Kind;
use atoll_meta::object::is_being_deleted;
use atoll_validation::warnings;
use bytes::Bytes;
use serde_json::{Value, json};

use super::custom::{self, CustomVersion};
use super::status::TOO_LARGE;
use super::{Definition, Names, conditions, reserved};
use crate::catalog::Catalog;
use crate::dialect::DialectKind;
use crate::row::{Row, SharedRow, Subresource};

/// Next number of a definition or of a version's form; 0 is none.
static NUMBERS: AtomicU64 = AtomicU64::new(1);

/// Random keys in every process, so that hash collisions cannot be constructed.
static HASHES: LazyLock<RandomState> = LazyLock::new(RandomState::new);

pub(crate) fn number() -> u64 {
    NUMBERS.fetch_add(1, Ordering::Relaxed)
}

const VERBS: [&str; 8] = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];
/// The verbs in discovery while the definition is being deleted.
const TERMINATING_VERBS: [&str; 5] = ["delete", "deletecollection", "get", "list", "watch"];

/// The compiled definition of an object, shared with equal ones.
pub fn definition(catalog: &Catalog, object: &Value) -> Arc<Definition> {
    let has = |kind: &str| conditions::is_true(object, kind);
    let is_established = has("Established");
    let mut state = json!({
        "accepted": object["status"]["acceptedNames"],
        "served": is_established || has("NamesAccepted"),
        "established": is_established,
        // During deletion, no write to the status makes creation possible again.
        "terminating": has("Terminating") || is_being_deleted(object),
    });
    if has(TOO_LARGE) {
        state["reported"] = true.into();
    }
    let mut source = atoll_meta::json::to_vec(&state);
    // The text is shared by all states of the definition, also by those in the history, which are not
    // compiled. While a definition has it, its address identifies it.
    let text = catalog.texts.text(atoll_meta::json::to_vec(&object["spec"]).into());
    source.extend_from_slice(&text.as_ptr().addr().to_be_bytes());
    catalog.definitions.get(Bytes::from(source), |source| compile(object, &state, source, text))
}

/// `source` identifies the definition, and `text` is the JSON of the spec.
fn compile(object: &Value, state: &Value, source: Bytes, text: Bytes) -> Definition {
    let (spec, accepted) = (&object["spec"], Names::read(&state["accepted"]));
    let flag = |name: &str| state[name] == true;
    let has_names = [&accepted.plural, &accepted.singular, &accepted.kind, &accepted.list_kind]
        .iter()
        .all(|name| !name.is_empty());
    // Older versions of Atoll accepted definitions of built-in resources. They are still stored, but not
    // served.
    let is_reserved = reserved::is_built_in(spec["group"].as_str().unwrap_or_default(), &accepted.plural);
    // Clients may write the status. Another plural name would serve the objects of another definition.
    let plural = spec["names"]["plural"].as_str().unwrap_or_default();
    let is_named = has_names && !is_reserved && accepted.plural == plural;
    // Older versions of Atoll accepted any number of versions, and clients may write any number of names to
    // the status: the rows alone could fill the memory.
    let is_small = |names: &Value| !has_too_many_versions(spec, names);
    let is_complete = is_named && is_small(&spec["names"]) && is_small(&state["accepted"]);
    // Without accepted names, its objects cannot be requested.
    let compiled = atoll_crd::Definition::compile(if is_complete { object } else { &Value::Null });
    let group = spec["group"].as_str().unwrap_or_default();
    let siblings = compiled.versions().iter().map(|version| format!("{group}/{}", version.name));
    let compiler = Compiler {
        compiled: &compiled,
        group,
        kind: spec["names"]["kind"].as_str().unwrap_or_default(),
        names: &accepted,
        siblings: siblings.collect(),
        newest: newest(spec),
        is_terminating: flag("terminating"),
    };
    let sources: HashMap<&str, &Value> =
        versions(spec).rev().map(|version| (version["name"].as_str().unwrap_or_default(), version)).collect();
    let in_spec = |version: &Version| sources.get(&*version.name).copied().unwrap_or(&Value::Null);
    let stored = compiled.storage_version().map(|version| compiler.row(version, in_spec(version), None));
    let served = compiled.versions().iter().filter(|version| version.served);
    let rows = served.filter_map(|version| {
        let stored = stored.as_ref()?;
        match version.storage {
            true => Some(stored.clone()),
            false => Some(compiler.row(version, in_spec(version), stored.custom.clone())),
        }
    });
    let size = atoll_validation::definition_size(object);
    Definition {
        id: number(),
        group: compiler.group.into(),
        plural: plural.into(),
        awaits_names: accepted != Names::read(&spec["names"]),
        is_served: flag("served") && is_complete,
        is_established: flag("established") && is_complete,
        is_terminating: compiler.is_terminating,
        is_size_outdated: is_named && size.is_err() != flag("reported"),
        rows: rows.collect(),
        stored,
        accepted,
        size: size.unwrap_or(atoll_crd::limits::COMPILED),
        hash: HASHES.hash_one(&text[..]),
        spec: text,
        source,
    }
}

fn versions(spec: &Value) -> impl DoubleEndedIterator<Item = &Value> {
    spec["versions"].as_array().into_iter().flatten()
}

/// The newest version that is served and not deprecated.
fn newest(spec: &Value) -> Option<&str> {
    versions(spec)
        .filter(|version| version["served"] == true && version["deprecated"] != true)
        .filter_map(|version| version["name"].as_str())
        .max_by(|one, other| compare_versions(one, other))
}

struct Compiler<'a> {
    compiled: &'a atoll_crd::Definition,
    group: &'a str,
    /// The kind in the spec.
    kind: &'a str,
    names: &'a Names,
    /// The `apiVersion` of every version.
    siblings: Arc<[String]>,
    /// The newest version that is served and not deprecated.
    newest: Option<&'a str>,
    is_terminating: bool,
}

impl Compiler<'_> {
    /// `source` is the version in the spec.
    fn row(&self, version: &Version, source: &Value, stored: Option<Arc<CustomVersion>>) -> SharedRow {
        let owned = |texts: &[&str]| texts.iter().map(ToString::to_string).collect();
        let verbs = if self.is_terminating { owned(&TERMINATING_VERBS) } else { owned(&VERBS) };
        let names = self.names;
        let api_version = format!("{}/{}", self.group, version.name);
        let managed = Kind::custom(api_version, &names.kind, version.schema.clone());
        Arc::new(Row {
            group: self.group.into(),
            version: version.name.to_string(),
            resource: names.plural.clone(),
            singular: names.singular.clone(),
            kind: names.kind.clone(),
            namespaced: self.compiled.is_namespaced(),
            verbs,
            short_names: names.short_names.clone(),
            categories: names.categories.clone(),
            storage_version_hash: String::new(),
            subresources: self.subresources(version),
            type_id: None,
            view: None,
            schema: None,
            strategy: &custom::STRATEGY,
            defaults: Defaults::NONE,
            checks: atoll_validation::checks_for("", ""),
            warnings: warnings::warnings_for("", ""),
            managed: managed.with_siblings(self.siblings.clone()),
            custom: Some(Arc::new(CustomVersion {
                form: number(),
                version: version.clone(),
                definition: self.compiled.clone(),
                list_kind: names.list_kind.as_str().into(),
                key_group: atoll_store::key::custom_group(self.group).into(),
                deprecation: self.deprecation(&version.name, source).map(Box::from),
                stored,
                selectable: version.selectable.iter().map(|field| Arc::from(&*field.name)).collect(),
                is_terminating: self.is_terminating,
                dialect: DialectKind::default(),
            })),
        })
    }

    /// The deprecation warning of a version: the text in the definition, or the version to use instead.
    fn deprecation(&self, name: &str, version: &Value) -> Option<String> {
        if version["deprecated"] != true {
            return None;
        }
        if let Some(own) = version["deprecationWarning"].as_str() {
            return Some(own.to_string());
        }
        let (group, kind) = (self.group, self.kind);
        let newer = self.newest.filter(|newest| compare_versions(newest, name).is_gt());
        let warning = format!("{group}/{name} {kind} is deprecated");
        Some(match newer {
            Some(newer) => format!("{warning}; use {group}/{newer} {kind}"),
            None => warning,
        })
    }

    fn subresources(&self, version: &Version) -> Vec<Subresource> {
        let part = |name: &str, group: &str, version: &str, kind: &str| Subresource {
            name: name.into(),
            kind: kind.into(),
            group: group.into(),
            version: version.into(),
            verbs: ["get", "patch", "update"].map(String::from).into(),
        };
        let status = version.has_status.then(|| part("status", "", "", &self.names.kind));
        let scale = version.scale.as_ref().map(|_| part("scale", "autoscaling", "v1", "Scale"));
        status.into_iter().chain(scale).collect()
    }
}

/// Orders versions as Kubernetes does: releases before betas before alphas, each by number, then all others
/// by name in reverse.
pub fn compare_versions(one: &str, other: &str) -> std::cmp::Ordering {
    match (release(one), release(other)) {
        (Some(one), Some(other)) => one.cmp(&other),
        (Some(_), None) => std::cmp::Ordering::Greater,
        (None, Some(_)) => std::cmp::Ordering::Less,
        (None, None) => other.cmp(one),
    }
}

/// Stability, major version, and the number of the alpha or beta.
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
    fn versions_are_ordered_as_in_kubernetes() {
        let ordered = [
            "v10",
            "v2",
            "v1",
            "v11beta2",
            "v10beta3",
            "v3beta1",
            "v12alpha1",
            "v11alpha2",
            "foo1",
            "foo10",
            "v0",
        ];
        let mut shuffled = ordered;
        shuffled.sort_unstable();
        shuffled.sort_by(|one, other| compare_versions(other, one));
        assert_eq!(shuffled, ordered);
    }
}
