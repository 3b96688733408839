//! Jobs: several at once, with an index, failing in all the ways there are, and not before they may.

use std::collections::BTreeMap;

use atoll_meta::object;
use serde_json::{Value, json};

use crate::history::History;
use crate::player::{Done, Player, items};
use crate::pods::{is_active, is_true};

pub const NAMESPACE: &str = "job";
const INDEX: &str = "batch.kubernetes.io/job-completion-index";

/// The Jobs of the manifest, and how they end.
const ENDS: &[(&str, &str)] = &[
    ("plain", "Complete"),
    ("indexed", "Complete"),
    ("later", "Complete"),
    ("limited", "Failed"),
    ("policy", "Failed"),
    ("by-index", "Failed"),
];

pub async fn play(player: &Player) -> Done {
    player.apply("job.yaml").await?;
    player.until("one that waits", "batch/v1 jobs/later", |later| is_true(later, "Suspended")).await?;
    player.merge("batch/v1 jobs/later", json!({"spec": {"parallelism": 2, "suspend": false}})).await?;
    for (name, end) in ENDS {
        player
            .until(&format!("{name} to end"), &format!("batch/v1 jobs/{name}"), |job| is_true(job, end))
            .await?;
    }
    let counted = |list: &Value| items(list).all(|pod| object::finalizers(pod).next().is_none());
    player.until("pods that are counted", "pods", counted).await.map(drop)
}

/// Never more at once than asked for, and never two of one index; never more successes than asked for.
pub fn rules(history: &History<'_>, _: bool) -> Vec<String> {
    history.judge(|step| {
        let owner = object::controller_of(&step.event.object).filter(|_| step.event.resource == "pods")?;
        let job = step.state.get("jobs", owner.name)?;
        let own = |pod: &&Value| object::controller_of(pod).is_some_and(|other| other.uid == owner.uid);
        let pods: Vec<&Value> = step.state.pods().filter(own).collect();
        let active: Vec<&Value> = pods.iter().copied().filter(|pod| is_active(pod)).collect();
        let most = job["spec"]["parallelism"].as_u64()?;
        if active.len() as u64 > most {
            return Some(format!("{} were active, more than {most}", active.len()));
        }
        let mut indexes = BTreeMap::new();
        for index in active.iter().filter_map(|pod| object::annotation(pod, INDEX)) {
            *indexes.entry(index).or_insert(0) += 1;
        }
        if let Some((index, count)) = indexes.iter().find(|(_, count)| **count > 1) {
            return Some(format!("{count} with index {index} were active"));
        }
        let done = pods.iter().filter(|pod| pod["status"]["phase"] == "Succeeded").count() as u64;
        let wanted = job["spec"]["completions"].as_u64()?;
        (done > wanted).then(|| format!("{done} succeeded, more than {wanted}"))
    })
}
