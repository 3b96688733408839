//! Rebalancing: after a cluster has changed, the objects on it are decided about again at once, and all others
//! when the change has settled.
//!
//! ```text
//!   Cluster lost, tainted, relabelled, deleted ─► its objects, at once
//!   Cluster new, recovered, larger, opened     ─► all objects, when it has been Ready for a while ─► hourly cap
//! ```

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use atoll_fleet::node_shapes;
use atoll_fleet::placement_refusal::placement_refusal;
use atoll_informer::{Change, Key};
use atoll_meta::object;
use atoll_placement::cluster::Readiness;
use atoll_placement::demand::Demand;
use atoll_placement::failover::returns_at;
use atoll_placement::fleet::Fleet;
use atoll_placement::resources::Resources;
use atoll_placement::rules::Failover;
use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::Scheduler;
use crate::hourly_cap::HourlyCap;
use crate::scopes::ChangeScope;

/// Delay after which objects are balanced: changes that belong together, such as several clusters that join,
/// are one cause.
const SETTLING: Duration = Duration::from_secs(5);
/// Delay before the objects on a Cluster are looked for again that has changed meanwhile.
const RETRY_DELAY: Duration = Duration::from_millis(50);
/// Seconds after which a cluster that has just joined takes over replicas of others.
const JOINED_SECONDS: i64 = 10;
/// A cluster that became Ready within this many seconds of its registration, and has not failed since, has joined, and
/// not returned.
const JOINING_SECONDS: i64 = 120;

#[derive(Default)]
pub struct Rebalancing {
    /// Queue keys of objects to balance, and whether each has to wait.
    objects: Mutex<HashMap<Key, bool>>,
    clusters: Mutex<ChangedClusters>,
    changed: Notify,
    /// Caps by id of the workspace, so that a tenant does not use up the moves of others.
    caps: Mutex<HashMap<Arc<str>, HourlyCap>>,
}

#[derive(Default)]
struct ChangedClusters {
    /// Ids of their workspaces, by the uid of the Cluster.
    uids: HashMap<String, Arc<str>>,
    /// Ids of the workspaces in which Clusters that take new shares are registered.
    open: HashSet<Arc<str>>,
    /// The time at which all objects of the workspaces that these clusters serve are balanced.
    settles: Option<Instant>,
    /// The time at which the objects on Clusters are looked for that changed while they were looked for before.
    retries: Option<Instant>,
}

/// The parts of a Cluster that decide which shares it keeps, and which it takes.
type Terms<'a> = (&'a str, bool, bool, &'a Value, &'a Value, String, NodeRoom);

/// The size of a cluster, whatever runs there: its nodes, and the amounts that pods may request of them together.
type NodeRoom = (i64, Vec<(String, i64)>);

fn node_room(cluster: &Value) -> NodeRoom {
    let status = &cluster["status"];
    let nodes = node_shapes::read(cluster).iter().fold(0i64, |sum, shape| sum.saturating_add(shape.nodes));
    let names = status["allocatable"].as_object().into_iter().flatten().map(|(name, _)| name);
    let allocatable = Resources::of(&status["allocatable"]);
    (nodes, names.map(|name| (name.clone(), allocatable.amount(name))).collect())
}

fn terms(cluster: &Value) -> Terms<'_> {
    let ready = atoll_meta::views::condition(cluster, "Ready");
    (
        object::uid(cluster),
        object::is_being_deleted(cluster),
        placement_refusal(cluster).is_none(),
        &cluster["spec"],
        &cluster["metadata"]["labels"],
        ready.map(|ready| ready.status().to_string()).unwrap_or_default(),
        node_room(cluster),
    )
}

impl Rebalancing {
    /// Handles a changed Cluster.
    pub fn cluster_changed(&self, change: &Change) {
        let [before, now] = [&change.old, &change.new].map(|cluster| cluster.as_deref().map(terms));
        if before == now {
            return;
        }
        let mut clusters = self.clusters();
        let uids = before.iter().chain(&now).map(|terms| terms.0.to_string());
        clusters.uids.extend(uids.map(|uid| (uid, change.key.workspace.clone())));
        if now.is_some_and(|(_, _, is_open, ..)| is_open) {
            clusters.open.insert(change.key.workspace.clone());
            clusters.settles.get_or_insert_with(|| Instant::now() + SETTLING);
        }
        self.changed.notify_one();
    }

    /// Keeps Clusters, by uid with the ids of their workspaces, whose last change is not in the ledger yet.
    fn put_back(&self, uids: Vec<(String, Arc<str>)>) {
        let mut clusters = self.clusters();
        if !uids.is_empty() {
            clusters.retries.get_or_insert_with(|| Instant::now() + RETRY_DELAY);
        }
        clusters.uids.extend(uids);
    }

    /// Takes the changed Clusters.
    fn take(&self) -> HashMap<String, Arc<str>> {
        let mut clusters = self.clusters();
        clusters.retries = None;
        std::mem::take(&mut clusters.uids)
    }

    /// The time at which changed Clusters are due, apart from those of throttled workspaces.
    fn due(&self) -> Option<Instant> {
        let clusters = self.clusters();
        clusters.settles.into_iter().chain(clusters.retries).min()
    }

    /// Notes that changes of Clusters wait because their workspace is throttled.
    pub fn wait_for_throttle(&self) {
        self.changed.notify_one();
    }

    /// Forgets the changes of Clusters that were not handled yet.
    pub fn forget_changes(&self) {
        *self.clusters() = ChangedClusters::default();
    }

    /// Whether an object is to be balanced.
    pub fn contains(&self, key: &Key) -> bool {
        self.objects().contains_key(key)
    }

    /// Sets whether an object that is to be balanced has to wait.
    pub fn set_waiting(&self, key: &Key, is_waiting: bool) {
        if let Some(waits) = self.objects().get_mut(key) {
            *waits = is_waiting;
        }
    }

    /// Records that an object was decided about, which ends its balancing unless it has to wait.
    pub fn decided(&self, key: &Key) {
        let mut objects = self.objects();
        if objects.get(key).is_some_and(|is_waiting| !is_waiting) {
            objects.remove(key);
        }
    }

    /// Forgets an object.
    pub fn remove(&self, key: &Key) {
        self.objects().remove(key);
    }

    /// Counts an object that moves, or returns when the next one of its workspace may, in seconds. `objects` is the
    /// number of all objects.
    pub fn begin(&self, key: &Key, now: i64, objects: usize) -> Result<(), i64> {
        let mut caps = self.caps.lock().unwrap_or_else(PoisonError::into_inner);
        caps.retain(|_, cap| !cap.is_unused(now));
        caps.entry(key.workspace.clone()).or_default().begin(key, now, objects)
    }

    fn clusters(&self) -> MutexGuard<'_, ChangedClusters> {
        self.clusters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn objects(&self) -> MutexGuard<'_, HashMap<Key, bool>> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Adds objects to the queue after changes of Clusters, for as long as it is polled.
pub async fn run(scheduler: &Scheduler) {
    let rebalancing = &scheduler.rebalancing;
    loop {
        match rebalancing.due().into_iter().chain(scheduler.throttle.due()).min() {
            None => rebalancing.changed.notified().await,
            Some(at) => tokio::select! {
                biased;
                () = tokio::time::sleep_until(at) => {}
                () = rebalancing.changed.notified() => {}
            },
        }
        let is_past = |at: Option<Instant>| at.is_some_and(|at| at <= Instant::now());
        if is_past(scheduler.throttle.due()) {
            // Decisions in the meantime did not see the changes that waited.
            for workspace in scheduler.throttle.take_due() {
                scheduler.pending.retry_below(&workspace);
                scheduler.scope_changed(&workspace, "", &ChangeScope::DaemonSets);
            }
        }
        if is_past(rebalancing.clusters().settles) {
            enqueue_all(scheduler);
        }
        enqueue_near(scheduler);
    }
}

/// Adds all objects to the queue that changed Clusters concern.
pub fn enqueue(scheduler: &Scheduler) {
    enqueue_near(scheduler);
    enqueue_all(scheduler);
}

/// Adds the objects on changed Clusters, except for Clusters of throttled workspaces.
fn enqueue_near(scheduler: &Scheduler) {
    let mut uids = scheduler.rebalancing.take();
    let may_throttle = scheduler.may_throttle();
    let throttled: Vec<_> =
        uids.extract_if(|_, workspace| may_throttle && scheduler.throttle.defer(workspace)).collect();
    scheduler.rebalancing.clusters().uids.extend(throttled);
    if uids.is_empty() {
        return;
    }
    let near = {
        let mut ledger = scheduler.ledger();
        scheduler.update(&mut ledger);
        let is_waiting =
            |uid: &str| ledger.cluster_key(uid).is_some_and(|key| scheduler.changes.has_cluster(key));
        // A heartbeat, for example, may have changed the Cluster since the update. No other event follows for it.
        scheduler.rebalancing.put_back(uids.extract_if(|uid, _| is_waiting(uid)).collect());
        // All objects are looked at.
        let begun = Instant::now();
        let near = ledger.placed(|clusters| clusters.iter().any(|uid| uids.contains_key(&**uid)));
        if may_throttle {
            let workspaces: HashSet<&Arc<str>> = uids.values().collect();
            workspaces.into_iter().for_each(|workspace| scheduler.throttle.add(workspace, begun.elapsed()));
        }
        near
    };
    near.into_iter().for_each(|key| scheduler.queue.add(key));
}

/// Adds the objects of all workspaces that Clusters serve which take new shares and have changed.
fn enqueue_all(scheduler: &Scheduler) {
    let rebalancing = &scheduler.rebalancing;
    let open = {
        let mut clusters = rebalancing.clusters();
        clusters.settles = None;
        std::mem::take(&mut clusters.open)
    };
    if open.is_empty() {
        return;
    }
    let all = {
        let mut ledger = scheduler.ledger();
        scheduler.update(&mut ledger);
        ledger.placed(|_| true)
    };
    let mut served: HashMap<Arc<str>, bool> = HashMap::new();
    let all = all.into_iter().filter(|key| {
        let is_open = || scheduler.api.ancestry(&key.workspace).iter().any(|(id, _)| open.contains(&**id));
        *served.entry(key.workspace.clone()).or_insert_with(is_open)
    });
    for key in all {
        rebalancing.objects().insert(key.clone(), false);
        scheduler.queue.add(key);
    }
}

/// Clusters that get no replicas for the sake of balance yet.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct RecentlyReady {
    /// Uids of the clusters.
    pub clusters: Vec<Arc<str>>,
    /// The time, in seconds, at which the first of them may be used.
    pub due: Option<i64>,
}

/// Returns the clusters that have not been Ready for long enough to take over replicas: replicas must not move
/// to a cluster that comes and goes.
pub fn recently_ready(fleet: &Fleet, demand: &Demand, failover: &Failover, now: i64) -> RecentlyReady {
    let mut recent = RecentlyReady::default();
    for state in fleet.each_serving(&demand.workspace_path) {
        let Readiness::Ready { since } = &state.readiness else { continue };
        if demand.share(&state.uid).is_some() {
            continue;
        }
        let has_joined = !state.has_failed && since.saturating_sub(state.registered) <= JOINING_SECONDS;
        let at = match has_joined {
            true => Some(since.saturating_add(JOINED_SECONDS)),
            false => returns_at(state, failover),
        };
        if at.is_none_or(|at| now < at) {
            recent.clusters.push(state.uid.clone());
            recent.due = recent.due.into_iter().chain(at).min();
        }
    }
    recent
}

#[cfg(test)]
mod tests {
    use atoll_placement::cluster::ClusterState;

    use super::*;

    #[test]
    fn moves_of_one_workspace_do_not_count_for_others() {
        let rebalancing = Rebalancing::default();
        let begin = |workspace: &str, number: i64, now: i64| {
            rebalancing.begin(&Key::new(workspace, "2/n", &number.to_string()), now, 10)
        };
        assert!((0..60).all(|number| begin("one", number, number).is_ok()));
        assert!(begin("one", 60, 60).is_err() && begin("other", 60, 60).is_ok());
        assert!(begin("one", 60, 3700).is_ok());
    }

    #[test]
    fn the_size_of_a_cluster_does_not_depend_on_what_runs_there() {
        let cluster = |nodes: i64, allocatable: &str, free: &str| {
            let free = serde_json::json!([{ "nodes": nodes, "resources": { "cpu": free } }]);
            let status =
                serde_json::json!({ "allocatable": { "cpu": allocatable, "pods": 110 }, "free": free });
            serde_json::json!({ "metadata": { "name": "east", "uid": "1" }, "status": status })
        };
        let before = cluster(2, "8", "3");
        for (after, is_changed) in [
            (cluster(2, "8", "1"), false),
            (cluster(2, "8000m", "3"), false),
            (cluster(2, "4", "3"), true),
            (cluster(2, "16", "3"), true),
            (cluster(3, "8", "3"), true),
        ] {
            assert_eq!(terms(&before) != terms(&after), is_changed, "{after}");
        }
    }

    #[test]
    fn clusters_are_balanced_when_they_have_stayed_ready() {
        let state = |name: &str, registered: i64, since: i64| ClusterState {
            name: name.into(),
            uid: name.into(),
            workspace: "root".into(),
            registered,
            readiness: Readiness::Ready { since },
            ..ClusterState::default()
        };
        let mut fleet = Fleet::new();
        fleet.set_cluster(state("joined", 995, 1000));
        fleet.set_cluster(state("returned", 0, 1000));
        // It failed and returned soon after it had joined.
        fleet.set_cluster(ClusterState { has_failed: true, ..state("unstable", 970, 1000) });
        fleet.set_cluster(state("old", 0, 0));
        let demand = Demand { workspace_path: "root".into(), ..Demand::default() };
        let recent = |failover: &Failover, now: i64| {
            let found = recently_ready(&fleet, &demand, failover, now);
            (found.clusters.iter().map(|uid| uid.to_string()).collect::<Vec<_>>().join(" "), found.due)
        };
        let (usual, never) = (Failover::default(), Failover { returns: false, ..Failover::default() });
        assert_eq!(recent(&usual, 1001), ("returned unstable joined".into(), Some(1010)));
        assert_eq!(recent(&usual, 1010), ("returned unstable".into(), Some(1030)));
        assert_eq!(recent(&usual, 1030), (String::new(), None));
        assert_eq!(recent(&never, 9000), ("returned unstable".into(), None));
    }
}
