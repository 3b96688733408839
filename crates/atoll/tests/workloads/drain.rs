//! A node is drained at the pace that a PodDisruptionBudget allows.

use atoll_meta::object;
use serde_json::Value;

use crate::history::History;
use crate::player::{PlayResult, Player};
use crate::pods::{is_available, is_of, is_true};

pub const NAMESPACE: &str = "drain";
const KEPT: &str = "policy/v1 poddisruptionbudgets/kept";

pub async fn play(player: &Player) -> PlayResult {
    player.apply("drain.yaml").await?;
    player.until_pods("pods on the only node", 3, |pod| is_on(pod, "drain-1")).await?;
    let is_healthy = |budget: &Value| {
        let status = &budget["status"];
        status["observedGeneration"] == budget["metadata"]["generation"]
            && status["currentHealthy"] == 3
            && status["disruptionsAllowed"] == 1
    };
    player.until("one allowed disruption", KEPT, is_healthy).await?;
    player.apply("drain-node.yaml").await?;
    player.until("another node", "/api/v1/nodes/drain-2", |node| is_true(node, "Ready")).await?;
    player.drain("drain-1").await?;
    player.until_pods("pods on the other node", 3, |pod| is_on(pod, "drain-2")).await?;
    player.until("one allowed disruption again", KEPT, is_healthy).await.map(drop)
}

fn is_on(pod: &Value, node: &str) -> bool {
    is_available(pod) && pod["spec"]["nodeName"] == node
}

/// Never fewer available pods than the budget requires once there were enough, and no new pod on a node that
/// is being drained.
pub fn rules(history: &History<'_>, _: bool) -> Vec<String> {
    let (mut least, mut is_drained) = (0, false);
    history.check_steps(|step| {
        let budget = step.state.get("poddisruptionbudgets", "kept")?;
        if budget["status"]["currentHealthy"] == 3 {
            least = 2;
        }
        is_drained |=
            step.state.get("nodes", "drain-1").is_some_and(|node| node["spec"]["unschedulable"] == true);
        let is_bound = |pod: Option<&Value>| pod.is_some_and(|pod| pod["spec"]["nodeName"] == "drain-1");
        if is_drained
            && step.event.resource == "pods"
            && is_bound(Some(&step.event.object))
            && !is_bound(step.before)
        {
            return Some(format!("{} was bound to a node that is drained", object::name(&step.event.object)));
        }
        let available = step.state.pods().filter(|pod| is_of(pod, "kept") && is_available(pod)).count();
        (available < least).then(|| format!("{available} were available, fewer than {least}"))
    })
}
