//! Endpoints: the older form of EndpointSlices, maintained for every Service with a selector.

// upstream: pkg/controller/endpoint/endpoints_controller.go

mod pack;
mod reconcile;
mod repack;

use std::sync::Arc;

use atoll_informer::{Cache, DeleteOptions, Key, Queue, Recorder, resources};
use atoll_meta::{Status, object};
use serde_json::Value;

use crate::context::{Context, WorkloadScope};
use crate::network::large_services::{self, Lane, Size};
use crate::network::service_pods::{self, TriggerTimeTracker};
use reconcile::{MANAGED_BY, MANAGER};
pub(crate) use repack::repack;

/// Annotation of Endpoints that are used for leader election.
pub(crate) const LEADER_ANNOTATION: &str = "control-plane.alpha.kubernetes.io/leader";

pub async fn run(context: Context) {
    let controller = Arc::new(Controller {
        services: context.informers.of(&resources::SERVICES),
        pods: context.informers.of(&resources::PODS),
        endpoints: context.informers.of(&resources::ENDPOINTS),
        triggers: TriggerTimeTracker::default(),
        recorder: context.events.recorder("endpoint-controller"),
        context: context.clone(),
    });
    for cache in [&controller.services, &controller.pods, &controller.endpoints] {
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
    controller.endpoints.listen({
        let queue = queue.clone();
        move |change| {
            if change.new.is_none() {
                queue.add(change.key.clone());
            }
        }
    });
    // Services may have been deleted while the controller did not run. Later, Endpoints may be created before
    // their Service.
    for endpoints in controller.endpoints.all() {
        if object::annotation(&endpoints, LEADER_ANNOTATION).is_none() {
            queue.add(Key::of(&endpoints));
        }
    }
    large_services::work("endpoints", &queue, move |key, lane| {
        let controller = controller.clone();
        async move { controller.sync(&key, lane).await }
    })
    .await;
}

struct Controller {
    services: Arc<Cache>,
    pods: Arc<Cache>,
    endpoints: Arc<Cache>,
    triggers: TriggerTimeTracker,
    recorder: Recorder,
    context: Context,
}

/// Endpoints as they should be.
struct Computed {
    size: Size,
    /// The object to write, if it must change, or why there is none.
    wanted: Result<Option<Value>, String>,
}

impl Controller {
    fn compute(&self, key: &Key, service: &Value, pods: &[Arc<Value>], current: Option<&Value>) -> Computed {
        let trigger = self.triggers.compute_trigger_time(key, service, pods);
        let (size, fits) = (large_services::size(service, pods), large_services::check_ports(service, pods));
        let wanted = fits.map(|()| reconcile::reconcile(service, pods, current, trigger.as_deref()));
        Computed { size, wanted }
    }

    async fn sync(self: Arc<Self>, key: &Key, lane: Lane) -> Result<Size, Status> {
        let current = self.endpoints.get(key);
        let Some(service) = self.services.get(key) else {
            self.triggers.forget(key);
            return self.clean_up(key, current.as_deref()).await;
        };
        if !service_pods::has_selector(&service) || !self.context.manages(&service) {
            return Ok(Size::Small);
        }
        let computed = match lane {
            Lane::Shared => {
                let pods = service_pods::selected_pods(&self.pods, &service);
                if large_services::size(&service, &pods) == Size::Large {
                    return Ok(Size::Large);
                }
                self.compute(key, &service, &pods, current.as_deref())
            }
            Lane::Large(turn) => {
                let (own, key, service, current) =
                    (self.clone(), key.clone(), service.clone(), current.clone());
                turn.run(move || {
                    let pods = service_pods::selected_pods(&own.pods, &service);
                    own.compute(&key, &service, &pods, current.as_deref())
                })
                .await?
            }
        };
        let wanted = match computed.wanted {
            Ok(Some(wanted)) => wanted,
            Ok(None) => return Ok(computed.size),
            Err(reason) => {
                // Another attempt has the same result until something changes.
                let reason = format!("Failed to update endpoint {}/{}: {reason}", key.namespace, key.name);
                self.recorder.warning(&resources::SERVICES, &service, "FailedToUpdateEndpoint", reason);
                return Ok(computed.size);
            }
        };
        let (api, kind) = (self.context.api(), &resources::ENDPOINTS);
        let written = match current {
            None => api.create(kind, &key.workspace, &key.namespace, &wanted).await,
            Some(_) => api.update(kind, &wanted).await,
        };
        match written {
            Ok(written) => {
                self.endpoints.wrote(&written);
                Ok(computed.size)
            }
            Err(status) if current.is_none() && status.has_cause("NamespaceTerminating") => Ok(computed.size),
            Err(status) => {
                let place = format!("{}/{}", key.namespace, key.name);
                let (reason, message) = match current {
                    None => {
                        ("FailedToCreateEndpoint", format!("Failed to create endpoint for service {place}"))
                    }
                    Some(_) => ("FailedToUpdateEndpoint", format!("Failed to update endpoint {place}")),
                };
                let message = format!("{message}: {}", status.message());
                self.recorder.warning(kind, &wanted, reason, message);
                Err(status)
            }
        }
    }

    /// Deletes the Endpoints of a deleted Service.
    async fn clean_up(&self, key: &Key, current: Option<&Value>) -> Result<Size, Status> {
        // With pod-grain workloads only, delete only Endpoints with this controller's label.
        let is_managed = |endpoints: &Value| object::label(endpoints, MANAGED_BY) == Some(MANAGER);
        let acts = self.context.workloads == WorkloadScope::All || current.is_some_and(is_managed);
        let Some(uid) = current.filter(|_| acts).map(object::uid) else { return Ok(Size::Small) };
        let options = DeleteOptions { uid: Some(uid), ..DeleteOptions::default() };
        match self.context.api().delete(&resources::ENDPOINTS, key, options).await {
            Ok(_) => self.endpoints.deleting(key, uid),
            Err(status) if status.reason() == "NotFound" => {}
            Err(status) => return Err(status),
        }
        Ok(Size::Small)
    }
}
