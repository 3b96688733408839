//! The cluster as a syncer asks it: not too much at once, not for too long, and not when it asks for a rest.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use atoll_client::{Client, PatchType};
use atoll_fleet::view::Resource;
use atoll_meta::Status;
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::time::Instant;

/// A server that has not answered by then will not.
const PATIENCE: Duration = Duration::from_secs(30);
/// Nobody rests longer than this without asking again.
const LONGEST_REST: u32 = 60;

pub struct Below {
    pub client: Client,
    budget: Option<Arc<Semaphore>>,
    /// When it may be asked again.
    rest: Mutex<Option<Instant>>,
}

impl Below {
    pub fn new(client: Client, budget: Option<Arc<Semaphore>>) -> Below {
        Below { client, budget, rest: Mutex::default() }
    }

    /// What is at `path`; `None` if nothing is.
    pub async fn get(&self, path: &str) -> Result<Option<Value>, Status> {
        match self.ask(self.client.get(path)).await {
            Ok(found) => Ok(Some(found)),
            Err(status) if status.code() == 404 => Ok(None),
            Err(status) => Err(status),
        }
    }

    pub async fn create(&self, path: &str, object: &Value) -> Result<Value, Status> {
        self.ask(self.client.create(path, object)).await
    }

    pub async fn update(&self, path: &str, object: &Value) -> Result<Value, Status> {
        self.ask(self.client.update(path, object)).await
    }

    pub async fn patch(&self, path: &str, kind: PatchType, patch: &Value) -> Result<Value, Status> {
        self.ask(self.client.patch(path, kind, patch)).await
    }

    pub async fn delete(&self, path: &str, options: &Value) -> Result<Value, Status> {
        self.ask(self.client.delete_with(path, options)).await
    }

    pub async fn list_metadata(&self, path: &str) -> Result<Value, Status> {
        self.ask(self.client.list_metadata(path)).await
    }

    async fn ask(&self, request: impl Future<Output = Result<Value, Status>>) -> Result<Value, Status> {
        self.rested().await;
        let _place = match &self.budget {
            // Never closed.
            Some(budget) => budget.acquire().await.ok(),
            None => None,
        };
        let answer = match tokio::time::timeout(PATIENCE, request).await {
            Ok(answer) => answer,
            Err(_) => Err(Status::service_unavailable("the cluster did not answer in time")),
        };
        if let Err(status) = &answer
            && status.code() == 429
        {
            let seconds = status.retry_after().unwrap_or(1).clamp(1, LONGEST_REST);
            let until = Instant::now() + Duration::from_secs(seconds.into());
            *self.rest.lock().unwrap_or_else(PoisonError::into_inner) = Some(until);
        }
        answer
    }

    async fn rested(&self) {
        let until = *self.rest.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(until) = until {
            tokio::time::sleep_until(until).await;
        }
    }
}

/// The objects of a resource in a namespace, or all if there is none.
pub fn collection(resource: &Resource, namespace: &str) -> String {
    let (group, version, plural) = (&resource.group, &resource.version, &resource.resource);
    let base = match group.is_empty() {
        true => format!("/api/{version}"),
        false => format!("/apis/{group}/{version}"),
    };
    match resource.namespaced && !namespace.is_empty() {
        true => format!("{base}/namespaces/{namespace}/{plural}"),
        false => format!("{base}/{plural}"),
    }
}

pub fn path(resource: &Resource, namespace: &str, name: &str) -> String {
    format!("{}/{}", collection(resource, namespace), atoll_informer::encoded(name))
}
