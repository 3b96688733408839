//! The resources of a group version in discovery documents.

use serde_json::Value;

/// A resource with its subresources.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiscoveredResource {
    pub plural: String,
    pub singular: String,
    pub kind: String,
    pub is_namespaced: bool,
    pub short_names: Vec<String>,
    pub categories: Vec<String>,
    pub verbs: Vec<String>,
    /// `status`, `scale`, …
    pub subresources: Vec<String>,
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn texts(value: &Value) -> Vec<String> {
    items(value).iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

impl DiscoveredResource {
    /// Reads an APIResourceList.
    pub fn of_list(list: &Value) -> Vec<DiscoveredResource> {
        let mut resources: Vec<DiscoveredResource> = Vec::new();
        let is_subresource = |entry: &&Value| entry["name"].as_str().is_some_and(|name| name.contains('/'));
        for entry in items(&list["resources"]).iter().filter(|entry| !is_subresource(entry)) {
            resources.push(DiscoveredResource {
                plural: text(&entry["name"]),
                singular: text(&entry["singularName"]),
                kind: text(&entry["kind"]),
                is_namespaced: entry["namespaced"] == true,
                short_names: texts(&entry["shortNames"]),
                categories: texts(&entry["categories"]),
                verbs: texts(&entry["verbs"]),
                subresources: Vec::new(),
            });
        }
        resources.sort_by(|one, other| one.plural.cmp(&other.plural));
        resources.dedup_by(|one, other| one.plural == other.plural);
        for entry in items(&list["resources"]).iter().filter(is_subresource) {
            let Some((plural, subresource)) = entry["name"].as_str().and_then(|name| name.split_once('/'))
            else {
                continue;
            };
            let found = resources.binary_search_by(|resource| resource.plural.as_str().cmp(plural));
            if let Ok(index) = found {
                resources[index].subresources.push(subresource.to_owned());
            }
        }
        resources
    }

    /// Reads one of the `versions` of an item in an APIGroupDiscoveryList.
    pub fn of_version(version: &Value) -> Vec<DiscoveredResource> {
        let read = |entry: &Value| DiscoveredResource {
            plural: text(&entry["resource"]),
            singular: text(&entry["singularResource"]),
            kind: text(&entry["responseKind"]["kind"]),
            is_namespaced: entry["scope"] == "Namespaced",
            short_names: texts(&entry["shortNames"]),
            categories: texts(&entry["categories"]),
            verbs: texts(&entry["verbs"]),
            subresources: items(&entry["subresources"])
                .iter()
                .map(|entry| text(&entry["subresource"]))
                .collect(),
        };
        let mut resources: Vec<DiscoveredResource> = items(&version["resources"]).iter().map(read).collect();
        resources.sort_by(|one, other| one.plural.cmp(&other.plural));
        resources.dedup_by(|one, other| one.plural == other.plural);
        resources
    }

    /// Whether objects can be placed: they can be created, listed and watched.
    pub fn holds_objects(&self) -> bool {
        ["create", "list", "watch"].iter().all(|verb| self.verbs.iter().any(|found| found == verb))
    }

    pub(crate) fn has(&self, subresource: &str) -> bool {
        self.subresources.iter().any(|found| found == subresource)
    }
}
