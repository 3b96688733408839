//! Taints new nodes as not ready, until a controller has observed that they are ready.

// upstream: plugin/pkg/admission/nodetaint/admission.go

use atoll_meta::Status;
use serde_json::{Value, json};

use crate::{Plugin, Request};

pub struct TaintNodesByCondition;

const KEY: &str = "node.kubernetes.io/not-ready";
const EFFECT: &str = "NoSchedule";

impl Plugin for TaintNodesByCondition {
    fn handles(&self, request: &Request<'_>) -> bool {
        request.creates("", "nodes")
    }

    fn mutate(&self, _: &Request<'_>, node: &mut Value) -> Result<(), Status> {
        let taints = &mut node["spec"]["taints"];
        let Some(taints) = taints.as_array_mut() else {
            *taints = json!([{ "key": KEY, "effect": EFFECT }]);
            return Ok(());
        };
        if !taints.iter().any(|taint| taint["key"] == KEY && taint["effect"] == EFFECT) {
            taints.push(json!({ "key": KEY, "effect": EFFECT }));
        }
        Ok(())
    }
}
