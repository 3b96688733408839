//! What is placed on each cluster, kept up to date with every write, and who wants to know.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use atoll_fleet::marks::{PLACEMENT, SYSTEM_NAMESPACE};
use atoll_fleet::{Brake, Placement, brake};
use atoll_meta::object;
use atoll_store::{Key, Revision, key};
use atoll_watch::Observer;
use bytes::Bytes;
use memchr::memmem::Finder;
use tokio::sync::Notify;

use crate::catalog::ATOLL;
use crate::dialect::labels::Labelled;
use crate::lineage::Lineage;

/// By name of the cluster: names may mean different clusters in different workspaces, which whoever asks tells apart by their
/// uids.
pub struct Placements {
    state: Mutex<State>,
    /// Finds what may be a placement without reading the object.
    sought: Finder<'static>,
    /// Which workspace is below which.
    pub lineage: Lineage,
    /// What says by a label where it shall be.
    pub labelled: Labelled,
}

#[derive(Default)]
struct State {
    clusters: HashMap<Arc<str>, Cluster>,
    /// Where everything is that is anywhere.
    objects: HashMap<Key, Box<[Spot]>>,
    /// Since which revision clusters are to let go of things, without having been meant to have them in between.
    leaving: HashMap<Key, Vec<(Spot, Revision)>>,
    /// Workspaces in which nothing is placed or taken away for now.
    brakes: HashMap<String, Brake>,
}

/// A cluster that an object is on.
#[derive(Clone, PartialEq, Eq)]
struct Spot {
    name: Arc<str>,
    /// Empty if the placement does not say it.
    uid: Arc<str>,
}

impl Spot {
    fn is_of(&self, name: &str, uid: &str) -> bool {
        *self.name == *name && (self.uid.is_empty() || *self.uid == *uid)
    }
}

#[derive(Default)]
struct Cluster {
    keys: HashSet<Key>,
    /// Each once, however many objects name it.
    uids: HashSet<Arc<str>>,
    followers: Vec<Weak<Subscriber>>,
}

/// Somebody who wants to know what happens to what is on a cluster.
#[derive(Default)]
pub struct Subscriber {
    pending: Mutex<Pending>,
    woken: Notify,
}

#[derive(Default)]
struct Pending {
    keys: HashSet<Key>,
    /// Everything in `keys` is to be seen from here on.
    revision: Revision,
}

impl Default for Placements {
    fn default() -> Self {
        Placements {
            state: Mutex::default(),
            sought: Finder::new(PLACEMENT),
            lineage: Lineage::default(),
            labelled: Labelled::default(),
        }
    }
}

impl Placements {
    /// Follows a cluster, beginning with everything that is on it.
    pub fn follow(&self, cluster: &str) -> Arc<Subscriber> {
        let follower = Arc::new(Subscriber::default());
        let mut state = self.state();
        let known = state.clusters.entry(cluster.into()).or_default();
        known.followers.retain(|other| other.strong_count() > 0);
        known.followers.push(Arc::downgrade(&follower));
        follower.pending().keys.clone_from(&known.keys);
        follower
    }

    /// Whether something is on a cluster of this name and uid, or was and has not gone yet. Whether an object whose placement
    /// has no uid means another cluster of that name is for whoever asks to find out.
    pub fn is_on(&self, cluster: &str, uid: &str, key: &Key) -> bool {
        let state = self.state();
        state.objects.get(key).is_some_and(|spots| spots.iter().any(|spot| spot.is_of(cluster, uid)))
    }

    /// Since which revision a cluster is to let go of something, if it is.
    pub fn leaving_since(&self, cluster: &str, uid: &str, key: &Key) -> Option<Revision> {
        let state = self.state();
        let leaving = state.leaving.get(key)?.iter().find(|(spot, _)| spot.is_of(cluster, uid));
        leaving.map(|(_, since)| *since)
    }

    /// How much is on a cluster, or was and has not gone yet.
    pub fn count(&self, cluster: &str) -> usize {
        self.state().clusters.get(cluster).map_or(0, |known| known.keys.len())
    }

    /// Workspaces that are paused, by their ids; all below them are, too.
    pub fn brakes(&self) -> HashMap<String, Brake> {
        self.state().brakes.clone()
    }

    /// Everybody is told: whose objects are concerned is for them to find out.
    fn pause(&self, key: &Key, workspace: &str, value: Option<&Bytes>, revision: Revision) {
        let read =
            |value: &Bytes| atoll_meta::json::parse(value).map(|parsed| parsed.value).unwrap_or_default();
        let mut state = self.state();
        match value {
            Some(value) => {
                drop(state.brakes.insert(workspace.to_string(), Brake::of_config_map(&read(value))))
            }
            None => drop(state.brakes.remove(workspace)),
        }
        state.clusters.values_mut().for_each(|cluster| cluster.tell(key, revision));
    }

    /// All that is on clusters of a name, or was and has not gone yet, with the uids that placements say.
    pub fn on(&self, cluster: &str) -> Vec<(Key, Arc<str>)> {
        let state = self.state();
        let keys = state.clusters.get(cluster).into_iter().flat_map(|known| &known.keys);
        let spots = keys.flat_map(|key| {
            let spots = state.objects.get(key).into_iter().flatten();
            spots.filter(|spot| *spot.name == *cluster).map(|spot| (key.clone(), spot.uid.clone()))
        });
        spots.collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where an object is, and whether it is being deleted.
    fn read(&self, value: Option<&Bytes>) -> Option<(Placement, bool)> {
        let value = value.filter(|value| self.sought.find(value).is_some())?;
        let object = atoll_meta::json::parse(value).ok()?.value;
        let placement = Placement::of(&object);
        (!placement.is_empty()).then(|| (placement, object::is_being_deleted(&object)))
    }
}

impl Observer for Placements {
    fn changed(&self, key: &Key, value: Option<&Bytes>, revision: Revision) {
        if let Some(parts) = key.parts() {
            self.lineage.changed(key, &parts, value);
            self.labelled.changed(key, &parts, value, revision);
        }
        if let Some(workspace) = paused(key) {
            self.pause(key, workspace, value, revision);
        }
        // What is different in a cluster is said by the cluster itself.
        if let Some(name) = cluster(key) {
            if let Some(cluster) = self.state().clusters.get_mut(name) {
                cluster.tell(key, revision);
            }
            return;
        }
        let placement = self.read(value);
        let mut state = self.state();
        if placement.is_none() && !state.objects.contains_key(key) {
            return;
        }
        let State { clusters, objects, leaving, .. } = &mut *state;
        let before = objects.remove(key).unwrap_or_default();
        let spots: Box<[Spot]> = placement
            .iter()
            .flat_map(|(placement, _)| placement.spots())
            .map(|(name, uid)| spot(clusters, name, uid))
            .collect();
        let were_leaving = leaving.remove(key).unwrap_or_default();
        let is_leaving = |spot: &&Spot| {
            placement.as_ref().is_some_and(|(placement, is_deleted)| {
                *is_deleted || placement.share_of(&spot.name, &spot.uid).is_none()
            })
        };
        let since = |spot: &Spot| {
            let known = were_leaving.iter().find(|(other, _)| other == spot);
            (spot.clone(), known.map_or(revision, |(_, since)| *since))
        };
        let are_leaving: Vec<(Spot, Revision)> = spots.iter().filter(is_leaving).map(since).collect();
        if !are_leaving.is_empty() {
            leaving.insert(key.clone(), are_leaving);
        }
        let is_still = |name: &str| spots.iter().any(|spot| *spot.name == *name);
        for Spot { name, .. } in before.iter().filter(|spot| !is_still(&spot.name)) {
            if let Some(cluster) = clusters.get_mut(name) {
                cluster.keys.remove(key);
                cluster.tell(key, revision);
                if cluster.keys.is_empty() && cluster.followers.is_empty() {
                    clusters.remove(name);
                }
            }
        }
        for Spot { name, .. } in &spots {
            let cluster = clusters.entry(name.clone()).or_default();
            cluster.keys.insert(key.clone());
            cluster.tell(key, revision);
        }
        if !spots.is_empty() {
            objects.insert(key.clone(), spots);
        }
    }
}

/// A cluster of a placement; its name and uid are in memory once.
fn spot(clusters: &mut HashMap<Arc<str>, Cluster>, name: &str, uid: &str) -> Spot {
    let known = clusters.get_key_value(name).map(|(known, _)| known.clone());
    let name = known.unwrap_or_else(|| name.into());
    let uids = &mut clusters.entry(name.clone()).or_default().uids;
    let uid = uids.get(uid).cloned().unwrap_or_else(|| {
        let uid: Arc<str> = uid.into();
        uids.insert(uid.clone());
        uid
    });
    Spot { name, uid }
}

/// The workspace that a key is the brake of.
fn paused(key: &Key) -> Option<&str> {
    let parts = key.parts()?;
    let is_it = (parts.group, parts.resource) == (key::CORE, "configmaps")
        && (parts.namespace, parts.name) == (SYSTEM_NAMESPACE, brake::NAME);
    is_it.then_some(parts.workspace)
}

/// The name of the cluster that a key is of.
fn cluster(key: &Key) -> Option<&str> {
    let parts = key.parts()?;
    ((parts.group, parts.resource) == (ATOLL, "clusters")).then_some(parts.name)
}

impl Cluster {
    fn tell(&mut self, key: &Key, revision: Revision) {
        self.followers.retain(|follower| {
            let Some(follower) = follower.upgrade() else { return false };
            let mut pending = follower.pending();
            pending.keys.insert(key.clone());
            pending.revision = pending.revision.max(revision);
            drop(pending);
            follower.woken.notify_one();
            true
        });
    }
}

impl Subscriber {
    /// What has changed since it was asked last, and from which revision on that can be seen. However often something
    /// changed, it is in here once.
    pub fn take(&self) -> (HashSet<Key>, Revision) {
        let mut pending = self.pending();
        (std::mem::take(&mut pending.keys), pending.revision)
    }

    /// Returns when there is something to take.
    pub async fn changed(&self) {
        self.woken.notified().await;
    }

    fn pending(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(placement: &str) -> Bytes {
        let object = serde_json::json!({ "metadata": { "annotations": { PLACEMENT: placement } } });
        Bytes::from(object.to_string())
    }

    #[test]
    fn who_is_to_let_go_is_so_since_the_last_time_that_it_was_not() {
        let (placements, key) = (Placements::default(), Key::object("", "configmaps", "w", "n", "a"));
        let east = r#"{"clusters":[{"name":"east"}]}"#;
        let leaving = r#"{"clusters":[{"name":"west"}],"leaving":["east"]}"#;
        let both = r#"{"leaving":["east","west"]}"#;
        for (revision, placement, of_east, of_west) in [
            (3, east, None, None),
            (4, leaving, Some(4), None),
            (5, both, Some(4), Some(5)),
            (6, both, Some(4), Some(5)),
            (7, east, None, None),
            (8, both, Some(8), Some(8)),
        ] {
            placements.changed(&key, Some(&stored(placement)), revision);
            let since = |cluster: &str| placements.leaving_since(cluster, "any", &key);
            assert_eq!((since("east"), since("west")), (of_east, of_west), "{revision}");
        }
        let deleted = serde_json::json!({ "metadata": {
            "deletionTimestamp": "2026-01-01T00:00:00Z", "annotations": { PLACEMENT: east },
        } });
        placements.changed(&key, Some(&stored(east)), 9);
        placements.changed(&key, Some(&Bytes::from(deleted.to_string())), 10);
        assert_eq!(placements.leaving_since("east", "any", &key), Some(10));
        placements.changed(&key, None, 11);
        assert_eq!(placements.leaving_since("east", "any", &key), None);
    }

    #[test]
    fn clusters_of_one_name_are_told_apart_by_their_uids() {
        let (placements, key) = (Placements::default(), Key::object("", "configmaps", "w", "n", "a"));
        let moved = r#"{"clusters":[{"name":"east","uid":"2"}],"leaving":["east"],"leavingUids":["1"]}"#;
        placements.changed(&key, Some(&stored(r#"{"clusters":[{"name":"east","uid":"1"}]}"#)), 3);
        assert!(placements.is_on("east", "1", &key) && !placements.is_on("east", "2", &key));
        placements.changed(&key, Some(&stored(moved)), 4);
        assert!(placements.is_on("east", "1", &key) && placements.is_on("east", "2", &key));
        let since = |uid: &str| placements.leaving_since("east", uid, &key);
        assert_eq!((since("1"), since("2"), since("3")), (Some(4), None, None));
        let mut uids: Vec<String> = placements.on("east").iter().map(|(_, uid)| uid.to_string()).collect();
        uids.sort();
        assert_eq!((uids, placements.count("east")), (vec!["1".to_string(), "2".to_string()], 1));
    }

    #[test]
    fn followers_hear_of_what_is_theirs() {
        let placements = Placements::default();
        let (a, b) =
            (Key::object("apps", "deployments", "w", "n", "a"), Key::object("", "configmaps", "w", "n", "b"));
        let on = |names: &[&str]| {
            let clusters: Vec<_> = names.iter().map(|name| serde_json::json!({ "name": name })).collect();
            stored(&serde_json::json!({ "clusters": clusters }).to_string())
        };
        placements.changed(&a, Some(&on(&["east"])), 3);
        placements.changed(&b, Some(&Bytes::from_static(b"{\"data\":{\"atoll.dev/placement\":\"x\"}}")), 4);
        let east = placements.follow("east");
        let west = placements.follow("west");
        assert_eq!(east.take().0, HashSet::from([a.clone()]));
        assert_eq!(west.take().0, HashSet::new());
        placements.changed(&a, Some(&on(&["west"])), 5);
        placements.changed(&b, Some(&on(&["west"])), 6);
        assert_eq!(east.take(), (HashSet::from([a.clone()]), 5));
        assert_eq!(west.take(), (HashSet::from([a.clone(), b.clone()]), 6));
        assert_eq!((placements.count("east"), placements.count("west")), (0, 2));
        assert_eq!((placements.is_on("east", "1", &a), placements.is_on("west", "1", &a)), (false, true));
        placements.changed(&a, None, 7);
        assert_eq!(east.take(), (HashSet::new(), 5));
        assert_eq!(west.take(), (HashSet::from([a]), 7));
        assert_eq!(placements.count("west"), 1);
        let brake = Key::object("", "configmaps", "w", SYSTEM_NAMESPACE, brake::NAME);
        placements.changed(&brake, Some(&Bytes::from_static(b"{\"data\":{\"by\":\"me\"}}")), 8);
        assert_eq!(
            (east.take().0, west.take().0),
            (HashSet::from([brake.clone()]), HashSet::from([brake.clone()]))
        );
        assert_eq!(placements.brakes()["w"].by, "me");
        placements.changed(&brake, None, 8);
        assert!(placements.brakes().is_empty());
        assert_eq!((east.take().0.len(), west.take().0.len()), (1, 1));
        let own = Key::object(ATOLL, "clusters", "w", "", "east");
        placements.changed(&own, Some(&Bytes::from_static(b"{}")), 8);
        assert_eq!((east.take(), west.take().0), ((HashSet::from([own]), 8), HashSet::new()));
    }
}
