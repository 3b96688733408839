//! A DaemonSet: one on every node, also on one that comes later, and a new version node by node.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::history::{History, State};
use crate::player::{Done, Player};
use crate::pods::{is_available, is_of};

pub const NAMESPACE: &str = "daemon-set";
const AGENT: &str = "apps/v1 daemonsets/agent";

pub async fn play(player: &Player) -> Done {
    player.apply("daemon-set.yaml").await?;
    player.until("one on each node", AGENT, |agent| is_settled(agent, 2)).await?;
    player.apply("daemon-set-node.yaml").await?;
    player.until("one on the new node", AGENT, |agent| is_settled(agent, 3)).await?;
    player.set_image("DaemonSet", "agent", "example.com/main:2").await?;
    player.rollout_status("DaemonSet", "agent").await?;
    player.until("a new version", AGENT, |agent| is_settled(agent, 3)).await?;
    player.until_pods("pods", 3, |_| true).await
}

fn is_settled(set: &Value, nodes: i64) -> bool {
    let status = &set["status"];
    let all =
        ["desiredNumberScheduled", "currentNumberScheduled", "updatedNumberScheduled", "numberAvailable"];
    status["observedGeneration"] == set["metadata"]["generation"]
        && all.iter().all(|field| status[field] == nodes)
}

/// Never two on a node, not even while one is on its way out, and never more than one node without.
pub fn rules(history: &History<'_>, _: bool) -> Vec<String> {
    let mut least = 0;
    history.judge(|step| {
        let agent = step.state.get("daemonsets", "agent")?;
        let wanted = agent["status"]["desiredNumberScheduled"].as_u64()?;
        if is_settled(agent, i64::try_from(wanted).unwrap()) {
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

fn by_node(state: &State<'_>) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for pod in state.pods().filter(|pod| is_of(pod, "agent")) {
        // It is made for this node, before it is bound to it.
        let terms =
            "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
        let node = pod.pointer(terms).map(|terms| terms[0]["matchFields"][0]["values"][0].to_string());
        *counts.entry(node.unwrap_or_default()).or_default() += 1;
    }
    counts
}
