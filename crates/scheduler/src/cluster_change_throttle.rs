//! Throttles workspaces whose Clusters change: a tenant may change a Cluster hundreds of times a second, and each change
//! is about everything that is placed on it.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use atoll_informer::is_unlimited;
use tokio::time::Instant;

/// A workspace is throttled for this multiple of the time that its changes took.
const PAUSE_FACTOR: u32 = 4;
/// The longest time for which a workspace is throttled.
const LONGEST: Duration = Duration::from_secs(1);

#[derive(Default)]
pub struct Throttle(Mutex<State>);

#[derive(Default)]
struct State {
    /// The times until which workspaces are throttled, by id.
    ends: HashMap<Arc<str>, Instant>,
    /// Workspaces whose changes wait, and the time when the first of them is no longer throttled.
    waiting: HashSet<Arc<str>>,
    due: Option<Instant>,
}

impl Throttle {
    /// Records that changes of a workspace have taken a while. The root workspace is never throttled.
    pub fn add(&self, workspace: &Arc<str>, busy: Duration) {
        if is_unlimited(workspace) || busy.is_zero() {
            return;
        }
        let (now, mut state) = (Instant::now(), self.state());
        state.ends.retain(|_, end| *end > now);
        let end = state.ends.entry(workspace.clone()).or_insert(now);
        *end = (*end + busy * PAUSE_FACTOR).min(now + LONGEST);
    }

    /// Whether the changes of a workspace wait because it is throttled. Then they are taken up by [`Throttle::take_due`].
    pub fn defer(&self, workspace: &Arc<str>) -> bool {
        let (now, mut state) = (Instant::now(), self.state());
        let Some(end) = state.ends.get(workspace).copied().filter(|end| *end > now) else { return false };
        state.waiting.insert(workspace.clone());
        state.due = Some(state.due.map_or(end, |due| due.min(end)));
        true
    }

    /// The time at which the first waiting changes are due.
    pub fn due(&self) -> Option<Instant> {
        self.state().due
    }

    /// Takes the workspaces whose changes wait, some of which may still be throttled.
    pub fn take_due(&self) -> HashSet<Arc<str>> {
        let mut state = self.state();
        state.due = None;
        std::mem::take(&mut state.waiting)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn workspaces_are_throttled_in_proportion_to_their_changes() {
        let (throttle, [root, ann, bob]) =
            (Throttle::default(), ["root", "ann", "bob"].map(Arc::<str>::from));
        let busy = Duration::from_millis(10);
        for workspace in [&root, &ann] {
            throttle.add(workspace, busy);
        }
        assert_eq!([&root, &ann, &bob].map(|workspace| throttle.defer(workspace)), [false, true, false]);
        assert_eq!(throttle.due(), Some(Instant::now() + busy * PAUSE_FACTOR));
        assert_eq!(throttle.take_due(), [ann.clone()].into());
        assert_eq!((throttle.due(), throttle.take_due().len()), (None, 0));
        // The times add up, to some extent.
        (0..1000).for_each(|_| throttle.add(&ann, busy));
        tokio::time::advance(LONGEST - busy).await;
        assert!(throttle.defer(&ann));
        tokio::time::advance(busy).await;
        assert!(!throttle.defer(&ann));
    }
}
