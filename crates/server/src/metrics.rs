//! `/metrics`: what upstream's dashboards know, by resource and never by workspace, namespace or name.

use std::sync::Arc;
use std::time::{Duration, Instant};

use atoll_registry::{Catalog, Registry};
use atoll_store::{BoxFuture, Page, Range, ReadError, Revision, Sink, Store, Write, WriteError};
use http::{Response, StatusCode};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry as Exposed;

use crate::body::Body;
use crate::request::RequestInfo;
use crate::respond;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RequestLabels {
    verb: &'static str,
    group: String,
    version: String,
    resource: String,
    subresource: String,
    scope: &'static str,
    code: u16,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct DurationLabels {
    verb: &'static str,
    group: String,
    resource: String,
}

pub struct Metrics {
    exposed: Exposed,
    requests: Family<RequestLabels, Counter>,
    durations: Family<DurationLabels, Histogram, fn() -> Histogram>,
    writes: Histogram,
    objects: Gauge,
    revision: Gauge,
    oldest: Gauge,
    watchers: Gauge,
}

/// Seconds, from what a read from memory takes to what nobody waits for.
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
            requests: Family::default(),
            durations: Family::new_with_constructor(histogram as fn() -> Histogram),
            writes: histogram(),
            objects: Gauge::default(),
            revision: Gauge::default(),
            oldest: Gauge::default(),
            watchers: Gauge::default(),
        };
        metrics.register()
    }

    fn register(mut self) -> Self {
        let exposed = &mut self.exposed;
        // The library appends `_total` to counters by itself.
        exposed.register("apiserver_request", "Requests by verb, resource and code", self.requests.clone());
        exposed.register(
            "apiserver_request_duration_seconds",
            "Time to answer a request",
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
        exposed.register("apiserver_longrunning_requests", "Watches under way", self.watchers.clone());
        self
    }

    /// Counts a request. What is not served is counted under no resource, so that clients cannot make labels up.
    pub fn request(&self, catalog: &Catalog, info: &RequestInfo, code: StatusCode, took: Duration) {
        let row = catalog.find(&info.group, &info.version, &info.resource);
        let known = row.map(|row| (row.group.clone(), row.version.clone(), row.resource.clone()));
        let (group, version, resource) = known.unwrap_or_default();
        let subresource = row.and_then(|row| row.subresource(&info.subresource));
        let verb = if row.is_some() { info.verb } else { "other" };
        let scope = match (info.name.is_empty(), info.namespace.is_empty()) {
            _ if !info.is_resource => "",
            (false, _) => "resource",
            (true, false) => "namespace",
            (true, true) => "cluster",
        };
        if verb != "watch" {
            let labels = DurationLabels { verb, group: group.clone(), resource: resource.clone() };
            self.durations.get_or_create(&labels).observe(took.as_secs_f64());
        }
        let subresource = subresource.map(|subresource| subresource.name.clone()).unwrap_or_default();
        let labels =
            RequestLabels { verb, group, version, resource, subresource, scope, code: code.as_u16() };
        self.requests.get_or_create(&labels).inc();
    }

    pub fn answer(&self, registry: &Registry) -> Response<Body> {
        let snapshot = registry.snapshot();
        self.objects.set(snapshot.len().cast_signed() as i64);
        self.revision.set(snapshot.revision.cast_signed());
        self.oldest.set(registry.cache.oldest().cast_signed());
        self.watchers.set(registry.cache.watchers().cast_signed() as i64);
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = encode(&mut text, &self.exposed);
        respond::with_type(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", Body::from(text))
    }

    /// `store`, with the time of its writes measured.
    pub fn measured(&self, store: Arc<dyn Store>) -> Arc<dyn Store> {
        Arc::new(Measured { store, writes: self.writes.clone() })
    }
}

/// A store whose writes are timed.
struct Measured {
    store: Arc<dyn Store>,
    writes: Histogram,
}

impl Store for Measured {
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

    fn follow(&self, after: Revision, sink: Sink) -> BoxFuture<'_, Result<(), ReadError>> {
        self.store.follow(after, sink)
    }

    fn compact(&self, through: Revision) -> BoxFuture<'_, Result<(), WriteError>> {
        self.store.compact(through)
    }

    fn raise(&self, to: Revision) -> BoxFuture<'_, Result<(), WriteError>> {
        self.store.raise(to)
    }
}
