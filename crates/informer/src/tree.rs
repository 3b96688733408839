//! Where each workspace is: from the ids that objects carry to the paths that requests need.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

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
    pub fn insert(&self, id: &str, parent: &str, name: &str) {
        self.nodes().insert(id.into(), Node { parent: parent.into(), name: name.into() });
    }

    pub fn remove(&self, id: &str) {
        self.nodes().remove(id);
    }

    /// `root:org:team`; `None` while an ancestor is not known (yet, or any longer).
    pub fn path(&self, id: &str) -> Option<String> {
        let nodes = self.nodes();
        let mut names = Vec::new();
        let mut current = id;
        while current != ROOT {
            let node = nodes.get(current)?;
            names.push(node.name.as_str());
            current = &node.parent;
        }
        names.push(ROOT);
        names.reverse();
        Some(names.join(":"))
    }

    /// The ids of a workspace and of all its ancestors, nearest first; as far as they are known.
    pub fn ancestry(&self, id: &str) -> Vec<String> {
        let nodes = self.nodes();
        let mut line = vec![id.to_string()];
        let mut current = id;
        while let Some(node) = nodes.get(current).filter(|_| current != ROOT) {
            line.push(node.parent.clone());
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
    fn paths_lead_to_the_root() {
        let tree = Tree::default();
        tree.insert("b2", "a1", "team");
        assert_eq!(tree.path("b2"), None, "the parent is not known yet");
        tree.insert("a1", "root", "org");
        assert_eq!(tree.path("b2").as_deref(), Some("root:org:team"));
        assert_eq!(tree.path("root").as_deref(), Some("root"));
        assert_eq!(tree.ancestry("b2"), ["b2", "a1", "root"]);
        assert_eq!(tree.ancestry("root"), ["root"]);
        tree.remove("a1");
        assert_eq!(tree.ancestry("b2"), ["b2", "a1"]);
        assert_eq!(tree.path("b2"), None);
    }
}
