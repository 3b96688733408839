//! Aggregates the reports of all clusters that have an object into one status above.

mod recent_writes;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use atoll_fleet::Placement;
use atoll_fleet::placed_condition::{self, Health, NOT_PLACED, PlacedObject};
use atoll_fleet::placement::Share;
use atoll_fleet::placement_refusal::ClusterChoice;
use atoll_fleet::view::{Record, State};
use atoll_informer::{Cache, DeleteOptions, Key, Next, Queue, Recorder, Resource, resources};
use atoll_meta::{Status, object, time};
use serde_json::Value;
use tokio::time::Instant;

use self::recent_writes::RecentWrites;
use super::changed_clusters::{self, ChangedCluster, ClusterChange};
use super::cluster_lookup::ClusterLookup;
use super::reports::{self, by_object, is_refusal, object_key, problem, reported_uid, target};
use crate::context::{Context, WorkloadScope};
use crate::shared::conditions;

const WORKERS: usize = 16;
/// The status subresource as a dry run, which checks whether a status would be accepted.
const STATUS_DRY_RUN: &str = "status?dryRun=All";
/// Age in seconds up to which an unplaced object gets an event, because its creator is likely to be waiting.
const NEW_SECONDS: i64 = 60;
/// Seconds that clusters have to report a newly placed object before its status says that they have not. Most report
/// at once, so that the status is written once.
const REPORT_GRACE: i64 = 5;
/// Index key of objects on no cluster; no cluster has this name.
const UNPLACED: &str = "";

/// Index of reports by cluster.
fn by_cluster(record: &Value) -> Vec<String> {
    changed_clusters::of_report(record).into_iter().collect()
}

fn own_key(object: &Value) -> Vec<String> {
    vec![object_key(&Key::of(object).workspace, object::uid(object))]
}

/// Index of objects by cluster; objects on no cluster are listed under [`UNPLACED`].
fn placed_on(object: &Value) -> Vec<String> {
    let placement = Placement::of(object);
    let nowhere = placement.clusters.is_empty().then(|| UNPLACED.to_string());
    let clusters = placement.cluster_refs().map(|(name, uid)| changed_clusters::index_key(name, uid));
    clusters.chain(nowhere).collect()
}

/// Workloads of one kind.
struct Workloads {
    cache: Arc<Cache>,
    by_uid: usize,
    by_cluster: usize,
}

/// Kinds that do not run until they are placed.
fn workloads() -> [Resource; 7] {
    [
        resources::CRON_JOBS.clone(),
        resources::DAEMON_SETS.clone(),
        resources::DEPLOYMENTS.clone(),
        resources::JOBS.clone(),
        resources::REPLICA_SETS.clone(),
        resources::REPLICATION_CONTROLLERS.clone(),
        resources::STATEFUL_SETS.clone(),
    ]
}

pub async fn run(context: Context) {
    let records = context.informers.of(&resources::OBJECT_STATUSES);
    let clusters = context.informers.of(&resources::CLUSTERS);
    let (index, of_cluster) = (records.index(by_object), records.index(by_cluster));
    let queue = Queue::new();
    let lost_report: Arc<LostReports> = Arc::default();
    let (adding, losing) = (queue.clone(), lost_report.clone());
    records.listen(move |change| {
        if change.new.is_none() {
            losing.note(change.object(), &change.key);
        }
        // The queue key is the object, so that its status is written once for many reports.
        if let Some(uid) = reported_uid(change.object()) {
            adding.add(Key::new(&change.key.workspace, &change.key.namespace, uid));
        }
    });
    let mut kinds = Vec::new();
    // A single cluster runs its workloads itself, so they are not placed.
    if context.workloads == WorkloadScope::PodGrain {
        for resource in workloads() {
            let cache = context.informers.of(&resource);
            kinds.push(Workloads {
                by_uid: cache.index(own_key),
                by_cluster: cache.index(placed_on),
                cache: cache.clone(),
            });
            let (adding, context) = (queue.clone(), context.clone());
            cache.listen(move |change| {
                if !context.manages(change.object()) {
                    adding.add(key_of(change.object()));
                }
            });
        }
    }
    let kinds = Arc::new(kinds);
    records.synced().await;
    clusters.synced().await;
    for kind in kinds.iter() {
        kind.cache.synced().await;
    }
    let recorder = context.events.recorder("atoll-fleet");
    let (adding, placed, reports, api) =
        (queue.clone(), kinds.clone(), records.clone(), context.api().clone());
    let affected = move |cluster: &ChangedCluster| match cluster.what {
        ClusterChange::Health => {
            for key in cluster.index_keys() {
                let found = placed.iter().flat_map(|kind| kind.cache.by_index(kind.by_cluster, &key));
                found.for_each(|object| adding.add(key_of(&object)));
                for record in reports.by_index(of_cluster, &key) {
                    let at = Key::of(&record);
                    if let Some(uid) = reported_uid(&record) {
                        adding.add(Key::new(&at.workspace, &at.namespace, uid));
                    }
                }
            }
        }
        // The status of unplaced objects names a cluster that would accept them.
        ClusterChange::Terms => {
            let unplaced = placed.iter().flat_map(|kind| kind.cache.by_index(kind.by_cluster, UNPLACED));
            let is_served = |object: &Arc<Value>| cluster.serves(&api, &Key::of(object).workspace);
            unplaced.filter(is_served).for_each(|object| adding.add(key_of(&object)));
        }
    };
    let lookup = ClusterLookup {
        clusters: clusters.clone(),
        api: context.api().clone(),
        intents: context.intents.clone(),
    };
    let controller = Arc::new(Controller {
        context,
        recorder,
        recorded: Mutex::default(),
        records,
        index,
        kinds,
        lookup,
        lost_report,
        recent_writes: RecentWrites::default(),
    });
    let working = queue.work("statuses of placed objects", WORKERS, move |key| {
        let controller = controller.clone();
        async move { controller.sync(&key).await }
    });
    tokio::join!(working, changed_clusters::follow(&clusters, affected));
}

/// Returns the queue key of an object: its uid, as in reports.
fn key_of(object: &Value) -> Key {
    let at = Key::of(object);
    Key::new(&at.workspace, &at.namespace, object::uid(object))
}

/// Objects that lost a report since their last sync, by index key. Each is removed when it is synced.
#[derive(Default)]
struct LostReports(Mutex<HashMap<String, (Resource, Key)>>);

impl LostReports {
    fn note(&self, record: &Value, at: &Key) {
        if let (Some(uid), Some(target)) = (reported_uid(record), target(record, at)) {
            self.known().insert(object_key(&at.workspace, uid), target);
        }
    }

    fn take(&self, object_key: &str) -> Option<(Resource, Key)> {
        self.known().remove(object_key)
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, (Resource, Key)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Events by object uid and cluster.
type Recorded = HashMap<String, HashMap<String, String>>;

struct Controller {
    context: Context,
    recorder: Recorder,
    /// Last event by object uid and cluster.
    recorded: Mutex<Recorded>,
    records: Arc<Cache>,
    index: usize,
    kinds: Arc<Vec<Workloads>>,
    lookup: ClusterLookup,
    lost_report: Arc<LostReports>,
    recent_writes: RecentWrites,
}

impl Controller {
    async fn sync(&self, key: &Key) -> Result<Next, Status> {
        if let Some(left) = self.recent_writes.time_left(&key.name, Instant::now()) {
            return Ok(Next::After(left));
        }
        let object_key = object_key(&key.workspace, &key.name);
        let lost_report = self.lost_report.take(&object_key);
        let outcome = self.sync_object(key, lost_report.as_ref()).await;
        if let (Some(lost_report), Err(_) | Ok(Next::Again)) = (lost_report, &outcome) {
            self.lost_report.known().entry(object_key).or_insert(lost_report);
        }
        outcome
    }

    /// Syncs the object whose uid is the name of `key`; `lost_report` is its location if it lost a report.
    async fn sync_object(&self, key: &Key, lost_report: Option<&(Resource, Key)>) -> Result<Next, Status> {
        let object_key = object_key(&key.workspace, &key.name);
        let records = self.records.by_index(self.index, &object_key);
        let workload = self.workload(&object_key);
        if let Some((resource, known)) = &workload {
            let reports = reports::of_object(known, &records);
            self.record_problems(resource, known, &reports);
            self.record_not_placed(resource, known, &reports);
            // A workload with the right status is not read again.
            if lost_report.is_none() && self.changed_status(resource, known, &reports, false).is_none() {
                return Ok(self.at_deadline(known));
            }
            if lost_report.is_none()
                && reports.is_empty()
                && let Some(left) = self.report_grace(known)
            {
                return Ok(Next::After(left));
            }
        }
        let (mut resource, found) = match (workload, lost_report) {
            // Its resource version prevents that a newer object is overwritten.
            (Some(workload), None) => workload,
            (workload, lost_report) => {
                let of_workload = workload.map(|(resource, known)| (resource, Key::of(&known)));
                let of_record = records.first().and_then(|record| target(record, key));
                let Some((resource, at)) = of_workload.or(of_record).or(lost_report.cloned()) else {
                    self.recorded().remove(&*key.name);
                    return Ok(Next::Done);
                };
                match self.context.api().get(&resource, &at).await {
                    Ok(found) if object::uid(&found) == &*key.name => (resource, Arc::new(found)),
                    Err(status) if status.reason() != "NotFound" => return Err(status),
                    // The object is gone, or there is another one with its name.
                    _ => return self.forget(&key.name, &records).await,
                }
            }
        };
        let reports = reports::of_object(&found, &records);
        // Reports do not contain the kind, but API servers require it for custom resources.
        if !object::kind(&found).is_empty() {
            resource.kind = object::kind(&found).to_string().into();
        }
        self.record_problems(&resource, &found, &reports);
        let has_lost_reports = lost_report.is_some() && reports.is_empty();
        if has_lost_reports {
            self.record_removed(&resource, &found);
        }
        let Some(wanted) = self.changed_status(&resource, &found, &reports, has_lost_reports) else {
            return Ok(Next::Done);
        };
        let api = self.context.api();
        let mut changed = (*found).clone();
        changed["status"] = wanted;
        let mut written = api.update_status(&resource, &changed).await;
        if written.as_ref().is_err_and(|status| status.code() == 422) {
            // A cluster has reported an invalid status, which must not hide the reports of other clusters.
            let valid = self.without_invalid(&resource, &found, reports).await;
            self.record_problems(&resource, &found, &valid);
            let Some(wanted) = self.changed_status(&resource, &found, &valid, false) else {
                return Ok(Next::Done);
            };
            changed["status"] = wanted;
            written = api.update_status(&resource, &changed).await;
        }
        match written {
            Err(status) if status.reason() == "Conflict" => Ok(Next::Again),
            // Kinds without a status have none below, either.
            Err(status) if matches!(status.reason(), "NotFound" | "MethodNotAllowed") => Ok(Next::Done),
            written => {
                self.record_placed_condition(&resource, &found, &written?);
                self.recent_writes.record(&key.name, Instant::now());
                Ok(Next::Done)
            }
        }
    }

    /// Time that the clusters of a workload still have for their first report. Its status says nothing about clusters
    /// until then.
    fn report_grace(&self, object: &Value) -> Option<Duration> {
        let placement = Placement::of(object);
        let workspace = Key::of(object).workspace;
        let is_ready =
            |share: &Share| matches!(self.lookup.health(&workspace, &share.name, &share.uid), Health::Ready);
        if placement.clusters.is_empty()
            || !placement.clusters.iter().all(is_ready)
            || conditions::find(object, placed_condition::CONDITION).is_some()
        {
            return None;
        }
        let placed = time::parse(&placement.decisions.last()?.time).ok()?.seconds;
        let left = placed.saturating_add(REPORT_GRACE).saturating_sub(self.context.clock.now().seconds);
        // A time in the future is not trusted.
        (1..=REPORT_GRACE).contains(&left).then(|| Duration::from_secs(left.unsigned_abs()))
    }

    /// Looks at a Deployment that waits for a cluster again when it stops progressing.
    fn at_deadline(&self, object: &Value) -> Next {
        let left = placed_condition::deadline(object)
            .map(|deadline| deadline.saturating_sub(self.context.clock.now().seconds))
            .and_then(|left| u64::try_from(left).ok());
        match left.filter(|left| *left > 0) {
            Some(left) => Next::After(Duration::from_secs(left)),
            None => Next::Done,
        }
    }

    /// Returns the reports without statuses that the API refuses.
    async fn without_invalid(
        &self,
        resource: &Resource,
        found: &Value,
        reports: Vec<(String, Record)>,
    ) -> Vec<(String, Record)> {
        let mut valid = Vec::with_capacity(reports.len());
        for (cluster, record) in reports {
            let alone = [(cluster, record)];
            let refused = match self.changed_status(resource, found, &alone, false) {
                Some(status) => {
                    let mut tried = found.clone();
                    tried["status"] = status;
                    let tried = self.context.api().update_subresource(resource, STATUS_DRY_RUN, &tried).await;
                    tried.err().filter(|status| status.code() == 422)
                }
                None => None,
            };
            let [(cluster, mut record)] = alone;
            if let Some(status) = refused {
                record.status = Value::Null;
                record.state = State::Refused;
                record.message =
                    format!("the cluster reported a status that is not valid: {}", status.message());
            }
            valid.push((cluster, record));
        }
        valid
    }

    /// Returns the workload, if its pods are created in member clusters.
    fn workload(&self, object_key: &str) -> Option<(Resource, Arc<Value>)> {
        let found = self.kinds.iter().find_map(|kind| {
            let found = kind.cache.by_index(kind.by_uid, object_key).into_iter().next()?;
            Some((kind.cache.resource.clone(), found))
        });
        found.filter(|(_, object)| !self.context.manages(object))
    }

    /// Returns the desired status of an object, if it differs.
    fn changed_status(
        &self,
        resource: &Resource,
        found: &Value,
        reports: &[(String, Record)],
        has_lost_reports: bool,
    ) -> Option<Value> {
        let kind = (&*resource.group, &*resource.plural);
        let workspace = Key::of(found).workspace;
        let placement = Placement::of(found);
        if reports.is_empty() && placement.is_empty() {
            if self.context.manages(found) || object::is_being_deleted(found) {
                return None;
            }
            if !placed_condition::has_condition(kind) {
                return placed_condition::status_without_clusters(kind, &found["status"])
                    .filter(|_| has_lost_reports);
            }
            let is_known = has_lost_reports || conditions::find(found, placed_condition::CONDITION).is_some();
            // The scheduler explains why an object is not placed.
            if !is_known && self.context.has_scheduler {
                return None;
            }
            // Without any cluster, an object that was never placed may be run by another controller.
            if !is_known && self.lookup.choice(kind, found) == ClusterChoice::NoCluster {
                return None;
            }
        }
        let health = |name: &str| {
            let uid = placement.share(name).map(|share| share.uid.as_str()).unwrap_or_default();
            self.lookup.health(&workspace, name, uid)
        };
        let is_there = |share: &Share| health(&share.name) != Health::Missing;
        let is_placed = !placement.clusters.is_empty() && placement.clusters.iter().all(is_there);
        let advice = match is_placed || self.context.has_scheduler {
            true => None,
            false => Some(self.lookup.advice(resource, found)),
        };
        let known = PlacedObject {
            resource: kind,
            object: found,
            records: reports,
            health: &health,
            advice: advice.as_deref(),
        };
        let wanted = known.status(&self.context.clock.now().to_time())?;
        (found["status"] != wanted).then_some(wanted)
    }

    fn recorded(&self) -> MutexGuard<'_, Recorded> {
        self.recorded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records an event that a workload is not placed, for kinds whose status has no condition for that.
    fn record_not_placed(&self, resource: &Resource, found: &Value, reports: &[(String, Record)]) {
        if self.context.has_scheduler
            || placed_condition::has_condition((&resource.group, &resource.plural))
            || !reports.is_empty()
            || !Placement::of(found).is_empty()
            || object::is_being_deleted(found)
        {
            return;
        }
        let created = object::creation_timestamp(found).and_then(|text| time::parse(text).ok());
        let is_new =
            created.is_some_and(|created| self.context.clock.now().seconds - created.seconds < NEW_SECONDS);
        let is_absent =
            || self.lookup.choice((&resource.group, &resource.plural), found) == ClusterChoice::NoCluster;
        if is_new && !is_absent() && self.is_news(found, UNPLACED, NOT_PLACED) {
            let message = format!(
                "the object is not placed on any cluster, so nothing runs; {}",
                self.lookup.advice(resource, found)
            );
            self.recorder.warning(resource, found, NOT_PLACED, message);
        }
    }

    /// Records an event that an object is no longer placed, for kinds whose status has no condition for that.
    fn record_removed(&self, resource: &Resource, found: &Value) {
        let has_condition = placed_condition::has_condition((&resource.group, &resource.plural));
        if !has_condition && Placement::of(found).is_empty() && !object::is_being_deleted(found) {
            self.recorder.normal(resource, found, NOT_PLACED, "the object is not on any cluster any more");
        }
    }

    /// Records an event when the `Placed` condition becomes false.
    fn record_placed_condition(&self, resource: &Resource, before: &Value, after: &Value) {
        let condition = |object: &Value| {
            let condition = conditions::find(object, placed_condition::CONDITION)?;
            let [status, reason, message] =
                [condition.status(), condition.reason(), condition.message()].map(String::from);
            Some((status, reason, message))
        };
        let (before, after_condition) = (condition(before), condition(after));
        let is_old = |reason: &str| before.as_ref().is_some_and(|(_, known, _)| known == reason);
        if let Some((status, reason, message)) = after_condition
            && status == "False"
            && !is_old(&reason)
            && !is_refusal(&reason)
            // The scheduler records an event with a reason for each cluster.
            && !placed_condition::is_blocked(&reason)
        {
            self.recorder.warning(resource, after, &reason, message);
        }
    }

    /// Records problems and tolerated drift of an object in its clusters, each once.
    fn record_problems(&self, resource: &Resource, found: &Value, reports: &[(String, Record)]) {
        for (cluster, record) in reports {
            match problem(record) {
                None => self.forget_event(object::uid(found), cluster),
                Some((reason, what)) => {
                    if self.is_news(found, cluster, &format!("{reason}: {what}")) {
                        let message = format!("in cluster {cluster}, {what}");
                        self.recorder.warning(resource, found, reason, message);
                    }
                }
            }
        }
    }

    /// Whether an event differs from the last one about an object and a cluster.
    fn is_news(&self, found: &Value, cluster: &str, event: &str) -> bool {
        let mut recorded = self.recorded();
        let of_object = recorded.entry(object::uid(found).to_string()).or_default();
        let before = of_object.insert(cluster.to_string(), event.to_string());
        before.is_none_or(|before| before != event)
    }

    fn forget_event(&self, uid: &str, cluster: &str) {
        let mut recorded = self.recorded();
        if let Some(of_object) = recorded.get_mut(uid) {
            of_object.remove(cluster);
            if of_object.is_empty() {
                recorded.remove(uid);
            }
        }
    }

    async fn forget(&self, uid: &str, records: &[Arc<Value>]) -> Result<Next, Status> {
        self.recorded().remove(uid);
        for record in records {
            let (key, uid) = (Key::of(record), object::uid(record));
            let options = DeleteOptions { uid: Some(uid), ..DeleteOptions::default() };
            match self.context.api().delete(&self.records.resource, &key, options).await {
                Err(status) if !matches!(status.reason(), "NotFound" | "Conflict") => return Err(status),
                _ => {}
            }
        }
        Ok(Next::Done)
    }
}
