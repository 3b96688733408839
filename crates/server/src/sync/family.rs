//! A workspace and all below it: a cluster serves these.

use std::collections::{HashMap, HashSet};

use atoll_registry::Registry;
use atoll_registry::catalog::ATOLL;
use atoll_watch::{Scope, Snapshot};

/// Ids are never used again, so what was found out stays true.
pub struct Family {
    root: String,
    known: HashMap<String, bool>,
}

impl Family {
    pub fn new(root: &str) -> Family {
        Family { root: root.to_string(), known: HashMap::from([(root.to_string(), true)]) }
    }

    /// Whether a workspace is one of them.
    pub fn has(&mut self, registry: &Registry, workspace: &str) -> bool {
        if let Some(known) = self.known.get(workspace) {
            return *known;
        }
        let found = below(&registry.snapshot(), &self.root).contains(workspace);
        self.known.insert(workspace.to_string(), found);
        found
    }
}

/// The ids of all workspaces below one.
pub fn below(snapshot: &Snapshot, root: &str) -> HashSet<String> {
    let mut found = HashSet::new();
    let mut next = vec![root.to_string()];
    while let Some(parent) = next.pop() {
        let scope = Scope::new(ATOLL, "workspaces", Some(&parent), Some(""));
        for workspace in snapshot.list(&scope, None) {
            let id = workspace.field("status.id").to_string();
            if !id.is_empty() && found.insert(id.clone()) {
                next.push(id);
            }
        }
    }
    found
}
