//! Deployments: a rolling update, one that gets stuck and is undone, another size, and one that starts anew.

use atoll_meta::object;
use serde_json::Value;

use crate::history::{History, State, Step};
use crate::player::{Done, Player};
use crate::pods::{is_active, is_available, is_of};

pub const NAMESPACE: &str = "deployment";
const ROLLING: &str = "apps/v1 deployments/rolling";
const ANEW: &str = "apps/v1 deployments/anew";

pub async fn play(player: &Player) -> Done {
    player.apply("deployment.yaml").await?;
    player.rollout_status("Deployment", "rolling").await?;
    player.until("the first version", ROLLING, |rolling| is_complete(rolling, 4)).await?;
    player.until("the first version, anew", ANEW, |anew| is_complete(anew, 2)).await?;
    player.set_image("Deployment", "anew", "example.com/main:2").await?;
    player.set_image("Deployment", "rolling", "example.com/main:2").await?;
    player.rollout_status("Deployment", "rolling").await?;
    player.until("the second version", ROLLING, |rolling| is_complete(rolling, 4)).await?;
    // Its pods never get ready.
    player.apply("deployment-stuck.yaml").await?;
    let is_stuck = |rolling: &Value| {
        let status = &rolling["status"];
        is_seen(rolling)
            && status["updatedReplicas"] == 2
            && status["readyReplicas"] == 3
            && status["replicas"] == 5
    };
    player.until("a version that gets stuck", ROLLING, is_stuck).await?;
    player.undo("rolling").await?;
    player.rollout_status("Deployment", "rolling").await?;
    player.until("the second version again", ROLLING, |rolling| is_complete(rolling, 4)).await?;
    player.scale("Deployment", "rolling", 7).await?;
    player.until("seven of it", ROLLING, |rolling| is_complete(rolling, 7)).await?;
    player.scale("Deployment", "rolling", 3).await?;
    player.until("three of it", ROLLING, |rolling| is_complete(rolling, 3)).await?;
    player.until("the second version, anew", ANEW, |anew| is_complete(anew, 2)).await?;
    player.until_pods("pods in all", 5, |_| true).await
}

fn is_seen(object: &Value) -> bool {
    object["status"]["observedGeneration"] == object["metadata"]["generation"]
}

fn is_complete(deployment: &Value, replicas: i64) -> bool {
    let all = ["replicas", "updatedReplicas", "readyReplicas", "availableReplicas"];
    is_seen(deployment)
        && deployment["spec"]["replicas"] == replicas
        && all.iter().all(|field| deployment["status"][field] == replicas)
}

/// Those of the scenario, with what their manifests allow.
pub fn rules(history: &History<'_>, is_real: bool) -> Vec<String> {
    let mut found = rolling_rules(history, &Rolling { name: "rolling", surge: 1, unavailable: 1 }, is_real);
    found.extend(recreate_rules(history, "anew"));
    found
}

/// A Deployment that is updated little by little.
pub struct Rolling {
    pub name: &'static str,
    pub surge: i64,
    pub unavailable: i64,
}

/// Never more pods than wanted and `surge`, never fewer that can be counted on than wanted without `unavailable`.
pub fn rolling_rules(history: &History<'_>, rule: &Rolling, is_real: bool) -> Vec<String> {
    // While it gets another size both count, the one before and the one after.
    let (mut least, mut most) = (0, 0);
    history.judge(|step| {
        let deployment = step.state.get("deployments", rule.name)?;
        let wanted = deployment["spec"]["replicas"].as_i64()?;
        (least, most) = match is_complete(deployment, wanted) {
            true => (wanted, wanted),
            false => (least.min(wanted), most.max(wanted)),
        };
        let own = |set: &&Value| object::controller_of(set).is_some_and(|owner| owner.name == rule.name);
        let sets = step.state.all("replicasets").filter(own);
        let promised: i64 = sets.filter_map(|set| set["spec"]["replicas"].as_i64()).sum();
        let pods = count(step.state, rule.name, is_active);
        let available = count(step.state, rule.name, is_available);
        if promised > most + rule.surge {
            return Some(format!("its sets were to have {promised} pods, more than {most} + {}", rule.surge));
        }
        if pods > most + rule.surge && !is_real {
            return Some(format!("there were {pods} pods, more than {most} + {}", rule.surge));
        }
        (available < least - rule.unavailable)
            .then(|| format!("{available} pods were available, fewer than {least} - {}", rule.unavailable))
    })
}

/// No pod of another version as long as there is one.
pub fn recreate_rules(history: &History<'_>, name: &'static str) -> Vec<String> {
    history.judge(|step| {
        let pod = Some(&step.event.object).filter(|pod| starts(step) && is_of(pod, name))?;
        let hash = |pod: &Value| object::label(pod, "pod-template-hash").map(str::to_owned);
        let others = step.state.pods().filter(|other| is_of(other, name) && hash(other) != hash(pod));
        let others = others.map(object::name).collect::<Vec<_>>();
        (!others.is_empty()).then(|| format!("{others:?} of another version were still there"))
    })
}

fn starts(step: &Step<'_, '_>) -> bool {
    step.event.resource == "pods" && step.is_new()
}

fn count(state: &State<'_>, app: &str, fits: fn(&Value) -> bool) -> i64 {
    i64::try_from(state.pods().filter(|pod| is_of(pod, app) && fits(pod)).count()).unwrap()
}
