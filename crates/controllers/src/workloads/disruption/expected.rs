//! Computes the number of expected pods of a budget from the scale of their controllers.

// upstream: pkg/controller/disruption/disruption.go

use std::collections::HashMap;
use std::sync::Arc;

use atoll_informer::{ApiScope, Cache, Key, resources};
use atoll_meta::object::{self, OwnerReference};
use serde_json::Value;

use crate::context::Context;
use crate::shared::go_print;
use crate::shared::views::WorkloadView;
use crate::workloads::scale;

pub struct Owners {
    api: ApiScope,
    replica_sets: Arc<Cache>,
    deployments: Arc<Cache>,
    stateful_sets: Arc<Cache>,
    replication_controllers: Arc<Cache>,
}

#[derive(Debug, PartialEq, Eq)]
pub struct Expected {
    pub count: i64,
    /// Number of pods that must stay healthy.
    pub healthy: i64,
    /// Whether there are pods without a controller.
    pub unmanaged: bool,
}

impl Owners {
    pub fn new(context: &Context) -> Owners {
        let of = |resource| context.informers.of(resource);
        Owners {
            api: context.api().clone(),
            replica_sets: of(&resources::REPLICA_SETS),
            deployments: of(&resources::DEPLOYMENTS),
            stateful_sets: of(&resources::STATEFUL_SETS),
            replication_controllers: of(&resources::REPLICATION_CONTROLLERS),
        }
    }

    pub async fn synced(&self) {
        let caches =
            [&self.replica_sets, &self.deployments, &self.stateful_sets, &self.replication_controllers];
        for cache in caches {
            cache.synced().await;
        }
    }

    pub async fn expected(&self, budget: &Value, key: &Key, pods: &[Arc<Value>]) -> Result<Expected, String> {
        let spec = &budget["spec"];
        let (share, is_maximum) = match (spec.get("maxUnavailable"), spec.get("minAvailable")) {
            (Some(most), _) => (most, true),
            (None, Some(Value::String(_))) => (&spec["minAvailable"], false),
            (None, Some(least)) => {
                let count = i64::try_from(pods.len()).unwrap_or(i64::MAX);
                return Ok(Expected { count, healthy: least.as_i64().unwrap_or(0), unmanaged: false });
            }
            (None, None) => return Ok(Expected { count: 0, healthy: 0, unmanaged: false }),
        };
        let (count, unmanaged) = self.sum_of_scales(key, pods).await?;
        let part = scaled(share, count)?;
        let healthy = if is_maximum { (count - part).max(0) } else { part };
        Ok(Expected { count, healthy, unmanaged })
    }

    /// Returns the sum of the scales of the pods' controllers.
    async fn sum_of_scales(&self, key: &Key, pods: &[Arc<Value>]) -> Result<(i64, bool), String> {
        let mut scales: HashMap<String, i64> = HashMap::new();
        // Controllers that were already counted. Their scale may come from another object, such as a
        // Deployment.
        let mut asked: Vec<&str> = Vec::new();
        let mut unmanaged = false;
        for pod in pods {
            let Some(owner) = object::controller_of(pod) else {
                unmanaged = true;
                continue;
            };
            if asked.contains(&owner.uid) {
                continue;
            }
            asked.push(owner.uid);
            let (uid, scale) = match self.scale_from_cache(key, &owner) {
                Some(found) => found,
                None => match self.scale_from_api(key, &owner).await? {
                    Some(found) => found,
                    None => return Err(format!("found no controllers for pod \"{}\"", object::name(pod))),
                },
            };
            scales.insert(uid, scale);
        }
        Ok((scales.values().sum(), unmanaged))
    }

    fn scale_from_cache(&self, key: &Key, owner: &OwnerReference<'_>) -> Option<(String, i64)> {
        let group = object::split_api_version(owner.api_version)?.0;
        let find = |cache: &Cache, owner: &OwnerReference<'_>| {
            cache.get(&key.sibling(owner.name)).filter(|found| object::uid(found) == owner.uid)
        };
        let with_replicas =
            |found: Arc<Value>| Some((object::uid(&found).to_string(), WorkloadView::of(&found).replicas()));
        match (group, owner.kind) {
            ("", "ReplicationController") => with_replicas(find(&self.replication_controllers, owner)?),
            ("apps", "StatefulSet") => with_replicas(find(&self.stateful_sets, owner)?),
            ("apps" | "extensions", "ReplicaSet") => {
                let set = find(&self.replica_sets, owner)?;
                match object::controller_of(&set) {
                    Some(above) if above.kind == "Deployment" => {
                        with_replicas(find(&self.deployments, &above)?)
                    }
                    _ => with_replicas(set.clone()),
                }
            }
            _ => None,
        }
    }

    /// Reads the scale subresource of the controller, if it exists.
    async fn scale_from_api(
        &self,
        key: &Key,
        owner: &OwnerReference<'_>,
    ) -> Result<Option<(String, i64)>, String> {
        let (resource, has_scale) =
            scale::resource_of(&self.api, &key.workspace, owner.api_version, owner.kind).await?;
        match scale::read(&self.api, &resource, &key.sibling(owner.name)).await {
            Ok(scale) if object::uid(&scale) == owner.uid => {
                Ok(Some((owner.uid.to_string(), scale["spec"]["replicas"].as_i64().unwrap_or(0))))
            }
            Ok(_) => Ok(None),
            Err(status) if status.code() == 404 && has_scale => Ok(None),
            Err(status) if status.code() == 404 => {
                Err(format!("{} does not implement the scale subresource", scale::group_resource(&resource)))
            }
            Err(status) => Err(status.message().to_string()),
        }
    }
}

/// Returns a number, or a percentage of `total` rounded up.
pub fn scaled(share: &Value, total: i64) -> Result<i64, String> {
    match share {
        Value::String(text) => match text.strip_suffix('%').map(str::parse::<i64>) {
            Some(Ok(percent)) => Ok((percent * total + 99).div_euclid(100)),
            Some(Err(_)) => Err(format!(
                "invalid value for IntOrString: invalid value \"{text}\": strconv.Atoi: parsing \"{}\": invalid syntax",
                text.trim_end_matches('%')
            )),
            None => Err("invalid value for IntOrString: invalid type: string is not a percentage".into()),
        },
        number => Ok(number.as_i64().unwrap_or(0)),
    }
}

/// Returns the message of the event about pods without a controller.
pub fn unmanaged_message(selector: &Value) -> String {
    format!(
        "Pods selected by this PodDisruptionBudget (selector: {}) were found to be unmanaged. As a result, the status of the PDB cannot be calculated correctly, which may result in undefined behavior. To account for these pods please set \".spec.minAvailable\" field of the PDB to an integer value.",
        go_print::label_selector(selector),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn percentages_are_rounded_up() {
        for (share, total, expected) in [
            (json!(3), 10, Ok(3)),
            (json!("30%"), 10, Ok(3)),
            (json!("28%"), 7, Ok(2)),
            (json!("1%"), 1, Ok(1)),
            (json!("0%"), 5, Ok(0)),
            (json!("100%"), 0, Ok(0)),
            (
                json!("3"),
                5,
                Err("invalid value for IntOrString: invalid type: string is not a percentage".to_string()),
            ),
        ] {
            assert_eq!(scaled(&share, total), expected, "{share} of {total}");
        }
    }
}
