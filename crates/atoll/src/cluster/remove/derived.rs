//! Marks that controllers of a cluster have copied from our objects to theirs.
//!
//! A Deployment's annotations are copied to its ReplicaSets, those of StatefulSets and DaemonSets to their revisions, and nobody
//! takes them off again. (Labels of a Service are copied to its endpoints as well, but follow it when it changes.)

use std::collections::HashSet;

use atoll_fleet::marks::{PREFIX, UID};
use atoll_meta::object;
use http::Method;
use serde_json::{Map, Value, json};

use super::release::{METADATA, PAGE};
use crate::advice::Failure;
use crate::cluster::api::Api;
use crate::workspace::session::encoded;

const APPS: &str = "/apis/apps/v1";
const COPIES: [&str; 2] = ["replicasets", "controllerrevisions"];

/// Takes them off what belongs to objects that were made for these uids.
pub async fn strip(below: &Api, uids: &HashSet<String>) -> Result<(), Failure> {
    for resource in COPIES {
        let mut next = String::new();
        loop {
            let path = format!("{APPS}/{resource}?limit={PAGE}{next}");
            let list = match below.call_as(Method::GET, &path, METADATA, None).await {
                Ok(list) => list,
                Err(problem) if problem.is("Forbidden") || problem.is("NotFound") => break,
                Err(problem) => return Err(problem.into()),
            };
            let items = list["items"].as_array().into_iter().flatten();
            for item in
                items.filter(|item| object::annotation(item, UID).is_some_and(|uid| uids.contains(uid)))
            {
                let (namespace, name) = (encoded(object::namespace(item)), encoded(object::name(item)));
                let path = format!("{APPS}/namespaces/{namespace}/{resource}/{name}");
                match below.merge(&path, &stripping(item)).await {
                    Err(problem) if !(problem.is("Forbidden") || problem.is("NotFound")) => {
                        return Err(problem.into());
                    }
                    _ => {}
                }
            }
            match object::continuation(&list) {
                Some(token) => next = format!("&continue={}", encoded(token)),
                None => break,
            }
        }
    }
    Ok(())
}

/// A merge patch without our annotations.
fn stripping(item: &Value) -> Value {
    let names = item["metadata"]["annotations"].as_object().into_iter().flatten().map(|(name, _)| name);
    let ours: Map<String, Value> =
        names.filter(|name| name.starts_with(PREFIX)).map(|name| (name.clone(), Value::Null)).collect();
    json!({ "metadata": { "annotations": ours } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_lose_our_annotations_only() {
        let copy = json!({ "metadata": { "annotations": { "atoll.dev/uid": "u", "note": "mine" } } });
        assert_eq!(stripping(&copy), json!({ "metadata": { "annotations": { "atoll.dev/uid": null } } }));
    }
}
