//! Selects the objects to place: by name, by label, all of a resource, or those in files.

use std::io::Read;
use std::path::Path;

use atoll_meta::object;
use serde_json::Value;

use super::parse_object_arg;
use super::resources::{ApiResource, resolve};
use crate::advice::{Failure, invocation};
use crate::cluster::Api;
use crate::command::PlaceOptions;
use crate::workspace::session::encoded;

/// Page size of lists.
const PAGE: usize = 500;

/// An object to place.
#[derive(Debug, PartialEq)]
pub struct SelectedObject<'a> {
    pub resource: &'a ApiResource,
    /// Empty for cluster-scoped objects.
    pub namespace: String,
    pub name: String,
}

pub async fn find<'a>(
    api: &Api,
    resources: &'a [ApiResource],
    options: &PlaceOptions,
    namespace: &str,
) -> Result<Vec<SelectedObject<'a>>, Failure> {
    let mut found = Vec::new();
    let namespace_for = |resource: &ApiResource| {
        if resource.namespaced { namespace.to_string() } else { String::new() }
    };
    if options.all || options.selector.is_some() {
        for word in options.objects.iter().flat_map(|words| words.split(',')) {
            let resource = resource_for_all(resources, word)?;
            let namespace = namespace_for(resource);
            for name in names(api, resource, &namespace, options.selector.as_deref()).await? {
                found.push(SelectedObject { resource, namespace: namespace.clone(), name });
            }
        }
        return Ok(found);
    }
    for object in &options.objects {
        let (resource, name) = parse_object_arg(resources, object)?;
        found.push(SelectedObject { resource, namespace: namespace_for(resource), name: name.to_string() });
    }
    for file in &options.filename {
        for document in documents(&text(file)?).map_err(|problem| format!("{}: {problem}", file.display()))? {
            found.extend(object_in_document(resources, &document, namespace)?);
        }
    }
    Ok(found)
}

/// Resolves a resource for `--all` and `-l`.
fn resource_for_all<'a>(resources: &'a [ApiResource], word: &str) -> Result<&'a ApiResource, Failure> {
    if word.contains('/') {
        return Err(Failure::new(
            format!("{word:?} names one object, but -l and --all select several"),
            format!("name a resource, as in: {} place deployments --all --on east", invocation()),
        ));
    }
    match resolve(resources, word) {
        Some(resource) => Ok(resource),
        None => parse_object_arg(resources, &format!("{word}/x")).map(|(resource, _)| resource),
    }
}

async fn names(
    api: &Api,
    resource: &ApiResource,
    namespace: &str,
    selector: Option<&str>,
) -> Result<Vec<String>, Failure> {
    let labels = selector.map(|selector| format!("&labelSelector={}", encoded(selector))).unwrap_or_default();
    let (mut names, mut next) = (Vec::new(), String::new());
    loop {
        let collection = resource.collection(namespace);
        let list = api.get(&format!("{collection}?limit={PAGE}{labels}{next}")).await?;
        let items = list["items"].as_array().into_iter().flatten();
        names.extend(items.map(|item| object::name(item).to_string()));
        match object::continuation(&list) {
            Some(token) => next = format!("&continue={}", encoded(token)),
            None => return Ok(names),
        }
    }
}

fn text(file: &Path) -> Result<String, Failure> {
    let read = match file.as_os_str() == "-" {
        true => {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text).map(|_| text)
        }
        false => std::fs::read_to_string(file),
    };
    Ok(read.map_err(|error| format!("{}: {error}", file.display()))?)
}

/// Parses the documents of a YAML or JSON file; items of a List become separate documents.
fn documents(text: &str) -> Result<Vec<Value>, String> {
    let mut parts = vec![String::new()];
    for line in text.lines() {
        if line == "---" || line.starts_with("--- ") {
            parts.push(String::new());
        } else if let Some(part) = parts.last_mut() {
            part.push_str(line);
            part.push('\n');
        }
    }
    let is_blank = |part: &str| {
        part.lines().all(|line| matches!(line.trim(), "" | "...") || line.trim().starts_with('#'))
    };
    let mut found = Vec::new();
    for part in parts.iter().filter(|part| !is_blank(part)) {
        let document: Value = serde_saphyr::from_str(part).map_err(|error| error.to_string())?;
        match document["items"].as_array().filter(|_| object::kind(&document).ends_with("List")) {
            Some(items) => found.extend(items.iter().cloned()),
            None => found.push(document),
        }
    }
    Ok(found)
}

/// The object in a document, or `None` if its kind cannot be placed, such as a Namespace.
fn object_in_document<'a>(
    resources: &'a [ApiResource],
    document: &Value,
    namespace: &str,
) -> Result<Option<SelectedObject<'a>>, Failure> {
    let (kind, version, name) =
        (object::kind(document), object::api_version(document), object::name(document));
    if kind.is_empty() || name.is_empty() {
        return Err(Failure::new(
            "the file contains a document without a kind or a name",
            "use a file that kubectl apply accepts",
        ));
    }
    let found = resources.iter().find(|resource| resource.kind == kind && resource.api_version() == version);
    let resource = found.ok_or_else(|| {
        Failure::new(
            format!("the server has no resource of kind {kind} in {version}"),
            "list the resource types with: kubectl api-resources",
        )
    })?;
    let namespace = match (resource.namespaced, object::namespace(document)) {
        (false, _) => "",
        (true, "") => namespace,
        (true, own) => own,
    };
    let selection = SelectedObject { resource, namespace: namespace.to_string(), name: name.to_string() };
    Ok(resource.placeable.then_some(selection))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_read_from_files() {
        let deployments = ApiResource {
            group: "apps".into(),
            version: "v1".into(),
            name: "deployments".into(),
            kind: "Deployment".into(),
            namespaced: true,
            placeable: true,
            ..ApiResource::default()
        };
        let namespaces =
            ApiResource { version: "v1".into(), kind: "Namespace".into(), ..ApiResource::default() };
        let resources = [deployments, namespaces];
        let text = "\
# all of it
---
apiVersion: v1
kind: Namespace
metadata: { name: shop }
---
apiVersion: apps/v1
kind: Deployment
metadata: { name: web, namespace: shop }
--- # more
apiVersion: v1
kind: List
items:
- { apiVersion: apps/v1, kind: Deployment, metadata: { name: api } }
";
        let documents = documents(text).unwrap();
        let found: Vec<String> = documents
            .iter()
            .filter_map(|document| object_in_document(&resources, document, "default").unwrap())
            .map(|selection| format!("{}/{}", selection.namespace, selection.name))
            .collect();
        assert_eq!(found, ["shop/web", "default/api"]);
        assert!(
            object_in_document(&resources, &serde_json::json!({ "kind": "Deployment" }), "default").is_err()
        );
        assert!(resource_for_all(&resources, "deployments/web").is_err());
    }
}
