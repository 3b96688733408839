//! Reconciles Services with many pods or ports apart from all others, so that they delay neither requests nor
//! other Services.
//!
//! ```text
//!   queue of Services ─► shared lane: at once, inline
//!                            │ if large
//!                            ▼
//!                        large lane: one computation at a time, on another thread, with pauses
//! ```

// upstream: pkg/controller/endpointslice/endpointslice_controller.go

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use atoll_informer::{Key, Next, Queue};
use atoll_meta::Status;
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::endpoint_slice::SLICE_CAPACITY;
use super::service_pods::{self, Resolution, Targets};

/// Number of Services that are reconciled concurrently in each lane.
const WORKERS: usize = 5;
/// Number of pods and ports from which a Service is large.
const LARGE: usize = 500;
/// Pause between two reconciliations of a large Service, as a multiple of their time. It has the effect of
/// upstream's option `--endpointslice-updates-batch-period`: many changes of pods are reconciled together.
const SPACING: u32 = 10;
/// Pause between computations for different large Services, as a multiple of their time.
const REST: u32 = 3;
/// Maximum number of ports in all slices of a Service.
const MOST_PORTS: usize = 100_000;
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

pub fn size(service: &Value, pods: &[Arc<Value>]) -> Size {
    Size::of(pods.len() + service_pods::ports(service).len())
}

/// Returns the size of a Service whose Endpoints another writer than the controller has written.
pub fn size_of_endpoints(endpoints: &Value) -> Size {
    let count = |subset: &Value, field: &str| subset[field].as_array().map_or(0, Vec::len);
    let subsets = endpoints["subsets"].as_array().into_iter().flatten();
    Size::of(
        subsets
            .map(|subset| {
                count(subset, "addresses") + count(subset, "notReadyAddresses") + count(subset, "ports")
            })
            .sum(),
    )
}

/// Fails if the Service's slices would have more ports than they may have. Ports are repeated in each slice,
/// and pods in which named ports have different numbers are in different slices, so a small Service and some
/// pods could need any amount of memory.
pub fn check_ports(service: &Value, pods: &[Arc<Value>]) -> Result<(), String> {
    if size(service, pods) == Size::Small {
        return Ok(());
    }
    let targets = Targets::of(service);
    let mut pods_with: HashMap<Resolution, usize> = HashMap::new();
    for pod in pods {
        *pods_with.entry(targets.resolve(pod)).or_default() += 1;
    }
    let slices = |pods: usize| pods.div_ceil(SLICE_CAPACITY);
    let ports: usize = pods_with.iter().map(|(of, pods)| targets.count(of) * slices(*pods)).sum();
    match ports > MOST_PORTS {
        true => Err(format!("the pods need slices with {ports} ports, more than {MOST_PORTS}")),
        false => Ok(()),
    }
}

/// How a Service is reconciled.
pub enum Lane {
    Shared,
    Large(Turn),
}

/// The size of a Service that was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    Small,
    /// The Service is large. It has not been reconciled in the shared lane.
    Large,
}

impl Size {
    fn of(pods_and_ports: usize) -> Size {
        if pods_and_ports > LARGE { Size::Large } else { Size::Small }
    }
}

/// The right to compute for a large Service.
pub struct Turn {
    permit: OwnedSemaphorePermit,
}

impl Turn {
    /// Runs a computation on a thread that does not serve requests. The next one starts after a pause.
    pub async fn run<T: Send + 'static>(
        self,
        compute: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Status> {
        let started = Instant::now();
        let done = tokio::task::spawn_blocking(compute).await;
        let pause = started.elapsed().saturating_mul(REST).min(LONGEST_PAUSE);
        tokio::spawn(async move {
            tokio::time::sleep(pause).await;
            drop(self.permit);
        });
        done.map_err(|error| Status::plain_internal(format!("failed to compute endpoints: {error}")))
    }
}

/// Reconciles the Services of a queue, for as long as it is polled.
pub async fn work<S, F>(what: &'static str, queue: &Queue, sync: S)
where
    S: Fn(Key, Lane) -> F + Send + Sync + 'static,
    F: Future<Output = Result<Size, Status>> + Send + 'static,
{
    let lane = Arc::new(LargeLane {
        queue: Queue::new(),
        paces: Mutex::default(),
        turns: Arc::new(Semaphore::new(1)),
    });
    let sync = Arc::new(sync);
    let shared = queue.work(what, WORKERS, |key| {
        let (lane, sync) = (lane.clone(), sync.clone());
        async move {
            // A Service is only in one lane, because two reconciliations at once would create slices twice.
            if lane.contains(&key) || sync(key.clone(), Lane::Shared).await? == Size::Large {
                lane.add(key);
            }
            Ok(Next::Done)
        }
    });
    let large = lane.queue.work(what, WORKERS, |key| {
        let (lane, sync, queue) = (lane.clone(), sync.clone(), queue.clone());
        async move {
            match lane.wait(&key) {
                None => {
                    queue.add(key);
                    Ok(Next::Done)
                }
                Some(wait) if !wait.is_zero() => Ok(Next::After(wait)),
                Some(_) => lane.sync(key, &*sync).await,
            }
        }
    });
    tokio::join!(shared, large);
}

struct LargeLane {
    queue: Queue,
    /// The Services of this lane.
    paces: Mutex<HashMap<Key, Pace>>,
    turns: Arc<Semaphore>,
}

struct Pace {
    not_before: Instant,
    failures: u32,
}

impl LargeLane {
    fn paces(&self) -> MutexGuard<'_, HashMap<Key, Pace>> {
        self.paces.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn contains(&self, key: &Key) -> bool {
        self.paces().contains_key(key)
    }

    fn add(&self, key: Key) {
        self.paces().entry(key.clone()).or_insert_with(|| Pace { not_before: Instant::now(), failures: 0 });
        self.queue.add(key);
    }

    /// Returns how long a Service must wait; `None` if it has left this lane.
    fn wait(&self, key: &Key) -> Option<Duration> {
        self.paces().get(key).map(|pace| pace.not_before.saturating_duration_since(Instant::now()))
    }

    async fn sync<S, F>(&self, key: Key, sync: &S) -> Result<Next, Status>
    where
        S: Fn(Key, Lane) -> F,
        F: Future<Output = Result<Size, Status>>,
    {
        let turn = self.turns.clone().acquire_owned().await;
        let permit = turn.map_err(|error| Status::plain_internal(error.to_string()))?;
        let started = Instant::now();
        let outcome = sync(key.clone(), Lane::Large(Turn { permit })).await;
        let mut paces = self.paces();
        if outcome == Ok(Size::Small) {
            paces.remove(&key);
        } else if let Some(pace) = paces.get_mut(&key) {
            pace.failures = if outcome.is_err() { pace.failures.saturating_add(1) } else { 0 };
            let pause = started.elapsed().saturating_mul(SPACING).saturating_mul(1 << pace.failures.min(16));
            pace.not_before = Instant::now() + pause.min(LONGEST_PAUSE);
        }
        outcome.map(|_| Next::Done)
    }
}

#[cfg(test)]
mod tests;
