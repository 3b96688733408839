//! Removes marks that controllers of a cluster have copied from placed objects to other objects.
//!
//! The Deployment controller copies annotations to ReplicaSets, those of StatefulSets and DaemonSets to
//! ControllerRevisions, and they never remove them. (Labels of a Service are copied to its endpoints as well,
//! but are updated with it.)

use std::collections::HashSet;
use std::time::Duration;

use atoll_fleet::marks::{PREFIX, UID};
use atoll_meta::object;
use http::Method;
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::remove::release::{METADATA, PAGE};
use crate::advice::Failure;
use crate::place::resources::ApiResource;
use crate::workspace::session::encoded;
use atoll_joining::api::Api;

const APPS: &str = "/apis/apps/v1";
const COPIES: [&str; 2] = ["replicasets", "controllerrevisions"];

/// Time for the Deployment controller to observe that the marks are gone.
const OBSERVE_TIMEOUT: Duration = Duration::from_secs(15);
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Removes the marks from the copies of objects that were made for these uids, in one namespace or, if it is
/// empty, in all. Waits first until the controller has observed the `deployments` (paths), because it would
/// copy the old marks again.
pub async fn remove(
    below: &Api,
    namespace: &str,
    uids: &HashSet<String>,
    deployments: &[String],
) -> Result<(), Failure> {
    let deadline = Instant::now() + OBSERVE_TIMEOUT;
    for path in deployments {
        while !is_observed(below.find(path).await?.as_ref()) && Instant::now() < deadline {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
    let within =
        if namespace.is_empty() { String::new() } else { format!("/namespaces/{}", encoded(namespace)) };
    for resource in COPIES {
        let mut next = String::new();
        loop {
            let path = format!("{APPS}{within}/{resource}?limit={PAGE}{next}");
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
                match below.merge(&path, &removal_patch(item)).await {
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

pub fn is_deployments(resource: &ApiResource) -> bool {
    (resource.group.as_str(), resource.name.as_str()) == ("apps", "deployments")
}

/// Whether the Deployment controller has observed the current annotations, which count in the generation. A
/// Deployment that was never observed or does not exist is not copied.
fn is_observed(deployment: Option<&Value>) -> bool {
    let Some(deployment) = deployment else { return true };
    let observed = deployment["status"]["observedGeneration"].as_i64();
    observed.is_none_or(|observed| observed >= object::generation(deployment))
}

/// A merge patch that removes Atoll's annotations.
fn removal_patch(item: &Value) -> Value {
    let names = item["metadata"]["annotations"].as_object().into_iter().flatten().map(|(name, _)| name);
    let marks: Map<String, Value> =
        names.filter(|name| name.starts_with(PREFIX)).map(|name| (name.clone(), Value::Null)).collect();
    json!({ "metadata": { "annotations": marks } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_atolls_annotations_are_removed() {
        let copy = json!({ "metadata": { "annotations": { "atoll.dev/uid": "u", "note": "mine" } } });
        assert_eq!(removal_patch(&copy), json!({ "metadata": { "annotations": { "atoll.dev/uid": null } } }));
    }

    #[test]
    fn deployments_must_be_observed_first() {
        let deployment = |observed: Value| json!({ "metadata": { "generation": 3 }, "status": { "observedGeneration": observed } });
        for (found, expected) in [
            (Some(deployment(json!(2))), false),
            (Some(deployment(json!(3))), true),
            (Some(deployment(Value::Null)), true),
            (None, true),
        ] {
            assert_eq!(is_observed(found.as_ref()), expected, "{found:?}");
        }
    }
}
