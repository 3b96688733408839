//! Client of the cluster, with limits on concurrency and time, and with backoff when the cluster asks for it.

use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use atoll_client::unreached::{self, Cause};
use atoll_client::{Client, PatchType};
use atoll_fleet::view::Resource;
use atoll_meta::Status;
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::trust::Trust;

/// Request timeout.
const PATIENCE: Duration = Duration::from_secs(30);
/// Longest time that a request may hold a permit.
const LONGEST_TURN: Duration = Duration::from_secs(2);
/// Longest accepted Retry-After, in seconds.
const LONGEST_REST: u32 = 60;

pub struct Below {
    pub client: Client,
    budget: Option<Arc<Semaphore>>,
    /// Time until which the cluster asks all clients to back off.
    rest: Arc<Mutex<Option<Instant>>>,
    trust: Arc<Trust>,
    asking: Asking,
}

/// How a request waits for a permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asking {
    /// Waits for a permit and for the backoff to end.
    Patiently,
    /// Does not wait, because the caller holds a permit. Fails during a backoff.
    AtOnce,
    /// Waits for the backoff to end, but not for a permit. The heartbeat sends one request at a time and must
    /// not be delayed by the load of other clusters.
    OutOfTurn,
}

/// A permit to send requests.
pub struct Turn {
    permit: Option<OwnedSemaphorePermit>,
}

impl Turn {
    /// Runs work with the permit. A cluster that hangs releases the permit early, so that other clusters can
    /// continue.
    pub async fn take<T>(self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        tokio::select! {
            biased;
            done = &mut work => return done,
            () = tokio::time::sleep(LONGEST_TURN) => drop(self.permit),
        }
        work.await
    }
}

/// Whether a request needs an open write gate.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Manner {
    /// Reads, and writes of the claim and the lease.
    Anyhow,
    /// Writes that need a verified cluster.
    Trusting,
}

impl Below {
    pub fn new(client: Client, budget: Option<Arc<Semaphore>>, trust: Arc<Trust>) -> Below {
        Below { client, budget, rest: Arc::default(), trust, asking: Asking::Patiently }
    }

    /// Returns a client for callers that hold a permit.
    pub fn in_turn(&self) -> Below {
        self.asking(Asking::AtOnce)
    }

    /// Returns a client for the heartbeat.
    pub fn out_of_turn(&self) -> Below {
        self.asking(Asking::OutOfTurn)
    }

    fn asking(&self, asking: Asking) -> Below {
        Below {
            client: self.client.clone(),
            budget: self.budget.clone(),
            rest: self.rest.clone(),
            trust: self.trust.clone(),
            asking,
        }
    }

    /// Waits for a permit and for the backoff to end. Decisions made after that are not stale when the
    /// request is sent.
    pub async fn turn(&self) -> Turn {
        loop {
            self.rested().await;
            let permit = match &self.budget {
                // The semaphore is never closed.
                Some(budget) => budget.clone().acquire_owned().await.ok(),
                None => None,
            };
            // Do not hold a permit during a backoff.
            if self.rests_for().is_zero() {
                return Turn { permit };
            }
        }
    }

    /// Reads an object; `None` if it does not exist.
    pub async fn get(&self, path: &str) -> Result<Option<Value>, Status> {
        match self.ask(Manner::Anyhow, self.client.get(path)).await {
            Ok(found) => Ok(Some(found)),
            Err(status) if status.code() == 404 => Ok(None),
            Err(status) => Err(status),
        }
    }

    /// Reads the metadata of an object; `None` if it does not exist.
    pub async fn get_metadata(&self, path: &str) -> Result<Option<Value>, Status> {
        match self.ask(Manner::Anyhow, self.client.get_metadata(path)).await {
            Ok(found) => Ok(Some(found)),
            Err(status) if status.code() == 404 => Ok(None),
            Err(status) => Err(status),
        }
    }

    pub async fn create(&self, path: &str, object: &Value) -> Result<Value, Status> {
        self.ask(Manner::Trusting, self.client.create(path, object)).await
    }

    pub async fn patch(&self, path: &str, kind: PatchType, patch: &Value) -> Result<Value, Status> {
        self.ask(Manner::Trusting, self.client.patch(path, kind, patch)).await
    }

    pub async fn replace(&self, path: &str, object: &Value) -> Result<Value, Status> {
        self.ask(Manner::Trusting, self.client.update(path, object)).await
    }

    pub async fn delete(&self, path: &str, options: &Value) -> Result<Value, Status> {
        self.ask(Manner::Trusting, self.client.delete_with(path, options)).await
    }

    /// Creates an object that is needed to open the write gate.
    pub async fn establish(&self, path: &str, object: &Value) -> Result<Value, Status> {
        self.ask(Manner::Anyhow, self.client.create(path, object)).await
    }

    /// Updates an object that is needed to open the write gate.
    pub async fn renew(&self, path: &str, object: &Value) -> Result<Value, Status> {
        self.ask(Manner::Anyhow, self.client.update(path, object)).await
    }

    pub async fn list_metadata(&self, path: &str) -> Result<Value, Status> {
        self.ask(Manner::Anyhow, self.client.list_metadata(path)).await
    }

    async fn ask(
        &self,
        manner: Manner,
        request: impl Future<Output = Result<Value, Status>>,
    ) -> Result<Value, Status> {
        let turn = match self.asking {
            Asking::Patiently => self.turn().await,
            Asking::AtOnce => {
                let rest = self.rests_for();
                if !rest.is_zero() {
                    let seconds = u32::try_from(rest.as_secs()).unwrap_or(LONGEST_REST).saturating_add(1);
                    return Err(Status::too_many_requests(
                        "the cluster asked to back off",
                        seconds,
                    ));
                }
                Turn { permit: None }
            }
            Asking::OutOfTurn => {
                self.rested().await;
                Turn { permit: None }
            }
        };
        if manner == Manner::Trusting && !self.trust.is_open() {
            return Err(Status::service_unavailable(
                "waiting for the verification that this is still the same cluster",
            ));
        }
        let answer = match turn.take(tokio::time::timeout(PATIENCE, request)).await {
            Ok(answer) => answer,
            Err(_) => {
                let seconds = PATIENCE.as_secs();
                Err(unreached::no_answer(Cause::TimedOut, &format!("no response within {seconds} seconds")))
            }
        };
        if let Err(status) = &answer
            && status.code() == 429
        {
            let seconds = status.retry_after().unwrap_or(1).clamp(1, LONGEST_REST);
            self.rest_until(Instant::now() + Duration::from_secs(seconds.into()));
        }
        answer
    }

    /// Starts a backoff.
    pub fn rest_until(&self, until: Instant) {
        *self.rest.lock().unwrap_or_else(PoisonError::into_inner) = Some(until);
    }

    /// Returns the remaining backoff.
    pub fn rests_for(&self) -> Duration {
        let until = *self.rest.lock().unwrap_or_else(PoisonError::into_inner);
        until.map_or(Duration::ZERO, |until| until.saturating_duration_since(Instant::now()))
    }

    /// Waits for the backoff to end.
    pub async fn rested(&self) {
        let until = *self.rest.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(until) = until {
            tokio::time::sleep_until(until).await;
        }
    }
}

/// Returns the path of a resource in a namespace, or in all namespaces.
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
        let below = Below::new(
            Client::new(Arc::new(Busy::default())),
            Some(Arc::new(Semaphore::new(1))),
            Trust::new(),
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
        let deployments = Resource {
            group: "apps".into(),
            version: "v1".into(),
            resource: "deployments".into(),
            kind: "Deployment".into(),
            namespaced: true,
        };
        assert_eq!(path(&deployments, "shop", "web"), "/apis/apps/v1/namespaces/shop/deployments/web");
        let nodes = Resource { version: "v1".into(), resource: "nodes".into(), ..Resource::default() };
        assert_eq!(path(&nodes, "", "a b"), "/api/v1/nodes/a%20b");
    }
}
