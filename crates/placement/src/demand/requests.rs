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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn requests_of_pods_are_summed_as_the_scheduler_does() {
        let container = |cpu: &str| json!({ "resources": { "requests": { "cpu": cpu } } });
        let sidecar =
            |cpu: &str| json!({ "restartPolicy": "Always", "resources": { "requests": { "cpu": cpu } } });
        for (spec, expected) in [
            (json!({ "containers": [container("1"), container("500m")] }), 1500),
            (
                json!({ "containers": [container("1")], "initContainers": [container("3"), container("2")] }),
                3000,
            ),
            (json!({ "containers": [container("1")], "initContainers": [sidecar("1")] }), 2000),
            (
                json!({ "containers": [container("1")], "initContainers": [sidecar("1"), container("3")] }),
                4000,
            ),
            (
                json!({ "containers": [container("1")], "initContainers": [container("3"), sidecar("1")] }),
                3000,
            ),
            (json!({ "containers": [container("1")], "resources": { "requests": { "cpu": "5" } } }), 5000),
            (json!({ "containers": [container("1")], "overhead": { "cpu": "250m" } }), 1250),
            (json!({}), 0),
        ] {
            let found = pod_requests(PodSpecView::of(&spec));
            assert_eq!((found.milli_cpu, found.pods), (expected, 1), "{spec}");
        }
    }
}
