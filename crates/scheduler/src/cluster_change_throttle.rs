//! Rests of workspaces whose Clusters change: a tenant may change a Cluster hundreds of times a second, and each change
//! is about everything that is placed on it.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use atoll_informer::is_unlimited;
use tokio::time::Instant;

/// A workspace rests for so many times as long as its changes took.
const REST: u32 = 4;
/// The longest rest.
const LONGEST: Duration = Duration::from_secs(1);

#[derive(Default)]
pub struct Rests(Mutex<State>);

#[derive(Default)]
struct State {
    /// When rests end, by id of the workspace.
    ends: HashMap<Arc<str>, Instant>,
    /// Workspaces whose changes wait, and the time when the first rest of them ends.
    waiting: HashSet<Arc<str>>,
    due: Option<Instant>,
}

impl Rests {
    /// Records that changes of a workspace have taken a while. The root workspace never rests.
    pub fn add(&self, workspace: &Arc<str>, busy: Duration) {
        if is_unlimited(workspace) || busy.is_zero() {
            return;
        }
        let (now, mut state) = (Instant::now(), self.state());
        state.ends.retain(|_, end| *end > now);
        let end = state.ends.entry(workspace.clone()).or_insert(now);
        *end = (*end + busy * REST).min(now + LONGEST);
    }

    /// Whether the changes of a workspace wait for the end of its rest. Then they are taken up by [`Rests::take_due`].
    pub fn defer(&self, workspace: &Arc<str>) -> bool {
        let (now, mut state) = (Instant::now(), self.state());
        let Some(end) = state.ends.get(workspace).copied().filter(|end| *end > now) else { return false };
        state.waiting.insert(workspace.clone());
        state.due = Some(state.due.map_or(end, |due| due.min(end)));
        true
    }

    /// When the first rest ends that changes wait for.
    pub fn due(&self) -> Option<Instant> {
        self.state().due
    }

    /// Takes the workspaces whose changes wait, some of which may still rest.
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
    async fn workspaces_rest_in_proportion_to_their_changes() {
        let (rests, [root, ann, bob]) = (Rests::default(), ["root", "ann", "bob"].map(Arc::<str>::from));
        let busy = Duration::from_millis(10);
        for workspace in [&root, &ann] {
            rests.add(workspace, busy);
        }
        assert_eq!([&root, &ann, &bob].map(|workspace| rests.defer(workspace)), [false, true, false]);
        assert_eq!(rests.due(), Some(Instant::now() + busy * REST));
        assert_eq!(rests.take_due(), [ann.clone()].into());
        assert_eq!((rests.due(), rests.take_due().len()), (None, 0));
        // Rests add up, to some extent.
        (0..1000).for_each(|_| rests.add(&ann, busy));
        tokio::time::advance(LONGEST - busy).await;
        assert!(rests.defer(&ann));
        tokio::time::advance(busy).await;
        assert!(!rests.defer(&ann));
    }
}
