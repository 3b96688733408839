//! The cluster as a syncer asks it: not too much at once, not for too long, and not when it asks for a rest.

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

/// A server that has not answered by then will not.
const PATIENCE: Duration = Duration::from_secs(30);
/// Whoever is kept waiting for longer gives the turn back.
const LONGEST_TURN: Duration = Duration::from_secs(2);
/// Nobody rests longer than this without asking again.
const LONGEST_REST: u32 = 60;

pub struct Below {
    pub client: Client,
    budget: Option<Arc<Semaphore>>,
    /// When it may be asked again, whoever asks.
    rest: Arc<Mutex<Option<Instant>>>,
    trust: Arc<Trust>,
    asking: Asking,
}

/// What a request waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asking {
    /// Its turn, and the cluster's rest.
    Patiently,
    /// Nothing: whoever asks has waited before it decided what to ask for. While the cluster rests it is refused.
    AtOnce,
    /// The cluster's rest, but nobody's turn: who looks whether the cluster is there asks one thing after the other, and
    /// may not be held up by what all clusters together are busy with.
    OutOfTurn,
}

/// A turn to ask.
pub struct Turn {
    permit: Option<OwnedSemaphorePermit>,
}

impl Turn {
    /// Does something in turn. A cluster that hangs keeps no turn, for the others have to go on.
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

/// How a request is made.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Manner {
    /// Whenever that is possible.
    Anyhow,
    /// Only while the cluster is known to be the right one.
    Trusting,
}

impl Below {
    pub fn new(client: Client, budget: Option<Arc<Semaphore>>, trust: Arc<Trust>) -> Below {
        Below { client, budget, rest: Arc::default(), trust, asking: Asking::Patiently }
    }

    /// The same for whoever holds a turn.
    pub fn in_turn(&self) -> Below {
        self.asking(Asking::AtOnce)
    }

    /// The same for whoever looks whether the cluster is there.
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

    /// Waits for a turn, and until the cluster has rested. What is decided after that is not out of date when it is asked for.
    pub async fn turn(&self) -> Turn {
        loop {
            self.rested().await;
            let permit = match &self.budget {
                // Never closed.
                Some(budget) => budget.clone().acquire_owned().await.ok(),
                None => None,
            };
            // Nobody keeps others waiting who has to wait.
            if self.rests_for().is_zero() {
                return Turn { permit };
            }
        }
    }

    /// What is at `path`; `None` if nothing is.
    pub async fn get(&self, path: &str) -> Result<Option<Value>, Status> {
        match self.ask(Manner::Anyhow, self.client.get(path)).await {
            Ok(found) => Ok(Some(found)),
            Err(status) if status.code() == 404 => Ok(None),
            Err(status) => Err(status),
        }
    }

    /// The same of the metadata alone.
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

    /// Makes what is needed to find out whether the cluster may be written to.
    pub async fn establish(&self, path: &str, object: &Value) -> Result<Value, Status> {
        self.ask(Manner::Anyhow, self.client.create(path, object)).await
    }

    /// The same of what is there already.
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
                        "the cluster asks not to be asked for a while",
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
                "it is being looked whether this is still the same cluster",
            ));
        }
        let answer = match turn.take(tokio::time::timeout(PATIENCE, request)).await {
            Ok(answer) => answer,
            Err(_) => {
                let seconds = PATIENCE.as_secs();
                Err(unreached::no_answer(Cause::TimedOut, &format!("no answer for {seconds} seconds")))
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

    /// It asks not to be asked before then.
    pub fn rest_until(&self, until: Instant) {
        *self.rest.lock().unwrap_or_else(PoisonError::into_inner) = Some(until);
    }

    /// For how long it asks not to be asked.
    pub fn rests_for(&self) -> Duration {
        let until = *self.rest.lock().unwrap_or_else(PoisonError::into_inner);
        until.map_or(Duration::ZERO, |until| until.saturating_duration_since(Instant::now()))
    }

    /// Waits until then.
    pub async fn rested(&self) {
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

#[cfg(test)]
mod tests {
    use atoll_client::{BoxError, BoxFuture, ResponseBody, Transport};
    use bytes::Bytes;
    use http::{Request, Response};
    use http_body_util::{BodyExt, Full};

    use super::*;

    /// Is overwhelmed the first time, and never answers the third.
    #[derive(Default)]
    struct Busy(Mutex<usize>);

    impl Transport for Busy {
        fn send(&self, _: Request<Bytes>) -> BoxFuture<'_, Result<Response<ResponseBody>, BoxError>> {
            let mut count = self.0.lock().expect("nobody panics with it");
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
    async fn who_asks_for_a_rest_gets_it() {
        let below = Below::new(
            Client::new(Arc::new(Busy::default())),
            Some(Arc::new(Semaphore::new(1))),
            Trust::new(),
        );
        let began = Instant::now();
        let refused = below.get("/version").await.expect_err("it is busy");
        assert_eq!((refused.code(), refused.retry_after()), (429, Some(7)));
        assert!(below.get("/version").await.is_ok_and(|found| found.is_some()));
        assert!(began.elapsed() >= Duration::from_secs(7), "{:?}", began.elapsed());
        let silent = below.get("/version").await.expect_err("it does not answer");
        assert_eq!(silent.code(), 503);
    }

    #[test]
    fn paths_lead_to_objects() {
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
