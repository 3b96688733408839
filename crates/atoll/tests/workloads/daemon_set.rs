//! A DaemonSet: one pod on every node, including one that is added later, and an update node by node.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::history::{ClusterState, History};
use crate::player::{PlayResult, Player};
use crate::pods::{is_available, is_of};

pub const NAMESPACE: &str = "daemon-set";
const AGENT: &str = "apps/v1 daemonsets/agent";

pub async fn play(player: &Player) -> PlayResult {
    player.apply("daemon-set.yaml").await?;
    player.until("a pod on each node", AGENT, |agent| is_complete(agent, 2)).await?;
    player.apply("daemon-set-node.yaml").await?;
    player.until("a pod on the new node", AGENT, |agent| is_complete(agent, 3)).await?;
    player.set_image("DaemonSet", "agent", "example.com/main:2").await?;
    player.rollout_status("DaemonSet", "agent").await?;
    player.until("a new version", AGENT, |agent| is_complete(agent, 3)).await?;
    player.until_pods("pods", 3, |_| true).await
}

fn is_complete(set: &Value, nodes: i64) -> bool {
    let status = &set["status"];
    let all =
        ["desiredNumberScheduled", "currentNumberScheduled", "updatedNumberScheduled", "numberAvailable"];
    status["observedGeneration"] == set["metadata"]["generation"]
        && all.iter().all(|field| status[field] == nodes)
}

/// Never two pods on a node, not even while one is terminating, and never more than one node without an
/// available pod.
pub fn rules(history: &History<'_>, _: bool) -> Vec<String> {
    let mut least = 0;
    history.check_steps(|step| {
        let agent = step.state.get("daemonsets", "agent")?;
        let wanted = agent["status"]["desiredNumberScheduled"].as_u64()?;
        if is_complete(agent, i64::try_from(wanted).unwrap()) {
            least = wanted.saturating_sub(1);
        }
        if let Some((node, pods)) = by_node(step.state).into_iter().find(|(_, pods)| *pods > 1) {
            return Some(format!("there were {pods} on {node}"));
        }
        let available =
            step.state.pods().filter(|pod| is_of(pod, "agent") && is_available(pod)).count() as u64;
        (available < least).then(|| format!("{available} were available, fewer than {least}"))
    })
}

fn by_node(state: &ClusterState<'_>) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for pod in state.pods().filter(|pod| is_of(pod, "agent")) {
        // Its affinity names the node before it is bound.
        let terms =
            "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
        let node = pod.pointer(terms).map(|terms| terms[0]["matchFields"][0]["values"][0].to_string());
        *counts.entry(node.unwrap_or_default()).or_default() += 1;
    }
    counts
}
