//! The fleet with all placements, as the caches show them and as they were last written.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::Hash;
use std::sync::Arc;

use atoll_fleet::placement::Share;
use atoll_fleet::{Placement, placed_by};
use atoll_informer::Key;
use atoll_meta::object;
use atoll_placement::demand::{CurrentShare, Demand, Needs, ObjectKey};
use atoll_placement::fleet::Fleet;
use serde_json::Value;

use crate::{moving, report, workloads};

/// Clusters with their free capacity, and the reservations of each object, by its queue key.
#[derive(Clone, Default)]
pub struct Ledger {
    pub fleet: Fleet,
    /// Uids of clusters by the key of the Cluster.
    clusters: HashMap<Key, Arc<str>>,
    /// Keys of the Clusters by uid.
    keys: HashMap<Arc<str>, Key>,
    objects: HashMap<Key, Entry>,
    /// Number of objects on each cluster, by workspace and namespace.
    namespaces: HashMap<(Arc<str>, Arc<str>), Usage>,
    /// Number of objects on each cluster, by workspace.
    workspaces: HashMap<Arc<str>, Usage>,
    /// Namespaces with placed objects, by workspace.
    names: HashMap<Arc<str>, BTreeSet<Arc<str>>>,
    /// Placed workloads, by workspace and namespace.
    placed: HashMap<(Arc<str>, Arc<str>), BTreeSet<Key>>,
}

/// The clusters of one object.
#[derive(Clone)]
struct Entry {
    uid: Arc<str>,
    namespace: Arc<str>,
    /// Uids of its clusters.
    clusters: Vec<Arc<str>>,
    is_default: bool,
    /// The revision of a placement that was written and that the cache does not show yet.
    written: u64,
    /// Whether its shares are being written. Until then they count instead of those in the cache.
    is_being_written: bool,
}

/// Number of objects on a cluster: those that are placed by default, and all.
type Usage = BTreeMap<Arc<str>, (usize, usize)>;

impl Ledger {
    /// Adds or changes a Cluster that is registered in the workspace with this path.
    pub fn set_cluster(&mut self, key: &Key, cluster: &Value, path: &str) {
        let uid: Arc<str> = object::uid(cluster).into();
        if let Some(known) = self.clusters.insert(key.clone(), uid.clone())
            && known != uid
        {
            self.fleet.remove_cluster(&known);
            self.keys.remove(&known);
        }
        self.keys.insert(uid.clone(), key.clone());
        self.fleet.set_cluster(report::state(cluster, path));
        if let Some(report) = report::capacity(cluster) {
            self.fleet.set_report(&uid, Arc::new(report));
        }
    }

    pub fn remove_cluster(&mut self, key: &Key) {
        if let Some(uid) = self.clusters.remove(key) {
            self.keys.remove(&uid);
            self.fleet.remove_cluster(&uid);
        }
    }

    /// The key of the Cluster with this uid.
    pub fn cluster_key(&self, uid: &str) -> Option<&Key> {
        self.keys.get(uid)
    }

    /// The uid of the Cluster with this key.
    pub fn cluster_uid(&self, key: &Key) -> Option<&Arc<str>> {
        self.clusters.get(key)
    }

    /// Whether a placement of the object was written that is newer than the revision in the cache.
    pub fn is_ahead(&self, key: &Key, object: &Value) -> bool {
        self.objects
            .get(key)
            .is_some_and(|entry| *entry.uid == *object::uid(object) && entry.written > revision(object))
    }

    /// Records the reservations of an object as it is in the cache, unless a newer placement was written.
    pub fn set_object(&mut self, key: &Key, object: &Value, demand: &Demand) {
        let is_being_written = |entry: &Entry| entry.is_being_written && *entry.uid == *object::uid(object);
        if self.is_ahead(key, object) || self.objects.get(key).is_some_and(is_being_written) {
            return;
        }
        let placement = Placement::of(object);
        let mut shares: Vec<(Arc<str>, i64)> = Vec::new();
        let path = &demand.workspace_path;
        let mut all = self.shares(&placement.clusters, path);
        if moving::is_moving(&placement) {
            // A moving object reserves room for its present and its target shares, but only on clusters that it
            // could move to.
            let mut target = self.shares(&placement.target, path);
            target.retain(|share| self.fleet.serves(&share.uid, path));
            all.append(&mut target);
        }
        for share in all {
            let pods = demand.pods_of(&share);
            match shares.iter_mut().find(|(uid, _)| *uid == share.uid) {
                Some((_, most)) => *most = pods.max(*most),
                None => shares.push((share.uid.clone(), pods)),
            }
        }
        let is_default = placement.by == placed_by::DEFAULT;
        self.reserve(key, (&demand.object, &demand.needs), shares, is_default);
    }

    /// Records the shares of an object.
    pub fn reserve(
        &mut self,
        key: &Key,
        (object, needs): (&ObjectKey, &Arc<Needs>),
        shares: Vec<(Arc<str>, i64)>,
        is_default: bool,
    ) {
        if let Some(before) = self.objects.remove(key) {
            self.count(key, &before, false);
            if before.uid != object.uid {
                self.fleet.forget(&before.uid);
            }
        }
        self.fleet.reserve(object, needs, &shares);
        let entry = Entry {
            uid: object.uid.clone(),
            namespace: object.namespace.clone(),
            clusters: shares.into_iter().map(|(uid, _)| uid).collect(),
            is_default,
            written: 0,
            is_being_written: false,
        };
        self.count(key, &entry, true);
        self.objects.insert(key.clone(), entry);
    }

    /// Records that the shares of an object are being written.
    pub fn begin_writing(&mut self, key: &Key) {
        if let Some(entry) = self.objects.get_mut(key) {
            entry.is_being_written = true;
        }
    }

    /// Records that the shares of an object are in the store at a revision.
    pub fn written(&mut self, key: &Key, revision: u64) {
        if let Some(entry) = self.objects.get_mut(key) {
            (entry.written, entry.is_being_written) = (revision, false);
        }
    }

    /// Records that the shares of an object were not written.
    pub fn not_written(&mut self, key: &Key) {
        self.written(key, 0);
    }

    /// Forgets an object that does not exist any more, or that has finished.
    pub fn remove_object(&mut self, key: &Key) {
        if let Some(entry) = self.objects.remove(key) {
            self.count(key, &entry, false);
            self.fleet.forget(&entry.uid);
        }
    }

    /// Queue keys of placed objects whose clusters, by uid, meet a condition. They are sorted, so that decisions
    /// about them are always made in the same order.
    pub fn placed(&self, is_met: impl Fn(&[Arc<str>]) -> bool) -> Vec<Key> {
        let placed = self.objects.iter().filter(|(_, entry)| !entry.clusters.is_empty());
        let mut keys: Vec<Key> =
            placed.filter(|(_, entry)| is_met(&entry.clusters)).map(|(key, _)| key.clone()).collect();
        keys.sort_unstable();
        keys
    }

    /// Queue keys of the placed workloads of a namespace.
    pub fn placed_in(&self, workspace: &Arc<str>, namespace: &Arc<str>) -> Option<&BTreeSet<Key>> {
        self.placed.get(&(workspace.clone(), namespace.clone()))
    }

    /// Number of objects.
    pub fn objects(&self) -> usize {
        self.objects.len()
    }

    /// Uids of the clusters of an object.
    pub fn clusters_of(&self, key: &Key) -> &[Arc<str>] {
        self.objects.get(key).map_or(&[], |entry| entry.clusters.as_slice())
    }

    /// Uids of the clusters that the other objects of a namespace are on, the most used first. Those that
    /// are placed by default count most: they must stay together.
    pub fn namespace_on(&self, workspace: &str, namespace: &str) -> Vec<Arc<str>> {
        let usage = self.namespaces.get(&(workspace.into(), namespace.into()));
        usage.map(most_used).unwrap_or_default()
    }

    /// The same count for all namespaces of a workspace.
    pub fn workspace_on(&self, workspace: &str) -> Vec<Arc<str>> {
        self.workspaces.get(workspace).map(most_used).unwrap_or_default()
    }

    /// Whether other objects of the namespace of an object are on its clusters.
    pub fn shares_cluster_with_namespace(&self, key: &Key) -> bool {
        let Some(entry) = self.objects.get(key) else { return false };
        let usage = self.namespaces.get(&(key.workspace.clone(), entry.namespace.clone()));
        let has_others =
            |uid: &Arc<str>| usage.and_then(|usage| usage.get(uid)).is_some_and(|(_, all)| *all > 1);
        entry.clusters.iter().any(has_others)
    }

    /// Other namespaces of a workspace that have objects on a cluster.
    pub fn other_namespaces_on(&self, workspace: &str, namespace: &str, cluster: &str) -> Vec<Arc<str>> {
        let names = self.names.get(workspace).into_iter().flatten().filter(|name| ***name != *namespace);
        let is_on = |name: &&Arc<str>| {
            let usage = self.namespaces.get(&(workspace.into(), (*name).clone()));
            usage.is_some_and(|usage| usage.contains_key(cluster))
        };
        names.filter(is_on).cloned().collect()
    }

    /// The shares of a placement, as decisions see them.
    pub fn shares(&self, shares: &[Share], path: &str) -> Vec<CurrentShare> {
        let read = |share: &Share| {
            Some(CurrentShare {
                uid: self.uid_of(share, path)?,
                replicas: share.replicas,
                first_ordinal: share.first_ordinal,
                completions: share.completions,
                parallelism: share.parallelism,
                ..CurrentShare::default()
            })
        };
        shares.iter().filter_map(read).collect()
    }

    /// The uid of the cluster of a share: placements of older versions name the nearest one.
    fn uid_of(&self, share: &Share, path: &str) -> Option<Arc<str>> {
        match share.uid.is_empty() {
            true => self.fleet.named(path, &share.name).map(|cluster| cluster.uid.clone()),
            false => Some(share.uid.as_str().into()),
        }
    }

    fn count(&mut self, key: &Key, entry: &Entry, is_added: bool) {
        // The clusters of a namespace are those of its workloads.
        if !workloads::is_workload_key(key) {
            return;
        }
        let of_namespace = (key.workspace.clone(), entry.namespace.clone());
        change(&mut self.namespaces, of_namespace.clone(), entry, is_added);
        if !entry.clusters.is_empty() {
            let placed = self.placed.entry(of_namespace.clone()).or_default();
            match is_added {
                true => drop(placed.insert(key.clone())),
                false => drop(placed.remove(key)),
            }
            if placed.is_empty() {
                self.placed.remove(&of_namespace);
            }
        }
        let is_used = self.namespaces.contains_key(&of_namespace);
        let names = self.names.entry(key.workspace.clone()).or_default();
        match is_used {
            true => drop(names.insert(of_namespace.1)),
            false => drop(names.remove(&of_namespace.1)),
        }
        if names.is_empty() {
            self.names.remove(&key.workspace);
        }
        change(&mut self.workspaces, key.workspace.clone(), entry, is_added);
    }
}

fn change<K: Eq + Hash + Clone>(usages: &mut HashMap<K, Usage>, of: K, entry: &Entry, is_added: bool) {
    let usage = usages.entry(of.clone()).or_default();
    for uid in &entry.clusters {
        let (by_default, all) = usage.entry(uid.clone()).or_default();
        let step = |count: &mut usize| *count = if is_added { *count + 1 } else { count.saturating_sub(1) };
        step(all);
        if entry.is_default {
            step(by_default);
        }
        if *all == 0 {
            usage.remove(uid);
        }
    }
    if usage.is_empty() {
        usages.remove(&of);
    }
}

fn most_used(usage: &Usage) -> Vec<Arc<str>> {
    let mut uids: Vec<&Arc<str>> = usage.keys().collect();
    // The sort is stable, so clusters that are used alike have the order of their uids.
    uids.sort_by_key(|uid| std::cmp::Reverse(usage[*uid]));
    uids.into_iter().cloned().collect()
}

/// Revisions are increasing numbers.
fn revision(object: &Value) -> u64 {
    object::resource_version(object).parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn key(name: &str) -> Key {
        Key::new("w", "2/n", name)
    }

    fn object(name: &str, revision: u64, clusters: &[&str], by: &str) -> Value {
        let shares: Vec<Share> = clusters.iter().map(|uid| Share::on(uid, uid)).collect();
        let placement = Placement { clusters: shares, by: by.into(), ..Placement::default() };
        json!({
            "metadata": {
                "name": name, "namespace": "n", "uid": name, "resourceVersion": revision.to_string(),
                "annotations": { "atoll.dev/placement": placement.text() },
            },
            "spec": { "replicas": 2 },
        })
    }

    fn set(ledger: &mut Ledger, object: &Value) {
        let demand = Demand::of(("w", "root"), ("apps", "deployments"), object);
        ledger.set_object(&key(object::name(object)), object, &demand);
    }

    fn on(ledger: &Ledger) -> Vec<String> {
        ledger.namespace_on("w", "n").iter().map(|uid| uid.to_string()).collect()
    }

    #[test]
    fn objects_placed_by_default_are_the_home_of_a_namespace() {
        let mut ledger = Ledger::default();
        assert_eq!(on(&ledger), Vec::<String>::new());
        set(&mut ledger, &object("a", 1, &["east", "west"], "hand"));
        set(&mut ledger, &object("b", 2, &["east"], "annotation"));
        assert_eq!(on(&ledger), ["east", "west"], "the most used first");
        set(&mut ledger, &object("c", 3, &["west"], "default"));
        assert_eq!(on(&ledger), ["west", "east"]);
        assert!(ledger.shares_cluster_with_namespace(&key("c")));
        assert_eq!(ledger.workspace_on("w").len(), 2);
        ledger.remove_object(&key("c"));
        set(&mut ledger, &object("a", 4, &[], ""));
        assert_eq!(on(&ledger), ["east"]);
        assert!(
            !ledger.shares_cluster_with_namespace(&key("b"))
                && !ledger.shares_cluster_with_namespace(&key("c"))
        );
        ledger.remove_object(&key("b"));
        assert_eq!((on(&ledger).len(), ledger.workspace_on("w").len()), (0, 0));
    }

    #[test]
    fn room_is_reserved_for_targets_that_serve_the_workspace() {
        let cluster = |uid: &str, workspaces: Value| json!({ "metadata": { "name": uid, "uid": uid }, "spec": { "workspaces": workspaces } });
        let mut ledger = Ledger::default();
        ledger.set_cluster(&Key::new("r", "", "open"), &cluster("open", Value::Null), "root");
        ledger.set_cluster(&Key::new("r", "", "closed"), &cluster("closed", json!(["bob"])), "root");
        ledger.set_cluster(&Key::new("b", "", "foreign"), &cluster("foreign", Value::Null), "root:bob");
        let target = ["open", "closed", "foreign", "absent"].map(|uid| Share::on(uid, uid)).into();
        let placement =
            Placement { phase: "adding".into(), target, by: "default".into(), ..Placement::default() };
        let text = serde_json::to_string(&placement).unwrap();
        let object = json!({
            "metadata": { "name": "a", "namespace": "n", "uid": "a", "annotations": { "atoll.dev/placement": text } },
            "spec": { "replicas": 2 },
        });
        let demand = Demand::of(("w", "root:ann"), ("apps", "deployments"), &object);
        ledger.set_object(&key("a"), &object, &demand);
        assert_eq!(ledger.clusters_of(&key("a")), ["open".into()]);
    }

    #[test]
    fn other_namespaces_of_the_workspace_are_found_by_cluster() {
        let mut ledger = Ledger::default();
        for (workspace, namespace, cluster) in
            [("w", "shop", "east"), ("w", "web", "east"), ("w", "web", "west"), ("other", "api", "east")]
        {
            let mut object = object(cluster, 1, &[cluster], "default");
            object["metadata"]["namespace"] = namespace.into();
            object["metadata"]["uid"] = format!("{workspace}{namespace}{cluster}").into();
            let demand = Demand::of((workspace, "root"), ("apps", "deployments"), &object);
            ledger.set_object(&Key::new(workspace, &format!("2/{namespace}"), cluster), &object, &demand);
        }
        let found = |namespace: &str, cluster: &str| -> Vec<String> {
            let names = ledger.other_namespaces_on("w", namespace, cluster);
            names.iter().map(ToString::to_string).collect()
        };
        assert_eq!(found("shop", "east"), ["web"]);
        assert_eq!(found("api", "east"), ["shop", "web"]);
        assert_eq!(found("web", "west"), Vec::<String>::new());
        ledger.remove_object(&Key::new("w", "2/shop", "east"));
        assert_eq!(ledger.other_namespaces_on("w", "web", "east"), Vec::<Arc<str>>::new());
    }

    #[test]
    fn a_written_placement_counts_until_the_cache_shows_it() {
        let mut ledger = Ledger::default();
        let before = object("a", 1, &[], "");
        let demand = Demand::of(("w", "root"), ("apps", "deployments"), &before);
        ledger.reserve(&key("a"), (&demand.object, &demand.needs), vec![("east".into(), 2)], true);
        assert!(!ledger.is_ahead(&key("a"), &before), "it is not written yet");
        ledger.written(&key("a"), 5);
        set(&mut ledger, &before);
        assert!(ledger.is_ahead(&key("a"), &before));
        assert_eq!(on(&ledger), ["east"]);
        set(&mut ledger, &object("a", 5, &["west"], "hand"));
        assert_eq!(on(&ledger), ["west"]);
        // Changes in the cache do not count while a placement is being written.
        ledger.reserve(&key("a"), (&demand.object, &demand.needs), vec![("east".into(), 2)], true);
        ledger.begin_writing(&key("a"));
        set(&mut ledger, &object("a", 6, &["west"], "hand"));
        assert_eq!(on(&ledger), ["east"]);
        assert_eq!(ledger.placed_in(&"w".into(), &"n".into()).map(BTreeSet::len), Some(1));
        // A placement that was refused does not count.
        ledger.reserve(&key("a"), (&demand.object, &demand.needs), vec![("east".into(), 2)], true);
        ledger.not_written(&key("a"));
        set(&mut ledger, &object("a", 5, &["west"], "hand"));
        assert_eq!(on(&ledger), ["west"]);
    }
}
