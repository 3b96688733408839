//! Pauses of the fleet or of workspaces, during which nothing is created or deleted.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use atoll_fleet::view::Line;

/// Reasons of pauses by workspace id; the empty id stands for all workspaces.
#[derive(Default)]
pub struct Pauses {
    paused: Mutex<HashMap<String, String>>,
}

impl Pauses {
    /// Replaces all pauses with those of a new view at once, so that there is no moment without them.
    pub fn begin(&self, lines: &[Line]) {
        let mut paused = HashMap::new();
        for line in lines {
            if let Line::Paused { workspace, paused: true, why } = line {
                paused.insert(workspace.clone(), why.clone());
            }
        }
        *self.paused() = paused;
    }

    /// Pauses a workspace, or resumes it if there is no reason.
    pub fn heed(&self, workspace: String, why: Option<String>) {
        match why {
            Some(why) => drop(self.paused().insert(workspace, why)),
            None => drop(self.paused().remove(&workspace)),
        }
    }

    /// Returns why a workspace is paused, if it is.
    pub fn of(&self, workspace: &str) -> Option<String> {
        let paused = self.paused();
        paused.get("").or_else(|| paused.get(workspace)).cloned()
    }

    /// Returns why all workspaces are paused, if they are.
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
        // A new view without the pause ends it.
        pauses.begin(&[]);
        assert_eq!(pauses.of("w"), None);
    }
}
