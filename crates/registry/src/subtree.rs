//! A workspace and those below it, as the scope of a list or watch.
//!
//! Of a custom resource, it contains the objects whose definition is that of the workspace: those of workspaces with
//! a definition of their own, or with one from elsewhere, do not belong to it.

use std::fmt;
use std::sync::Arc;

use atoll_store::Key;
use atoll_watch::Event;

use crate::Registry;
use crate::bootstrap::ROOT;
use crate::definitions::{GROUP, RESOURCE};

#[derive(Clone)]
pub struct Subtree {
    registry: Arc<Registry>,
    /// The id of the workspace.
    workspace: String,
    /// The name of the definition of a custom resource.
    definition: Option<String>,
}

impl fmt::Debug for Subtree {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Subtree { registry: _, workspace, definition } = self;
        formatter
            .debug_struct("Subtree")
            .field("workspace", workspace)
            .field("definition", definition)
            .finish()
    }
}

impl Subtree {
    pub fn new(registry: Arc<Registry>, workspace: &str, definition: Option<String>) -> Subtree {
        Subtree { registry, workspace: workspace.to_string(), definition }
    }

    /// Whether objects of a workspace belong to it. Those of a workspace that is gone do: a watch shows that they were
    /// deleted.
    pub fn contains(&self, workspace: &str) -> bool {
        if workspace == self.workspace {
            return true;
        }
        let line = self.registry.ancestry(workspace);
        if line.last().is_none_or(|last| last != ROOT) {
            return true;
        }
        line.contains(&self.workspace) && self.is_same_definition(workspace)
    }

    /// Whether a workspace has the definition of the topmost workspace.
    fn is_same_definition(&self, workspace: &str) -> bool {
        let Some(name) = &self.definition else { return true };
        let snapshot = self.registry.snapshot();
        let giver = |workspace: &str| snapshot.giver(&Key::object(GROUP, RESOURCE, workspace, "", name));
        giver(workspace) == giver(&self.workspace)
    }

    /// Whether the objects depend on definitions, whose changes are to be watched.
    pub fn is_of_definition(&self) -> bool {
        self.definition.is_some()
    }

    /// Whether other workspaces than before may have the definition after the change of one.
    pub fn is_changed_by(&self, event: &Event) -> bool {
        let Some(parts) = event.key.parts() else { return false };
        if self.definition.as_deref() != Some(parts.name)
            || (event.previous.is_some() && event.object.is_some())
        {
            return false;
        }
        let line = self.registry.ancestry(parts.workspace);
        line.contains(&self.workspace)
            || line.last().is_none_or(|last| last != ROOT)
            || self.registry.ancestry(&self.workspace).iter().any(|above| above == parts.workspace)
    }
}
