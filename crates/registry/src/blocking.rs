//! Slow work runs on other threads with a time limit, so that other requests do not wait for it. The threads
//! are shared fairly among tenants.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use atoll_meta::{Deadline, Status};
use serde_json::Value;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::Registry;

/// Time limit of a check on a request thread; slower checks are started again on another thread.
pub const INLINE_TIMEOUT: Duration = Duration::from_millis(20);
/// Time limit of a check on another thread.
pub const CHECK_TIMEOUT: Duration = Duration::from_secs(10);

/// Time limit of an evaluation on a request thread. Requests are authorized before they are counted, so many of
/// them can be evaluated at the same time.
const EVALUATION_INLINE_TIMEOUT: Duration = Duration::from_millis(2);
/// Time limit of an evaluation in a slot.
pub const EVALUATION_TIMEOUT: Duration = Duration::from_secs(5);

/// Number of bytes of a body or an object from which work on it may be slow.
pub const LARGE: usize = 64 << 10;

/// The position of a request among those of its tenant that wait for a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The request has only received its body.
    New,
    /// The request has an object in memory. It goes before new requests, so that there are few such objects.
    Started,
}

/// Number of KiB of bodies of one tenant that are worked on at the same time, of those that are not small. Their
/// objects need a hundred times as much memory.
const STARTED_KIB: u32 = 2 << 10;
/// Number of bytes of a small body or object, which needs little memory even for many requests at the same time.
const SMALL: usize = 16 << 10;

/// The large requests of each tenant that were started, apart from those of trusted users in its workspaces.
static STARTED: LazyLock<Mutex<StartedRequests>> = LazyLock::new(Mutex::default);

/// Requests by tenant, and whether they are of trusted users.
type StartedRequests = HashMap<(String, bool), Weak<Semaphore>>;

/// The threads for slow work: half of the cores.
static SLOTS: LazyLock<Arc<Slots>> = LazyLock::new(|| {
    let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
    Arc::new(Slots::new((cores / 2).max(2)))
});

/// Runs work that checks its deadline. Returns `None` if it took too long.
pub fn run_with_deadline<T>(limit: Duration, work: impl FnOnce(&Deadline<'_>) -> T) -> Option<T> {
    run_until_deadline(limit, |deadline| {
        let done = work(deadline);
        (!deadline.has_passed()).then_some(done)
    })
}

/// Runs work that checks its deadline, and whose result says whether it has passed.
pub fn run_until_deadline<T>(limit: Duration, work: impl FnOnce(&Deadline<'_>) -> T) -> T {
    let began = Instant::now();
    let is_over = || began.elapsed() > limit;
    work(&Deadline::new(&is_over))
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
    let permit = SLOTS.acquire(tenant, Stage::Started).await.map_err(|error| failed(&error))?;
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

    /// Waits until few other large requests of the tenant are in progress. The request has started until the
    /// result is dropped. Requests with small bodies need not wait. Requests of controllers and administrators, which
    /// are trusted, wait only for each other, so that a tenant cannot make them wait.
    pub async fn start_request(
        &self,
        workspace: &str,
        size: usize,
        is_trusted: bool,
    ) -> Result<Option<OwnedSemaphorePermit>, Status> {
        if size < SMALL {
            return Ok(None);
        }
        let kib = u32::try_from(size >> 10).unwrap_or(STARTED_KIB).min(STARTED_KIB);
        let tenant = self.tenant_of(workspace);
        let started = started_requests(&tenant, is_trusted).acquire_many_owned(kib).await;
        started.map(Some).map_err(|error| Status::internal_error(error.to_string()))
    }

    /// Runs work on a body or an object of `size` bytes. If it is large, the work waits until a slot is free, and
    /// other requests of this thread continue on another one meanwhile.
    pub async fn run_sized<T, F>(
        &self,
        workspace: &str,
        size: usize,
        stage: Stage,
        work: F,
    ) -> Result<T, Status>
    where
        F: FnOnce() -> T,
    {
        if size < LARGE {
            return Ok(work());
        }
        let permit = SLOTS.acquire(&self.tenant_of(workspace), stage).await;
        let _permit = permit
            .map_err(|error| Status::internal_error(format!("slow work for the request failed: {error}")))?;
        Ok(run_in_place(size, work))
    }
}

/// A turn of a tenant, until it is dropped. Nothing that may wait for another turn is awaited meanwhile.
pub struct Turn {
    _permit: SlotPermit,
}

/// Number of bytes of small objects after which other tasks of the thread go first.
const YIELD_AFTER: usize = LARGE / 4;

/// Counts the work of a task on many objects. Little work is done at once; for more, tenants take turns.
#[derive(Debug, Default)]
pub struct Burst {
    /// Bytes since the task was last idle.
    total: usize,
    /// Bytes since other tasks could last run.
    unyielded: usize,
}

/// Work for an object besides that which depends on its size, in bytes.
const PER_OBJECT: usize = 512;

impl Burst {
    /// Begins work on an object of `size` bytes. Without a turn, the work may be done at once.
    pub async fn begin(&mut self, registry: &Registry, workspace: &str, size: usize) -> Option<Turn> {
        self.total = self.total.saturating_add(size + PER_OBJECT);
        if self.total < LARGE {
            return None;
        }
        self.unyielded = self.unyielded.saturating_add(size + PER_OBJECT);
        if self.unyielded >= YIELD_AFTER {
            self.unyielded = 0;
            tokio::task::yield_now().await;
        }
        let permit = SLOTS.acquire(&registry.tenant_of(workspace), Stage::New).await;
        permit.ok().map(|permit| Turn { _permit: permit })
    }

    /// The task is idle.
    pub fn end(&mut self) {
        *self = Burst::default();
    }
}

impl Registry {
    /// Evaluates rules that users have written. It is started again in a slot if it takes longer than
    /// `EVALUATION_INLINE_TIMEOUT`, or at once if `size` is large. Returns `None` if it takes longer than
    /// `EVALUATION_TIMEOUT`.
    pub async fn evaluate<T>(
        &self,
        workspace: &str,
        size: usize,
        work: impl Fn(&Deadline<'_>) -> T,
    ) -> Result<Option<T>, Status> {
        if size < LARGE {
            let done = run_with_deadline(EVALUATION_INLINE_TIMEOUT, &work);
            if done.is_some() {
                return Ok(done);
            }
        }
        let slow = || run_with_deadline(EVALUATION_TIMEOUT, &work);
        self.run_sized(workspace, LARGE, Stage::New, slow).await
    }
}

fn started_requests(tenant: &str, is_trusted: bool) -> Arc<Semaphore> {
    let mut all = STARTED.lock().unwrap_or_else(PoisonError::into_inner);
    let queue = (tenant.to_owned(), is_trusted);
    if let Some(started) = all.get(&queue).and_then(Weak::upgrade) {
        return started;
    }
    all.retain(|_, started| started.strong_count() > 0);
    let started = Arc::new(Semaphore::new(STARTED_KIB as usize));
    all.insert(queue, Arc::downgrade(&started));
    started
}

/// Runs work on this thread, whose other requests continue on another one meanwhile if there is much to do.
pub fn run_in_place<T>(size: usize, work: impl FnOnce() -> T) -> T {
    let can_move =
        || Handle::try_current().is_ok_and(|handle| handle.runtime_flavor() == RuntimeFlavor::MultiThread);
    if size >= LARGE && can_move() { tokio::task::block_in_place(work) } else { work() }
}

/// Returns the approximate size of a value, which is not measured beyond [`LARGE`].
pub fn size_of(value: &Value) -> usize {
    size_up_to(value, LARGE)
}

/// Returns the approximate size of a value, which is not measured beyond `most`.
pub fn size_up_to(value: &Value, most: usize) -> usize {
    let mut size = 0;
    add_size(value, &mut size, most);
    size
}

/// Adds the approximate size of a value, unless `most` is exceeded.
pub(crate) fn add_size(value: &Value, size: &mut usize, most: usize) {
    // The smallest value with its separator.
    *size += 2;
    match value {
        Value::String(text) => *size += text.len(),
        Value::Array(items) => {
            for item in items {
                if *size >= most {
                    return;
                }
                add_size(item, size, most);
            }
        }
        Value::Object(fields) => {
            for (name, field) in fields {
                if *size >= most {
                    return;
                }
                *size += name.len() + 2;
                add_size(field, size, most);
            }
        }
        _ => {}
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

    async fn acquire(
        self: &Arc<Slots>,
        tenant: &str,
        stage: Stage,
    ) -> Result<SlotPermit, oneshot::error::RecvError> {
        let (sender, receiver) = oneshot::channel();
        self.state().enqueue(tenant, stage, sender);
        self.serve();
        receiver.await
    }

    /// Hands out all slots that are free.
    fn serve(self: &Arc<Slots>) {
        loop {
            // The lock is not held during `send`: a permit that is not received is dropped, which locks
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
    fn enqueue(&mut self, tenant: &str, stage: Stage, sender: oneshot::Sender<SlotPermit>) {
        match self.waiting.iter_mut().find(|(waiting, _)| waiting == tenant) {
            Some((_, queue)) if stage == Stage::Started => queue.push_front(sender),
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
            Box::pin(async move { slots.acquire(tenant, Stage::New).await.unwrap() })
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
    fn started_requests_go_before_new_ones_of_their_tenant() {
        let slots = Arc::new(Slots::new(2));
        let mut context = Context::from_waker(Waker::noop());
        let mut poll = |waiting: &mut Waiting| waiting.as_mut().poll(&mut context);
        let wait = |stage| -> Waiting {
            let slots = slots.clone();
            Box::pin(async move { slots.acquire("a", stage).await.unwrap() })
        };
        let (mut running, mut new, mut started) = (wait(Stage::New), wait(Stage::New), wait(Stage::Started));
        let Poll::Ready(permit) = poll(&mut running) else { panic!("there are free slots") };
        assert!(poll(&mut new).is_pending() && poll(&mut started).is_pending());
        drop(permit);
        assert!(poll(&mut new).is_pending());
        let Poll::Ready(permit) = poll(&mut started) else { panic!("it goes before the new one") };
        drop(permit);
        assert!(poll(&mut new).is_ready());
    }

    #[test]
    fn sizes_are_measured_up_to_the_limit() {
        let text = "x".repeat(LARGE);
        for (value, is_large) in [
            (serde_json::json!({ "a": [1, 2, "x"] }), false),
            (serde_json::json!({ "a": [text] }), true),
            (serde_json::json!({ (text.clone()): 1 }), true),
            (Value::Array(vec![Value::Null; LARGE]), true),
            (Value::Array(vec![Value::Null; 100]), false),
        ] {
            assert_eq!(size_of(&value) >= LARGE, is_large);
        }
    }

    #[test]
    fn few_large_requests_of_a_tenant_are_in_progress() {
        let mut context = Context::from_waker(Waker::noop());
        let start = |tenant: &str, kib| Box::pin(started_requests(tenant, false).acquire_many_owned(kib));
        let (mut first, mut second) = (start("few-a", STARTED_KIB), start("few-a", 100));
        let Poll::Ready(permit) = first.as_mut().poll(&mut context) else { panic!("it is the first") };
        assert!(second.as_mut().poll(&mut context).is_pending());
        assert!(start("few-b", STARTED_KIB).as_mut().poll(&mut context).is_ready(), "another tenant");
        let mut trusted = Box::pin(started_requests("few-a", true).acquire_many_owned(STARTED_KIB));
        assert!(trusted.as_mut().poll(&mut context).is_ready(), "a controller");
        drop(permit);
        assert!(second.as_mut().poll(&mut context).is_ready());
    }

    /// Work on a large body of a server that has one thread does not keep that thread from other tasks.
    #[test]
    fn other_tasks_continue_during_large_work() {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        runtime.block_on(async {
            let (started, is_started) = oneshot::channel();
            let (sender, receiver) = std::sync::mpsc::channel();
            let large = tokio::spawn(async move {
                run_in_place(LARGE, || {
                    started.send(()).unwrap();
                    receiver.recv().unwrap()
                })
            });
            is_started.await.unwrap();
            tokio::spawn(async move { sender.send("done").unwrap() }).await.unwrap();
            assert_eq!(large.await.unwrap(), "done");
        });
    }

    #[test]
    fn slow_work_is_cancelled_at_the_deadline() {
        let endless = |deadline: &Deadline<'_>| while !deadline.step() {};
        assert_eq!(run_with_deadline(Duration::ZERO, endless), None);
        assert_eq!(run_with_deadline(CHECK_TIMEOUT, |deadline| deadline.step()), Some(false));
    }
}
