//! The QoS class of a Pod.

// upstream: pkg/apis/core/v1/helper/qos/qos.go

use atoll_meta::quantity::{Format, Quantity};
use serde_json::Value;

/// Resources that determine the class.
const COUNTED: [&str; 2] = ["cpu", "memory"];

/// Sums in the order of `COUNTED`; `None` if there is no request or limit.
#[derive(Default)]
struct Sums([Option<Quantity>; 2]);

impl Sums {
    /// Adds a resource list; returns whether it contained all counted resources.
    fn add(&mut self, amounts: Option<&Value>) -> bool {
        let mut complete = true;
        for (sum, name) in self.0.iter_mut().zip(COUNTED) {
            let amount = amounts.and_then(|amounts| amounts.get(name)?.as_str());
            let amount = amount.and_then(|text| Quantity::parse(text).ok());
            match amount.filter(|amount| !amount.is_zero() && !amount.is_negative()) {
                Some(amount) => sum.get_or_insert_with(|| Quantity::new(0, Format::DecimalSi)).add(&amount),
                None => complete = false,
            }
        }
        complete
    }

    fn is_empty(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }
}

/// The QoS class, from the Pod-level resources or else from the sum of the containers.
pub fn class(pod: &Value) -> &'static str {
    let spec = &pod["spec"];
    let (mut requests, mut limits) = (Sums::default(), Sums::default());
    let mut guaranteed = true;
    if let Some(resources) = spec.get("resources").filter(|resources| resources.is_object()) {
        requests.add(resources.get("requests"));
        if let Some(amounts) = resources.get("limits") {
            guaranteed &= limits.add(Some(amounts));
        }
    } else {
        let all =
            ["containers", "initContainers"].iter().filter_map(|list| spec.get(*list)?.as_array()).flatten();
        for container in all {
            let resources = &container["resources"];
            requests.add(resources.get("requests"));
            guaranteed &= limits.add(resources.get("limits"));
        }
    }
    if requests.is_empty() && limits.is_empty() {
        "BestEffort"
    } else if guaranteed && requests.0 == limits.0 {
        "Guaranteed"
    } else {
        "Burstable"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn classes() {
        let container =
            |requests: Value, limits: Value| json!({"resources": {"requests": requests, "limits": limits}});
        let full = || json!({"cpu": "1", "memory": "1Gi"});
        for (spec, expected) in [
            (json!({"containers": [{"resources": {}}]}), "BestEffort"),
            (
                json!({"containers": [container(json!({"example.com/gpu": "1"}), json!({"example.com/gpu": "1"}))]}),
                "BestEffort",
            ),
            (json!({"containers": [container(json!({"cpu": "0"}), json!({}))]}), "BestEffort"),
            (json!({"containers": [container(full(), full())]}), "Guaranteed"),
            (
                json!({"containers": [container(json!({"cpu": "1000m", "memory": "1024Mi"}), full())]}),
                "Guaranteed",
            ),
            (json!({"containers": [container(full(), full()), {"resources": {}}]}), "Burstable"),
            (
                json!({"containers": [container(full(), full())], "initContainers": [{"resources": {}}]}),
                "Burstable",
            ),
            (json!({"containers": [container(json!({"cpu": "1"}), json!({"cpu": "1"}))]}), "Burstable"),
            (
                json!({"containers": [container(json!({"cpu": "500m", "memory": "1Gi"}), full())]}),
                "Burstable",
            ),
            (json!({"resources": {"requests": full(), "limits": full()}, "containers": [{}]}), "Guaranteed"),
            (json!({"resources": {}, "containers": [container(full(), full())]}), "BestEffort"),
        ] {
            assert_eq!(class(&json!({"spec": spec})), expected, "{spec}");
        }
    }
}
