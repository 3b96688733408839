//! Where objects are, above and below.

use std::collections::{BTreeMap, BTreeSet};

use atoll_fleet::view::Target;
use atoll_fleet::{Locator, Placement, marks, references};
use atoll_informer::WORKSPACE;
use atoll_meta::object;
use serde_json::Value;

use crate::kinds::{KINDS, Kind, NAMES};
use crate::plane::Plane;

pub const CLUSTER: &str = "east";
/// A cluster that is not part of this.
pub const ELSEWHERE: &str = "west";
pub const NAMESPACES: [&str; 2] = ["shop", "farm"];

/// A workspace, with the id that it is born with: names in clusters follow from it.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Space {
    pub id: &'static str,
    /// What paths into it begin with.
    pub prefix: &'static str,
}

/// The cluster is registered in the first one; the other is below it.
pub const SPACES: [Space; 2] =
    [Space { id: "root", prefix: "" }, Space { id: "teamteamteamtea", prefix: "/clusters/root:team" }];

/// A namespace above.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Room {
    pub space: &'static Space,
    pub namespace: &'static str,
}

impl Room {
    pub fn all() -> impl Iterator<Item = Room> {
        SPACES.iter().flat_map(|space| NAMESPACES.map(|namespace| Room { space, namespace }))
    }

    pub fn path(&self) -> String {
        format!("{}/api/v1/namespaces/{}", self.space.prefix, self.namespace)
    }

    /// What one in the cluster says that stands for it.
    pub fn locator(&self, control_plane: &str) -> Locator {
        Locator {
            control_plane: control_plane.into(),
            workspace: self.space.id.into(),
            namespace: self.namespace.into(),
        }
    }
}

/// An object above.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Spot {
    pub room: Room,
    pub kind: &'static Kind,
    pub name: &'static str,
}

impl Spot {
    /// One in the root.
    pub fn of(resource: &str, namespace: &'static str, name: &'static str) -> Spot {
        Spot { room: Room { space: &SPACES[0], namespace }, kind: Kind::named(resource), name }
    }

    fn found(kind: &'static Kind, item: &Value) -> Option<Spot> {
        let workspace = object::annotation(item, WORKSPACE).unwrap_or_default();
        let space = SPACES.iter().find(|space| space.id == workspace)?;
        let namespace = NAMESPACES.iter().find(|namespace| **namespace == object::namespace(item))?;
        let name = NAMES.iter().find(|name| **name == object::name(item))?;
        Some(Spot { room: Room { space, namespace }, kind, name })
    }

    pub fn collection(&self) -> String {
        format!("{}{}", self.room.space.prefix, self.kind.collection(self.room.namespace))
    }

    pub fn path(&self) -> String {
        format!("{}/{}", self.collection(), self.name)
    }

    /// As reports name it.
    pub fn target(&self, uid: &str) -> Target {
        Target {
            resource: self.kind.named_in_view(),
            workspace: self.room.space.id.into(),
            namespace: self.room.namespace.into(),
            name: self.name.into(),
            uid: uid.into(),
        }
    }

    /// Where it is in the cluster, in the namespace of that name.
    pub fn below(&self, namespace: &str) -> String {
        format!("{}/{}", self.kind.collection(namespace), self.name)
    }
}

/// What there is above.
#[derive(Default)]
pub struct Above {
    pub objects: BTreeMap<Spot, Value>,
    /// Namespaces, and whether they are being deleted.
    pub rooms: BTreeMap<Room, bool>,
}

impl Above {
    pub async fn of(plane: &Plane) -> Above {
        let mut above = Above::default();
        for kind in &KINDS {
            let list = plane.client.get(&format!("/clusters/*{}", kind.list())).await.expect("a list");
            for item in list["items"].as_array().into_iter().flatten() {
                if let Some(spot) = Spot::found(kind, item) {
                    above.objects.insert(spot, kind.typed(item));
                }
            }
        }
        for room in Room::all() {
            if let Ok(namespace) = plane.client.get(&room.path()).await {
                above.rooms.insert(room, object::is_being_deleted(&namespace));
            }
        }
        above
    }

    /// Where somebody decided that an object shall be, if that was not because others refer to it.
    fn decided(object: &Value) -> Option<Placement> {
        let placement = Placement::of(object);
        (!placement.clusters.is_empty() && placement.by != "reference").then_some(placement)
    }

    fn stays(&self, spot: &Spot) -> bool {
        self.objects.get(spot).is_some_and(|object| !object::is_being_deleted(object))
            && self.rooms.get(&spot.room) == Some(&false)
    }

    /// Everything that shall be in the cluster: what somebody put there, and what that refers to, and so on.
    pub fn wanted(&self) -> BTreeSet<Spot> {
        let is_there = |object: &Value| {
            Above::decided(object).is_some_and(|placement| placement.share(CLUSTER).is_some())
        };
        let mut next: Vec<Spot> =
            self.objects.iter().filter(|(_, object)| is_there(object)).map(|(spot, _)| *spot).collect();
        let mut wanted = BTreeSet::new();
        while let Some(spot) = next.pop() {
            if !self.stays(&spot) || !wanted.insert(spot) {
                continue;
            }
            next.extend(self.needs(&spot).into_iter().filter(|needed| {
                self.objects.get(needed).is_some_and(|object| Above::decided(object).is_none())
            }));
        }
        wanted
    }

    /// What an object refers to, whether it is there or not.
    pub fn needs(&self, spot: &Spot) -> Vec<Spot> {
        let Some(object) = self.objects.get(spot) else { return Vec::new() };
        let needed = references(object).into_iter().filter_map(|reference| {
            let name = NAMES.iter().find(|name| **name == reference.name)?;
            Some(Spot { kind: Kind::named(reference.resource), name, ..*spot })
        });
        needed.collect()
    }
}

/// What there is in the cluster, but for what is Atoll's own and the system's.
#[derive(Default)]
pub struct Below {
    /// By their paths.
    pub objects: BTreeMap<String, Value>,
    /// Namespaces by the ones above that they stand for, or say to.
    pub rooms: BTreeMap<Room, Vec<Value>>,
}

impl Below {
    pub async fn of(plane: &Plane, control_plane: &str) -> Below {
        let mut below = Below::default();
        let list = plane.client.get("/api/v1/namespaces").await.expect("a list");
        for namespace in list["items"].as_array().into_iter().flatten() {
            let Some(Ok(locator)) = Locator::of(namespace) else { continue };
            let room = Room::all().find(|room| room.locator(control_plane) == locator);
            if let Some(room) = room {
                below.rooms.entry(room).or_default().push(namespace.clone());
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

    /// Where an object from above is, or would be.
    pub fn path(&self, spot: &Spot) -> Option<String> {
        let mut paths =
            self.rooms.get(&spot.room)?.iter().map(|namespace| spot.below(object::name(namespace)));
        let first = paths.next()?;
        // Two may stand for the same one after somebody was late.
        let other = paths.find(|path| self.objects.contains_key(path));
        Some(other.filter(|_| !self.objects.contains_key(&first)).unwrap_or(first))
    }
}
