//! `/metrics`: request metrics as upstream, by resource and never by workspace, namespace or name; and memory
//! of clusters, by cluster, of which there are few.

// upstream: staging/src/k8s.io/apiserver/pkg/endpoints/metrics/metrics.go

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::{Duration, Instant};

use atoll_client::memory_limits::{self, Budgets};
use atoll_registry::usage;
use atoll_registry::{Catalog, Registry, SharedRow};
use atoll_store::{
    BoxFuture, Key, Page, Range, ReadError, Revision, Sink, Store, Unavailable, Visit, Write, WriteError,
};
use bytes::Bytes;
use http::{Response, StatusCode};
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeLabelSet, LabelSetEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry as Exposed;

use crate::body::Body;
use crate::listen::connections::ConnectionCounts;
use crate::request::RequestInfo;
use crate::respond;

/// Labels refer to the row, so that counting a request copies no text. They are equal if their output is.
#[derive(Clone, Debug)]
struct RequestLabels {
    verb: &'static str,
    row: Option<SharedRow>,
    subresource: String,
    scope: &'static str,
    code: u16,
}

#[derive(Clone, Debug)]
struct DurationLabels {
    verb: &'static str,
    row: Option<SharedRow>,
}

impl RequestLabels {
    fn values(&self) -> (&str, [&str; 3], &str, &str, u16) {
        (self.verb, names(&self.row), &self.subresource, self.scope, self.code)
    }
}

impl DurationLabels {
    fn values(&self) -> (&str, [&str; 2]) {
        // All versions of a resource are counted together.
        let [group, _, resource] = names(&self.row);
        (self.verb, [group, resource])
    }
}

/// Returns group, version and resource.
fn names(row: &Option<SharedRow>) -> [&str; 3] {
    row.as_ref().map_or([""; 3], |row| [&row.group, &row.version, &row.resource])
}

impl PartialEq for RequestLabels {
    fn eq(&self, other: &Self) -> bool {
        self.values() == other.values()
    }
}

impl Eq for RequestLabels {}

impl Hash for RequestLabels {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.values().hash(state);
    }
}

impl PartialEq for DurationLabels {
    fn eq(&self, other: &Self) -> bool {
        self.values() == other.values()
    }
}

impl Eq for DurationLabels {}

impl Hash for DurationLabels {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.values().hash(state);
    }
}

impl EncodeLabelSet for RequestLabels {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> Result<(), fmt::Error> {
        let (verb, [group, version, resource], subresource, scope, code) = self.values();
        let code = code.to_string();
        let labels = [
            ("verb", verb),
            ("group", group),
            ("version", version),
            ("resource", resource),
            ("subresource", subresource),
            ("scope", scope),
            ("code", &code),
        ];
        labels.encode(encoder)
    }
}

impl EncodeLabelSet for DurationLabels {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> Result<(), fmt::Error> {
        let (verb, [group, resource]) = self.values();
        [("verb", verb), ("group", group), ("resource", resource)].encode(encoder)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ClusterLabels {
    workspace: String,
    cluster: String,
}

impl EncodeLabelSet for ClusterLabels {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> Result<(), fmt::Error> {
        [("workspace", self.workspace.as_str()), ("cluster", self.cluster.as_str())].encode(encoder)
    }
}

pub struct Metrics {
    exposed: Exposed,
    /// Memory budgets of the clusters that this process syncs.
    pub clusters: Arc<Budgets>,
    cluster_memory: Family<ClusterLabels, Gauge>,
    cluster_refusals: Family<ClusterLabels, Gauge>,
    requests: Family<RequestLabels, Counter>,
    durations: Family<DurationLabels, Histogram, fn() -> Histogram>,
    writes: Histogram,
    objects: Gauge,
    revision: Gauge,
    oldest: Gauge,
    watchers: Gauge,
    expired: Gauge,
    scheduler_clusters: Gauge,
    connections: Gauge,
    closed_connections: Gauge,
    refused_connections: Gauge,
    refusals: Family<LimitLabels, Gauge>,
    usage: Family<UsageLabels, Gauge>,
    limits: Family<UsageLabels, Gauge>,
}

/// A limit of a workspace.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LimitLabels {
    limit: &'static str,
}

/// A workspace ID and a limit.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct UsageLabels {
    workspace: String,
    limit: &'static str,
}

/// Seconds, from reads from memory to timeouts.
const BUCKETS: [f64; 14] =
    [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0];

fn histogram() -> Histogram {
    Histogram::new(BUCKETS)
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    pub fn new() -> Self {
        let metrics = Metrics {
            exposed: Exposed::default(),
            clusters: Arc::default(),
            cluster_memory: Family::default(),
            cluster_refusals: Family::default(),
            requests: Family::default(),
            durations: Family::new_with_constructor(histogram as fn() -> Histogram),
            writes: histogram(),
            objects: Gauge::default(),
            revision: Gauge::default(),
            oldest: Gauge::default(),
            watchers: Gauge::default(),
            expired: Gauge::default(),
            scheduler_clusters: Gauge::default(),
            connections: Gauge::default(),
            closed_connections: Gauge::default(),
            refused_connections: Gauge::default(),
            refusals: Family::default(),
            usage: Family::default(),
            limits: Family::default(),
        };
        metrics.register()
    }

    fn register(mut self) -> Self {
        let exposed = &mut self.exposed;
        // The library appends `_total` to counters.
        exposed.register("apiserver_request", "Requests by verb, resource and code", self.requests.clone());
        exposed.register(
            "apiserver_request_duration_seconds",
            "Time to respond to a request",
            self.durations.clone(),
        );
        exposed.register(
            "atoll_store_write_duration_seconds",
            "Time until a write was durable",
            self.writes.clone(),
        );
        exposed.register("atoll_objects", "Objects held in memory", self.objects.clone());
        exposed.register("atoll_revision", "Revision of the last write", self.revision.clone());
        exposed.register(
            "atoll_oldest_revision",
            "Oldest revision that can be watched from",
            self.oldest.clone(),
        );
        exposed.register(
            "atoll_cluster_memory_bytes",
            "Memory used by responses of a synced cluster, of the budget that each cluster has",
            self.cluster_memory.clone(),
        );
        exposed.register(
            "atoll_cluster_oversized_responses",
            "Responses of a synced cluster that were not read because they were too large",
            self.cluster_refusals.clone(),
        );
        let budget = Gauge::<i64>::default();
        budget.set(memory_limits::CLUSTER as i64);
        exposed.register("atoll_cluster_memory_budget_bytes", "Memory that each cluster may take", budget);
        exposed.register("apiserver_longrunning_requests", "Open watches", self.watchers.clone());
        exposed.register(
            "atoll_expired_watches",
            "Watches that have ended since the start because they were too slow",
            self.expired.clone(),
        );
        exposed.register(
            "atoll_scheduler_available_clusters",
            "Clusters that are Ready and whose room the scheduler knows",
            self.scheduler_clusters.clone(),
        );
        exposed.register("atoll_connections", "Open connections of clients", self.connections.clone());
        exposed.register(
            "atoll_closed_connections",
            "Connections closed since the start to make room for others",
            self.closed_connections.clone(),
        );
        exposed.register(
            "atoll_refused_connections",
            "Connections refused since the start because too many were in use",
            self.refused_connections.clone(),
        );
        exposed.register(
            "atoll_workspace_limit_refusals",
            "Writes refused since the start because a limit of a workspace would be exceeded",
            self.refusals.clone(),
        );
        exposed.register(
            "atoll_workspace_usage",
            "Usage of a workspace and its descendants, for the ten that are nearest to their limits",
            self.usage.clone(),
        );
        exposed.register("atoll_workspace_limit", "The limits of the same workspaces", self.limits.clone());
        self
    }

    /// Counts a request. Unknown resources are counted without a resource, so that clients cannot create
    /// labels.
    pub fn request(&self, catalog: &Catalog, info: &RequestInfo, code: StatusCode, took: Duration) {
        let row = catalog.find(&info.group, &info.version, &info.resource);
        let subresource = row.and_then(|row| row.subresource(&info.subresource));
        let verb = if row.is_some() { info.verb } else { "other" };
        let scope = match (info.name.is_empty(), info.namespace.is_empty()) {
            _ if !info.is_resource => "",
            (false, _) => "resource",
            (true, false) => "namespace",
            (true, true) => "cluster",
        };
        if verb != "watch" {
            let labels = DurationLabels { verb, row: row.cloned() };
            self.durations.get_or_create(&labels).observe(took.as_secs_f64());
        }
        let subresource = subresource.map(|subresource| subresource.name.clone()).unwrap_or_default();
        let labels = RequestLabels { verb, row: row.cloned(), subresource, scope, code: code.as_u16() };
        self.requests.get_or_create(&labels).inc();
    }

    pub fn render(
        &self,
        registry: &Registry,
        connections: ConnectionCounts,
        available_clusters: usize,
    ) -> Response<Body> {
        self.scheduler_clusters.set(available_clusters.cast_signed() as i64);
        let snapshot = registry.snapshot();
        self.objects.set(snapshot.len().cast_signed() as i64);
        self.revision.set(snapshot.revision.cast_signed());
        self.oldest.set(registry.cache.oldest().cast_signed());
        self.watchers.set(registry.cache.watchers().cast_signed() as i64);
        self.expired.set(registry.cache.expired_watches().cast_signed());
        self.connections.set(connections.open.cast_signed() as i64);
        self.closed_connections.set(connections.closed.cast_signed());
        self.refused_connections.set(connections.refused.cast_signed());
        self.cluster_memory.clear();
        self.cluster_refusals.clear();
        for usage in self.clusters.usage() {
            let labels = ClusterLabels { workspace: usage.workspace, cluster: usage.cluster };
            self.cluster_memory.get_or_create(&labels).set(usage.bytes as i64);
            self.cluster_refusals.get_or_create(&labels).set(usage.refusals as i64);
        }
        for (limit, refused) in usage::NAMES.into_iter().zip(registry.usage.refused()) {
            self.refusals.get_or_create(&LimitLabels { limit }).set(refused.cast_signed());
        }
        // The number of these is constant, however many workspaces there are.
        self.usage.clear();
        self.limits.clear();
        for (workspace, used, limits) in registry.usage.fullest() {
            let each = usage::NAMES.into_iter().zip(used.list()).zip(limits.list());
            for ((limit, used), most) in each {
                let labels = UsageLabels { workspace: workspace.clone(), limit };
                self.usage.get_or_create(&labels).set(used);
                self.limits.get_or_create(&labels).set(most);
            }
        }
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = encode(&mut text, &self.exposed);
        respond::with_type(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", Body::from(text))
    }

    /// Wraps `store` to measure the time of its writes.
    pub fn timed(&self, store: Arc<dyn Store>) -> Arc<dyn Store> {
        Arc::new(TimedStore { store, writes: self.writes.clone() })
    }
}

/// A store whose writes are timed.
struct TimedStore {
    store: Arc<dyn Store>,
    writes: Histogram,
}

impl Store for TimedStore {
    fn write(&self, write: Write) -> BoxFuture<'_, Result<Revision, WriteError>> {
        Box::pin(async move {
            let started = Instant::now();
            let outcome = self.store.write(write).await;
            self.writes.observe(started.elapsed().as_secs_f64());
            outcome
        })
    }

    fn range(
        &self,
        range: Range,
        at: Option<Revision>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Page, ReadError>> {
        self.store.range(range, at, limit)
    }

    fn revision(&self) -> BoxFuture<'_, Result<Revision, ReadError>> {
        self.store.revision()
    }

    fn compacted(&self) -> BoxFuture<'_, Result<Revision, ReadError>> {
        self.store.compacted()
    }

    fn subscribe(&self, after: Revision, sink: Sink) -> BoxFuture<'_, Result<(), ReadError>> {
        self.store.subscribe(after, sink)
    }

    fn tail_start(&self, bytes: usize) -> BoxFuture<'_, Result<Revision, ReadError>> {
        self.store.tail_start(bytes)
    }

    fn visit(&self, visit: Visit) -> BoxFuture<'_, Result<(), ReadError>> {
        self.store.visit(visit)
    }

    fn compact(&self, through: Revision) -> BoxFuture<'_, Result<(), WriteError>> {
        self.store.compact(through)
    }

    fn raise(&self, to: Revision) -> BoxFuture<'_, Result<(), WriteError>> {
        self.store.raise(to)
    }

    fn encrypt(&self, key: &Key, value: &[u8]) -> Result<Option<Bytes>, Unavailable> {
        self.store.encrypt(key, value)
    }

    fn decrypt(&self, key: &Key, sealed: &Bytes) -> Result<Bytes, Unavailable> {
        self.store.decrypt(key, sealed)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use atoll_registry::Profile;
    use atoll_store::memory::MemoryStore;
    use http::Method;

    use super::*;
    use crate::query::Query;

    /// A store that answers questions without reading everything, and counts them.
    #[derive(Default)]
    struct Shortcuts {
        store: MemoryStore,
        used: AtomicUsize,
    }

    impl Store for Shortcuts {
        fn write(&self, write: Write) -> BoxFuture<'_, Result<Revision, WriteError>> {
            self.store.write(write)
        }

        fn range(
            &self,
            range: Range,
            at: Option<Revision>,
            limit: usize,
        ) -> BoxFuture<'_, Result<Page, ReadError>> {
            self.store.range(range, at, limit)
        }

        fn revision(&self) -> BoxFuture<'_, Result<Revision, ReadError>> {
            self.store.revision()
        }

        fn compacted(&self) -> BoxFuture<'_, Result<Revision, ReadError>> {
            self.store.compacted()
        }

        fn subscribe(&self, after: Revision, sink: Sink) -> BoxFuture<'_, Result<(), ReadError>> {
            self.store.subscribe(after, sink)
        }

        fn tail_start(&self, bytes: usize) -> BoxFuture<'_, Result<Revision, ReadError>> {
            Box::pin(async move { Ok(bytes as Revision) })
        }

        fn visit(&self, _: Visit) -> BoxFuture<'_, Result<(), ReadError>> {
            self.used.fetch_add(1, Ordering::Relaxed);
            Box::pin(async { Ok(()) })
        }

        fn compact(&self, through: Revision) -> BoxFuture<'_, Result<(), WriteError>> {
            self.store.compact(through)
        }

        fn raise(&self, to: Revision) -> BoxFuture<'_, Result<(), WriteError>> {
            self.store.raise(to)
        }
    }

    #[tokio::test]
    async fn timed_stores_keep_the_shortcuts_of_the_store() {
        let store = Arc::new(Shortcuts::default());
        let timed = Metrics::new().timed(store.clone());
        assert_eq!(timed.tail_start(7).await, Ok(7));
        assert_eq!(timed.visit(Arc::new(|_, _, _| {})).await, Ok(()));
        assert_eq!(store.used.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn requests_are_counted_by_resource_and_never_by_name() {
        let (metrics, catalog) = (Metrics::new(), Catalog::new(Profile::Minimal));
        let request = |path: &str, code: StatusCode| {
            let info = RequestInfo::parse(&Method::GET, path, &Query::default()).unwrap();
            metrics.request(&catalog, &info, code, Duration::from_millis(2));
        };
        request("/api/v1/namespaces/a/configmaps/x", StatusCode::OK);
        request("/clusters/root:org/api/v1/namespaces/b/configmaps/y", StatusCode::OK);
        request("/api/v1/namespaces/a/configmaps/x", StatusCode::NOT_FOUND);
        request("/apis/made.up/v1/things/x", StatusCode::NOT_FOUND);
        request("/apis/another.made.up/v1/others/x", StatusCode::NOT_FOUND);
        let mut text = String::new();
        encode(&mut text, &metrics.exposed).unwrap();
        let mut counted: Vec<&str> =
            text.lines().filter(|line| line.starts_with("apiserver_request_total{")).collect();
        counted.sort_unstable();
        let line = |verb: &str, version: &str, resource: &str, code: u16, count: u64| {
            format!(
                "apiserver_request_total{{verb=\"{verb}\",group=\"\",version=\"{version}\",resource=\"{resource}\",\
                 subresource=\"\",scope=\"resource\",code=\"{code}\"}} {count}"
            )
        };
        assert_eq!(
            counted,
            [
                line("get", "v1", "configmaps", 200, 2),
                line("get", "v1", "configmaps", 404, 1),
                line("other", "", "", 404, 2),
            ]
        );
        let durations =
            "apiserver_request_duration_seconds_count{verb=\"get\",group=\"\",resource=\"configmaps\"} 3";
        assert!(text.contains(durations), "{text}");
    }
}
