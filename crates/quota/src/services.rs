//! Usage of Services, their node ports and load balancers.

// upstream: pkg/quota/v1/evaluator/core/services.go

use serde_json::Value;

use crate::amounts::Amounts;

pub const NAMES: [&str; 4] = ["count/services", "services", "services.nodeports", "services.loadbalancers"];

pub fn usage(service: &Value) -> Amounts {
    let spec = &service["spec"];
    let ports = spec["ports"].as_array().map_or(&[][..], Vec::as_slice);
    let (node_ports, load_balancers) = match spec["type"].as_str() {
        Some("NodePort") => (ports.len(), 0),
        // Node ports are not allocated yet: explicit ones count.
        Some("LoadBalancer") if spec["allocateLoadBalancerNodePorts"] == false => {
            (ports.iter().filter(|port| port["nodePort"].as_i64().unwrap_or(0) != 0).count(), 1)
        }
        Some("LoadBalancer") => (ports.len(), 1),
        _ => (0, 0),
    };
    let mut usage = Amounts::default();
    for (name, count) in NAMES.into_iter().zip([1, 1, node_ports, load_balancers]) {
        usage.set_count(name, count);
    }
    usage
}
