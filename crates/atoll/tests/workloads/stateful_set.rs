//! A StatefulSet: created in order with a claim for each pod, updated from the highest ordinal down to the
//! partition, scaled down from the highest ordinal.

use atoll_meta::object;
use serde_json::{Value, json};

use crate::history::{History, HistoryStep};
use crate::player::{PlayResult, Player};
use crate::pods::{is_available, is_of};

pub const NAMESPACE: &str = "stateful-set";
const DB: &str = "apps/v1 statefulsets/db";

pub async fn play(player: &Player) -> PlayResult {
    player.apply("stateful-set.yaml").await?;
    player.rollout_status("StatefulSet", "db").await?;
    player.until("three in order", DB, |db| is_complete(db, 3)).await?;
    player.merge(DB, partition(2)).await?;
    player.set_image("StatefulSet", "db", "example.com/main:2").await?;
    player
        .until("the last in a new version", DB, |db| {
            is_complete(db, 3) && db["status"]["updatedReplicas"] == 1
        })
        .await?;
    player.merge(DB, partition(0)).await?;
    player.until("all in the new version", DB, |db| is_complete(db, 3) && is_updated(db)).await?;
    player.scale("StatefulSet", "db", 1).await?;
    player.until("one replica", DB, |db| is_complete(db, 1)).await?;
    player.until_pods("pods", 1, |_| true).await?;
    // Claims are deleted with their pods.
    let count = |list: &Value| list["items"].as_array().map(Vec::len);
    player.until("one claim", "persistentvolumeclaims", |list| count(list) == Some(1)).await.map(drop)
}

fn partition(ordinal: u32) -> Value {
    json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": ordinal}}}})
}

fn is_complete(set: &Value, replicas: i64) -> bool {
    let status = &set["status"];
    status["observedGeneration"] == set["metadata"]["generation"]
        && ["replicas", "readyReplicas", "availableReplicas"].iter().all(|field| status[field] == replicas)
}

fn is_updated(set: &Value) -> bool {
    let status = &set["status"];
    status["updatedReplicas"] == status["replicas"] && status["currentRevision"] == status["updateRevision"]
}

pub fn rules(history: &History<'_>, _: bool) -> Vec<String> {
    history.check_steps(|step| {
        let pod = Some(&step.event.object).filter(|pod| step.event.resource == "pods" && is_of(pod, "db"))?;
        let set = step.state.get("statefulsets", "db")?;
        match ordinal(pod)? {
            ordinal_of_pod if step.is_new() => check_created(step, ordinal_of_pod),
            ordinal_of_pod if step.starts_deletion() => check_deleted(step, set, ordinal_of_pod),
            _ => None,
        }
    })
}

/// Checks a new pod: those before it are ready, and it has a claim.
fn check_created(step: &HistoryStep<'_, '_>, ordinal_of_pod: i64) -> Option<String> {
    let is_ready = |other: i64| step.state.get("pods", &format!("db-{other}")).is_some_and(is_available);
    if let Some(other) = (0..ordinal_of_pod).find(|other| !is_ready(*other)) {
        return Some(format!("db-{other} was not ready"));
    }
    let claim = format!("data-db-{ordinal_of_pod}");
    step.state.get("persistentvolumeclaims", &claim).is_none().then(|| format!("there was no {claim}"))
}

/// Checks a deleted pod: on scaling down none after it is left, and on an update all after it are updated and
/// ready.
fn check_deleted(step: &HistoryStep<'_, '_>, set: &Value, ordinal_of_pod: i64) -> Option<String> {
    let wanted = set["spec"]["replicas"].as_i64()?;
    let partition_start = set["spec"]["updateStrategy"]["rollingUpdate"]["partition"].as_i64().unwrap_or(0);
    let after = step
        .state
        .pods()
        .filter(|pod| is_of(pod, "db") && ordinal(pod) > Some(ordinal_of_pod))
        .collect::<Vec<_>>();
    if ordinal_of_pod >= wanted {
        return (!after.is_empty()).then(|| "one after it was still there".to_owned());
    }
    if ordinal_of_pod < partition_start {
        return Some(format!("it went although it is before the partition, {partition_start}"));
    }
    let is_new = |pod: &&Value| {
        object::label(pod, "controller-revision-hash") == set["status"]["updateRevision"].as_str()
    };
    let ready = after.iter().filter(|pod| is_new(pod) && is_available(pod)).count();
    let expected = usize::try_from(wanted - ordinal_of_pod - 1).unwrap();
    (ready < expected).then(|| format!("{ready} of {expected} after it were new and ready"))
}

fn ordinal(pod: &Value) -> Option<i64> {
    object::name(pod).rsplit('-').next()?.parse().ok()
}
