//! Triggers recounts when counted objects are deleted or need less.

// upstream: pkg/controller/resourcequota/resource_quota_monitor.go

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use atoll_client::WatchEvent;
use atoll_informer::{ApiScope, Key, Queue, Resource, encoded};
use atoll_meta::{Status, object};
use atoll_quota::{Evaluator, NoObjects};
use serde_json::Value;
use tokio::task::JoinHandle;

use super::quota_index::{GroupResource, QuotaIndex};

const RETRY_DELAY: Duration = Duration::from_secs(1);
const MAX_RETRY_DELAY: Duration = Duration::from_secs(120);
/// Workspace in which preferred versions of shared groups are read.
const ROOT: &str = "root";
/// Interval of recounts for resources that cannot be watched.
const RECOUNT_INTERVAL: Duration = Duration::from_secs(20);

/// One watch across all workspaces for each counted resource.
pub struct Watches {
    api: ApiScope,
    index: Arc<QuotaIndex>,
    queue: Queue,
    running: Mutex<HashMap<GroupResource, JoinHandle<()>>>,
}

impl Watches {
    pub fn new(api: ApiScope, index: Arc<QuotaIndex>, queue: Queue) -> Self {
        Watches { api, index, queue, running: Mutex::default() }
    }

    /// Starts the watches that are needed now, and ends others.
    pub fn adjust(&self) {
        let wanted = self.index.resources();
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
    resource: GroupResource,
    /// Hash of the last seen usage by uid, for objects whose usage can shrink.
    known: HashMap<String, u64>,
}

impl ResourceWatch {
    async fn run(mut self) {
        let Some(evaluator) = Evaluator::of(&self.resource.0, &self.resource.1) else { return };
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
                        let resource = &self.resource.1;
                        tracing::warn!(%status, resource, "watching a resource for quotas failed; retrying");
                    }
                    pause = (pause * 2).min(MAX_RETRY_DELAY);
                }
            }
            tokio::time::sleep(pause).await;
        }
    }

    async fn follow(&mut self, evaluator: &Evaluator, changes: bool) -> Result<(), Status> {
        let path = self.path().await?;
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
        self.index.counting(&self.resource).into_iter().for_each(|key| self.queue.add(key));
    }

    /// Returns the collection path across all workspaces, in the group's preferred version.
    async fn path(&self) -> Result<String, Status> {
        let (group, plural) = &self.resource;
        let version = match group.is_empty() {
            true => "v1".to_string(),
            false => {
                let root = self.api.root(ROOT)?;
                let described = self.api.client().get(&format!("{root}/apis/{}", encoded(group))).await?;
                described["preferredVersion"]["version"].as_str().unwrap_or_default().to_string()
            }
        };
        let resource = Resource {
            group: group.clone().into(),
            version: version.into(),
            plural: plural.clone().into(),
            kind: "".into(),
            namespaced: true,
        };
        Ok(self.api.everywhere(&resource))
    }

    /// Whether the object's usage may have changed since it was last seen.
    fn usage_changed(&mut self, evaluator: &Evaluator, object: &Value) -> bool {
        if self.index.in_namespace_of(&Key::of(object), &self.resource).is_empty() {
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
        for key in self.index.in_namespace_of(&Key::of(object), &self.resource) {
            self.queue.add(key);
        }
    }
}
