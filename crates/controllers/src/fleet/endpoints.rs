//! Merges the endpoints that clusters report for a placed Service into EndpointSlices above.
//!
//! ```text
//!   ObjectStatus of each cluster, placement of the Service, health of Clusters ─► merge ─► EndpointSlices
//! ```
//!
//! Services whose Pods are created above have slices of the ordinary controller instead.

mod merge;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use atoll_fleet::Placement;
use atoll_fleet::placed_condition::Health;
use atoll_fleet::view::{MAX_ENDPOINTS, ServiceEndpoints};
use atoll_informer::{Cache, Key, Next, Queue, Recorder, resources};
use atoll_meta::{Status, object};
use serde_json::Value;

use super::changed_clusters::{self, ChangedCluster, ClusterChange};
use super::cluster_lookup::ClusterLookup;
use crate::context::Context;
use crate::network::slice_writes::{self, MANAGED_BY, SERVICE_NAME};
use merge::{ClusterEndpoints, MANAGER};

const WORKERS: usize = 8;
/// Delay before a write is tried again that a limit of the workspace has refused.
const REFUSED_DELAY: Duration = Duration::from_secs(30);

/// Whether a report is about a Service in its own namespace.
fn is_of_service(record: &Value) -> bool {
    let spec = &record["spec"];
    spec["resource"]["group"] == "" && spec["resource"]["resource"] == "services" && {
        let namespace = object::namespace(record);
        spec["namespace"] == namespace && !namespace.is_empty()
    }
}

/// The key of the Service that a report is about.
fn service_key(record: &Value) -> Option<Key> {
    let name = record["spec"]["name"].as_str().filter(|_| is_of_service(record))?;
    Some(Key::of(record).sibling(name))
}

/// Index of reports by their Service.
fn by_service(record: &Value) -> Vec<String> {
    service_key(record).map(|key| key.to_string()).into_iter().collect()
}

/// Index of reports about Services by cluster.
fn by_cluster(record: &Value) -> Vec<String> {
    changed_clusters::of_report(record).filter(|_| is_of_service(record)).into_iter().collect()
}

/// Index of merged slices by their Service.
fn slices_by_service(slice: &Value) -> Vec<String> {
    slice_service(slice).map(|key| key.to_string()).into_iter().collect()
}

/// The key of the Service that a merged slice belongs to.
fn slice_service(slice: &Value) -> Option<Key> {
    let service = object::label(slice, SERVICE_NAME)?;
    (object::label(slice, MANAGED_BY) == Some(MANAGER)).then(|| Key::of(slice).sibling(service))
}

pub async fn run(context: Context) {
    let records = context.informers.of(&resources::OBJECT_STATUSES);
    let clusters = context.informers.of(&resources::CLUSTERS);
    let services = context.informers.of(&resources::SERVICES);
    let slices = context.informers.of(&resources::ENDPOINT_SLICES);
    let of_cluster = records.index(by_cluster);
    let controller = Arc::new(Controller {
        of_service: records.index(by_service),
        slices_of_service: slices.index(slices_by_service),
        lookup: ClusterLookup {
            clusters: clusters.clone(),
            api: context.api().clone(),
            intents: context.intents.clone(),
        },
        recorder: context.events.recorder("atoll-fleet"),
        cut: Mutex::default(),
        records: records.clone(),
        services: services.clone(),
        slices: slices.clone(),
        context,
    });
    for cache in [&records, &clusters, &services, &slices] {
        cache.synced().await;
    }
    let queue = Queue::new();
    let adding = queue.clone();
    records.listen(move |change| service_key(change.object()).into_iter().for_each(|key| adding.add(key)));
    let adding = queue.clone();
    services.listen(move |change| {
        let is_placed =
            |object: &Option<Arc<Value>>| object.as_ref().is_some_and(|it| !Placement::of(it).is_empty());
        if is_placed(&change.old) || is_placed(&change.new) || change.new.is_none() {
            adding.add(change.key.clone());
        }
    });
    let adding = queue.clone();
    slices.listen(move |change| {
        for slice in [&change.old, &change.new].into_iter().flatten() {
            slice_service(slice).into_iter().for_each(|key| adding.add(key));
        }
    });
    let (adding, reports) = (queue.clone(), records.clone());
    let affected = move |cluster: &ChangedCluster| {
        if cluster.what == ClusterChange::Health {
            let found = cluster.index_keys().into_iter().flat_map(|key| reports.by_index(of_cluster, &key));
            found.filter_map(|record| service_key(&record)).for_each(|key| adding.add(key));
        }
    };
    let working = queue.work("endpoints of placed Services", WORKERS, move |key| {
        let controller = controller.clone();
        async move { controller.sync(&key).await }
    });
    tokio::join!(working, changed_clusters::follow(&clusters, affected));
}

struct Controller {
    context: Context,
    records: Arc<Cache>,
    of_service: usize,
    services: Arc<Cache>,
    slices: Arc<Cache>,
    slices_of_service: usize,
    lookup: ClusterLookup,
    recorder: Recorder,
    /// Numbers of endpoints that were left out, by Service and cluster. One event was written for each cluster.
    cut: Mutex<HashMap<Key, HashMap<String, i64>>>,
}

impl Controller {
    async fn sync(&self, key: &Key) -> Result<Next, Status> {
        let mut existing = self.slices.by_index(self.slices_of_service, &key.to_string());
        existing.retain(|slice| !object::is_being_deleted(slice));
        let service = self.services.get(key).filter(|service| !self.context.manages(service));
        let endpoints = match &service {
            Some(service) if !object::is_being_deleted(service) => self.endpoints(key, service),
            _ => Vec::new(),
        };
        self.report_cut(key, service.as_deref(), &endpoints);
        let writes = match &service {
            Some(service) => merge::merge(service, &endpoints, &existing),
            None => slice_writes::Writes { delete: existing, ..slice_writes::Writes::default() },
        };
        match slice_writes::write(&self.context, &self.slices, key, "Service", &writes).await {
            Ok(()) => Ok(Next::Done),
            Err((_, status)) if matches!(status.reason(), "Conflict" | "NotFound") => Ok(Next::Again),
            Err((did, status)) if status.code() == 403 => {
                if let Some(service) = &service {
                    let message = format!("{did}: {}", status.message());
                    let kind = &resources::SERVICES;
                    self.recorder.warning(kind, service, "FailedToUpdateEndpointSlices", message);
                }
                Ok(Next::After(REFUSED_DELAY))
            }
            Err((did, status)) => Err(Status::plain_internal(format!("{did}: {}", status.message()))),
        }
    }

    /// The last reports of the clusters of a Service about it.
    fn endpoints(&self, key: &Key, service: &Value) -> Vec<ClusterEndpoints> {
        let placement = Placement::of(service);
        let records = self.records.by_index(self.of_service, &key.to_string());
        let records = records.iter().filter(|record| record["spec"]["uid"] == *object::uid(service));
        let of_cluster = |record: &Arc<Value>| {
            let text = |field: &str| record["spec"][field].as_str().unwrap_or_default();
            let share = placement.share(text("cluster"))?;
            let endpoints = &record["status"]["endpoints"];
            if !share.is_of(text("cluster"), text("clusterUID")) || !endpoints.is_object() {
                return None;
            }
            // Users of the workspace may change reports.
            let endpoints: ServiceEndpoints = serde_json::from_value(endpoints.clone()).ok()?;
            let health = self.lookup.health(&key.workspace, &share.name, &share.uid);
            Some(ClusterEndpoints {
                cluster: share.name.clone(),
                is_reachable: health == Health::Ready,
                endpoints: endpoints.bounded(),
            })
        };
        records.filter_map(of_cluster).collect()
    }

    /// Records an event when endpoints are left out.
    fn report_cut(&self, key: &Key, service: Option<&Value>, endpoints: &[ClusterEndpoints]) {
        let mut told = self.cut.lock().unwrap_or_else(PoisonError::into_inner);
        let before = told.remove(key).unwrap_or_default();
        let Some(service) = service else { return };
        let cut =
            endpoints.iter().map(|of| (of.cluster.clone(), of.endpoints.cut)).filter(|(_, cut)| *cut > 0);
        let cut: HashMap<String, i64> = cut.collect();
        for (cluster, cut) in &cut {
            if !before.contains_key(cluster) {
                let message = format!(
                    "cluster {cluster} has {cut} endpoints that are not shown: at most {MAX_ENDPOINTS} are, and only with addresses \
                     that are valid in an EndpointSlice"
                );
                self.recorder.warning(&resources::SERVICES, service, "EndpointsCut", message);
            }
        }
        if !cut.is_empty() {
            told.insert(key.clone(), cut);
        }
    }
}
