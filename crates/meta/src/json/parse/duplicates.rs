//! Paths of duplicate fields. Few documents have any, so they are found in a second pass.

// upstream: sigs.k8s.io/json/internal/golang/encoding/json/kubernetes_patch.go

use std::collections::HashSet;

use super::DocumentNode;

/// Maximum number of strict errors, as upstream.
const MAX_DUPLICATES: usize = 100;

/// Returns the paths of fields that occur more than once in their object, in document order.
pub(super) fn find(document: &DocumentNode) -> Vec<String> {
    let mut search = Search { found: Vec::new(), path: String::new() };
    search.node(document, true);
    search.found
}

struct Search {
    found: Vec<String>,
    path: String,
}

impl Search {
    fn node(&mut self, node: &DocumentNode, is_root: bool) {
        let length = self.path.len();
        match node {
            DocumentNode::Plain | DocumentNode::Number(_) => {}
            DocumentNode::Array(elements) => {
                for (index, element) in elements.iter().enumerate() {
                    self.path.push_str(&format!("[{index}]"));
                    self.node(element, false);
                    self.path.truncate(length);
                }
            }
            DocumentNode::Object(members) => {
                let mut seen = HashSet::with_capacity(members.len());
                for (key, member) in members {
                    if !is_root {
                        self.path.push('.');
                    }
                    self.path.push_str(key);
                    if !seen.insert(key) {
                        self.duplicate();
                    }
                    self.node(member, false);
                    self.path.truncate(length);
                }
            }
        }
    }

    fn duplicate(&mut self) {
        if self.found.len() < MAX_DUPLICATES && !self.found.contains(&self.path) {
            self.found.push(self.path.clone());
        }
    }
}
