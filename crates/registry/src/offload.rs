//! Work that takes long is done on threads of its own, so that other requests do not wait for it, and not for longer than a
//! while. Tenants take turns.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use atoll_meta::{Deadline, Status};
use tokio::sync::oneshot;

use crate::Registry;
use crate::definitions;
use crate::row::Row;

/// Checks that take longer where requests are answered are begun again on a thread of their own.
pub(crate) const SHORT: Duration = Duration::from_millis(20);
/// Checks that take longer there are given up.
const LONGEST: Duration = Duration::from_secs(10);

/// As much of this work is done at once as leaves half of the machine to others.
static SLOTS: LazyLock<Arc<Slots>> = LazyLock::new(|| {
    let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
    Arc::new(Slots::new((cores / 2).max(2)))
});

/// Whether checking an object of this row may take long: schemas and expressions are compiled.
pub(crate) fn is_slow(row: &Row) -> bool {
    definitions::defines(row) || row.group == "admissionregistration.k8s.io"
}

/// Does work that counts its steps, if it takes no longer than this.
pub(crate) fn in_time<T>(limit: Duration, work: impl FnOnce(&Deadline<'_>) -> T) -> Option<T> {
    let began = Instant::now();
    let is_over = || began.elapsed() > limit;
    let deadline = Deadline::new(&is_over);
    let done = work(&deadline);
    (!deadline.has_passed()).then_some(done)
}

/// Does the work for a tenant on a thread for such work, when its turn has come. It is done to its end even if the request is
/// not waited for any longer.
pub(crate) async fn offload<T, F>(tenant: &str, work: F) -> Result<T, Status>
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    let failed =
        |error: &dyn std::fmt::Display| Status::internal_error(format!("work for the request: {error}"));
    let turn = SLOTS.turn(tenant).await.map_err(|error| failed(&error))?;
    let done = tokio::task::spawn_blocking(move || {
        let _turn = turn;
        work()
    });
    done.await.map_err(|error| failed(&error))
}

impl Registry {
    /// Does work that takes long for a workspace, away from the threads that serve requests, when its turn has come.
    pub async fn offload<T, F>(&self, workspace: &str, work: F) -> Result<T, Status>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        offload(&self.top(workspace), work).await
    }
}

/// Checks an object in the same way, and gives up after a while.
pub(crate) async fn offload_check<T, F>(tenant: &str, check: F) -> Result<T, Status>
where
    T: Send + 'static,
    F: FnOnce(&Deadline<'_>) -> T + Send + 'static,
{
    offload(tenant, move || in_time(LONGEST, check)).await?.ok_or_else(|| {
        let message = format!(
            "checking the object took more than {} seconds; simplify the schema and the rules of its definition, or make the \
             object smaller",
            LONGEST.as_secs()
        );
        Status::timeout(message, 0)
    })
}

/// So much work may be under way at once, of which each tenant has half at most. Those that wait take turns by tenant.
struct Slots {
    all: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    taken: usize,
    /// How many each tenant has.
    held: HashMap<String, usize>,
    /// Work that waits, by tenant; the tenant that was served longest ago first.
    waiting: VecDeque<(String, VecDeque<oneshot::Sender<Turn>>)>,
}

/// The right to do work, until it is dropped.
struct Turn {
    slots: Arc<Slots>,
    tenant: String,
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut state = self.slots.state();
        state.taken -= 1;
        if let Some(held) = state.held.get_mut(&self.tenant) {
            *held -= 1;
            if *held == 0 {
                state.held.remove(&self.tenant);
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

    async fn turn(self: &Arc<Slots>, tenant: &str) -> Result<Turn, oneshot::error::RecvError> {
        let (sender, receiver) = oneshot::channel();
        self.state().enqueue(tenant, sender);
        self.serve();
        receiver.await
    }

    /// Gives turns to as many as may have one.
    fn serve(self: &Arc<Slots>) {
        loop {
            // Not held while turns are given: one that is not wanted any longer comes back here.
            let next = self.state().next(self.all);
            let Some((sender, tenant)) = next else { return };
            let _ = sender.send(Turn { slots: self.clone(), tenant });
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn enqueue(&mut self, tenant: &str, sender: oneshot::Sender<Turn>) {
        match self.waiting.iter_mut().find(|(waiting, _)| waiting == tenant) {
            Some((_, queue)) => queue.push_back(sender),
            None => self.waiting.push_back((tenant.to_string(), VecDeque::from([sender]))),
        }
    }

    /// What waits and may be done now. It is counted as under way.
    fn next(&mut self, all: usize) -> Option<(oneshot::Sender<Turn>, String)> {
        for (_, queue) in &mut self.waiting {
            queue.retain(|sender| !sender.is_closed());
        }
        self.waiting.retain(|(_, queue)| !queue.is_empty());
        if self.taken >= all {
            return None;
        }
        let share = (all / 2).max(1);
        let may_have = |(tenant, _): &(String, _)| self.held.get(tenant).is_none_or(|held| *held < share);
        let (tenant, mut queue) =
            self.waiting.iter().position(may_have).and_then(|at| self.waiting.remove(at))?;
        let sender = queue.pop_front()?;
        self.waiting.push_back((tenant.clone(), queue));
        self.taken += 1;
        *self.held.entry(tenant.clone()).or_default() += 1;
        Some((sender, tenant))
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    type Waiting = Pin<Box<dyn Future<Output = Turn>>>;

    #[test]
    fn tenants_take_turns() {
        let slots = Arc::new(Slots::new(4));
        let wait = |tenant: &'static str| -> Waiting {
            let slots = slots.clone();
            Box::pin(async move { slots.turn(tenant).await.unwrap() })
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
        let tenants = |turns: &[Turn]| turns.iter().map(|turn| turn.tenant.clone()).collect::<String>();
        turns.extend(poll(&mut waiting));
        assert_eq!(tenants(&turns), "aabb", "each has half, though one was first with more");
        turns.remove(0);
        turns.extend(poll(&mut waiting));
        assert_eq!(tenants(&turns), "abba");
        waiting.push(wait("c"));
        assert!(poll(&mut waiting).is_empty());
        turns.remove(1);
        turns.extend(poll(&mut waiting));
        assert_eq!(tenants(&turns), "abab", "it has waited longest");
        turns.remove(1);
        turns.extend(poll(&mut waiting));
        assert_eq!(tenants(&turns), "aabc", "others go before a tenant that has its share");
        // What is not waited for any longer holds up nothing.
        waiting.clear();
        drop(turns);
        let mut last = vec![wait("a")];
        assert_eq!(tenants(&poll(&mut last)), "a");
        assert_eq!(slots.state().taken, 0, "and nothing is lost");
    }

    #[test]
    fn work_that_takes_too_long_has_no_result() {
        let endless = |deadline: &Deadline<'_>| while !deadline.step() {};
        assert_eq!(in_time(Duration::ZERO, endless), None);
        assert_eq!(in_time(LONGEST, |deadline| deadline.step()), Some(false));
    }
}
