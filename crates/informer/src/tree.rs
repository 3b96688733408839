//! The tree of workspaces: maps workspace ids to paths.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use atoll_meta::id::is_workspace_id;

const ROOT: &str = "root";

#[derive(Default)]
pub struct Tree {
    nodes: Mutex<HashMap<String, Node>>,
}

struct Node {
    parent: String,
    name: String,
}

impl Tree {
    /// Adds a workspace. Ignores an invalid workspace id, and an id that another workspace has.
    pub fn insert(&self, id: &str, parent: &str, name: &str) {
        let mut nodes = self.nodes();
        let is_other = |node: &Node| node.parent != parent || node.name != name;
        if is_workspace_id(id) && !nodes.get(id).is_some_and(is_other) {
            nodes.insert(id.into(), Node { parent: parent.into(), name: name.into() });
        }
    }

    /// Whether `id` is the id of the workspace with this parent and name.
    pub fn is_of(&self, id: &str, parent: &str, name: &str) -> bool {
        self.nodes().get(id).is_some_and(|node| node.parent == parent && node.name == name)
    }

    pub fn remove(&self, id: &str) {
        self.nodes().remove(id);
    }

    /// Returns a path such as `root:org:team`; `None` while an ancestor is not known.
    pub fn path(&self, id: &str) -> Option<String> {
        let nodes = self.nodes();
        let mut names = Vec::new();
        let mut current = id;
        while current != ROOT {
            // A cycle of parents has no path.
            if names.len() == nodes.len() {
                return None;
            }
            let node = nodes.get(current)?;
            names.push(node.name.as_str());
            current = &node.parent;
        }
        names.push(ROOT);
        names.reverse();
        Some(names.join(":"))
    }

    /// Returns the ids of a workspace and its known ancestors, nearest first, each with the path from there
    /// to the workspace, such as `org:team`.
    pub fn ancestry(&self, id: &str) -> Vec<(String, String)> {
        let nodes = self.nodes();
        let mut line = vec![(id.to_string(), String::new())];
        let (mut current, mut names) = (id, Vec::new());
        // The store of an older version may contain a cycle of parents.
        while let Some(node) = nodes.get(current).filter(|_| current != ROOT && line.len() <= nodes.len()) {
            names.insert(0, node.name.as_str());
            line.push((node.parent.clone(), names.join(":")));
            current = &node.parent;
        }
        line
    }

    fn nodes(&self) -> MutexGuard<'_, HashMap<String, Node>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_start_at_the_root() {
        let tree = Tree::default();
        let [org, team] = ["aaaaaaaaaaaaaaa", "bbbbbbbbbbbbbb2"];
        tree.insert(team, org, "team");
        assert_eq!(tree.path(team), None, "the parent is not known yet");
        tree.insert(org, "root", "org");
        assert_eq!(tree.path(team).as_deref(), Some("root:org:team"));
        assert_eq!(tree.path("root").as_deref(), Some("root"));
        let line = |id: &str| {
            tree.ancestry(id).into_iter().map(|(id, path)| format!("{id} {path}")).collect::<Vec<_>>()
        };
        let expected = [format!("{team} "), format!("{org} team"), "root org:team".to_string()];
        assert_eq!(line(team), expected);
        assert_eq!(line("root"), ["root "]);
        tree.remove(org);
        assert_eq!(line(team), expected[..2]);
        assert_eq!(tree.path(team), None);
    }

    #[test]
    fn an_id_belongs_to_one_workspace() {
        let tree = Tree::default();
        let [org, loose] = ["aaaaaaaaaaaaaaa", "bbbbbbbbbbbbbb2"];
        tree.insert(org, "root", "org");
        tree.insert(org, "root", "other");
        tree.insert("root", org, "door");
        assert!(tree.is_of(org, "root", "org") && !tree.is_of(org, "root", "other"));
        assert_eq!(tree.path(org).as_deref(), Some("root:org"));
        tree.insert(loose, loose, "circle");
        assert_eq!(tree.path(loose), None);
        assert!(tree.ancestry(loose).iter().all(|(above, _)| above == loose));
    }
}
