//! Slow work runs on other threads with a time limit, so that other requests do not wait for it. The threads
//! are shared fairly among tenants.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use atoll_meta::{Deadline, Status};
use tokio::sync::oneshot;

use crate::Registry;
use crate::definitions;
use crate::row::Row;

/// Time limit of a check on a request thread; slower checks are started again on another thread.
pub(crate) const INLINE_TIMEOUT: Duration = Duration::from_millis(20);
/// Time limit of a check on another thread.
const CHECK_TIMEOUT: Duration = Duration::from_secs(10);

/// The threads for slow work: half of the cores.
static SLOTS: LazyLock<Arc<Slots>> = LazyLock::new(|| {
    let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
    Arc::new(Slots::new((cores / 2).max(2)))
});

/// Whether validation of this row may be slow: schemas and expressions are compiled.
pub(crate) fn is_slow(row: &Row) -> bool {
    definitions::is_definitions(row) || row.group == "admissionregistration.k8s.io"
}

/// Runs work that checks its deadline. Returns `None` if it took too long.
pub(crate) fn run_with_deadline<T>(limit: Duration, work: impl FnOnce(&Deadline<'_>) -> T) -> Option<T> {
    let began = Instant::now();
    let is_over = || began.elapsed() > limit;
    let deadline = Deadline::new(&is_over);
    let done = work(&deadline);
    (!deadline.has_passed()).then_some(done)
}

/// Runs work for a tenant on another thread when a slot is free. It runs to its end even if the request is
/// cancelled.
pub(crate) async fn run_blocking<T, F>(tenant: &str, work: F) -> Result<T, Status>
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    let failed = |error: &dyn std::fmt::Display| {
        Status::internal_error(format!("slow work for the request failed: {error}"))
    };
    let permit = SLOTS.acquire(tenant).await.map_err(|error| failed(&error))?;
    let done = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        work()
    });
    done.await.map_err(|error| failed(&error))
}

impl Registry {
    /// Runs slow work for a workspace on another thread when a slot is free.
    pub async fn run_blocking<T, F>(&self, workspace: &str, work: F) -> Result<T, Status>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        run_blocking(&self.tenant_of(workspace), work).await
    }
}

/// Runs a check on another thread with a time limit.
pub(crate) async fn run_blocking_check<T, F>(tenant: &str, check: F) -> Result<T, Status>
where
    T: Send + 'static,
    F: FnOnce(&Deadline<'_>) -> T + Send + 'static,
{
    run_blocking(tenant, move || run_with_deadline(CHECK_TIMEOUT, check)).await?.ok_or_else(|| {
        let message = format!(
            "checking the object took more than {} seconds; simplify the schema and the rules of its definition, or make the \
             object smaller",
            CHECK_TIMEOUT.as_secs()
        );
        Status::timeout(message, 0)
    })
}

/// Limits concurrent work. Each tenant gets at most half of the slots, and waiting tenants are served
/// round-robin.
struct Slots {
    all: usize,
    state: Mutex<SlotState>,
}

#[derive(Default)]
struct SlotState {
    used: usize,
    /// Number of slots in use by each tenant.
    used_by_tenant: HashMap<String, usize>,
    /// Waiting work by tenant; the least recently served tenant is first.
    waiting: VecDeque<(String, VecDeque<oneshot::Sender<SlotPermit>>)>,
}

/// A slot, until it is dropped.
struct SlotPermit {
    slots: Arc<Slots>,
    tenant: String,
}

impl Drop for SlotPermit {
    fn drop(&mut self) {
        let mut state = self.slots.state();
        state.used -= 1;
        if let Some(used_by_tenant) = state.used_by_tenant.get_mut(&self.tenant) {
            *used_by_tenant -= 1;
            if *used_by_tenant == 0 {
                state.used_by_tenant.remove(&self.tenant);
            }
        }
        drop(state);
        self.slots.serve();
    }
}

impl Slots {
    fn new(all: usize) -> Slots {
        Slots { all, state: Mutex::default() }
    }

    async fn acquire(self: &Arc<Slots>, tenant: &str) -> Result<SlotPermit, oneshot::error::RecvError> {
        let (sender, receiver) = oneshot::channel();
        self.state().enqueue(tenant, sender);
        self.serve();
        receiver.await
    }

    /// Hands out all slots that are free.
    fn serve(self: &Arc<Slots>) {
        loop {
            // The lock is not used_by_tenant during `send`: a permit that is not received is dropped, which locks
            // again.
            let next = self.state().next(self.all);
            let Some((sender, tenant)) = next else { return };
            let _ = sender.send(SlotPermit { slots: self.clone(), tenant });
        }
    }

    fn state(&self) -> MutexGuard<'_, SlotState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SlotState {
    fn enqueue(&mut self, tenant: &str, sender: oneshot::Sender<SlotPermit>) {
        match self.waiting.iter_mut().find(|(waiting, _)| waiting == tenant) {
            Some((_, queue)) => queue.push_back(sender),
            None => self.waiting.push_back((tenant.to_string(), VecDeque::from([sender]))),
        }
    }

    /// The next waiting work that may run. It is counted as running.
    fn next(&mut self, all: usize) -> Option<(oneshot::Sender<SlotPermit>, String)> {
        for (_, queue) in &mut self.waiting {
            queue.retain(|sender| !sender.is_closed());
        }
        self.waiting.retain(|(_, queue)| !queue.is_empty());
        if self.used >= all {
            return None;
        }
        let share = (all / 2).max(1);
        let may_have = |(tenant, _): &(String, _)| {
            self.used_by_tenant.get(tenant).is_none_or(|used_by_tenant| *used_by_tenant < share)
        };
        let (tenant, mut queue) =
            self.waiting.iter().position(may_have).and_then(|at| self.waiting.remove(at))?;
        let sender = queue.pop_front()?;
        self.waiting.push_back((tenant.clone(), queue));
        self.used += 1;
        *self.used_by_tenant.entry(tenant.clone()).or_default() += 1;
        Some((sender, tenant))
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    type Waiting = Pin<Box<dyn Future<Output = SlotPermit>>>;

    #[test]
    fn slots_are_shared_among_tenants() {
        let slots = Arc::new(Slots::new(4));
        let wait = |tenant: &'static str| -> Waiting {
            let slots = slots.clone();
            Box::pin(async move { slots.acquire(tenant).await.unwrap() })
        };
        let mut waiting: Vec<Waiting> = ["a", "a", "a", "a", "a", "b", "b", "b"].map(wait).into();
        let mut turns = Vec::new();
        let poll = |waiting: &mut Vec<Waiting>| {
            let (mut done, mut context) = (Vec::new(), Context::from_waker(Waker::noop()));
            waiting.retain_mut(|turn| match turn.as_mut().poll(&mut context) {
                Poll::Ready(turn) => {
                    done.push(turn);
                    false
                }
                Poll::Pending => true,
            });
            done
        };
        let tenants = |turns: &[SlotPermit]| turns.iter().map(|turn| turn.tenant.clone()).collect::<String>();
        turns.extend(poll(&mut waiting));
        assert_eq!(tenants(&turns), "aabb", "each tenant has half, although one queued more first");
        turns.remove(0);
        turns.extend(poll(&mut waiting));
        assert_eq!(tenants(&turns), "abba");
        waiting.push(wait("c"));
        assert!(poll(&mut waiting).is_empty());
        turns.remove(1);
        turns.extend(poll(&mut waiting));
        assert_eq!(tenants(&turns), "abab", "the tenant that waited longest is next");
        turns.remove(1);
        turns.extend(poll(&mut waiting));
        assert_eq!(tenants(&turns), "aabc", "other tenants go before one that has its share");
        // Cancelled work blocks nothing.
        waiting.clear();
        drop(turns);
        let mut last = vec![wait("a")];
        assert_eq!(tenants(&poll(&mut last)), "a");
        assert_eq!(slots.state().used, 0, "all slots are released");
    }

    #[test]
    fn slow_work_is_cancelled_at_the_deadline() {
        let endless = |deadline: &Deadline<'_>| while !deadline.step() {};
        assert_eq!(run_with_deadline(Duration::ZERO, endless), None);
        assert_eq!(run_with_deadline(CHECK_TIMEOUT, |deadline| deadline.step()), Some(false));
    }
}
