//! Deployments: a rolling update, one that gets stuck and is undone, scaling, and the strategy Recreate.

use atoll_meta::object;
use serde_json::Value;

use crate::history::{ClusterState, History, HistoryStep};
use crate::player::{PlayResult, Player};
use crate::pods::{is_active, is_available, is_of};

pub const NAMESPACE: &str = "deployment";
const ROLLING: &str = "apps/v1 deployments/rolling";
const RECREATED: &str = "apps/v1 deployments/anew";

pub async fn play(player: &Player) -> PlayResult {
    player.apply("deployment.yaml").await?;
    player.rollout_status("Deployment", "rolling").await?;
    player.until("the first version", ROLLING, |rolling| is_complete(rolling, 4)).await?;
    player.until("the first version of the other Deployment", RECREATED, |anew| is_complete(anew, 2)).await?;
    player.set_image("Deployment", "anew", "example.com/main:2").await?;
    player.set_image("Deployment", "rolling", "example.com/main:2").await?;
    player.rollout_status("Deployment", "rolling").await?;
    player.until("the second version", ROLLING, |rolling| is_complete(rolling, 4)).await?;
    // Its pods never become ready.
    player.apply("deployment-stuck.yaml").await?;
    let is_stuck = |rolling: &Value| {
        let status = &rolling["status"];
        is_observed(rolling)
            && status["updatedReplicas"] == 2
            && status["readyReplicas"] == 3
            && status["replicas"] == 5
    };
    player.until("a version that gets stuck", ROLLING, is_stuck).await?;
    player.undo("rolling").await?;
    player.rollout_status("Deployment", "rolling").await?;
    player.until("the second version again", ROLLING, |rolling| is_complete(rolling, 4)).await?;
    player.scale("Deployment", "rolling", 7).await?;
    player.until("seven replicas", ROLLING, |rolling| is_complete(rolling, 7)).await?;
    player.scale("Deployment", "rolling", 3).await?;
    player.until("three replicas", ROLLING, |rolling| is_complete(rolling, 3)).await?;
    player.until("the second version, recreated", RECREATED, |anew| is_complete(anew, 2)).await?;
    player.until_pods("pods in all", 5, |_| true).await
}

fn is_observed(object: &Value) -> bool {
    object["status"]["observedGeneration"] == object["metadata"]["generation"]
}

fn is_complete(deployment: &Value, replicas: i64) -> bool {
    let all = ["replicas", "updatedReplicas", "readyReplicas", "availableReplicas"];
    is_observed(deployment)
        && deployment["spec"]["replicas"] == replicas
        && all.iter().all(|field| deployment["status"][field] == replicas)
}

/// The rules of the scenario, with the limits of its manifests.
pub fn rules(history: &History<'_>, is_real: bool) -> Vec<String> {
    let mut found =
        rolling_rules(history, &RollingLimits { name: "rolling", surge: 1, unavailable: 1 }, is_real);
    found.extend(recreate_rules(history, "anew"));
    found
}

/// Limits of a Deployment with a rolling update.
pub struct RollingLimits {
    pub name: &'static str,
    pub surge: i64,
    pub unavailable: i64,
}

/// Never more pods than the replicas and `surge`, and never fewer available pods than the replicas without
/// `unavailable`.
pub fn rolling_rules(history: &History<'_>, rule: &RollingLimits, is_real: bool) -> Vec<String> {
    // While it is scaled, the old and the new number of replicas are both allowed.
    let (mut lowest, mut highest) = (0, 0);
    history.check_steps(|step| {
        let deployment = step.state.get("deployments", rule.name)?;
        let wanted = deployment["spec"]["replicas"].as_i64()?;
        (lowest, highest) = match is_complete(deployment, wanted) {
            true => (wanted, wanted),
            false => (lowest.min(wanted), highest.max(wanted)),
        };
        let own = |set: &&Value| object::controller_of(set).is_some_and(|owner| owner.name == rule.name);
        let sets = step.state.all("replicasets").filter(own);
        let promised: i64 = sets.filter_map(|set| set["spec"]["replicas"].as_i64()).sum();
        let pods = count(step.state, rule.name, is_active);
        let available = count(step.state, rule.name, is_available);
        if promised > highest + rule.surge {
            return Some(format!(
                "its sets were to have {promised} pods, more than {highest} + {}",
                rule.surge
            ));
        }
        if pods > highest + rule.surge && !is_real {
            return Some(format!("there were {pods} pods, more than {highest} + {}", rule.surge));
        }
        (available < lowest - rule.unavailable)
            .then(|| format!("{available} pods were available, fewer than {lowest} - {}", rule.unavailable))
    })
}

/// Never pods of two versions at the same time.
pub fn recreate_rules(history: &History<'_>, name: &'static str) -> Vec<String> {
    history.check_steps(|step| {
        let pod = Some(&step.event.object).filter(|pod| is_new_pod(step) && is_of(pod, name))?;
        let hash = |pod: &Value| object::label(pod, "pod-template-hash").map(str::to_owned);
        let others = step.state.pods().filter(|other| is_of(other, name) && hash(other) != hash(pod));
        let others = others.map(object::name).collect::<Vec<_>>();
        (!others.is_empty()).then(|| format!("{others:?} of another version were still there"))
    })
}

fn is_new_pod(step: &HistoryStep<'_, '_>) -> bool {
    step.event.resource == "pods" && step.is_new()
}

fn count(state: &ClusterState<'_>, app: &str, fits: fn(&Value) -> bool) -> i64 {
    i64::try_from(state.pods().filter(|pod| is_of(pod, app) && fits(pod)).count()).unwrap()
}
