//! Finds the pods of a Service, and their addresses and ports.

// upstream: staging/src/k8s.io/endpointslice/util/controller_utils.go
// upstream: pkg/api/v1/pod/util.go

mod targets;
mod trigger;

use std::net::IpAddr;
use std::sync::Arc;

use atoll_informer::{Cache, Change, Key, Queue};
use atoll_meta::object;
use atoll_meta::views::PodView;
use serde_json::Value;

pub use targets::{Resolution, ServicePort, Targets};
pub use trigger::TriggerTimeTracker;

use crate::context::Context;
use crate::shared::pods::is_ready;

pub const HEADLESS: &str = "service.kubernetes.io/headless";
pub const LAST_CHANGE: &str = "endpoints.kubernetes.io/last-change-trigger-time";

/// Whether controllers maintain the Service's endpoints.
pub fn has_selector(service: &Value) -> bool {
    service["spec"]["type"] != "ExternalName" && service["spec"]["selector"].is_object()
}

pub fn selects(service: &Value, pod: &Value) -> bool {
    service["spec"]["selector"].as_object().is_some_and(|selector| {
        selector.iter().all(|(label, value)| object::label(pod, label) == value.as_str())
    })
}

pub fn has_address(service: &Value) -> bool {
    !matches!(service["spec"]["clusterIP"].as_str(), None | Some("" | "None"))
}

/// Whether a pod should be among the endpoints, ready or not.
pub fn should_be_in_endpoints(pod: &Value, include_terminating: bool) -> bool {
    let view = PodView::of(pod);
    !view.is_finished() && view.has_pod_ip() && (include_terminating || !object::is_being_deleted(pod))
}

/// Returns the pod's DNS hostname, if it is in the Service's subdomain.
pub fn hostname<'a>(pod: &'a Value, service: &Value) -> Option<&'a str> {
    let spec = PodView::of(pod).spec();
    spec.hostname().filter(|_| spec.subdomain() == Some(object::name(service)))
}

/// Returns the pod's addresses of one family in canonical form.
pub fn addresses(pod: &Value, version_6: bool) -> Vec<String> {
    let addresses = PodView::of(pod).pod_ips().filter_map(|address| address.parse::<IpAddr>().ok());
    addresses.filter(|address| address.is_ipv6() == version_6).map(|address| address.to_string()).collect()
}

pub fn ports(service: &Value) -> &[Value] {
    service["spec"]["ports"].as_array().map_or(&[], Vec::as_slice)
}

/// Returns the pods that a Service selects.
pub fn selected_pods(pods: &Cache, service: &Value) -> Vec<Arc<Value>> {
    let key = Key::of(service);
    let mut found = pods.list(&key.workspace, &key.namespace);
    found.retain(|pod| selects(service, pod));
    found
}

/// Enqueues the Services that are affected by a change of a pod.
pub fn enqueue_on_pod_changes(context: &Context, pods: &Cache, services: &Arc<Cache>, queue: &Queue) {
    let (services, queue, context) = (services.clone(), queue.clone(), context.clone());
    pods.listen(move |change: &Change| {
        let Some(changed) = PodChange::of(change) else { return };
        for service in services.list(&change.key.workspace, &change.key.namespace) {
            if changed.affects(&service) && context.manages(&service) {
                queue.add(Key::of(&service));
            }
        }
    });
}

/// Relevant changes of a pod.
struct PodChange<'a> {
    old: Option<&'a Value>,
    new: Option<&'a Value>,
    /// Whether the pod's state changed, not only its membership.
    state: bool,
}

impl<'a> PodChange<'a> {
    fn of(change: &'a Change) -> Option<PodChange<'a>> {
        let (old, new) = (change.old.as_deref(), change.new.as_deref());
        let (Some(before), Some(after)) = (old, new) else {
            return Some(PodChange { old, new, state: true });
        };
        let differs = |path: &str| before.pointer(path) != after.pointer(path);
        let membership = ["/metadata/labels", "/spec/hostname", "/spec/subdomain"].into_iter().any(differs);
        let state =
            ["/metadata/deletionTimestamp", "/status/podIPs", "/status/phase"].into_iter().any(differs)
                || is_ready(before) != is_ready(after);
        (membership || state).then_some(PodChange { old, new, state })
    }

    fn affects(&self, service: &Value) -> bool {
        let is_in = |pod: Option<&Value>| pod.is_some_and(|pod| selects(service, pod));
        let (was, is) = (is_in(self.old), is_in(self.new));
        // The DNS name may have changed although the labels are the same.
        if self.state { was || is } else { was != is || (is && self.renamed()) }
    }

    fn renamed(&self) -> bool {
        let (Some(old), Some(new)) = (self.old, self.new) else { return false };
        ["/spec/hostname", "/spec/subdomain"].into_iter().any(|path| old.pointer(path) != new.pointer(path))
    }
}

#[cfg(test)]
mod tests;
