//! Loads the objects to change: two of every built-in kind, from files.

use std::path::Path;

use atoll_schema::{Resource, resources};
use serde_json::Value;

/// A full and a minimal object of one kind.
pub struct Sample {
    /// Path of the file below `objects`, such as `apps/deployments`.
    pub name: String,
    pub resource: &'static Resource,
    pub full: Value,
    pub minimal: Value,
}

impl Sample {
    /// Returns a namespace of its own for each kind, so that its quotas and limit ranges do not affect other
    /// kinds.
    pub fn namespace(&self) -> String {
        format!("changed-{}", self.name.replace('/', "-"))
    }

    /// Returns the path of the collection of this kind.
    pub fn collection(&self) -> String {
        let Resource { group, version, resource, namespaced, .. } = self.resource;
        let root =
            if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
        match namespaced {
            true => format!("{root}/namespaces/{}/{resource}", self.namespace()),
            false => format!("{root}/{resource}"),
        }
    }

    /// Whether objects of this kind can be stored and updated.
    pub fn is_stored(&self) -> bool {
        self.resource.verbs.contains(&"update")
    }
}

/// Loads all samples below `directory`, sorted by name.
pub fn load(directory: &Path) -> Result<Vec<Sample>, String> {
    let mut samples = Vec::new();
    for group in sorted(directory)? {
        for path in sorted(&directory.join(&group))? {
            let name = format!("{group}/{}", path.trim_end_matches(".yaml"));
            let text = std::fs::read_to_string(directory.join(&group).join(&path));
            let text = text.map_err(|error| format!("{name}: {error}"))?;
            samples.push(parse(name.clone(), &text).map_err(|problem| format!("{name}: {problem}"))?);
        }
    }
    Ok(samples)
}

fn sorted(directory: &Path) -> Result<Vec<String>, String> {
    let entries =
        std::fs::read_dir(directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
    names.sort();
    Ok(names)
}

fn parse(name: String, text: &str) -> Result<Sample, String> {
    let namespace = format!("changed-{}", name.replace('/', "-"));
    let text = text.replace("NAMESPACE", &namespace);
    let documents: Result<Vec<Value>, _> = text.split("\n---\n").map(serde_saphyr::from_str).collect();
    let documents = documents.map_err(|error| error.to_string())?;
    let [full, minimal]: [Value; 2] =
        documents.try_into().map_err(|_| "the file must have two documents: full and minimal".to_owned())?;
    let (version, kind) = (full["apiVersion"].as_str(), full["kind"].as_str());
    let resource = resources().iter().find(|row| {
        let own =
            if row.group.is_empty() { row.version.into() } else { format!("{}/{}", row.group, row.version) };
        Some(own.as_str()) == version && Some(row.kind) == kind
    });
    let resource = resource.ok_or_else(|| format!("{version:?} {kind:?} is not a built-in kind"))?;
    Ok(Sample { name, resource, full, minimal })
}
