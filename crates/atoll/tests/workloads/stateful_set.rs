//! A StatefulSet: started in order with a claim each, updated from the top and not below its partition, made smaller
//! from the top.

use atoll_meta::object;
use serde_json::{Value, json};

use crate::history::{History, Step};
use crate::player::{Done, Player};
use crate::pods::{is_available, is_of};

pub const NAMESPACE: &str = "stateful-set";
const DB: &str = "apps/v1 statefulsets/db";

pub async fn play(player: &Player) -> Done {
    player.apply("stateful-set.yaml").await?;
    player.rollout_status("StatefulSet", "db").await?;
    player.until("three in order", DB, |db| is_settled(db, 3)).await?;
    player.merge(DB, partition(2)).await?;
    player.set_image("StatefulSet", "db", "example.com/main:2").await?;
    player
        .until("the last in a new version", DB, |db| {
            is_settled(db, 3) && db["status"]["updatedReplicas"] == 1
        })
        .await?;
    player.merge(DB, partition(0)).await?;
    player.until("all in the new version", DB, |db| is_settled(db, 3) && is_updated(db)).await?;
    player.scale("StatefulSet", "db", 1).await?;
    player.until("one of it", DB, |db| is_settled(db, 1)).await?;
    player.until_pods("pods", 1, |_| true).await?;
    // Its claims go with the others.
    let count = |list: &Value| list["items"].as_array().map(Vec::len);
    player.until("one claim", "persistentvolumeclaims", |list| count(list) == Some(1)).await.map(drop)
}

fn partition(ordinal: u32) -> Value {
    json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": ordinal}}}})
}

fn is_settled(set: &Value, replicas: i64) -> bool {
    let status = &set["status"];
    status["observedGeneration"] == set["metadata"]["generation"]
        && ["replicas", "readyReplicas", "availableReplicas"].iter().all(|field| status[field] == replicas)
}

fn is_updated(set: &Value) -> bool {
    let status = &set["status"];
    status["updatedReplicas"] == status["replicas"] && status["currentRevision"] == status["updateRevision"]
}

pub fn rules(history: &History<'_>, _: bool) -> Vec<String> {
    history.judge(|step| {
        let pod = Some(&step.event.object).filter(|pod| step.event.resource == "pods" && is_of(pod, "db"))?;
        let set = step.state.get("statefulsets", "db")?;
        match ordinal(pod)? {
            own if step.is_new() => begins(step, own),
            own if step.ends() => ends(step, set, own),
            _ => None,
        }
    })
}

/// Those before it are ready, and it has a claim.
fn begins(step: &Step<'_, '_>, own: i64) -> Option<String> {
    let is_ready = |other: i64| step.state.get("pods", &format!("db-{other}")).is_some_and(is_available);
    if let Some(other) = (0..own).find(|other| !is_ready(*other)) {
        return Some(format!("db-{other} was not ready"));
    }
    let claim = format!("data-db-{own}");
    step.state.get("persistentvolumeclaims", &claim).is_none().then(|| format!("there was no {claim}"))
}

/// None after it is left if it is one too many; all after it are new and ready if it is replaced.
fn ends(step: &Step<'_, '_>, set: &Value, own: i64) -> Option<String> {
    let wanted = set["spec"]["replicas"].as_i64()?;
    let least = set["spec"]["updateStrategy"]["rollingUpdate"]["partition"].as_i64().unwrap_or(0);
    let after =
        step.state.pods().filter(|pod| is_of(pod, "db") && ordinal(pod) > Some(own)).collect::<Vec<_>>();
    if own >= wanted {
        return (!after.is_empty()).then(|| "one after it was still there".to_owned());
    }
    if own < least {
        return Some(format!("it went although it is before the partition, {least}"));
    }
    let is_new = |pod: &&Value| {
        object::label(pod, "controller-revision-hash") == set["status"]["updateRevision"].as_str()
    };
    let ready = after.iter().filter(|pod| is_new(pod) && is_available(pod)).count();
    let expected = usize::try_from(wanted - own - 1).unwrap();
    (ready < expected).then(|| format!("{ready} of {expected} after it were new and ready"))
}

fn ordinal(pod: &Value) -> Option<i64> {
    object::name(pod).rsplit('-').next()?.parse().ok()
}
