//! Finds objects in a namespace of a cluster, except those that every namespace has.

use atoll_meta::object;
use http::Method;
use serde_json::Value;

use super::remove::release::{METADATA, PAGE};
use crate::advice::Failure;
use crate::place::discover;
use crate::place::resources::ApiResource;
use crate::workspace::session::encoded;
use atoll_joining::api::Api;

/// Maximum number of objects that are named.
const MAX_NAMED: usize = 5;

/// Names the objects, and the resources that may not be listed and so may have objects.
pub async fn find(below: &Api, namespace: &str) -> Result<Vec<String>, Failure> {
    let mut found = Vec::new();
    let resources = discover(below).await?;
    let mut seen = std::collections::BTreeSet::new();
    for resource in &resources {
        let is_listed = resource.namespaced && resource.verbs.iter().any(|verb| verb == "list");
        if !is_listed || is_transient(resource) || !seen.insert((&resource.group, &resource.name)) {
            continue;
        }
        let mut next = String::new();
        while found.len() <= MAX_NAMED {
            let path = format!("{}?limit={PAGE}{next}", resource.collection(namespace));
            match below.call_as(Method::GET, &path, METADATA, None).await {
                Ok(list) => {
                    let items = list["items"].as_array().into_iter().flatten();
                    let others = items.filter(|item| !is_default_object(resource, item));
                    found.extend(
                        others.map(|item| format!("{}/{}", resource.qualified(), object::name(item))),
                    );
                    match object::continuation(&list) {
                        Some(token) => next = format!("&continue={}", encoded(token)),
                        None => break,
                    }
                }
                Err(problem) if problem.is("Forbidden") => {
                    found.push(format!("possibly {}, which Atoll may not list", resource.qualified()));
                    break;
                }
                Err(problem) if problem.is("NotFound") || problem.is("MethodNotAllowed") => break,
                Err(problem) => return Err(problem.into()),
            }
        }
    }
    if found.len() > MAX_NAMED {
        found.truncate(MAX_NAMED);
        found.push("and more".into());
    }
    Ok(found)
}

/// Resources that describe other objects and need no cleanup.
fn is_transient(resource: &ApiResource) -> bool {
    matches!(
        (resource.group.as_str(), resource.name.as_str()),
        ("" | "events.k8s.io", "events") | ("metrics.k8s.io", _) | ("atoll.dev", "objectstatuses")
    )
}

fn is_default_object(resource: &ApiResource, item: &Value) -> bool {
    let name = object::name(item);
    let going = object::is_being_deleted(item);
    going
        || resource.group.is_empty()
            && matches!(
                (resource.name.as_str(), name),
                ("serviceaccounts", "default") | ("configmaps", "kube-root-ca.crt")
            )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn default_objects_are_ignored() {
        let resource = |name: &str| ApiResource { name: name.into(), ..ApiResource::default() };
        for (name, item, expected) in [
            ("serviceaccounts", "default", true),
            ("serviceaccounts", "builder", false),
            ("configmaps", "kube-root-ca.crt", true),
            ("configmaps", "default", false),
        ] {
            let item = json!({ "metadata": { "name": item } });
            assert_eq!(is_default_object(&resource(name), &item), expected, "{item}");
        }
        assert!(is_transient(&resource("events")) && !is_transient(&resource("secrets")));
    }
}
