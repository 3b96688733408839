//! Jobs: parallel, indexed, failing in all ways, and suspended.

use std::collections::BTreeMap;

use atoll_meta::object;
use serde_json::{Value, json};

use crate::history::History;
use crate::player::{PlayResult, Player, items};
use crate::pods::{is_active, is_true};

pub const NAMESPACE: &str = "job";
const INDEX: &str = "batch.kubernetes.io/job-completion-index";

/// The Jobs of the manifest and their final conditions.
const FINAL_CONDITIONS: &[(&str, &str)] = &[
    ("plain", "Complete"),
    ("indexed", "Complete"),
    ("later", "Complete"),
    ("limited", "Failed"),
    ("policy", "Failed"),
    ("by-index", "Failed"),
];

pub async fn play(player: &Player) -> PlayResult {
    player.apply("job.yaml").await?;
    player.until("the suspended Job", "batch/v1 jobs/later", |later| is_true(later, "Suspended")).await?;
    player.merge("batch/v1 jobs/later", json!({"spec": {"parallelism": 2, "suspend": false}})).await?;
    for (name, end) in FINAL_CONDITIONS {
        player
            .until(&format!("{name} to end"), &format!("batch/v1 jobs/{name}"), |job| is_true(job, end))
            .await?;
    }
    let counted = |list: &Value| items(list).all(|pod| object::finalizers(pod).next().is_none());
    player.until("pods that are counted", "pods", counted).await.map(drop)
}

/// Never more active pods than the parallelism, never two of one index, and never more successes than the
/// completions.
pub fn rules(history: &History<'_>, _: bool) -> Vec<String> {
    history.check_steps(|step| {
        let owner = object::controller_of(&step.event.object).filter(|_| step.event.resource == "pods")?;
        let job = step.state.get("jobs", owner.name)?;
        let own = |pod: &&Value| object::controller_of(pod).is_some_and(|other| other.uid == owner.uid);
        let pods: Vec<&Value> = step.state.pods().filter(own).collect();
        let active: Vec<&Value> = pods.iter().copied().filter(|pod| is_active(pod)).collect();
        let parallelism = job["spec"]["parallelism"].as_u64()?;
        if active.len() as u64 > parallelism {
            return Some(format!("{} were active, more than {parallelism}", active.len()));
        }
        let mut indexes = BTreeMap::new();
        for index in active.iter().filter_map(|pod| object::annotation(pod, INDEX)) {
            *indexes.entry(index).or_insert(0) += 1;
        }
        if let Some((index, count)) = indexes.iter().find(|(_, count)| **count > 1) {
            return Some(format!("{count} with index {index} were active"));
        }
        let succeeded = pods.iter().filter(|pod| pod["status"]["phase"] == "Succeeded").count() as u64;
        let completions = job["spec"]["completions"].as_u64()?;
        (succeeded > completions).then(|| format!("{succeeded} succeeded, more than {completions}"))
    })
}
