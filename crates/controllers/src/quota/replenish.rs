//! Triggers recounts when counted objects are deleted or need less.

// upstream: pkg/controller/resourcequota/resource_quota_monitor.go

use std::collections::hash_map::DefaultHasher;
use std::collections::{HashMap, HashSet};
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use atoll_client::WatchEvent;
use atoll_informer::{ApiScope, Key, Queue, Resource};
use atoll_meta::{Status, object};
use atoll_quota::{Evaluator, NoObjects};
use serde_json::Value;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::quota_index::{QuotaIndex, ResourceHash};
use crate::shared::deletable_resources::DeletableResources;

const RETRY_DELAY: Duration = Duration::from_secs(1);
const MAX_RETRY_DELAY: Duration = Duration::from_secs(120);
/// Workspace whose resources are watched, in their preferred versions.
const ROOT: &str = "root";
/// Interval of recounts for resources that cannot be watched.
const RECOUNT_INTERVAL: Duration = Duration::from_secs(20);

/// One watch across all workspaces for each counted resource that root serves. Quotas can name any number of
/// resources that do not exist: these cost no watch. Resources of single workspaces cannot be watched across all of
/// them, so their quotas are recounted periodically.
pub struct Watches {
    api: ApiScope,
    index: Arc<QuotaIndex>,
    queue: Queue,
    served: DeletableResources,
    /// Notified when counted resources have changed.
    changed: Notify,
    running: Mutex<HashMap<Resource, JoinHandle<()>>>,
}

impl Watches {
    pub fn new(api: ApiScope, index: Arc<QuotaIndex>, queue: Queue) -> Self {
        let (served, changed, running) = (DeletableResources::default(), Notify::new(), Mutex::default());
        Watches { api, index, queue, served, changed, running }
    }

    /// Requests that watches are started and ended after a change of the counted resources.
    pub fn adjust(&self) {
        self.changed.notify_one();
    }

    /// Starts the watches that are needed, ends others, and recounts what cannot be watched.
    pub async fn run(&self) {
        let (mut served, mut due) = (Vec::new(), Instant::now());
        loop {
            match self.index.is_empty() {
                // Without quotas there is nothing to do.
                true => self.changed.notified().await,
                false => drop(tokio::time::timeout_at(due, self.changed.notified()).await),
            }
            if Instant::now() >= due {
                let unwatched = self.unwatched();
                if served.is_empty() || !unwatched.is_empty() {
                    match self.served.of(&self.api, ROOT).await {
                        Ok(found) => served.clone_from(&found.resources),
                        Err(status) => {
                            tracing::warn!(%status, "finding resources for quotas failed; retrying")
                        }
                    }
                }
                unwatched.into_iter().for_each(|key| self.queue.add(key));
                due = Instant::now() + if served.is_empty() { RETRY_DELAY } else { RECOUNT_INTERVAL };
            }
            self.start(needed(&served, &self.index));
        }
    }

    /// Returns the quotas that count a resource that is not watched.
    fn unwatched(&self) -> Vec<Key> {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let watched: HashSet<ResourceHash> = running.keys().map(hash).collect();
        drop(running);
        self.index.counting_unwatched(|resource| watched.contains(resource))
    }

    fn start(&self, wanted: HashSet<Resource>) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.retain(|resource, task| {
            let kept = wanted.contains(resource);
            if !kept {
                task.abort();
            }
            kept
        });
        for resource in wanted {
            running.entry(resource).or_insert_with_key(|resource| {
                let following = ResourceWatch {
                    api: self.api.clone(),
                    index: self.index.clone(),
                    queue: self.queue.clone(),
                    resource: resource.clone(),
                    known: HashMap::new(),
                };
                tokio::spawn(following.run())
            });
        }
    }
}

/// Returns the served resources that quotas count.
fn needed(served: &[Resource], index: &QuotaIndex) -> HashSet<Resource> {
    let counted = |resource: &&Resource| resource.namespaced && index.counts(hash(resource));
    served.iter().filter(counted).cloned().collect()
}

fn hash(resource: &Resource) -> ResourceHash {
    ResourceHash::of(&resource.group, &resource.plural)
}

impl Drop for Watches {
    fn drop(&mut self) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.drain().for_each(|(_, task)| task.abort());
    }
}

struct ResourceWatch {
    api: ApiScope,
    index: Arc<QuotaIndex>,
    queue: Queue,
    resource: Resource,
    /// Hash of the last seen usage by uid, for objects whose usage can shrink.
    known: HashMap<String, u64>,
}

impl ResourceWatch {
    async fn run(mut self) {
        let Some(evaluator) = Evaluator::of(&self.resource.group, &self.resource.plural) else { return };
        let changes = !matches!(evaluator, Evaluator::Count { .. });
        let (mut pause, mut is_logged) = (RETRY_DELAY, false);
        loop {
            match self.follow(&evaluator, changes).await {
                Ok(()) => (pause, is_logged) = (RETRY_DELAY, false),
                // The resource is not served in all workspaces, so it cannot be watched across them.
                Err(status) if status.reason() == "NotFound" => {
                    tokio::time::sleep(RECOUNT_INTERVAL).await;
                    self.count_all();
                    continue;
                }
                Err(status) => {
                    if !std::mem::replace(&mut is_logged, true) {
                        let resource = &*self.resource.plural;
                        tracing::warn!(%status, resource, "watching a resource for quotas failed; retrying");
                    }
                    pause = (pause * 2).min(MAX_RETRY_DELAY);
                }
            }
            tokio::time::sleep(pause).await;
        }
    }

    async fn follow(&mut self, evaluator: &Evaluator, changes: bool) -> Result<(), Status> {
        let path = self.api.everywhere(&self.resource);
        // Existing objects are counted once; the watch starts at this revision.
        let list = self.api.client().get(&format!("{path}?limit=1")).await?;
        let revision = list["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_string();
        let path = format!("{path}?watch=true&allowWatchBookmarks=true&resourceVersion={revision}");
        // Full objects are watched only if their usage can change.
        let mut watch = match changes {
            true => self.api.client().watch(&path).await?,
            false => self.api.client().watch_metadata(&path).await?,
        };
        self.known.clear();
        self.count_all();
        while let Some(event) = watch.next().await {
            match event {
                WatchEvent::Added(object) if changes => drop(self.usage_changed(evaluator, &object)),
                WatchEvent::Modified(object) if changes && self.usage_changed(evaluator, &object) => {
                    self.enqueue_quotas(&object);
                }
                WatchEvent::Deleted(object) => {
                    self.known.remove(object::uid(&object));
                    self.enqueue_quotas(&object);
                }
                WatchEvent::Error(_) => break,
                _ => {}
            }
        }
        Ok(())
    }

    fn count_all(&self) {
        self.index.counting(hash(&self.resource)).into_iter().for_each(|key| self.queue.add(key));
    }

    /// Whether the object's usage may have changed since it was last seen.
    fn usage_changed(&mut self, evaluator: &Evaluator, object: &Value) -> bool {
        if self.index.in_namespace_of(&Key::of(object), hash(&self.resource)).is_empty() {
            return false;
        }
        let mut hasher = DefaultHasher::new();
        evaluator.usage(object, &NoObjects).print().hash(&mut hasher);
        // Fields that quota scopes depend on.
        let (spec, status) = (&object["spec"], &object["status"]);
        for field in [
            &spec["activeDeadlineSeconds"],
            &spec["volumeAttributesClassName"],
            &status["currentVolumeAttributesClassName"],
            &status["modifyVolumeStatus"]["targetVolumeAttributesClassName"],
        ] {
            field.to_string().hash(&mut hasher);
        }
        let usage_hash = hasher.finish();
        self.known.insert(object::uid(object).to_string(), usage_hash) != Some(usage_hash)
    }

    fn enqueue_quotas(&self, object: &Value) {
        for key in self.index.in_namespace_of(&Key::of(object), hash(&self.resource)) {
            self.queue.add(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use atoll_informer::resources;
    use serde_json::{Map, json};

    use super::*;

    #[test]
    fn only_served_resources_are_watched() {
        let index = QuotaIndex::default();
        let names = |count| (0..count).map(|number| (format!("count/r{number}.example.com"), json!("1")));
        let mut hard: Map<String, Value> = names(5000).collect();
        hard.insert("count/deployments.apps".into(), json!("1"));
        hard.insert("count/nodes".into(), json!("1"));
        index.insert(&Key::new("a", "default", "large"), &json!({ "spec": { "hard": hard } }));
        let pods = json!({ "spec": { "hard": { "pods": "1" } } });
        index.insert(&Key::new("b", "default", "small"), &pods);
        let served = [&resources::PODS, &resources::NODES, &resources::DEPLOYMENTS, &resources::SECRETS];
        let found = needed(&served.map(Clone::clone), &index);
        assert_eq!(found, HashSet::from([resources::PODS.clone(), resources::DEPLOYMENTS.clone()]));
        let watched: HashSet<ResourceHash> = found.iter().map(hash).collect();
        let unwatched = index.counting_unwatched(|resource| watched.contains(resource));
        assert_eq!(unwatched, [Key::new("a", "default", "large")], "it is recounted periodically");
    }
}
