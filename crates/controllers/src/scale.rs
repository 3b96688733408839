//! How many pods something is to have, whatever kind it is: through its scale.

use atoll_informer::{Key, Resource, World, resources};
use atoll_meta::{Status, object};
use serde_json::Value;

/// Kinds that are known without asking.
static KNOWN: [&Resource; 4] = [
    &resources::DEPLOYMENTS,
    &resources::REPLICA_SETS,
    &resources::STATEFUL_SETS,
    &resources::REPLICATION_CONTROLLERS,
];

/// The resource of a kind, and whether it has a scale. Fails in the words of those who look kinds up.
pub async fn resource_of(
    world: &World,
    workspace: &str,
    api_version: &str,
    kind: &str,
) -> Result<(Resource, bool), String> {
    let Some((group, version)) = object::split_api_version(api_version) else {
        return Err(format!("unexpected GroupVersion string: {api_version}"));
    };
    let is_it = |known: &&&Resource| known.group == group && known.version == version && known.kind == kind;
    if let Some(known) = KNOWN.iter().find(is_it) {
        return Ok(((*known).clone(), true));
    }
    let base = if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{api_version}") };
    let root = world.root(workspace).map_err(|status| status.message().to_string())?;
    let missing = || format!("no matches for kind \"{kind}\" in version \"{api_version}\"");
    let list = match world.client().get(&format!("{root}{base}")).await {
        Ok(list) => list,
        Err(status) if status.code() == 404 => return Err(missing()),
        Err(status) => return Err(status.message().to_string()),
    };
    let entries = || list["resources"].as_array().into_iter().flatten();
    let own = |entry: &&Value| {
        entry["kind"] == kind && entry["name"].as_str().is_some_and(|name| !name.contains('/'))
    };
    let entry = entries().find(own).ok_or_else(missing)?;
    let plural = entry["name"].as_str().unwrap_or_default().to_string();
    let scale = format!("{plural}/scale");
    let has_scale = entries().any(|entry| entry["name"] == *scale && entry["kind"] == "Scale");
    let resource = Resource {
        group: group.to_string().into(),
        version: version.to_string().into(),
        plural: plural.into(),
        kind: kind.to_string().into(),
        namespaced: entry["namespaced"] == true,
    };
    Ok((resource, has_scale))
}

/// `deployments.apps`.
pub fn group_resource(resource: &Resource) -> String {
    match resource.group.is_empty() {
        true => resource.plural.to_string(),
        false => format!("{}.{}", resource.plural, resource.group),
    }
}

pub async fn read(world: &World, resource: &Resource, key: &Key) -> Result<Value, Status> {
    world.client().get(&format!("{}/scale", world.path(resource, key)?)).await
}

pub async fn write(world: &World, resource: &Resource, key: &Key, scale: &Value) -> Result<Value, Status> {
    world.client().update(&format!("{}/scale", world.path(resource, key)?), scale).await
}
