//! Leaves the number of replicas to a HorizontalPodAutoscaler in the cluster.

use atoll_client::path;
use atoll_fleet::view::ObjectTarget;
use atoll_meta::{Status, object};
use serde_json::Value;

use super::ObjectWork;
use crate::objects::drift::{REPLICAS, owns, remove};

/// API versions, newest first.
const VERSIONS: [&str; 2] = ["v2", "v1"];

impl ObjectWork<'_> {
    /// Removes the number of replicas from a configuration if an autoscaler in the cluster scales the object.
    /// `place` is the path of the object if it exists: if the syncer owns the field, its current value is
    /// sent, because an apply without the field would reset it to its default. Returns whether there is such an
    /// autoscaler.
    pub(super) async fn remove_autoscaled_replicas(
        &self,
        sent: &mut Value,
        namespace: &str,
        place: Option<&str>,
    ) -> Result<bool, Status> {
        if !self.task.target.resource.namespaced
            || !sent["spec"]["replicas"].is_number()
            || !self.is_autoscaled(namespace).await?
        {
            return Ok(false);
        }
        let found = match place {
            Some(place) => self.syncer.with_permit.get(place).await?,
            None => None,
        };
        match found.filter(|found| owns(found, REPLICAS)) {
            Some(found) => sent["spec"]["replicas"] = found["spec"]["replicas"].clone(),
            None => drop(remove(sent, REPLICAS)),
        }
        Ok(true)
    }

    async fn is_autoscaled(&self, namespace: &str) -> Result<bool, Status> {
        for version in VERSIONS {
            let path = path::collection("autoscaling", version, namespace, "horizontalpodautoscalers");
            match self.syncer.with_permit.get(&path).await {
                Ok(Some(list)) => {
                    let mut all = list["items"].as_array().into_iter().flatten();
                    return Ok(all.any(|autoscaler| scales(autoscaler, &self.task.target)));
                }
                // An older cluster, or one without this API.
                Ok(None) => {}
                // Without the permission to list autoscalers, assume that there are none.
                Err(status) if status.code() == 403 => return Ok(false),
                Err(status) => return Err(status),
            }
        }
        Ok(false)
    }
}

/// Whether an autoscaler scales an object in its namespace.
fn scales(autoscaler: &Value, target: &ObjectTarget) -> bool {
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
    use atoll_fleet::view::SyncResource;
    use serde_json::json;

    use super::*;

    #[test]
    fn autoscaler_is_matched_by_its_scale_target() {
        let resource =
            SyncResource { group: "apps".into(), kind: "Deployment".into(), ..SyncResource::default() };
        let target = ObjectTarget { resource, name: "web".into(), ..ObjectTarget::default() };
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
