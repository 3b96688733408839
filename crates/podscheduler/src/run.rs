//! Runs the schedulers of all workspaces with nodes or Pods against an API.
//!
//! ```text
//!   Informers ── changes ──► Schedulers (one for each workspace) ── Decision ──► binding ──► API
//!                               ▲                                                     status, events ─┘
//!                               └────────────── bound, unbound ◄──────────────────────────┘
//! ```
//!
//! Decisions are made one after the other and are assumed at once; many of them are carried out concurrently.

// upstream: pkg/scheduler/scheduler.go
// upstream: pkg/scheduler/schedule_one.go

mod binding;
mod events;
mod shared;
mod status;

use std::sync::Arc;
use std::time::Duration;

use atoll_informer::{Clock, Informers, Key};
use atoll_meta::Status;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::pod::Pod;
use crate::scheduler::Decision;
use events::Events;
use shared::{NextStep, Schedulers};

/// Maximum number of concurrent requests.
const CONCURRENCY: usize = 256;
/// Request timeout.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Number of decisions after which the task yields.
const DECISIONS_PER_YIELD: usize = 16;

/// Options of the scheduler.
#[derive(Clone, Debug)]
pub struct SchedulerOptions {
    /// The `schedulerName` of the Pods to schedule.
    pub name: Arc<str>,
    /// Seed of the random numbers that break ties.
    pub seed: u64,
}

impl Default for SchedulerOptions {
    fn default() -> Self {
        SchedulerOptions { name: "default-scheduler".into(), seed: 0 }
    }
}

/// Shared state of the tasks that carry out decisions.
struct Context {
    informers: Arc<Informers>,
    clock: Arc<dyn Clock>,
    name: Arc<str>,
    shared: Arc<Schedulers>,
    events: Events,
    permits: Arc<Semaphore>,
}

impl Context {
    fn key(workspace: &str, pod: &Pod) -> Key {
        Key::new(workspace, pod.namespace(), &pod.name)
    }
}

/// Adds a timeout to a request.
async fn with_timeout<T>(request: impl Future<Output = Result<T, Status>>) -> Result<T, Status> {
    match tokio::time::timeout(TIMEOUT, request).await {
        Ok(answer) => answer,
        Err(_) => Err(Status::service_unavailable("no response in time")),
    }
}

/// Schedules Pods until it is dropped.
pub async fn run(informers: Arc<Informers>, clock: Arc<dyn Clock>, options: SchedulerOptions) {
    let shared = Schedulers::listen(&informers, &options.name).await;
    let mut tasks = JoinSet::new();
    let (events, writer) = Events::new(informers.api().clone(), clock.clone(), &options.name);
    tasks.spawn(writer);
    let permits = Arc::new(Semaphore::new(CONCURRENCY));
    let context = Arc::new(Context {
        informers,
        clock,
        name: options.name,
        shared: shared.clone(),
        events,
        permits: permits.clone(),
    });
    let mut random = Random(options.seed | 1);
    let mut in_a_row = 0;
    loop {
        // Decide only when a permit to carry out the decision is available.
        let Ok(permit) = permits.clone().acquire_owned().await else { return };
        while tasks.try_join_next().is_some() {}
        match shared.next(&mut || random.next()) {
            NextStep::Decision(workspace, decision) => {
                let context = context.clone();
                tasks.spawn(async move {
                    match decision {
                        Decision::Bind { pod, node, bindings } => {
                            binding::bind(&context, &workspace, &pod, &node, &bindings, permit).await;
                        }
                        Decision::Refuse { pod, message, preemption, clears_nomination } => {
                            let _permit = permit;
                            let preemption = preemption.as_ref();
                            status::refuse(
                                &context,
                                &workspace,
                                &pod,
                                &message,
                                preemption,
                                clears_nomination,
                            )
                            .await;
                        }
                    }
                });
                in_a_row += 1;
                if in_a_row % DECISIONS_PER_YIELD == 0 {
                    tokio::task::yield_now().await;
                }
            }
            NextStep::Wait(at) => {
                drop(permit);
                shared.changed(at).await;
            }
        }
    }
}

/// Xorshift random numbers, which are good enough to break ties.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 11
    }
}

/// Returns the time since the start, as queues measure it.
fn since(beginning: Instant) -> Duration {
    beginning.elapsed()
}
