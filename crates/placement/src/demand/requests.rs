//! Requests of pods.

// upstream: staging/src/k8s.io/component-helpers/resource/helpers.go

use atoll_meta::views::PodSpecView;
use serde_json::Value;

use crate::resources::Resources;

/// Returns what a pod requests, with the pod itself: the containers and sidecars together, or the largest
/// init container with the sidecars that start before it, if that is more. Requests of the pod as a whole
/// replace those of its containers.
pub fn pod_requests(spec: PodSpecView<'_>) -> Resources {
    let mut total = Resources::default();
    for container in spec.containers() {
        total.add(&Resources::of(container.requests()), 1);
    }
    let (mut sidecars, mut most) = (Resources::default(), Resources::default());
    for container in spec.init_containers() {
        let requests = Resources::of(container.requests());
        if container.is_sidecar() {
            sidecars.add(&requests, 1);
            most.raise_to(&sidecars);
        } else {
            let mut at_once = sidecars.clone();
            at_once.add(&requests, 1);
            most.raise_to(&at_once);
        }
    }
    total.add(&sidecars, 1);
    total.raise_to(&most);
    if let Some(requests) = spec.requests() {
        let whole = Resources::of(&Value::Object(requests.clone()));
        for (name, amount) in whole.amounts() {
            total.set_amount(name, amount);
        }
    }
    total.add(&Resources::of(&spec.json()["overhead"]), 1);
    total.pods = 1;
    total
}
