//! Recounts one quota.

// upstream: pkg/controller/resourcequota/resource_quota_controller.go

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use atoll_informer::{ApiScope, Clock, Key, Next, Resource, resources};
use atoll_meta::{Status, object};
use atoll_quota::{Amounts, Evaluator, Quota, QuotaLookup, Recount};
use serde_json::{Value, json};

use super::quota_index;
use crate::shared::deletable_resources::DeletableResources;

/// Maximum duration of a recount. After that, the server may have forgotten objects that were being written.
const MAX_DURATION: Duration = Duration::from_secs(8);

/// Resources that need no discovery.
static SERVED_EVERYWHERE: [&Resource; 7] = [
    &resources::PODS,
    &resources::SERVICES,
    &resources::PERSISTENT_VOLUME_CLAIMS,
    &resources::CONFIG_MAPS,
    &resources::SECRETS,
    &resources::REPLICATION_CONTROLLERS,
    &resources::RESOURCE_QUOTAS,
];

pub struct Counter {
    api: ApiScope,
    served: DeletableResources,
    clock: Arc<dyn Clock>,
}

impl Counter {
    pub fn new(api: ApiScope, clock: Arc<dyn Clock>) -> Self {
        Counter { api, served: DeletableResources::default(), clock }
    }

    pub async fn count(&self, key: &Key) -> Result<Next, Status> {
        // Read the quota before listing: objects that were admitted since are in the lists, or still being
        // written.
        let object = self.api.get(&resources::RESOURCE_QUOTAS, key).await?;
        let start = Instant::now();
        let quota = Quota::read(&object);
        let used = self.sum(key, &quota).await?;
        let Some(counted) = reconcile(&object, &quota, &used) else { return Ok(Next::Done) };
        if start.elapsed() > MAX_DURATION {
            return Ok(Next::Again);
        }
        self.api.update_status(&resources::RESOURCE_QUOTAS, &counted).await.map(|_| Next::Done)
    }

    /// Lists all objects that the quota counts, and adds up their usage.
    async fn sum(&self, key: &Key, quota: &Quota) -> Result<Amounts, Status> {
        let resources = self.resources(&key.workspace, quota).await?;
        let mut found = LookupObjects {
            now: self.clock.now().seconds,
            classes: self.device_classes(&key.workspace, quota).await?,
            pods: Vec::new(),
            claims: Vec::new(),
        };
        if let Some((_, claims)) =
            resources.iter().find(|(evaluator, _)| *evaluator == Evaluator::DeviceClaims)
        {
            found.pods = self.api.list(&resources::PODS, &key.workspace, &key.namespace, false).await?;
            found.claims = match self.api.list(claims, &key.workspace, &key.namespace, false).await {
                Err(status) if status.reason() == "NotFound" => Vec::new(),
                listed => listed?,
            };
        }
        let mut count = Recount::new(quota, &found);
        for (evaluator, resource) in &resources {
            if evaluator.matching(quota.wanted.names(), &found).is_empty() {
                continue;
            }
            if *evaluator == Evaluator::DeviceClaims {
                count.add(evaluator, found.claims.iter());
                continue;
            }
            let metadata_only = matches!(evaluator, Evaluator::Count { .. });
            let add = |page: Vec<Value>| count.add(evaluator, page.iter());
            let listing =
                self.api.list_pages(resource, &key.workspace, &key.namespace, metadata_only, add).await;
            match listing {
                // Not every server has all resources.
                Err(status) if status.reason() == "NotFound" => {}
                listed => listed?,
            }
        }
        Ok(count.finish())
    }

    /// Returns the resources that the quota counts and that are served.
    async fn resources(&self, workspace: &str, quota: &Quota) -> Result<Vec<(Evaluator, Resource)>, Status> {
        let (mut found, mut others) = (Vec::new(), HashSet::new());
        for (group, plural) in quota_index::resources(quota) {
            let Some(evaluator) = Evaluator::of(&group, &plural) else { continue };
            let is_it = |own: &&&Resource| own.group == group && own.plural == plural;
            match SERVED_EVERYWHERE.iter().find(is_it) {
                Some(known) => found.push((evaluator, (*known).clone())),
                None => drop(others.insert((group, plural))),
            }
        }
        if others.is_empty() {
            return Ok(found);
        }
        // A quota can name any number of resources, but only those that are served are listed.
        let served = self.served.of(&self.api, workspace).await?;
        for resource in served.resources.iter().filter(|resource| resource.namespaced) {
            if others.contains(&(resource.group.to_string(), resource.plural.to_string()))
                && let Some(evaluator) = Evaluator::of(&resource.group, &resource.plural)
            {
                found.push((evaluator, resource.clone()));
            }
        }
        Ok(found)
    }

    async fn device_classes(&self, workspace: &str, quota: &Quota) -> Result<Vec<Value>, Status> {
        let by_device = |name: &str| name.contains('/') && !name.starts_with("count/");
        if !quota.wanted.names().any(by_device) {
            return Ok(Vec::new());
        }
        match self.api.list(&resources::DEVICE_CLASSES, workspace, "", false).await {
            Err(status) if status.reason() == "NotFound" => Ok(Vec::new()),
            listed => listed,
        }
    }
}

/// Returns the quota with a new status, or `None` if it is up to date.
pub fn reconcile(object: &Value, quota: &Quota, used: &Amounts) -> Option<Value> {
    let is_there = object["status"]["hard"].is_object() && object["status"]["used"].is_object();
    if is_there && quota.wanted == quota.hard && quota.used == *used {
        return None;
    }
    let mut counted = object.clone();
    let hard = if object["spec"]["hard"].is_object() { object["spec"]["hard"].clone() } else { json!({}) };
    counted["status"] = json!({ "hard": hard, "used": used.to_json() });
    Some(counted)
}

/// Objects that evaluators need besides those that they count.
struct LookupObjects {
    now: i64,
    classes: Vec<Value>,
    pods: Vec<Value>,
    claims: Vec<Value>,
}

impl QuotaLookup for LookupObjects {
    fn now(&self) -> i64 {
        self.now
    }

    fn device_classes(&self) -> Vec<Value> {
        self.classes.clone()
    }

    fn pod(&self, _namespace: &str, name: &str) -> Option<Value> {
        self.pods.iter().find(|pod| object::name(pod) == name).cloned()
    }

    fn device_claims(&self, _namespace: &str) -> Vec<Value> {
        self.claims.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unchanged_status_is_not_written() {
        let quota = |hard: Value, status: Value| json!({"metadata": {"name": "q", "resourceVersion": "5"}, "spec": {"hard": hard}, "status": status});
        let used = Amounts::read(&json!({"pods": "1", "requests.cpu": "500m"}));
        let hard = json!({"pods": "2", "requests.cpu": "1"});
        let reconciled = |status: Value| {
            let object = quota(hard.clone(), status);
            reconcile(&object, &Quota::read(&object), &used)
        };
        let right = json!({"hard": hard, "used": {"pods": "1", "requests.cpu": "500m"}});
        assert_eq!(reconciled(json!({})), Some(quota(hard.clone(), right.clone())));
        assert_eq!(reconciled(right), None);
        let equal_amounts = json!({"hard": {"pods": "2", "requests.cpu": "1000m"}, "used": {"pods": "1", "requests.cpu": "0.5"}});
        assert_eq!(reconciled(equal_amounts), None, "equal amounts in another format");
        assert!(reconciled(json!({"hard": hard, "used": {"pods": "2", "requests.cpu": "500m"}})).is_some());
        assert!(
            reconciled(json!({"hard": {"pods": "2"}, "used": {"pods": "1", "requests.cpu": "500m"}}))
                .is_some()
        );
        let nothing = quota(json!(null), json!({}));
        let counted = reconcile(&nothing, &Quota::read(&nothing), &Amounts::default());
        assert_eq!(counted.map(|counted| counted["status"].clone()), Some(json!({"hard": {}, "used": {}})));
    }
}
