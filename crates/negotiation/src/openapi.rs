//! Definitions from discovery and OpenAPI v3 documents, for types that have no CustomResourceDefinition:
//! built-in ones, and those of aggregated API servers.

mod convert;

use std::collections::BTreeMap;

use atoll_crd::Names;
use serde_json::{Value, json};

use crate::bounds::Excess;
use crate::discovered::DiscoveredResource;
use crate::imported::{ImportedDefinition, ImportedVersion};
use convert::Converter;

/// Reads the types of a group version that objects can be created of. `document` is the one at
/// `/openapi/v3/apis/<group>/<version>`. A type without a schema accepts any fields.
///
/// The result has the plural name of each type, and its definition unless it exceeds the limits.
pub fn definitions(
    group: &str,
    version: &str,
    resources: &[DiscoveredResource],
    document: &Value,
) -> Vec<(String, Result<ImportedDefinition, Excess>)> {
    let mut converter = Converter::of(document);
    let kinds = kinds(group, version, document);
    let mut definitions = Vec::new();
    for resource in resources.iter().filter(|resource| resource.holds_objects()) {
        let schema = match kinds.get(resource.kind.as_str()) {
            Some(name) => converter.object(name),
            None => Ok(json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })),
        };
        let definition = schema.map(|schema| definition(group, version, resource, schema));
        definitions.push((resource.plural.clone(), definition));
    }
    definitions
}

fn definition(
    group: &str,
    version: &str,
    resource: &DiscoveredResource,
    schema: Value,
) -> ImportedDefinition {
    let texts =
        |list: &[String]| -> Box<[Box<str>]> { list.iter().map(|text| text.as_str().into()).collect() };
    let scale = || json!({ "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas" });
    ImportedDefinition {
        group: group.to_owned(),
        names: Names {
            plural: resource.plural.as_str().into(),
            singular: resource.singular.as_str().into(),
            kind: resource.kind.as_str().into(),
            list_kind: format!("{}List", resource.kind).into(),
            short_names: texts(&resource.short_names),
            categories: texts(&resource.categories),
        },
        is_namespaced: resource.is_namespaced,
        versions: vec![ImportedVersion {
            name: version.to_owned(),
            schema,
            has_status: resource.has("status"),
            scale: resource.has("scale").then(scale),
            columns: Vec::new(),
            selectable_fields: Vec::new(),
        }],
    }
}

/// The names of the schemas of all kinds in a group version.
fn kinds<'d>(group: &str, version: &str, document: &'d Value) -> BTreeMap<&'d str, &'d str> {
    let mut kinds = BTreeMap::new();
    let schemas = document["components"]["schemas"].as_object();
    for (name, schema) in schemas.into_iter().flatten() {
        for kind in schema["x-kubernetes-group-version-kind"].as_array().into_iter().flatten() {
            if kind["group"] == group
                && kind["version"] == version
                && let Some(kind) = kind["kind"].as_str()
            {
                kinds.entry(kind).or_insert(name.as_str());
            }
        }
    }
    kinds
}

/// Combines the definitions of several versions of the same types. Versions that come first are preferred.
pub fn combine(definitions: impl IntoIterator<Item = ImportedDefinition>) -> Vec<ImportedDefinition> {
    let mut combined: Vec<ImportedDefinition> = Vec::new();
    for definition in definitions {
        let same = |known: &&mut ImportedDefinition| {
            known.group == definition.group && known.names.plural == definition.names.plural
        };
        match combined.iter_mut().find(same) {
            Some(known) => known.versions.extend(definition.versions),
            None => combined.push(definition),
        }
    }
    combined
}
