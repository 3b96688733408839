//! Definitions that clusters have: ApiImports, and the CustomResourceDefinitions that workspaces inherit from them.
//!
//! ```text
//!   report of a cluster ─► ApiImport for each cluster and definition, in the workspace of the Cluster
//!                              │ offering: which one is offered, and which clusters are compatible with it
//!                              └─► CustomResourceDefinition, derived from it and never stored: in that workspace and in
//!                                  all workspaces below it, unless they have a definition of their own
//! ```
//!
//! Schemas come from clusters, which may be hostile. Nothing is offered that a user of the workspace could not
//! define: names that are reserved, groups of Kubernetes without approval, invalid schemas, and what exceeds the
//! limits of the workspace.

mod offering;

use std::sync::Arc;

use atoll_fleet::marks::IMPORTED_FROM;
use atoll_meta::{id, object};
use atoll_negotiation::ImportedDefinition;
use atoll_store::Key;
use atoll_watch::Facts;
use bytes::Bytes;
use serde_json::{Value, json};

use crate::Registry;
use crate::catalog::{ATOLL, Catalog};
use crate::definitions::{self, Definition, compile, conditions, status};
use crate::facts;
use crate::row::Row;

pub use offering::run;

pub const RESOURCE: &str = "apiimports";
/// Selectable fields of ApiImports.
pub const CLUSTER_UID: &str = "spec.clusterUID";
pub const DIGEST: &str = "spec.digest";
pub const SERVED: &str = "spec.served";
pub const PROBLEM: &str = "spec.problem";
pub const MISFIT: &str = "status.misfit";
/// The condition of the ApiImport whose definition the workspaces inherit.
const OFFERED: &str = "Offered";

/// The name of the ApiImport of a definition.
pub fn name(definition: &str, cluster: &str) -> String {
    format!("{definition}.{cluster}")
}

/// The definition of a cluster as it is kept in an ApiImport.
#[derive(Debug)]
pub struct ReadDefinition {
    pub group: String,
    pub resource: String,
    pub kind: String,
    /// The spec of a CustomResourceDefinition.
    pub spec: Value,
    /// The approval annotation, which groups of Kubernetes need.
    pub approval: Option<String>,
}

/// Reads a CustomResourceDefinition of a cluster. Versions that only a webhook of the cluster can convert are left
/// out.
pub fn read(definition: &Value) -> Result<ReadDefinition, String> {
    let mut imported = ImportedDefinition::from_definition(definition)
        .map_err(|excess| format!("it has {}", excess.words()))?;
    if definition["spec"]["conversion"]["strategy"] == "Webhook" {
        imported.versions.truncate(1);
    }
    if imported.versions.is_empty() {
        return Err("it serves no version".into());
    }
    let spec = imported.to_definition()["spec"].take();
    let (group, resource) = (imported.group, imported.names.plural.to_string());
    if format!("{resource}.{group}") != object::name(definition) {
        return Err("its name does not consist of its plural and its group".into());
    }
    let approval = object::annotation(definition, status::APPROVED).map(str::to_string);
    Ok(ReadDefinition { group, resource, kind: imported.names.kind.to_string(), spec, approval })
}

/// The CustomResourceDefinition of an ApiImport, if it is offered.
pub fn offered_definition(import: &Value) -> Option<Value> {
    conditions::is_true(import, OFFERED).then(|| definition_of(import))
}

/// The CustomResourceDefinition that an ApiImport would give.
fn definition_of(import: &Value) -> Value {
    let own = &import["spec"]["definition"];
    let mut spec =
        Some(&import["status"]["definition"]).filter(|spec| spec.is_object()).unwrap_or(own).clone();
    spec["conversion"] = json!({ "strategy": "None" });
    let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
    let name = format!("{}.{}", text(&spec["names"]["plural"]), text(&spec["group"]));
    let created = object::creation_timestamp(import).unwrap_or_default().to_string();
    let stored = spec["versions"].as_array().into_iter().flatten().find(|version| version["storage"] == true);
    let stored: Vec<Value> = stored.map(|version| version["name"].clone()).into_iter().collect();
    let mut definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": name,
            "uid": derived_uid(object::uid(import)),
            "creationTimestamp": created,
            "generation": import["metadata"]["generation"],
            "annotations": { IMPORTED_FROM: import["spec"]["cluster"] },
        },
        "spec": spec,
        "status": { "storedVersions": stored },
    });
    if let Some(approval) = import["spec"]["approval"].as_str() {
        object::set_annotation(&mut definition, status::APPROVED, approval);
    }
    status::update(&mut definition, &[], &created);
    definition
}

/// A uid that differs from that of the ApiImport and is the same at every start.
fn derived_uid(uid: &str) -> String {
    let mut digits = uid.bytes().filter_map(|digit| char::from(digit).to_digit(16));
    let mut bytes = [0_u8; 16];
    for byte in &mut bytes {
        let [high, low] = [(); 2].map(|()| digits.next().unwrap_or_default());
        *byte = u8::try_from(high << 4 | low).unwrap_or_default() ^ 0xa5;
    }
    id::uuid_v4(bytes)
}

impl Registry {
    /// Whether a workspace has a custom resource from a cluster, without a definition of its own.
    pub fn is_imported(&self, row: &Row, workspace: &str) -> bool {
        let name = format!("{}.{}", row.resource, row.group);
        let definition = Key::object(definitions::GROUP, definitions::RESOURCE, workspace, "", &name);
        row.custom.is_some() && self.snapshot().is_inherited(&definition)
    }
}

/// The compiled definition of an ApiImport; one that is not served if it is not offered.
pub(crate) fn compiled(catalog: &Catalog, import: &Value) -> Arc<Definition> {
    compile::definition(catalog, &offered_definition(import).unwrap_or_else(|| json!({})))
}

/// The definition that the workspace of a stored value and those below it inherit.
pub(crate) fn inherited(catalog: &Catalog, key: &Key, value: &Bytes) -> Option<(Key, Bytes, Arc<Facts>)> {
    let parts = key.parts().filter(|parts| (parts.group, parts.resource) == (ATOLL, RESOURCE))?;
    let definition = offered_definition(&atoll_meta::json::parse(value).ok()?.value)?;
    let row = catalog.stored(definitions::GROUP, definitions::RESOURCE)?;
    let name = object::name(&definition);
    let key = Key::object(definitions::GROUP, definitions::RESOURCE, parts.workspace, "", name);
    let encoded = Bytes::from(atoll_meta::json::encode_object(&definition));
    Some((key, encoded, facts::of(catalog, row, &definition)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reported(conversion: &str) -> Value {
        let version = |name: &str, storage: bool| {
            json!({
                "name": name, "served": true, "storage": storage,
                "schema": { "openAPIV3Schema": { "type": "object" } },
            })
        };
        json!({
            "metadata": { "name": "widgets.example.com", "annotations": { status::APPROVED: "https://example.com" } },
            "spec": {
                "group": "example.com", "scope": "Namespaced",
                "names": { "plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList" },
                "conversion": { "strategy": conversion },
                "versions": [version("v1", false), version("v2", true)],
            },
        })
    }

    #[test]
    fn definitions_of_clusters_are_read() {
        let versions = |read: &ReadDefinition| {
            let all = read.spec["versions"].as_array().cloned().unwrap_or_default();
            all.iter()
                .map(|version| version["name"].as_str().unwrap_or_default().to_string())
                .collect::<Vec<_>>()
        };
        let read_one = read(&reported("None")).unwrap();
        assert_eq!(
            (&*read_one.group, &*read_one.resource, &*read_one.kind),
            ("example.com", "widgets", "Widget")
        );
        assert_eq!(versions(&read_one), ["v2", "v1"]);
        assert_eq!(read_one.approval.as_deref(), Some("https://example.com"));
        assert_eq!(versions(&read(&reported("Webhook")).unwrap()), ["v2"]);
        let mut other = reported("None");
        other["metadata"]["name"] = "gadgets.example.com".into();
        assert!(read(&other).unwrap_err().contains("name"));
        other["spec"]["versions"] = json!([]);
        assert!(read(&other).unwrap_err().contains("no version"));
    }

    #[test]
    fn only_an_offered_definition_is_inherited() {
        let mut import = json!({
            "metadata": {
                "name": "widgets.example.com.east", "uid": "8d0f1f7e-7a52-4b2c-9a61-0d7c5d7f3c11", "generation": 2,
                "creationTimestamp": "2026-11-19T04:00:00Z",
            },
            "spec": { "cluster": "east", "definition": read(&reported("None")).unwrap().spec },
        });
        assert_eq!(offered_definition(&import), None);
        conditions::set(&mut import, [OFFERED, "True", "Offered", ""], "2026-11-19T04:00:00Z");
        let definition = offered_definition(&import).unwrap();
        assert_eq!(object::name(&definition), "widgets.example.com");
        assert_eq!(object::annotation(&definition, IMPORTED_FROM), Some("east"));
        assert_ne!(object::uid(&definition), object::uid(&import));
        assert!(conditions::is_true(&definition, "Established"));
        assert_eq!(definition["status"]["acceptedNames"]["kind"], "Widget");
        // Names of built-in resources are never served.
        import["spec"]["definition"]["group"] = "apps".into();
        import["spec"]["definition"]["names"]["plural"] = "deployments".into();
        assert!(!conditions::is_true(&offered_definition(&import).unwrap(), "Established"));
    }

    /// Reports of clusters are compared with these, so no definition is parsed for them.
    #[test]
    fn facts_say_what_reports_are_compared_with() {
        let catalog = Catalog::new(crate::Profile::Minimal);
        let row = catalog.stored(ATOLL, RESOURCE).unwrap().clone();
        let spec = json!({ "cluster": "east", "clusterUID": "u", "digest": "0a", "served": true, "problem": "none" });
        let facts = facts::of(&catalog, &row, &json!({ "metadata": { "name": "a.b.east" }, "spec": spec }));
        let fields: Vec<(&str, &str)> = facts.fields.iter().map(|(name, value)| (*name, &**value)).collect();
        assert_eq!(fields, [(CLUSTER_UID, "u"), (DIGEST, "0a"), (SERVED, "true"), (PROBLEM, "none")]);
    }
}
