//! Counts one quota again.

use std::sync::Arc;
use std::time::{Duration, Instant};

use atoll_client::Client;
use atoll_meta::{Status, object};
use atoll_quota::{Amounts, Evaluator, Quota, Recount, Surroundings};
use serde_json::{Value, json};

use super::interests::{GroupResource, Target, resources};
use crate::resources::Served;
use crate::retry::Outcome;
use atoll_informer::{Clock, Tree};

/// Objects looked at in one request.
const PAGE: usize = 500;
/// A sum that took longer may miss what the server no longer remembers as new.
const PATIENCE: Duration = Duration::from_secs(8);

pub struct Counter {
    client: Client,
    tree: Arc<Tree>,
    served: Served,
    clock: Arc<dyn Clock>,
}

impl Counter {
    pub fn new(client: Client, tree: Arc<Tree>, clock: Arc<dyn Clock>) -> Self {
        Counter { client, tree, served: Served::default(), clock }
    }

    pub async fn count(&self, target: &Target) -> Outcome {
        // A workspace may be heard of after what is in it.
        let Some(workspace) = self.tree.path(&target.workspace) else { return Outcome::Again };
        match self.try_count(&workspace, target).await {
            Ok(outcome) => outcome,
            Err(status) if status.reason() == "NotFound" => Outcome::Done,
            // Something was written meanwhile.
            Err(status) if status.reason() == "Conflict" => Outcome::Again,
            Err(status) => {
                tracing::warn!(%status, workspace, namespace = target.namespace, quota = target.name, "a quota could not be counted; trying again");
                Outcome::Again
            }
        }
    }

    async fn try_count(&self, workspace: &str, target: &Target) -> Result<Outcome, Status> {
        let Target { namespace, name, .. } = target;
        let path = format!("/clusters/{workspace}/api/v1/namespaces/{namespace}/resourcequotas/{name}");
        // First the quota, then what it counts: whatever it has room for by now is in the lists or still under way.
        let object = self.client.get(&path).await?;
        let began = Instant::now();
        let quota = Quota::read(&object);
        let found = Found {
            now: self.clock.now().seconds,
            classes: self.device_classes(workspace, &quota).await?,
            pods: Vec::new(),
            claims: Vec::new(),
        };
        let (found, lists) = self.gather(workspace, namespace, &quota, found).await?;
        let used = sum(&quota, &lists, &found);
        let Some(counted) = reconcile(&object, &quota, &used) else { return Ok(Outcome::Done) };
        if began.elapsed() > PATIENCE {
            return Ok(Outcome::Again);
        }
        self.client.update(&format!("{path}/status"), &counted).await.map(|_| Outcome::Done)
    }

    /// Everything the quota counts.
    async fn gather(
        &self,
        workspace: &str,
        namespace: &str,
        quota: &Quota,
        mut found: Found,
    ) -> Result<(Found, Vec<(Evaluator, Vec<Value>)>), Status> {
        let mut lists = Vec::new();
        for (group, resource) in resources(quota) {
            let Some(evaluator) = Evaluator::of(&group, &resource) else { continue };
            if evaluator.matching(quota.wanted.names(), &found).is_empty() {
                continue;
            }
            let Some(base) = self.base(workspace, &(group, resource.clone())).await? else { continue };
            let objects = self.list(workspace, &format!("{base}/namespaces/{namespace}/{resource}")).await?;
            if evaluator == Evaluator::DeviceClaims {
                found.pods = self.list(workspace, &format!("/api/v1/namespaces/{namespace}/pods")).await?;
                found.claims.clone_from(&objects);
            }
            lists.push((evaluator, objects));
        }
        Ok((found, lists))
    }

    async fn device_classes(&self, workspace: &str, quota: &Quota) -> Result<Vec<Value>, Status> {
        let by_device = |name: &str| name.contains('/') && !name.starts_with("count/");
        if !quota.wanted.names().any(by_device) {
            return Ok(Vec::new());
        }
        match self.list(workspace, "/apis/resource.k8s.io/v1/deviceclasses").await {
            Err(status) if status.reason() == "NotFound" => Ok(Vec::new()),
            listed => listed,
        }
    }

    /// Where a resource is served; `None` if it is not.
    pub async fn base(
        &self,
        workspace: &str,
        (group, resource): &GroupResource,
    ) -> Result<Option<String>, Status> {
        let served = self.served.of(&self.client, workspace).await?;
        let own = served.iter().find(|own| own.group == *group && own.name == *resource && own.namespaced);
        Ok(own.map(|own| own.base.clone()))
    }

    async fn list(&self, workspace: &str, path: &str) -> Result<Vec<Value>, Status> {
        let mut objects = Vec::new();
        let mut next = String::new();
        loop {
            let page = format!("/clusters/{workspace}{path}?limit={PAGE}{next}");
            let mut list = self.client.get(&page).await?;
            if let Some(items) = list["items"].as_array_mut() {
                objects.append(items);
            }
            match list["metadata"]["continue"].as_str() {
                Some(token) if !token.is_empty() => next = format!("&continue={token}"),
                _ => return Ok(objects),
            }
        }
    }
}

fn sum(quota: &Quota, lists: &[(Evaluator, Vec<Value>)], found: &Found) -> Amounts {
    let mut count = Recount::new(quota, found);
    for (evaluator, objects) in lists {
        count.add(evaluator, objects.iter());
    }
    count.finish()
}

/// The quota with a status that says what is limited and how much is used, or `None` if it does already.
pub fn reconcile(object: &Value, quota: &Quota, used: &Amounts) -> Option<Value> {
    let is_there = object["status"]["hard"].is_object() && object["status"]["used"].is_object();
    if is_there && quota.wanted == quota.hard && quota.used == *used {
        return None;
    }
    let mut counted = object.clone();
    object::remove_annotation(&mut counted, crate::WORKSPACE);
    let hard = if object["spec"]["hard"].is_object() { object["spec"]["hard"].clone() } else { json!({}) };
    counted["status"] = json!({ "hard": hard, "used": used.to_json() });
    Some(counted)
}

/// What was found around the objects.
struct Found {
    now: i64,
    classes: Vec<Value>,
    pods: Vec<Value>,
    claims: Vec<Value>,
}

impl Surroundings for Found {
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
    fn a_status_is_written_only_if_it_says_something_else() {
        let quota = |hard: Value, status: Value| json!({"metadata": {"name": "q", "resourceVersion": "5"}, "spec": {"hard": hard}, "status": status});
        let used = Amounts::read(&json!({"pods": "1", "requests.cpu": "500m"}));
        let hard = json!({"pods": "2", "requests.cpu": "1"});
        let says = |status: Value| {
            let object = quota(hard.clone(), status);
            reconcile(&object, &Quota::read(&object), &used)
        };
        let right = json!({"hard": hard, "used": {"pods": "1", "requests.cpu": "500m"}});
        assert_eq!(says(json!({})), Some(quota(hard.clone(), right.clone())));
        assert_eq!(says(right), None);
        let as_much = json!({"hard": {"pods": "2", "requests.cpu": "1000m"}, "used": {"pods": "1", "requests.cpu": "0.5"}});
        assert_eq!(says(as_much), None, "written otherwise, but as much");
        assert!(says(json!({"hard": hard, "used": {"pods": "2", "requests.cpu": "500m"}})).is_some());
        assert!(
            says(json!({"hard": {"pods": "2"}, "used": {"pods": "1", "requests.cpu": "500m"}})).is_some()
        );
        let nothing = quota(json!(null), json!({}));
        let counted = reconcile(&nothing, &Quota::read(&nothing), &Amounts::default());
        assert_eq!(counted.map(|counted| counted["status"].clone()), Some(json!({"hard": {}, "used": {}})));
    }
}
