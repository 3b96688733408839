//! The resources of all workspaces that can be watched and written, by discovery and from
//! CustomResourceDefinitions.

use std::collections::HashSet;

use atoll_client::path;
use atoll_meta::{Status, object};
use serde_json::Value;

use crate::{ApiScope, Resource, resources};

/// The workspace whose built-in resources are those of all workspaces.
const ROOT: &str = "root";

/// The resources that every workspace has and that can be watched and written, each in the preferred version of
/// its group: those of root without the custom resources that it defines.
pub async fn discover_built_in(api: &ApiScope) -> Result<Vec<Resource>, Status> {
    let root = api.root(ROOT)?;
    let (mut found, mut own) = (Vec::new(), definition_names(api).await?);
    let core = api.client().get(&format!("{root}/api/v1")).await?;
    found.extend(writable("", "v1", &core));
    let groups = api.client().get(&format!("{root}/apis")).await?;
    for group in groups["groups"].as_array().into_iter().flatten() {
        let name = group["name"].as_str().unwrap_or_default();
        let version = group["preferredVersion"]["version"].as_str().unwrap_or_default();
        let list = api.client().get(&format!("{root}{}", path::group_version(name, version))).await?;
        found.extend(writable(name, version, &list));
    }
    // Some may have been defined since.
    own.extend(definition_names(api).await?);
    found.retain(|resource| !own.contains(&format!("{}.{}", resource.plural, resource.group)));
    Ok(found)
}

async fn definition_names(api: &ApiScope) -> Result<HashSet<String>, Status> {
    let definitions = api.list(&resources::CUSTOM_RESOURCE_DEFINITIONS, ROOT, "", true).await?;
    Ok(definitions.iter().map(|definition| object::name(definition).to_string()).collect())
}

fn writable(group: &str, version: &str, list: &Value) -> Vec<Resource> {
    let entries = list["resources"].as_array().into_iter().flatten();
    let resource = |entry: &Value| {
        let plural = entry["name"].as_str().filter(|name| !name.contains('/'))?;
        let verbs = entry["verbs"].as_array()?;
        let is_writable = ["list", "watch", "update"].iter().all(|verb| verbs.iter().any(|own| own == verb));
        is_writable.then(|| Resource {
            group: group.to_string().into(),
            version: version.to_string().into(),
            plural: plural.to_string().into(),
            kind: entry["kind"].as_str().unwrap_or_default().to_string().into(),
            namespaced: entry["namespaced"] == true,
        })
    };
    entries.filter_map(resource).collect()
}

/// The resource of a CustomResourceDefinition in a served version, preferably the stored one.
pub fn of_definition(definition: &Value) -> Option<Resource> {
    let spec = &definition["spec"];
    let text = |value: &Value| Some(value.as_str()?.to_string());
    let (group, plural) = (text(&spec["group"])?, text(&spec["names"]["plural"])?);
    let versions = spec["versions"].as_array().into_iter().flatten();
    let served = versions.into_iter().filter(|version| version["served"] == true);
    let version = served.max_by_key(|version| version["storage"] == true)?;
    Some(Resource {
        version: text(&version["name"])?.into(),
        kind: text(&spec["names"]["kind"])?.into(),
        namespaced: spec["scope"] == "Namespaced",
        group: group.into(),
        plural: plural.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn resources_that_can_be_written_are_found() {
        let verbs = json!(["get", "list", "watch", "update"]);
        let list = json!({ "resources": [
            { "name": "configmaps", "kind": "ConfigMap", "namespaced": true, "verbs": verbs },
            { "name": "configmaps/status", "kind": "ConfigMap", "namespaced": true, "verbs": verbs },
            { "name": "componentstatuses", "kind": "ComponentStatus", "verbs": ["get", "list"] },
        ] });
        let found = writable("", "v1", &list);
        assert_eq!(found.iter().map(|resource| &*resource.plural).collect::<Vec<_>>(), ["configmaps"]);
        let definition = json!({ "spec": {
            "group": "example.com", "scope": "Namespaced", "names": { "plural": "widgets", "kind": "Widget" },
            "versions": [
                { "name": "v1", "served": true, "storage": false }, { "name": "v2", "served": true, "storage": true },
                { "name": "v3", "served": false, "storage": false },
            ],
        } });
        let widgets = of_definition(&definition).expect("it is served");
        assert_eq!((widgets.api_version().as_str(), widgets.namespaced), ("example.com/v2", true));
        assert_eq!(of_definition(&json!({ "spec": {} })), None);
    }
}
