//! Objects and namespaces, above and below.

use std::collections::{BTreeMap, BTreeSet};

use atoll_fleet::placement::{Needed, Share};
use atoll_fleet::{Locator, Placement, marks, placed_by, references};
use atoll_informer::WORKSPACE;
use atoll_meta::object;
use serde_json::Value;

use crate::kinds::{KINDS, NAMES, TestKind};
use crate::test_server::TestServer;

/// The clusters, each with a syncer. All are registered in the first workspace.
pub const CLUSTER_NAMES: [&str; 3] = ["east", "north", "west"];
pub const NAMESPACES: [&str; 2] = ["shop", "farm"];

/// A workspace with a fixed id, because names below depend on it.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TestWorkspace {
    pub id: &'static str,
    /// The prefix of its paths.
    pub prefix: &'static str,
}

/// The clusters are registered in the first one. The other is below it.
pub const WORKSPACES: [TestWorkspace; 2] = [
    TestWorkspace { id: "root", prefix: "" },
    TestWorkspace { id: "teamteamteamtea", prefix: "/clusters/root:team" },
];

/// A namespace above.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NamespaceRef {
    pub workspace: &'static TestWorkspace,
    pub namespace: &'static str,
}

impl NamespaceRef {
    pub fn all() -> impl Iterator<Item = NamespaceRef> {
        WORKSPACES
            .iter()
            .flat_map(|workspace| NAMESPACES.map(|namespace| NamespaceRef { workspace, namespace }))
    }

    pub fn path(&self) -> String {
        format!("{}/api/v1/namespaces/{}", self.workspace.prefix, self.namespace)
    }

    /// Returns the locator of a namespace below that stands for it.
    pub fn locator(&self, control_plane: &str) -> Locator {
        Locator {
            control_plane: control_plane.into(),
            workspace: self.workspace.id.into(),
            namespace: self.namespace.into(),
        }
    }
}

/// An object above.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectRef {
    pub namespace_ref: NamespaceRef,
    pub kind: &'static TestKind,
    pub name: &'static str,
}

impl ObjectRef {
    /// Returns an object in the root workspace.
    pub fn in_root(resource: &str, namespace: &'static str, name: &'static str) -> ObjectRef {
        ObjectRef {
            namespace_ref: NamespaceRef { workspace: &WORKSPACES[0], namespace },
            kind: TestKind::by_resource(resource),
            name,
        }
    }

    fn from_item(kind: &'static TestKind, item: &Value) -> Option<ObjectRef> {
        let id = object::annotation(item, WORKSPACE).unwrap_or_default();
        let workspace = WORKSPACES.iter().find(|workspace| workspace.id == id)?;
        let namespace = NAMESPACES.iter().find(|namespace| **namespace == object::namespace(item))?;
        let name = NAMES.iter().find(|name| **name == object::name(item))?;
        Some(ObjectRef { namespace_ref: NamespaceRef { workspace, namespace }, kind, name })
    }

    pub fn collection(&self) -> String {
        format!(
            "{}{}",
            self.namespace_ref.workspace.prefix,
            self.kind.collection(self.namespace_ref.namespace)
        )
    }

    pub fn path(&self) -> String {
        format!("{}/{}", self.collection(), self.name)
    }

    /// Returns the path below, in the given namespace.
    pub fn below(&self, namespace: &str) -> String {
        format!("{}/{}", self.kind.collection(namespace), self.name)
    }
}

/// The state above.
#[derive(Default)]
pub struct AboveState {
    pub objects: BTreeMap<ObjectRef, Value>,
    /// Namespaces, and whether they are being deleted.
    pub namespaces: BTreeMap<NamespaceRef, bool>,
}

impl AboveState {
    pub async fn read(plane: &TestServer) -> AboveState {
        let mut above = AboveState::default();
        for kind in &KINDS {
            let list = plane.client.get(&format!("/clusters/*{}", kind.list())).await.expect("a list");
            for item in list["items"].as_array().into_iter().flatten() {
                if let Some(object_ref) = ObjectRef::from_item(kind, item) {
                    above.objects.insert(object_ref, kind.typed(item));
                }
            }
        }
        for namespace_ref in NamespaceRef::all() {
            if let Ok(namespace) = plane.client.get(&namespace_ref.path()).await {
                above.namespaces.insert(namespace_ref, object::is_being_deleted(&namespace));
            }
        }
        above
    }

    fn is_kept(&self, object_ref: &ObjectRef) -> bool {
        self.objects.get(object_ref).is_some_and(|object| !object::is_being_deleted(object))
            && self.namespaces.get(&object_ref.namespace_ref) == Some(&false)
    }

    /// Returns all objects that must be in a cluster: those placed there, their dependents, and so on.
    pub fn wanted(&self, cluster: &str) -> BTreeSet<ObjectRef> {
        let is_there = |object: &Value| {
            let placement = Placement::of(object);
            // Clusters that only need an object are added to its own ones.
            let is_own = |share: &Share| share.needed != Some(Needed::Only);
            placement.by != placed_by::REFERENCE && placement.share(cluster).is_some_and(is_own)
        };
        let mut next: Vec<ObjectRef> = self
            .objects
            .iter()
            .filter(|(_, object)| is_there(object))
            .map(|(object_ref, _)| *object_ref)
            .collect();
        let mut wanted = BTreeSet::new();
        while let Some(object_ref) = next.pop() {
            if !self.is_kept(&object_ref) || !wanted.insert(object_ref) {
                continue;
            }
            next.extend(self.dependents(&object_ref));
        }
        wanted
    }

    /// Returns the references of an object, whether they exist or not.
    pub fn dependents(&self, object_ref: &ObjectRef) -> Vec<ObjectRef> {
        let Some(object) = self.objects.get(object_ref) else { return Vec::new() };
        let dependent = references(object).into_iter().filter_map(|reference| {
            let name = NAMES.iter().find(|name| **name == reference.name)?;
            Some(ObjectRef { kind: TestKind::by_resource(reference.resource), name, ..*object_ref })
        });
        dependent.collect()
    }
}

/// The state of a cluster, except objects of Atoll and of the system.
#[derive(Default)]
pub struct BelowState {
    /// Objects by path.
    pub objects: BTreeMap<String, Value>,
    /// Namespaces by those above that they stand for.
    pub namespaces: BTreeMap<NamespaceRef, Vec<Value>>,
}

impl BelowState {
    pub async fn read(plane: &TestServer, control_plane: &str) -> BelowState {
        let mut below = BelowState::default();
        let list = plane.client.get("/api/v1/namespaces").await.expect("a list");
        for namespace in list["items"].as_array().into_iter().flatten() {
            let Some(Ok(locator)) = Locator::of(namespace) else { continue };
            let namespace_ref =
                NamespaceRef::all().find(|namespace_ref| namespace_ref.locator(control_plane) == locator);
            if let Some(namespace_ref) = namespace_ref {
                below.namespaces.entry(namespace_ref).or_default().push(namespace.clone());
            }
        }
        for kind in &KINDS {
            let list = plane.client.get(&kind.list()).await.expect("a list");
            for item in list["items"].as_array().into_iter().flatten() {
                let (namespace, name) = (object::namespace(item), object::name(item));
                if namespace != marks::SYSTEM_NAMESPACE && NAMES.contains(&name) {
                    let path = format!("{}/{name}", kind.collection(namespace));
                    below.objects.insert(path, kind.typed(item));
                }
            }
        }
        below
    }

    /// Returns the path of an object below, whether it exists or not.
    pub fn path(&self, object_ref: &ObjectRef) -> Option<String> {
        let mut paths = self
            .namespaces
            .get(&object_ref.namespace_ref)?
            .iter()
            .map(|namespace| object_ref.below(object::name(namespace)));
        let first = paths.next()?;
        // Two namespaces may stand for the same one after a delayed create.
        let other = paths.find(|path| self.objects.contains_key(path));
        Some(other.filter(|_| !self.objects.contains_key(&first)).unwrap_or(first))
    }
}
