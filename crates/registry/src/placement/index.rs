//! The index of objects by cluster, updated with every write, and its subscribers.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use atoll_fleet::marks::{PLACEMENT, SYSTEM_NAMESPACE};
use atoll_fleet::{Pause, Placement, pause};
use atoll_meta::object;
use atoll_store::{Key, Revision, key};
use atoll_watch::Observer;
use bytes::Bytes;
use memchr::memmem::Finder;
use tokio::sync::Notify;

use super::known_clusters::KnownClusters;
use super::parsed::ParsedObjects;
use crate::catalog::ATOLL;
use crate::dialect::EnabledDialects;
use crate::workspace_tree::WorkspaceTree;

/// The index by cluster name. A name may refer to different clusters in different workspaces; callers
/// distinguish them by uid.
pub struct Placements {
    state: Mutex<PlacementState>,
    /// Finds possible placements without parsing the object.
    finder: Finder<'static>,
    /// The tree of workspaces.
    pub workspaces: WorkspaceTree,
    /// The registered Clusters.
    pub(super) clusters: KnownClusters,
    /// The workspaces that enable dialects.
    pub(crate) dialects: EnabledDialects,
    /// Placed objects that sync views have parsed lately.
    pub parsed: ParsedObjects,
}

#[derive(Default)]
struct PlacementState {
    clusters: HashMap<Arc<str>, Cluster>,
    /// The clusters of each placed object.
    objects: HashMap<Key, Box<[PlacedCluster]>>,
    /// The revision since which an object has been leaving a cluster without interruption.
    leaving: HashMap<Key, Vec<(PlacedCluster, Revision)>>,
    /// Paused workspaces. Readers share them.
    pauses: Arc<HashMap<String, Pause>>,
}

/// A cluster in the placement of an object.
#[derive(Clone, PartialEq, Eq)]
struct PlacedCluster {
    name: Arc<str>,
    /// Empty if the placement has no uid.
    uid: Arc<str>,
}

impl PlacedCluster {
    fn matches(&self, name: &str, uid: &str) -> bool {
        *self.name == *name && (self.uid.is_empty() || *self.uid == *uid)
    }
}

/// Numbers of objects by workspace and namespace, and by uid of the cluster.
type NamespaceCounts = HashMap<(Box<str>, Box<str>), HashMap<Arc<str>, usize>>;

#[derive(Default)]
struct Cluster {
    keys: HashSet<Key>,
    /// Each uid once, shared by all objects.
    uids: HashSet<Arc<str>>,
    /// Number of objects in each namespace.
    namespaces: NamespaceCounts,
    subscribers: Vec<Weak<PlacementSubscriber>>,
}

impl Cluster {
    /// Counts an object of a namespace that is on the cluster with this uid, or not any more.
    fn count(&mut self, (workspace, namespace, uid): (Box<str>, Box<str>, Arc<str>), is_added: bool) {
        let of = (workspace, namespace);
        let counts = self.namespaces.entry(of.clone()).or_default();
        let count = counts.entry(uid.clone()).or_default();
        *count = if is_added { *count + 1 } else { count.saturating_sub(1) };
        if *count == 0 {
            counts.remove(&uid);
        }
        if counts.is_empty() {
            self.namespaces.remove(&of);
        }
    }
}

/// Receives the keys of changed objects on a cluster.
#[derive(Default)]
pub struct PlacementSubscriber {
    pending: Mutex<Pending>,
    woken: Notify,
}

#[derive(Default)]
struct Pending {
    keys: HashSet<Key>,
    /// The revision from which all changes of `keys` are visible.
    revision: Revision,
}

impl Default for Placements {
    fn default() -> Self {
        Placements {
            state: Mutex::default(),
            finder: Finder::new(PLACEMENT),
            workspaces: WorkspaceTree::default(),
            clusters: KnownClusters::default(),
            dialects: EnabledDialects::default(),
            parsed: ParsedObjects::default(),
        }
    }
}

impl Placements {
    /// Subscribes to a cluster, starting with everything that is on it.
    pub fn subscribe(&self, cluster: &str) -> Arc<PlacementSubscriber> {
        let subscriber = Arc::new(PlacementSubscriber::default());
        let mut state = self.state();
        let known = state.clusters.entry(cluster.into()).or_default();
        known.subscribers.retain(|other| other.strong_count() > 0);
        known.subscribers.push(Arc::downgrade(&subscriber));
        subscriber.pending().keys.clone_from(&known.keys);
        subscriber
    }

    /// Whether an object is on a cluster of this name and uid or still leaving it. If the placement has no
    /// uid, the caller must check whether it refers to another cluster of that name.
    pub fn is_on(&self, cluster: &str, uid: &str, key: &Key) -> bool {
        let state = self.state();
        state
            .objects
            .get(key)
            .is_some_and(|placed| placed.iter().any(|cluster_ref| cluster_ref.matches(cluster, uid)))
    }

    /// The revision since which an object has been leaving a cluster, if it is.
    pub fn leaving_since(&self, cluster: &str, uid: &str, key: &Key) -> Option<Revision> {
        let state = self.state();
        let leaving =
            state.leaving.get(key)?.iter().find(|(cluster_ref, _)| cluster_ref.matches(cluster, uid));
        leaving.map(|(_, since)| *since)
    }

    /// Number of objects on a cluster or still leaving it.
    pub fn count(&self, cluster: &str) -> usize {
        self.state().clusters.get(cluster).map_or(0, |known| known.keys.len())
    }

    /// Paused workspaces by id; their descendants are paused too.
    pub fn pauses(&self) -> Arc<HashMap<String, Pause>> {
        self.state().pauses.clone()
    }

    /// Notifies all subscribers, which determine the affected objects themselves.
    fn pause(&self, key: &Key, workspace: &str, value: Option<&Bytes>, revision: Revision) {
        let read =
            |value: &Bytes| atoll_meta::json::parse(value).map(|parsed| parsed.value).unwrap_or_default();
        let mut state = self.state();
        match value {
            Some(value) => {
                let pause = Pause::of_config_map(&read(value));
                drop(Arc::make_mut(&mut state.pauses).insert(workspace.to_string(), pause));
            }
            None => drop(Arc::make_mut(&mut state.pauses).remove(workspace)),
        }
        state.clusters.values_mut().for_each(|cluster| cluster.notify(key, revision));
    }

    /// The uids, each once, of the clusters of a name in the placements of the objects in a namespace.
    pub fn uids_in(&self, cluster: &str, workspace: &str, namespace: &str) -> Vec<Arc<str>> {
        let state = self.state();
        let of = (Box::from(workspace), Box::from(namespace));
        let counts = state.clusters.get(cluster).and_then(|known| known.namespaces.get(&of));
        counts.into_iter().flat_map(HashMap::keys).cloned().collect()
    }

    /// All objects on clusters of a name or still leaving them, with the uids in the placements.
    pub fn on(&self, cluster: &str) -> Vec<(Key, Arc<str>)> {
        let state = self.state();
        let keys = state.clusters.get(cluster).into_iter().flat_map(|known| &known.keys);
        let placed = keys.flat_map(|key| {
            let placed = state.objects.get(key).into_iter().flatten();
            placed
                .filter(|cluster_ref| *cluster_ref.name == *cluster)
                .map(|cluster_ref| (key.clone(), cluster_ref.uid.clone()))
        });
        placed.collect()
    }

    fn state(&self) -> MutexGuard<'_, PlacementState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The placement of an object, and whether the object is being deleted.
    fn read(&self, value: Option<&Bytes>) -> Option<(Placement, bool)> {
        let value = value.filter(|value| self.finder.find(value).is_some())?;
        let fields = atoll_meta::json::metadata_fields(value, &["annotations", "deletionTimestamp"]);
        let object = match fields {
            Some(object) => object,
            None => atoll_meta::json::parse(value).ok()?.value,
        };
        let placement = Placement::of(&object);
        (!placement.is_empty()).then(|| (placement, object::is_being_deleted(&object)))
    }
}

impl Observer for Placements {
    fn changed(&self, key: &Key, value: Option<&Bytes>, revision: Revision) {
        if let Some(parts) = key.parts() {
            self.workspaces.changed(key, &parts, value);
            self.clusters.changed(&parts, value);
            // Dialects may change how objects look in clusters.
            if self.dialects.changed(&parts, value) {
                self.state().clusters.values_mut().for_each(|cluster| cluster.notify(key, revision));
            }
            if let Some(workspace) = paused(&parts) {
                self.pause(key, workspace, value, revision);
            }
            // Notify subscribers of a changed Cluster, because its overrides may have changed.
            if let Some(name) = cluster(&parts) {
                if let Some(cluster) = self.state().clusters.get_mut(name) {
                    cluster.notify(key, revision);
                }
                return;
            }
        }
        let placement = self.read(value);
        let mut state = self.state();
        if placement.is_none() && !state.objects.contains_key(key) {
            return;
        }
        let PlacementState { clusters, objects, leaving, .. } = &mut *state;
        let before = objects.remove(key).unwrap_or_default();
        let placed: Box<[PlacedCluster]> = placement
            .iter()
            .flat_map(|(placement, _)| placement.cluster_refs())
            .map(|(name, uid)| placed_cluster(clusters, name, uid))
            .collect();
        let were_leaving = leaving.remove(key).unwrap_or_default();
        let is_leaving = |cluster_ref: &&PlacedCluster| {
            placement.as_ref().is_some_and(|(placement, is_deleted)| {
                *is_deleted || placement.share_of(&cluster_ref.name, &cluster_ref.uid).is_none()
            })
        };
        let since = |cluster_ref: &PlacedCluster| {
            let known = were_leaving.iter().find(|(other, _)| other == cluster_ref);
            (cluster_ref.clone(), known.map_or(revision, |(_, since)| *since))
        };
        let are_leaving: Vec<(PlacedCluster, Revision)> =
            placed.iter().filter(is_leaving).map(since).collect();
        if !are_leaving.is_empty() {
            leaving.insert(key.clone(), are_leaving);
        }
        if before != placed
            && let Some(parts) = key.parts()
        {
            let of = |cluster_ref: &PlacedCluster| {
                (Box::from(parts.workspace), Box::from(parts.namespace), cluster_ref.uid.clone())
            };
            for cluster_ref in &placed {
                clusters.entry(cluster_ref.name.clone()).or_default().count(of(cluster_ref), true);
            }
            for cluster_ref in &before {
                if let Some(cluster) = clusters.get_mut(&cluster_ref.name) {
                    cluster.count(of(cluster_ref), false);
                }
            }
        }
        let is_still = |name: &str| placed.iter().any(|cluster_ref| *cluster_ref.name == *name);
        for PlacedCluster { name, .. } in before.iter().filter(|cluster_ref| !is_still(&cluster_ref.name)) {
            if let Some(cluster) = clusters.get_mut(name) {
                cluster.keys.remove(key);
                cluster.notify(key, revision);
                if cluster.keys.is_empty() && cluster.subscribers.is_empty() {
                    clusters.remove(name);
                }
            }
        }
        for PlacedCluster { name, .. } in &placed {
            let cluster = clusters.entry(name.clone()).or_default();
            cluster.keys.insert(key.clone());
            cluster.notify(key, revision);
        }
        if !placed.is_empty() {
            objects.insert(key.clone(), placed);
        }
    }
}

/// A cluster of a placement; names and uids are shared.
fn placed_cluster(clusters: &mut HashMap<Arc<str>, Cluster>, name: &str, uid: &str) -> PlacedCluster {
    let known = clusters.get_key_value(name).map(|(known, _)| known.clone());
    let name = known.unwrap_or_else(|| name.into());
    let uids = &mut clusters.entry(name.clone()).or_default().uids;
    let uid = uids.get(uid).cloned().unwrap_or_else(|| {
        let uid: Arc<str> = uid.into();
        uids.insert(uid.clone());
        uid
    });
    PlacedCluster { name, uid }
}

/// The workspace whose pause is stored under a key.
fn paused<'a>(parts: &key::Parts<'a>) -> Option<&'a str> {
    let is_it = (parts.group, parts.resource) == (key::CORE, "configmaps")
        && (parts.namespace, parts.name) == (SYSTEM_NAMESPACE, pause::NAME);
    is_it.then_some(parts.workspace)
}

/// The name of the Cluster under a key.
fn cluster<'a>(parts: &key::Parts<'a>) -> Option<&'a str> {
    ((parts.group, parts.resource) == (ATOLL, "clusters")).then_some(parts.name)
}

impl Cluster {
    fn notify(&mut self, key: &Key, revision: Revision) {
        self.subscribers.retain(|subscriber| {
            let Some(subscriber) = subscriber.upgrade() else { return false };
            let mut pending = subscriber.pending();
            pending.keys.insert(key.clone());
            pending.revision = pending.revision.max(revision);
            drop(pending);
            subscriber.woken.notify_one();
            true
        });
    }
}

impl PlacementSubscriber {
    /// Returns the keys that changed since the last call, each once, and the revision from which the changes
    /// are visible.
    pub fn take(&self) -> (HashSet<Key>, Revision) {
        let mut pending = self.pending();
        (std::mem::take(&mut pending.keys), pending.revision)
    }

    /// Waits until there are changes.
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
    fn leaving_starts_at_the_latest_removal() {
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
    fn clusters_of_one_name_are_distinguished_by_uid() {
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
        let in_namespace = |namespace: &str| {
            let mut uids = placements.uids_in("east", "w", namespace);
            uids.sort();
            uids.join(" ")
        };
        assert_eq!((in_namespace("n"), in_namespace("m")), ("1 2".to_string(), String::new()));
        let other = Key::object("", "configmaps", "w", "n", "b");
        placements.changed(&other, Some(&stored(r#"{"clusters":[{"name":"east","uid":"1"}]}"#)), 5);
        placements.changed(&key, Some(&stored(r#"{"clusters":[{"name":"east","uid":"2"}]}"#)), 6);
        assert_eq!(in_namespace("n"), "1 2", "the other object is still there");
        placements.changed(&other, None, 7);
        assert_eq!(in_namespace("n"), "2");
        placements.changed(&key, None, 8);
        assert_eq!(in_namespace("n"), "");
    }

    #[test]
    fn subscribers_are_notified_of_their_cluster() {
        let placements = Placements::default();
        let (a, b) =
            (Key::object("apps", "deployments", "w", "n", "a"), Key::object("", "configmaps", "w", "n", "b"));
        let on = |names: &[&str]| {
            let clusters: Vec<_> = names.iter().map(|name| serde_json::json!({ "name": name })).collect();
            stored(&serde_json::json!({ "clusters": clusters }).to_string())
        };
        placements.changed(&a, Some(&on(&["east"])), 3);
        placements.changed(&b, Some(&Bytes::from_static(b"{\"data\":{\"atoll.dev/placement\":\"x\"}}")), 4);
        let east = placements.subscribe("east");
        let west = placements.subscribe("west");
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
        let pause_key = Key::object("", "configmaps", "w", SYSTEM_NAMESPACE, pause::NAME);
        placements.changed(&pause_key, Some(&Bytes::from_static(b"{\"data\":{\"by\":\"me\"}}")), 8);
        assert_eq!(
            (east.take().0, west.take().0),
            (HashSet::from([pause_key.clone()]), HashSet::from([pause_key.clone()]))
        );
        assert_eq!(placements.pauses()["w"].by, "me");
        placements.changed(&pause_key, None, 8);
        assert!(placements.pauses().is_empty());
        assert_eq!((east.take().0.len(), west.take().0.len()), (1, 1));
        let own = Key::object(ATOLL, "clusters", "w", "", "east");
        placements.changed(&own, Some(&Bytes::from_static(b"{}")), 8);
        assert_eq!((east.take(), west.take().0), ((HashSet::from([own]), 8), HashSet::new()));
    }
}
