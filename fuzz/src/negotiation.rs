//! Schemas and OpenAPI documents of clusters.

use atoll_crd::{Origin, Schema};
use atoll_meta::Deadline;
use atoll_meta::json::{self, Value};
use atoll_negotiation::{
    DiscoveredResource, ImportedDefinition, canonical_text, compare, lost_fields, openapi,
};
use serde_json::json;

use crate::Accepted;

/// A schema equals itself, a merged schema needs no more changes, and an object that is valid in it, without
/// rules and new defaults, is valid in the offered schema. The input is a list: the offered schema, that of a
/// cluster and an object.
pub fn schemas(bytes: &[u8]) -> Accepted {
    let Value::Array(parts) = json::parse(bytes).ok()?.value else { return None };
    let [offered, cluster, object] = <[Value; 3]>::try_from(parts).ok()?;
    let own = compare(&offered, &offered, &Deadline::never());
    if own.contradictions.is_empty() {
        assert!(own.losses.is_empty() && own.merged == offered, "a schema differs from itself");
    }
    let comparison = compare(&offered, &cluster, &Deadline::never());
    let _ = comparison.losses.describe("east");
    if !comparison.contradictions.is_empty() {
        return None;
    }
    let again = compare(&comparison.merged, &cluster, &Deadline::never());
    assert!(again.losses.is_empty(), "{:?}", again.losses);
    assert_eq!(canonical_text(&again.merged), canonical_text(&comparison.merged));
    let merged = Schema::compile(Some(&comparison.merged), false);
    let _ = lost_fields(&merged, &object);
    let mut object = object;
    merged.read(&mut object, Origin::Request).ok()?;
    let _ = merged.check(&object, &Deadline::never());
    Some(())
}

/// Any document yields definitions that can be written as CustomResourceDefinitions and read again. The input
/// is a list: an APIResourceList and an OpenAPI document.
pub fn documents(bytes: &[u8]) -> Accepted {
    let Value::Array(parts) = json::parse(bytes).ok()?.value else { return None };
    let [resources, document] = <[Value; 2]>::try_from(parts).ok()?;
    let resources = DiscoveredResource::of_list(&resources);
    let found = openapi::definitions("example.com", "v1", &resources, &document);
    let definitions: Vec<ImportedDefinition> =
        found.into_iter().filter_map(|(_, definition)| definition.ok()).collect();
    for definition in &definitions {
        let written = definition.to_definition();
        if let Ok(read) = ImportedDefinition::from_definition(&written) {
            assert_eq!(read, *definition);
        }
    }
    let list = json!({ "spec": document });
    let _ = ImportedDefinition::from_definition(&list);
    (!definitions.is_empty()).then_some(())
}
