//! Mirrors Endpoints of Services without a selector to EndpointSlices.

// upstream: pkg/controller/endpointslicemirroring/endpointslicemirroring_controller.go

mod reconcile;

use std::sync::Arc;

use atoll_informer::{Cache, Key, Queue, Recorder, resources};
use atoll_meta::{Status, object};
use serde_json::Value;

use crate::context::{Context, WorkloadScope};
use crate::network::endpoints::LEADER_ANNOTATION;
use crate::network::large_services::{self, Lane, Size};
use crate::network::slice_writes::{self, MANAGED_BY, SERVICE_NAME, Writes};
use reconcile::{CAPACITY, MANAGER};

const SKIP_MIRROR_LABEL: &str = "endpointslice.kubernetes.io/skip-mirror";

pub async fn run(context: Context) {
    let slices = context.informers.of(&resources::ENDPOINT_SLICES);
    let controller = Arc::new(Controller {
        services: context.informers.of(&resources::SERVICES),
        endpoints: context.informers.of(&resources::ENDPOINTS),
        by_service: slices.index(by_service),
        slices,
        recorder: context.events.recorder("endpoint-slice-mirroring-controller"),
        context,
    });
    for cache in [&controller.services, &controller.endpoints, &controller.slices] {
        cache.synced().await;
    }
    let queue = Queue::new();
    for cache in [&controller.services, &controller.endpoints] {
        let queue = queue.clone();
        cache.listen(move |change| queue.add(change.key.clone()));
    }
    controller.slices.listen({
        let queue = queue.clone();
        move |change| {
            let is_managed = |slice: &&Arc<Value>| object::label(slice, MANAGED_BY) == Some(MANAGER);
            let states = [&change.old, &change.new].into_iter().flatten().filter(is_managed);
            for name in states.filter_map(|slice| object::label(slice, SERVICE_NAME)) {
                queue.add(change.key.sibling(name));
            }
        }
    });
    large_services::work("mirrored endpoint slices", &queue, move |key, lane| {
        let controller = controller.clone();
        async move { controller.sync(&key, lane).await }
    })
    .await;
}

/// Index of slices by namespace and Service.
fn by_service(slice: &Value) -> Vec<String> {
    match (object::label(slice, MANAGED_BY), object::label(slice, SERVICE_NAME)) {
        (Some(MANAGER), Some(service)) => vec![Key::of(slice).sibling(service).to_string()],
        _ => Vec::new(),
    }
}

fn is_mirrored(endpoints: &Value) -> bool {
    object::label(endpoints, SKIP_MIRROR_LABEL) != Some("true")
        && object::annotation(endpoints, LEADER_ANNOTATION).is_none()
}

struct Controller {
    services: Arc<Cache>,
    endpoints: Arc<Cache>,
    slices: Arc<Cache>,
    by_service: usize,
    recorder: Recorder,
    context: Context,
}

impl Controller {
    async fn sync(&self, key: &Key, lane: Lane) -> Result<Size, Status> {
        let mut existing = self.slices.by_index(self.by_service, &key.to_string());
        existing.retain(|slice| !object::is_being_deleted(slice));
        let service = self.services.get(key);
        // Services of other workloads are mirrored in their clusters.
        let acts = match &service {
            Some(service) => self.context.manages(service),
            None => self.context.workloads == WorkloadScope::All || !existing.is_empty(),
        };
        if !acts {
            return Ok(Size::Small);
        }
        let wants = service.is_some_and(|service| service["spec"]["selector"].is_null());
        let endpoints = self.endpoints.get(key).filter(|endpoints| wants && is_mirrored(endpoints));
        let size = endpoints.as_deref().map_or(Size::Small, large_services::size_of_endpoints);
        let writes = match endpoints {
            None => Writes { delete: existing, ..Writes::default() },
            Some(endpoints) => {
                let plan = match lane {
                    Lane::Shared if size == Size::Large => return Ok(size),
                    Lane::Shared => reconcile::reconcile(&endpoints, &existing),
                    Lane::Large(turn) => {
                        let endpoints = endpoints.clone();
                        turn.run(move || reconcile::reconcile(&endpoints, &existing)).await?
                    }
                };
                let Some(plan) = plan else {
                    let message = "The ports have too many different addresses to mirror to EndpointSlices";
                    let kind = &resources::ENDPOINTS;
                    self.recorder.warning(kind, &endpoints, "TooManyAddressesToMirror", message);
                    return Ok(size);
                };
                self.record_events(&endpoints, plan.invalid, plan.too_many);
                plan.writes
            }
        };
        match slice_writes::write(&self.context, &self.slices, key, "Endpoints", &writes).await {
            Ok(()) => Ok(size),
            Err((did, status)) => {
                tracing::debug!(%status, %key, "{did}");
                Err(status)
            }
        }
    }

    fn record_events(&self, endpoints: &Value, invalid: usize, too_many: usize) {
        let warn = |reason, message| self.recorder.warning(&resources::ENDPOINTS, endpoints, reason, message);
        if invalid > 0 {
            let message = format!("Skipped {invalid} invalid IP addresses when mirroring to EndpointSlices");
            warn("InvalidIPAddress", message);
        }
        if too_many > 0 {
            let message = format!(
                "A max of {CAPACITY} addresses can be mirrored to EndpointSlices per Endpoints subset. {} addresses were skipped",
                too_many + invalid
            );
            warn("TooManyAddressesToMirror", message);
        }
    }
}
