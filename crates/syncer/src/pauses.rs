//! What is paused: nothing is made and nothing deleted, for one workspace or for all.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use atoll_fleet::view::Line;

/// Why, by the ids of workspaces; with none for all of them.
#[derive(Default)]
pub struct Pauses {
    paused: Mutex<HashMap<String, String>>,
}

impl Pauses {
    /// What a view says before it has said everything. What it does not say is over, and there is no moment in between at
    /// which nothing is paused.
    pub fn begin(&self, lines: &[Line]) {
        let mut paused = HashMap::new();
        for line in lines {
            if let Line::Paused { workspace, paused: true, why } = line {
                paused.insert(workspace.clone(), why.clone());
            }
        }
        *self.paused() = paused;
    }

    /// From now on, or, without a reason, no longer.
    pub fn heed(&self, workspace: String, why: Option<String>) {
        match why {
            Some(why) => drop(self.paused().insert(workspace, why)),
            None => drop(self.paused().remove(&workspace)),
        }
    }

    /// Why nothing is done for a workspace, if so.
    pub fn of(&self, workspace: &str) -> Option<String> {
        let paused = self.paused();
        paused.get("").or_else(|| paused.get(workspace)).cloned()
    }

    /// Why nothing is done at all, if so.
    pub fn of_all(&self) -> Option<String> {
        self.paused().get("").cloned()
    }

    fn paused(&self) -> MutexGuard<'_, HashMap<String, String>> {
        self.paused.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_workspace_or_all() {
        let line = |workspace: &str, paused: bool| Line::Paused {
            workspace: workspace.into(),
            paused,
            why: format!("because of {workspace}"),
        };
        let pauses = Pauses::default();
        assert_eq!(pauses.of("w"), None);
        pauses.begin(&[line("w", true), Line::Alive]);
        assert_eq!((pauses.of("w").as_deref(), pauses.of("v")), (Some("because of w"), None));
        assert_eq!(pauses.of_all(), None);
        pauses.heed(String::new(), Some("storm".into()));
        assert_eq!((pauses.of("v").as_deref(), pauses.of_all().as_deref()), (Some("storm"), Some("storm")));
        pauses.heed(String::new(), None);
        assert_eq!(pauses.of("v"), None);
        // Another view that does not say it ends it.
        pauses.begin(&[]);
        assert_eq!(pauses.of("w"), None);
    }
}
