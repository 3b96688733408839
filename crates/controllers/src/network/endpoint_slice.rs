//! EndpointSlices: maintains the slices of every Service with a selector.
//!
//! ```text
//!   Services, Pods, Nodes, EndpointSlices ─► queue of Services ─► reconcile ─► create, update, delete slices
//! ```

// upstream: pkg/controller/endpointslice/endpointslice_controller.go

mod fill;
mod hints;
mod reconcile;
mod topology;

use std::sync::Arc;

use atoll_informer::{Cache, Change, Key, Queue, Recorder, resources};
use atoll_meta::{Status, object};
use serde_json::Value;

use crate::context::{Context, WorkloadScope};
use crate::network::large_services::{self, Lane, Size};
use crate::network::service_pods::{self, TriggerTimeTracker};
use crate::network::slice_writes::{self, MANAGED_BY, SERVICE_NAME};
pub(super) use fill::CAPACITY as SLICE_CAPACITY;
use reconcile::{MANAGER, Observed, Plan};
use topology::{Topologies, ZONE};

pub async fn run(context: Context) {
    let informers = context.informers.clone();
    let controller = Arc::new(Controller {
        services: informers.of(&resources::SERVICES),
        pods: informers.of(&resources::PODS),
        nodes: informers.of(&resources::NODES),
        slices: informers.of(&resources::ENDPOINT_SLICES),
        by_service: informers.of(&resources::ENDPOINT_SLICES).index(by_service),
        triggers: TriggerTimeTracker::default(),
        topologies: Topologies::default(),
        recorder: context.events.recorder("endpoint-slice-controller"),
        context: context.clone(),
    });
    for cache in [&controller.services, &controller.pods, &controller.nodes, &controller.slices] {
        cache.synced().await;
    }
    let queue = Queue::new();
    controller.services.listen({
        let (queue, context) = (queue.clone(), context.clone());
        move |change| {
            if context.manages(change.object()) {
                queue.add(change.key.clone());
            }
        }
    });
    service_pods::enqueue_on_pod_changes(&context, &controller.pods, &controller.services, &queue);
    controller.slices.listen({
        let queue = queue.clone();
        move |change| services_of(change).into_iter().for_each(|key| queue.add(key))
    });
    controller.nodes.listen({
        let (queue, controller) = (queue.clone(), controller.clone());
        move |change| {
            if changes_zone_shares(change) {
                let workspace = &change.key.workspace;
                let overloaded =
                    controller.topologies.overloaded(workspace, || controller.nodes.list(workspace, ""));
                overloaded.into_iter().for_each(|key| queue.add(key));
            }
        }
    });
    large_services::work("endpoint slices", &queue, move |key, lane| {
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

/// Returns the Services of a changed slice, before and after the change.
fn services_of(change: &Change) -> Vec<Key> {
    let is_managed = |slice: &Arc<Value>| object::label(slice, MANAGED_BY) == Some(MANAGER);
    let states = [&change.old, &change.new];
    if !states.into_iter().flatten().any(is_managed) {
        return Vec::new();
    }
    let mut names: Vec<&str> =
        states.into_iter().flatten().filter_map(|slice| object::label(slice, SERVICE_NAME)).collect();
    names.dedup();
    names.into_iter().filter(|name| !name.is_empty()).map(|name| change.key.sibling(name)).collect()
}

/// Whether the CPUs per zone may have changed.
fn changes_zone_shares(change: &Change) -> bool {
    let (Some(old), Some(new)) = (&change.old, &change.new) else { return true };
    topology::is_ready(old) != topology::is_ready(new) || object::label(old, ZONE) != object::label(new, ZONE)
}

struct Controller {
    services: Arc<Cache>,
    pods: Arc<Cache>,
    nodes: Arc<Cache>,
    slices: Arc<Cache>,
    by_service: usize,
    triggers: TriggerTimeTracker,
    topologies: Topologies,
    recorder: Recorder,
    context: Context,
}

/// Slices as they should be.
struct Computed {
    size: Size,
    /// The slices to write, or why there are none.
    plan: Result<Plan, String>,
}

impl Controller {
    fn compute(&self, key: &Key, service: &Value, pods: &[Arc<Value>]) -> Computed {
        let mut slices = self.slices.by_index(self.by_service, &key.to_string());
        slices.retain(|slice| !object::is_being_deleted(slice));
        let (size, fits) = (large_services::size(service, pods), large_services::check_ports(service, pods));
        let plan = fits.map(|()| {
            reconcile::reconcile(&Observed {
                service,
                pods,
                slices: &slices,
                node: &|name| self.nodes.get(&key.in_workspace(name)),
                // The nodes of pods that are placed one by one are in member clusters.
                knows_nodes: self.context.workloads == WorkloadScope::All,
                shares: &|| topology::shares(&self.nodes.list(&key.workspace, "")),
                trigger: self.triggers.compute_trigger_time(key, service, pods).as_deref(),
            })
        });
        Computed { size, plan }
    }

    async fn sync(self: Arc<Self>, key: &Key, lane: Lane) -> Result<Size, Status> {
        let Some(service) = self.services.get(key) else {
            self.triggers.forget(key);
            self.topologies.forget(key);
            return Ok(Size::Small);
        };
        if !service_pods::has_selector(&service) || !self.context.manages(&service) {
            return Ok(Size::Small);
        }
        let Computed { size, plan } = match lane {
            Lane::Shared => {
                let pods = service_pods::selected_pods(&self.pods, &service);
                if large_services::size(&service, &pods) == Size::Large {
                    return Ok(Size::Large);
                }
                self.compute(key, &service, &pods)
            }
            Lane::Large(turn) => {
                let (own, key, service) = (self.clone(), key.clone(), service.clone());
                turn.run(move || {
                    let pods = service_pods::selected_pods(&own.pods, &service);
                    own.compute(&key, &service, &pods)
                })
                .await?
            }
        };
        let failed = |error: &str| {
            let service = format!("{}/{}", key.namespace, key.name);
            format!("Error updating Endpoint Slices for Service {service}: {error}")
        };
        let plan = match plan {
            Ok(plan) => plan,
            Err(reason) => {
                // Another attempt has the same result until something changes.
                let kind = &resources::SERVICES;
                self.recorder.warning(kind, &service, "FailedToUpdateEndpointSlices", failed(&reason));
                return Ok(size);
            }
        };
        let written = slice_writes::write(&self.context, &self.slices, key, "Service", &plan.writes).await;
        for (family, outcome) in plan.topologies {
            if let Some(event) = self.topologies.record(key, &family, outcome) {
                let kind = &resources::SERVICES;
                match event.warning {
                    true => self.recorder.warning(kind, &service, event.reason, event.message),
                    false => self.recorder.normal(kind, &service, event.reason, event.message),
                }
            }
        }
        let error = match written {
            Ok(()) => match reconcile::missing_nodes_error(&plan.pods_without_node, &service) {
                None => return Ok(size),
                Some(error) => Status::plain_internal(error),
            },
            Err((did, status)) if status.reason() == "Conflict" => {
                tracing::debug!(%status, %key, "{did}");
                return Err(status);
            }
            Err((did, status)) => Status::plain_internal(format!("{did}: {}", status.message())),
        };
        let message = failed(error.message());
        self.recorder.warning(&resources::SERVICES, &service, "FailedToUpdateEndpointSlices", message);
        Err(error)
    }
}
