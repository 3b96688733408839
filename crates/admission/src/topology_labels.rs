//! Copies zone and region labels of the node to the Pod.

// upstream: plugin/pkg/admission/podtopologylabels/admission.go

use atoll_meta::{Status, object};
use serde_json::Value;

use crate::{Operation, Plugin, Request};

pub struct PodTopologyLabels;

const LABELS: [&str; 2] = ["topology.kubernetes.io/zone", "topology.kubernetes.io/region"];

impl Plugin for PodTopologyLabels {
    fn handles(&self, request: &Request<'_>) -> bool {
        request.operation == Operation::Create
            && (request.is_about("", "pods", "") || request.is_about("", "pods", "binding"))
    }

    fn mutate(&self, request: &Request<'_>, object: &mut Value) -> Result<(), Status> {
        let node = match request.subresource {
            "" => object["spec"]["nodeName"].as_str(),
            _ if object["target"]["kind"] == "Node" => object["target"]["name"].as_str(),
            _ => None,
        };
        let Some(node) = node.filter(|node| !node.is_empty()) else { return Ok(()) };
        if let Some(node) = request.find("", "nodes", "", node) {
            for key in LABELS {
                if let Some(value) = node.label(key) {
                    object::set_label(object, key, value);
                }
            }
        }
        Ok(())
    }
}
