//! What a whole Pod asks for: its containers, those that come before them, resizes under way and overhead.

use serde_json::Value;

use super::{HUGE_PAGES, containers};
use crate::amounts::Amounts;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Requests,
    Limits,
}

impl Side {
    fn field(self) -> &'static str {
        match self {
            Side::Requests => "requests",
            Side::Limits => "limits",
        }
    }
}

/// What the Pod needs at the most at any one time.
pub fn of(pod: &Value, side: Side) -> Amounts {
    with_missing(pod, side, &Amounts::default())
}

/// The same, where containers that say nothing of a resource are taken to have said what is `missing`.
pub fn with_missing(pod: &Value, side: Side, missing: &Amounts) -> Amounts {
    let mut total = of_containers(pod, side, missing);
    let whole = &pod["spec"]["resources"][side.field()];
    // The Pod's own say takes the place of the sum.
    for (name, amount) in Amounts::read(whole).iter().filter(|(name, _)| is_pod_level_name(name)) {
        total.set(name, amount.clone());
    }
    for (name, amount) in Amounts::read(&pod["spec"]["overhead"]).iter() {
        // A limit that is not there stays unlimited.
        let limited = total.get(name).is_some_and(|limit| !limit.is_zero());
        if side == Side::Requests || limited {
            total.add_one(name, amount);
        }
    }
    total
}

/// Whether a list of a Pod's own says anything that can be said for a whole Pod.
pub fn is_pod_level(list: &Value) -> bool {
    list.as_object().is_some_and(|list| list.keys().any(|name| is_pod_level_name(name)))
}

fn is_pod_level_name(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || name.starts_with(HUGE_PAGES)
}

/// Containers run together; each init container runs alone, but for those before it that keep running.
fn of_containers(pod: &Value, side: Side, missing: &Amounts) -> Amounts {
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

/// While a resize is under way, the greater of what is wanted and what is there.
fn effective(pod: &Value, container: &Value, side: Side, resizable: bool) -> Amounts {
    let wanted = Amounts::read(&container["resources"][side.field()]);
    let statuses = ["containerStatuses", "initContainerStatuses"].into_iter();
    let mut statuses = statuses.flat_map(|list| pod["status"][list].as_array().into_iter().flatten());
    let status = statuses.rfind(|status| status["name"] == container["name"]);
    let Some(status) = status.filter(|status| resizable && status["resources"].is_object()) else {
        return wanted;
    };
    let mut amounts = Amounts::read(&status["resources"][side.field()]);
    if side == Side::Requests {
        amounts.raise_to(&Amounts::read(&status["allocatedResources"]));
    }
    if !is_infeasible(pod) {
        let actual = amounts;
        amounts = wanted;
        amounts.raise_to(&actual);
    }
    amounts
}

/// Whether the node will never be able to do what a resize asks for.
fn is_infeasible(pod: &Value) -> bool {
    let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    conditions
        .find(|condition| condition["type"] == "PodResizePending")
        .is_some_and(|pending| pending["reason"] == "Infeasible")
}
