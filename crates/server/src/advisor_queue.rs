//! Questions to the scheduler. Those of one sort are answered one at a time, because each takes a copy of the
//! scheduler's state, or lets the scheduler wait. After an answer the next one waits for as long as it took, so that
//! questions let the scheduler wait for at most half of the time. Tenants take turns: a tenant has one question in the
//! queue, and its others wait behind it. A request that ends leaves the queue, and the answer that is being computed for
//! it is given up.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use atoll_meta::Status;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Time limit of an answer.
const LIMIT: Duration = Duration::from_secs(30);
const TOO_LONG: &str = "the scheduler could not answer within 30 seconds";

/// The longest time between two answers.
const LONGEST_REST: Duration = Duration::from_secs(1);

/// Questions about the effect of a change.
pub static WHAT_IF: LazyLock<AdvisorQueue> = LazyLock::new(AdvisorQueue::new);
/// Questions about the reasons of a placement.
pub static EXPLAIN: LazyLock<AdvisorQueue> = LazyLock::new(AdvisorQueue::new);

/// Questions of one sort.
pub struct AdvisorQueue {
    /// The one that is being answered.
    answered: Arc<Semaphore>,
    /// The first question of each tenant.
    tenants: Mutex<HashMap<String, Weak<Semaphore>>>,
}

impl AdvisorQueue {
    fn new() -> AdvisorQueue {
        AdvisorQueue { answered: Arc::new(Semaphore::new(1)), tenants: Mutex::default() }
    }

    /// Runs `answer` on another thread when it is the turn of the tenant. The function that it gets returns whether
    /// the answer is not needed any more.
    pub async fn answered<T, F>(&self, tenant: &str, answer: F) -> Result<T, Status>
    where
        T: Send + 'static,
        F: FnOnce(&dyn Fn() -> bool) -> T + Send + 'static,
    {
        let turn = acquire(self.of_tenant(tenant)).await?;
        let only = acquire(self.answered.clone()).await?;
        let request = Request::default();
        let is_dropped = request.0.clone();
        let done = tokio::task::spawn_blocking(move || {
            let began = Instant::now();
            let is_over = || is_dropped.load(Ordering::Relaxed) || began.elapsed() > LIMIT;
            let answer = answer(&is_over);
            rest((turn, only), began.elapsed());
            (!is_over()).then_some(answer)
        });
        let done = done.await.map_err(|error| Status::internal_error(error.to_string()))?;
        done.ok_or_else(|| Status::timeout(TOO_LONG, 0))
    }

    fn of_tenant(&self, tenant: &str) -> Arc<Semaphore> {
        let mut tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        tenants.retain(|_, known| known.strong_count() > 0);
        if let Some(known) = tenants.get(tenant).and_then(Weak::upgrade) {
            return known;
        }
        let new = Arc::new(Semaphore::new(1));
        tenants.insert(tenant.to_string(), Arc::downgrade(&new));
        new
    }
}

async fn acquire(semaphore: Arc<Semaphore>) -> Result<OwnedSemaphorePermit, Status> {
    semaphore.acquire_owned().await.map_err(|error| Status::internal_error(error.to_string()))
}

/// Keeps the permits of a question for as long as its answer took.
fn rest(permits: (OwnedSemaphorePermit, OwnedSemaphorePermit), answered: Duration) {
    tokio::spawn(async move {
        tokio::time::sleep(answered.min(LONGEST_REST)).await;
        drop(permits);
    });
}

/// Tells the thread when the request is dropped.
#[derive(Default)]
struct Request(Arc<AtomicBool>);

impl Drop for Request {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[tokio::test]
    async fn abandoned_questions_end_and_use_one_thread() {
        let (questions, running) = (AdvisorQueue::new(), Arc::new(AtomicUsize::new(0)));
        let ask = |tenant: &'static str| {
            let running = running.clone();
            questions.answered(tenant, move |is_over: &dyn Fn() -> bool| {
                assert_eq!(running.fetch_add(1, Ordering::SeqCst), 0, "two questions at a time");
                while tenant == "slow" && !is_over() {
                    std::thread::yield_now();
                }
                running.fetch_sub(1, Ordering::SeqCst);
            })
        };
        for _ in 0..20 {
            let gone = tokio::time::timeout(Duration::from_millis(1), ask("slow")).await;
            assert!(gone.is_err(), "it does not end by itself");
        }
        ask("other").await.expect("the questions of the other tenant were given up");
        assert_eq!(running.load(Ordering::SeqCst), 0);
    }
}
