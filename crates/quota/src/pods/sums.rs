//! Computes the requests or limits of a pod: containers, init containers, resizes in progress and overhead.

// upstream: staging/src/k8s.io/component-helpers/resource/helpers.go

use serde_json::Value;

use super::{HUGE_PAGES, containers};
use crate::amounts::Amounts;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResourceSide {
    Requests,
    Limits,
}

impl ResourceSide {
    fn field(self) -> &'static str {
        match self {
            ResourceSide::Requests => "requests",
            ResourceSide::Limits => "limits",
        }
    }
}

/// Returns the highest amounts that the pod needs at any time.
pub fn of(pod: &Value, side: ResourceSide) -> Amounts {
    with_missing(pod, side, &Amounts::default())
}

/// Like [`of`], with `missing` for containers that do not specify a resource.
pub fn with_missing(pod: &Value, side: ResourceSide, missing: &Amounts) -> Amounts {
    let mut total = of_containers(pod, side, missing);
    let whole = &pod["spec"]["resources"][side.field()];
    // Pod-level resources replace the sum of the containers.
    for (name, amount) in Amounts::read(whole).iter().filter(|(name, _)| is_pod_level_name(name)) {
        total.set(name, amount.clone());
    }
    for (name, amount) in Amounts::read(&pod["spec"]["overhead"]).iter() {
        // A missing limit stays unlimited.
        let limited = total.get(name).is_some_and(|limit| !limit.is_zero());
        if side == ResourceSide::Requests || limited {
            total.add_one(name, amount);
        }
    }
    total
}

/// Whether a list of pod-level resources has a supported name.
pub fn is_pod_level(list: &Value) -> bool {
    list.as_object().is_some_and(|list| list.keys().any(|name| is_pod_level_name(name)))
}

fn is_pod_level_name(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || name.starts_with(HUGE_PAGES)
}

/// Containers run together; each init container runs alone, with the sidecars before it.
fn of_containers(pod: &Value, side: ResourceSide, missing: &Amounts) -> Amounts {
    let mut total = Amounts::default();
    for container in containers(pod, "containers") {
        let mut own = effective(pod, container, side, true);
        own.fill(missing);
        total.add(&own);
    }
    let mut kept = Amounts::default();
    let mut first = Amounts::default();
    for container in containers(pod, "initContainers") {
        let keeps_running = container["restartPolicy"] == "Always";
        let mut own = effective(pod, container, side, keeps_running);
        own.fill(missing);
        if keeps_running {
            total.add(&own);
            kept.add(&own);
            first.raise_to(&kept);
        } else {
            own.add(&kept);
            first.raise_to(&own);
        }
    }
    total.raise_to(&first);
    total
}

/// During a resize, returns the higher of desired and actual amounts.
fn effective(pod: &Value, container: &Value, side: ResourceSide, resizable: bool) -> Amounts {
    let wanted = Amounts::read(&container["resources"][side.field()]);
    let statuses = ["containerStatuses", "initContainerStatuses"].into_iter();
    let mut statuses = statuses.flat_map(|list| pod["status"][list].as_array().into_iter().flatten());
    let status = statuses.rfind(|status| status["name"] == container["name"]);
    let Some(status) = status.filter(|status| resizable && status["resources"].is_object()) else {
        return wanted;
    };
    let mut amounts = Amounts::read(&status["resources"][side.field()]);
    if side == ResourceSide::Requests {
        amounts.raise_to(&Amounts::read(&status["allocatedResources"]));
    }
    if !is_infeasible(pod) {
        let actual = amounts;
        amounts = wanted;
        amounts.raise_to(&actual);
    }
    amounts
}

/// Whether a resize is infeasible on the node.
fn is_infeasible(pod: &Value) -> bool {
    let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    conditions
        .find(|condition| condition["type"] == "PodResizePending")
        .is_some_and(|pending| pending["reason"] == "Infeasible")
}
