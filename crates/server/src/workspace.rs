//! Resolution of a path such as `root:org:team` to a workspace ID.

use atoll_authz::{Location, Step};
use atoll_meta::{Status, object};
use atoll_registry::Registry;
use atoll_registry::bootstrap::ROOT;
use atoll_registry::catalog::ATOLL;
use atoll_store::Key;
use serde_json::Value;

/// The workspace of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Workspace {
    One {
        id: String,
        /// Whether it is being deleted: nothing new can be created in it.
        deleting: bool,
        /// The path from root.
        steps: Vec<Step>,
    },
    /// A workspace (by id) and those below it, for lists and watches.
    Below(String),
    /// All workspaces, for lists and watches.
    All,
}

/// The end of a path that stands for a workspace and those below it.
const AND_BELOW: &str = ":*";

/// Resolves a path; a request without one is in root.
pub fn resolve(registry: &Registry, path: Option<&str>) -> Result<Workspace, Status> {
    let root = Workspace::One { id: ROOT.into(), deleting: false, steps: Vec::new() };
    let path = match path {
        None | Some(ROOT) => return Ok(root),
        Some("*") => return Ok(Workspace::All),
        Some(path) => path,
    };
    if let Some(above) = path.strip_suffix(AND_BELOW) {
        return Ok(Workspace::Below(resolve(registry, Some(above))?.id()?.to_string()));
    }
    let not_found = || Status::not_found(ATOLL, "workspaces", path);
    let mut names = path.split(':');
    if names.next() != Some(ROOT) {
        return Err(not_found());
    }
    let snapshot = registry.snapshot();
    let (mut id, mut deleting, mut steps) = (ROOT.to_string(), false, Vec::new());
    for name in names {
        let key = Key::object(ATOLL, "workspaces", &id, "", name);
        let workspace = snapshot.get(&key).ok_or_else(not_found)?;
        let child = workspace.field("status.id");
        if !registry.placements.workspaces.is_owner(child, &key) {
            return Err(not_found());
        }
        deleting |= workspace.field("status.phase") == "Deleting";
        let parent = std::mem::replace(&mut id, child.to_string());
        steps.push(Step { parent, name: name.to_string() });
    }
    Ok(Workspace::One { id, deleting, steps })
}

impl Workspace {
    /// Returns the ID for a request about one object.
    pub fn id(&self) -> Result<&str, Status> {
        match self {
            Workspace::One { id, .. } => Ok(id),
            Workspace::Below(_) | Workspace::All => Err(Status::bad_request(
                "only list and watch work across all workspaces; name one, as in /clusters/root:org",
            )),
        }
    }

    /// Returns the ID for a list, `None` for several workspaces.
    pub fn scope(&self) -> Option<&str> {
        match self {
            Workspace::One { id, .. } => Some(id),
            Workspace::Below(_) | Workspace::All => None,
        }
    }

    /// Returns the ID of the workspace whose resources are served, `None` for those of all workspaces.
    pub fn serving(&self) -> Option<&str> {
        match self {
            Workspace::One { id, .. } | Workspace::Below(id) => Some(id),
            Workspace::All => None,
        }
    }

    /// Returns the last step of the path.
    pub fn step(&self) -> Option<&Step> {
        match self {
            Workspace::One { steps, .. } => steps.last(),
            Workspace::Below(_) | Workspace::All => None,
        }
    }

    pub fn is_root(&self) -> bool {
        matches!(self, Workspace::One { steps, .. } if steps.is_empty())
    }

    /// Returns the location for authorization, `None` for several workspaces.
    pub fn location(&self) -> Option<Location<'_>> {
        match self {
            Workspace::One { id, steps, .. } => Some(Location { id, steps }),
            Workspace::Below(_) | Workspace::All => None,
        }
    }

    /// Refuses to create objects in a workspace that is being deleted.
    pub fn check_create(&self, group: &str, resource: &str, object: &Value) -> Result<(), Status> {
        match self {
            Workspace::One { deleting: true, .. } => {
                let message = "unable to create new content in this workspace because it is being deleted";
                Err(Status::forbidden(group, resource, object::name(object), message))
            }
            _ => Ok(()),
        }
    }
}
