//! The placeable resources of all workspaces.

use atoll_fleet::placement::is_never_placed;
use atoll_informer::{ApiScope, Resource, discover_built_in};
use atoll_meta::Status;
use serde_json::Value;

pub use atoll_informer::of_definition;

/// The placeable resources that every workspace has.
pub async fn discover(api: &ApiScope) -> Result<Vec<Resource>, Status> {
    let mut found = discover_built_in(api).await?;
    found.retain(is_placeable);
    Ok(found)
}

/// The resource of a CustomResourceDefinition in a served version, if its objects are placeable.
pub fn defined(definition: &Value) -> Option<Resource> {
    of_definition(definition).filter(is_placeable)
}

pub fn is_placeable(resource: &Resource) -> bool {
    !is_never_placed(&resource.group, &resource.plural)
}
