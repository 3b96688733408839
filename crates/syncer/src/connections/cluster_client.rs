//! Client of the cluster, with limits on concurrency and time, and with backoff when the cluster asks for it.

use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use atoll_client::connect_error::{self, Cause};
use atoll_client::{Client, PatchType, path as request_path};
use atoll_fleet::view::SyncResource;
use atoll_meta::Status;
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::guard::write_gate::WriteGate;

/// Request timeout.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Longest time that a request may hold a permit.
const LONGEST_HOLD: Duration = Duration::from_secs(2);
/// Longest accepted Retry-After, in seconds.
const LONGEST_RETRY_AFTER: u32 = 60;

pub struct ClusterClient {
    pub client: Client,
    budget: Option<Arc<Semaphore>>,
    /// Time until which the cluster asks all clients to back off.
    rest: Arc<Mutex<Option<Instant>>>,
    gate: Arc<WriteGate>,
    queueing: Queueing,
}

/// How a request waits for a permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Queueing {
    /// Waits for a permit and for the backoff to end.
    Wait,
    /// Does not wait, because the caller holds a permit. Fails during a backoff.
    FailFast,
    /// Waits for the backoff to end, but not for a permit. The heartbeat sends one request at a time and must
    /// not be delayed by the load of other clusters.
    Unqueued,
}

/// A permit to send requests.
pub struct Permit {
    permit: Option<OwnedSemaphorePermit>,
}

impl Permit {
    /// Runs work with the permit. A cluster that hangs releases the permit early, so that other clusters can
    /// continue.
    pub async fn run<T>(self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        tokio::select! {
            biased;
            done = &mut work => return done,
            () = tokio::time::sleep(LONGEST_HOLD) => drop(self.permit),
        }
        work.await
    }
}

/// Whether a request needs an open write gate.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Gate {
    /// Reads, and writes of the claim and the lease.
    Ignored,
    /// Writes that need a verified cluster.
    Required,
}

impl ClusterClient {
    pub fn new(client: Client, budget: Option<Arc<Semaphore>>, gate: Arc<WriteGate>) -> ClusterClient {
        ClusterClient { client, budget, rest: Arc::default(), gate, queueing: Queueing::Wait }
    }

    /// Returns a client for callers that hold a permit.
    pub fn with_permit(&self) -> ClusterClient {
        self.queueing(Queueing::FailFast)
    }

    /// Returns a client for the heartbeat.
    pub fn unqueued(&self) -> ClusterClient {
        self.queueing(Queueing::Unqueued)
    }

    fn queueing(&self, queueing: Queueing) -> ClusterClient {
        ClusterClient {
            client: self.client.clone(),
            budget: self.budget.clone(),
            rest: self.rest.clone(),
            gate: self.gate.clone(),
            queueing,
        }
    }

    /// Waits for a permit and for the backoff to end. Decisions made after that are not stale when the
    /// request is sent.
    pub async fn acquire(&self) -> Permit {
        loop {
            self.wait_for_backoff().await;
            let permit = match &self.budget {
                // The semaphore is never closed.
                Some(budget) => budget.clone().acquire_owned().await.ok(),
                None => None,
            };
            // Do not hold a permit during a backoff.
            if self.backoff_left().is_zero() {
                return Permit { permit };
            }
        }
    }

    /// Reads an object; `None` if it does not exist.
    pub async fn get(&self, path: &str) -> Result<Option<Value>, Status> {
        match self.send(Gate::Ignored, self.client.get(path)).await {
            Ok(found) => Ok(Some(found)),
            Err(status) if status.code() == 404 => Ok(None),
            Err(status) => Err(status),
        }
    }

    /// Reads the metadata of an object; `None` if it does not exist.
    pub async fn get_metadata(&self, path: &str) -> Result<Option<Value>, Status> {
        match self.send(Gate::Ignored, self.client.get_metadata(path)).await {
            Ok(found) => Ok(Some(found)),
            Err(status) if status.code() == 404 => Ok(None),
            Err(status) => Err(status),
        }
    }

    pub async fn create(&self, path: &str, object: &Value) -> Result<Value, Status> {
        self.send(Gate::Required, self.client.create(path, object)).await
    }

    pub async fn patch(&self, path: &str, kind: PatchType, patch: &Value) -> Result<Value, Status> {
        self.send(Gate::Required, self.client.patch(path, kind, patch)).await
    }

    pub async fn replace(&self, path: &str, object: &Value) -> Result<Value, Status> {
        self.send(Gate::Required, self.client.update(path, object)).await
    }

    pub async fn delete(&self, path: &str, options: &Value) -> Result<Value, Status> {
        self.send(Gate::Required, self.client.delete_with(path, options)).await
    }

    /// Creates an object that is needed to open the write gate.
    pub async fn establish(&self, path: &str, object: &Value) -> Result<Value, Status> {
        self.send(Gate::Ignored, self.client.create(path, object)).await
    }

    /// Updates an object that is needed to open the write gate.
    pub async fn renew(&self, path: &str, object: &Value) -> Result<Value, Status> {
        self.send(Gate::Ignored, self.client.update(path, object)).await
    }

    pub async fn list_metadata(&self, path: &str) -> Result<Value, Status> {
        self.send(Gate::Ignored, self.client.list_metadata(path)).await
    }

    pub async fn get_discovery(&self, path: &str) -> Result<Value, Status> {
        self.send(Gate::Ignored, self.client.get_discovery(path)).await
    }

    /// Creates a review, which stores nothing.
    pub async fn review(&self, path: &str, review: &Value) -> Result<Value, Status> {
        self.send(Gate::Ignored, self.client.create(path, review)).await
    }

    async fn send(
        &self,
        needs_gate: Gate,
        request: impl Future<Output = Result<Value, Status>>,
    ) -> Result<Value, Status> {
        let permit = match self.queueing {
            Queueing::Wait => self.acquire().await,
            Queueing::FailFast => {
                let rest = self.backoff_left();
                if !rest.is_zero() {
                    let seconds =
                        u32::try_from(rest.as_secs()).unwrap_or(LONGEST_RETRY_AFTER).saturating_add(1);
                    return Err(Status::too_many_requests("the cluster asked to back off", seconds));
                }
                Permit { permit: None }
            }
            Queueing::Unqueued => {
                self.wait_for_backoff().await;
                Permit { permit: None }
            }
        };
        if needs_gate == Gate::Required && !self.gate.is_open() {
            return Err(Status::service_unavailable(
                "waiting for the verification that this is still the same cluster",
            ));
        }
        let answer = match permit.run(tokio::time::timeout(TIMEOUT, request)).await {
            Ok(answer) => answer,
            Err(_) => {
                let seconds = TIMEOUT.as_secs();
                Err(connect_error::unavailable(
                    Cause::TimedOut,
                    &format!("no response within {seconds} seconds"),
                ))
            }
        };
        if let Err(status) = &answer
            && status.code() == 429
        {
            let seconds = status.retry_after().unwrap_or(1).clamp(1, LONGEST_RETRY_AFTER);
            self.back_off_until(Instant::now() + Duration::from_secs(seconds.into()));
        }
        answer
    }

    /// Starts a backoff.
    pub fn back_off_until(&self, until: Instant) {
        *self.rest.lock().unwrap_or_else(PoisonError::into_inner) = Some(until);
    }

    /// Returns the remaining backoff.
    pub fn backoff_left(&self) -> Duration {
        let until = *self.rest.lock().unwrap_or_else(PoisonError::into_inner);
        until.map_or(Duration::ZERO, |until| until.saturating_duration_since(Instant::now()))
    }

    /// Waits for the backoff to end.
    pub async fn wait_for_backoff(&self) {
        let until = *self.rest.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(until) = until {
            tokio::time::sleep_until(until).await;
        }
    }
}

/// Returns the path of a resource in a namespace, or in all namespaces.
pub fn collection(resource: &SyncResource, namespace: &str) -> String {
    let namespace = if resource.namespaced { namespace } else { "" };
    request_path::collection(&resource.group, &resource.version, namespace, &resource.resource)
}

pub fn path(resource: &SyncResource, namespace: &str, name: &str) -> String {
    request_path::object(&collection(resource, namespace), name)
}

#[cfg(test)]
mod tests {
    use atoll_client::{BoxError, BoxFuture, ResponseBody, Transport};
    use bytes::Bytes;
    use http::{Request, Response};
    use http_body_util::{BodyExt, Full};

    use super::*;

    /// Transport that responds 429 first, then 200, and then never.
    #[derive(Default)]
    struct Busy(Mutex<usize>);

    impl Transport for Busy {
        fn send(&self, _: Request<Bytes>) -> BoxFuture<'_, Result<Response<ResponseBody>, BoxError>> {
            let mut count = self.0.lock().expect("not poisoned");
            *count += 1;
            let (code, text) = match *count {
                1 => (429, "Too many requests, please try again later."),
                2 => (200, "{}"),
                _ => return Box::pin(std::future::pending()),
            };
            let body = Full::new(Bytes::from(text)).map_err(|never| match never {}).boxed_unsync();
            Box::pin(
                async move { Ok(Response::builder().status(code).header("Retry-After", "7").body(body)?) },
            )
        }
    }

    #[tokio::test(start_paused = true)]
    async fn retry_after_is_respected() {
        let below = ClusterClient::new(
            Client::new(Arc::new(Busy::default())),
            Some(Arc::new(Semaphore::new(1))),
            WriteGate::new(),
        );
        let began = Instant::now();
        let refused = below.get("/version").await.expect_err("the cluster is overloaded");
        assert_eq!((refused.code(), refused.retry_after()), (429, Some(7)));
        assert!(below.get("/version").await.is_ok_and(|found| found.is_some()));
        assert!(began.elapsed() >= Duration::from_secs(7), "{:?}", began.elapsed());
        let silent = below.get("/version").await.expect_err("the cluster does not respond");
        assert_eq!(silent.code(), 503);
    }

    #[test]
    fn paths_of_objects() {
        let deployments = SyncResource {
            group: "apps".into(),
            version: "v1".into(),
            resource: "deployments".into(),
            kind: "Deployment".into(),
            namespaced: true,
        };
        assert_eq!(path(&deployments, "shop", "web"), "/apis/apps/v1/namespaces/shop/deployments/web");
        let nodes =
            SyncResource { version: "v1".into(), resource: "nodes".into(), ..SyncResource::default() };
        assert_eq!(path(&nodes, "", "a b"), "/api/v1/nodes/a%20b");
    }
}
