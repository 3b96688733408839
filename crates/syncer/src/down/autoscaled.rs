//! The number of replicas under a HorizontalPodAutoscaler of the cluster is the autoscaler's: it is never set from above.

use atoll_fleet::view::Target;
use atoll_meta::{Status, object};
use serde_json::Value;

use super::Work;
use crate::drift::{owns, remove};

const REPLICAS: &str = ".spec.replicas";
/// Versions of the API, the newest first; one of them is enough.
const VERSIONS: [&str; 2] = ["v2", "v1"];

impl Work<'_> {
    /// Takes the number of replicas out of what is about to be sent if an autoscaler in the cluster scales the object. `place` is
    /// where the object is, if it is there: a number that is Atoll's there is sent as it is, for a field that nobody sends any
    /// more would fall back to its default.
    pub(super) async fn leave_replicas(
        &self,
        sent: &mut Value,
        namespace: &str,
        place: Option<&str>,
    ) -> Result<(), Status> {
        if !self.task.target.resource.namespaced
            || !sent["spec"]["replicas"].is_number()
            || !self.is_autoscaled(namespace).await?
        {
            return Ok(());
        }
        let found = match place {
            Some(place) => self.core.in_turn.get(place).await?,
            None => None,
        };
        match found.filter(|found| owns(found, REPLICAS)) {
            Some(found) => sent["spec"]["replicas"] = found["spec"]["replicas"].clone(),
            None => drop(remove(sent, REPLICAS)),
        }
        Ok(())
    }

    async fn is_autoscaled(&self, namespace: &str) -> Result<bool, Status> {
        for version in VERSIONS {
            let path = format!("/apis/autoscaling/{version}/namespaces/{namespace}/horizontalpodautoscalers");
            match self.core.in_turn.get(&path).await {
                Ok(Some(list)) => {
                    let mut all = list["items"].as_array().into_iter().flatten();
                    return Ok(all.any(|autoscaler| scales(autoscaler, &self.task.target)));
                }
                // An older cluster, or one that serves none at all.
                Ok(None) => {}
                // Whoever may not see them has been given no say in them.
                Err(status) if status.code() == 403 => return Ok(false),
                Err(status) => return Err(status),
            }
        }
        Ok(false)
    }
}

/// Whether an autoscaler sets the replicas of an object in its namespace.
fn scales(autoscaler: &Value, target: &Target) -> bool {
    let scaled = &autoscaler["spec"]["scaleTargetRef"];
    let api_version = scaled["apiVersion"].as_str().unwrap_or_default();
    let group = api_version.rsplit_once('/').map_or("", |(group, _)| group);
    scaled["kind"] == *target.resource.kind
        && scaled["name"] == *target.name
        && group == target.resource.group
        && !object::name(autoscaler).is_empty()
}

#[cfg(test)]
mod tests {
    use atoll_fleet::view::Resource;
    use serde_json::json;

    use super::*;

    #[test]
    fn an_autoscaler_names_what_it_scales() {
        let resource = Resource { group: "apps".into(), kind: "Deployment".into(), ..Resource::default() };
        let target = Target { resource, name: "web".into(), ..Target::default() };
        for (api_version, kind, name, expected) in [
            ("apps/v1", "Deployment", "web", true),
            ("apps/v1beta2", "Deployment", "web", true),
            ("apps/v1", "StatefulSet", "web", false),
            ("apps/v1", "Deployment", "other", false),
            ("example.com/v1", "Deployment", "web", false),
            ("", "Deployment", "web", false),
        ] {
            let reference = json!({ "apiVersion": api_version, "kind": kind, "name": name });
            let autoscaler = json!({ "metadata": { "name": "a" }, "spec": { "scaleTargetRef": reference } });
            assert_eq!(scales(&autoscaler, &target), expected, "{reference}");
        }
    }
}
