//! Pauses of the fleet or of workspaces, during which nothing is created or deleted.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use atoll_fleet::view::SyncLine;

/// Reasons of pauses by workspace id; the empty id stands for all workspaces.
#[derive(Default)]
pub struct Pauses {
    paused: Mutex<HashMap<String, String>>,
}

impl Pauses {
    /// Replaces all pauses with those of a new view at once, so that there is no moment without them.
    pub fn replace_all(&self, lines: &[SyncLine]) {
        let mut paused = HashMap::new();
        for line in lines {
            if let SyncLine::Paused { workspace, paused: true, why } = line {
                paused.insert(workspace.clone(), why.clone());
            }
        }
        *self.paused() = paused;
    }

    /// Pauses a workspace, or resumes it if there is no reason.
    pub fn set(&self, workspace: String, why: Option<String>) {
        match why {
            Some(why) => drop(self.paused().insert(workspace, why)),
            None => drop(self.paused().remove(&workspace)),
        }
    }

    /// Returns why a workspace is paused, if it is.
    pub fn reason_for(&self, workspace: &str) -> Option<String> {
        let paused = self.paused();
        paused.get("").or_else(|| paused.get(workspace)).cloned()
    }

    /// Returns why all workspaces are paused, if they are.
    pub fn reason_for_all(&self) -> Option<String> {
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
        let line = |workspace: &str, paused: bool| SyncLine::Paused {
            workspace: workspace.into(),
            paused,
            why: format!("because of {workspace}"),
        };
        let pauses = Pauses::default();
        assert_eq!(pauses.reason_for("w"), None);
        pauses.replace_all(&[line("w", true), SyncLine::Alive]);
        assert_eq!((pauses.reason_for("w").as_deref(), pauses.reason_for("v")), (Some("because of w"), None));
        assert_eq!(pauses.reason_for_all(), None);
        pauses.set(String::new(), Some("storm".into()));
        assert_eq!(
            (pauses.reason_for("v").as_deref(), pauses.reason_for_all().as_deref()),
            (Some("storm"), Some("storm"))
        );
        pauses.set(String::new(), None);
        assert_eq!(pauses.reason_for("v"), None);
        // A new view without the pause ends it.
        pauses.replace_all(&[]);
        assert_eq!(pauses.reason_for("w"), None);
    }
}
