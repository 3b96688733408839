//! Placing workloads through the scheduler: the annotation `atoll.dev/clusters` is written, and the scheduler
//! makes the placement.

use std::time::{Duration, Instant};

use atoll_fleet::placed_by;
use atoll_fleet::placed_condition::CONDITION;
use atoll_fleet::placement::Share;
use atoll_fleet::scheduled::COMMAND_MANAGER;
use atoll_joining::client::Problem;
use atoll_meta::views::condition;
use atoll_placement::intent::{ANNOTATION, Amount, Intent};
use serde_json::{Value, json};

use super::placement_failure;
use super::resources::ApiResource;
use crate::advice::Failure;
use crate::cluster::Api;
use crate::command::PlaceOptions;

/// Time for the scheduler to make the placement.
const TIMEOUT: Duration = Duration::from_secs(15);
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Whether a scheduler makes the placement that was read.
pub fn is_scheduled(placement: &Value) -> bool {
    placement["status"]["scheduled"] == true
}

/// Returns the shares that an intent says, as far as it does.
pub fn shares(intent: &Intent) -> Vec<Share> {
    let share = |part: &atoll_placement::intent::Part| Share {
        name: part.cluster.clone(),
        replicas: match part.amount {
            Amount::Pin(number) | Amount::Weight(number) => Some(number),
            Amount::Unset | Amount::All => None,
        },
        ..Share::default()
    };
    intent.parts.iter().map(share).collect()
}

/// A workload and the clusters that it is asked to run on.
pub struct PlaceRequest<'a> {
    pub api: &'a Api,
    pub resource: &'a ApiResource,
    /// Path of the object.
    pub path: &'a str,
    pub intent: &'a Intent,
    pub options: &'a PlaceOptions,
}

impl PlaceRequest<'_> {
    /// Writes the intent, waits for the scheduler, and returns the placement. `current` is the placement before.
    pub async fn place(&self, current: &Value) -> Result<Value, Failure> {
        let checked = self.write_intent(current).await?;
        if self.options.dry_run {
            return Ok(checked);
        }
        self.wait().await
    }

    /// Writes the intent, and returns the placement as the server would accept it.
    pub async fn write_intent(&self, current: &Value) -> Result<Value, Failure> {
        // The server reports at once the obstacles that the scheduler would find: pauses, cordoned clusters, duplicates.
        let checked = self.write_placement(self.names_only(), true).await;
        let checked = match checked {
            Ok(checked) => checked,
            Err(problem) => return Err(placement_failure(self.api, self.resource, self.path, problem).await),
        };
        let patch = json!({ "metadata": { "annotations": { ANNOTATION: self.intent.to_string() } } });
        let dry_run = if self.options.dry_run { "&dryRun=All" } else { "" };
        self.api.merge(&format!("{}?fieldManager={COMMAND_MANAGER}{dry_run}", self.path), &patch).await?;
        if !self.options.dry_run {
            self.hand_over(current).await?;
        }
        Ok(checked)
    }

    /// Clusters without numbers: the scheduler divides the replicas.
    fn names_only(&self) -> Value {
        self.intent.clusters().map(|name| json!({ "name": name })).collect()
    }

    async fn write_placement(&self, clusters: Value, dry_run: bool) -> Result<Value, Problem> {
        let divides = self.intent.parts.iter().any(|part| part.amount != Amount::Unset);
        let mut spec = json!({ "clusters": clusters, "by": placed_by::ANNOTATION });
        if self.options.duplicate || divides {
            spec["duplicate"] = true.into();
        }
        if self.options.force {
            spec["force"] = true.into();
        }
        let query = if dry_run { "?dryRun=All" } else { "" };
        self.api.merge(&format!("{}/placement{query}", self.path), &json!({ "spec": spec })).await
    }

    /// Gives a placement that was made by other means to the scheduler, which leaves those alone. With force, a
    /// cluster that takes nothing new gets its share here, because the scheduler would not choose it.
    async fn hand_over(&self, current: &Value) -> Result<(), Problem> {
        let by = current["spec"]["by"].as_str().unwrap_or_default();
        if self.options.force && !self.intent.is_none() {
            let clusters = serde_json::to_value(shares(self.intent)).unwrap_or_default();
            return self.write_placement(clusters, false).await.map(drop);
        }
        if by.is_empty() || placed_by::is_scheduled(by) {
            return Ok(());
        }
        let patch = json!({ "spec": { "by": placed_by::ANNOTATION } });
        self.api.merge(&format!("{}/placement", self.path), &patch).await.map(drop)
    }

    /// Waits until the scheduler has followed the intent.
    async fn wait(&self) -> Result<Value, Failure> {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let placement = self.api.get(&format!("{}/placement", self.path)).await?;
            if is_followed(self.intent, &placement) {
                return Ok(placement);
            }
            if Instant::now() >= deadline {
                return Err(self.not_followed().await);
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    async fn not_followed(&self) -> Failure {
        let object = self.api.get(self.path).await.unwrap_or_default();
        let why = condition(&object, CONDITION).map(|found| found.message()).filter(|why| !why.is_empty());
        let kind = self.resource.kind.to_lowercase();
        let hint = format!(
            "the annotation {ANNOTATION} stays, and is followed when it can be; see: kubectl describe {kind}"
        );
        match why {
            Some(why) => Failure::new(format!("it is not placed on {} yet: {why}", self.intent), hint),
            None => Failure::new(format!("it is not placed on {} yet", self.intent), hint),
        }
    }
}

/// Whether a placement is what an intent asks for, or is being changed to it.
pub fn is_followed(intent: &Intent, placement: &Value) -> bool {
    let spec = &placement["spec"];
    let clusters =
        |field: &str| -> Vec<Share> { serde_json::from_value(spec[field].clone()).unwrap_or_default() };
    let (now, target) = (clusters("clusters"), clusters("target"));
    let wanted = if target.is_empty() { now } else { target };
    if intent.is_none() {
        return wanted.is_empty();
    }
    let is_pinned = |share: &Share| match intent.part(&share.name).map(|part| part.amount) {
        Some(Amount::Pin(replicas)) => share.replicas.is_none_or(|own| own == replicas),
        Some(_) => true,
        None => false,
    };
    let is_there = |name: &str| wanted.iter().any(|share| share.name == name);
    // A cluster with no part of the replicas may have no share.
    let is_needed = |amount: Amount| !matches!(amount, Amount::Weight(_) | Amount::Pin(0));
    spec["by"] == placed_by::ANNOTATION
        && !wanted.is_empty()
        && wanted.iter().all(is_pinned)
        && intent.parts.iter().all(|part| is_there(&part.cluster) || !is_needed(part.amount))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placements_follow_an_intent() {
        let on = |by: &str, clusters: Value, target: Value| json!({ "spec": { "by": by, "clusters": clusters, "target": target } });
        let both = || json!([{ "name": "east", "replicas": 2 }, { "name": "west", "replicas": 1 }]);
        let east = || json!([{ "name": "east" }]);
        let none = Value::Null;
        for (intent, placement, expected) in [
            ("east=2,west=1", on("annotation", both(), none.clone()), true),
            ("east==2,west==1", on("annotation", both(), none.clone()), true),
            ("east==1,west==2", on("annotation", both(), none.clone()), false),
            ("east=2,west=1", on("hand", both(), none.clone()), false),
            ("east", on("annotation", both(), none.clone()), false),
            ("east,west", on("annotation", east(), none.clone()), false),
            ("east=5,west=1", on("annotation", east(), none.clone()), true),
            ("west", on("annotation", east(), json!([{ "name": "west" }])), true),
            ("none", on("annotation", both(), none.clone()), false),
            ("none", on("", json!([]), none.clone()), true),
            ("none", json!({}), true),
        ] {
            let intent = Intent::parse(intent).expect("an intent");
            assert_eq!(is_followed(&intent, &placement), expected, "{intent} {placement}");
        }
    }

    #[test]
    fn numbers_are_replicas_without_a_scheduler() {
        let shares = shares(&Intent::parse("east=2,west==1,north==0").expect("an intent"));
        let found: Vec<(&str, Option<i64>)> =
            shares.iter().map(|share| (share.name.as_str(), share.replicas)).collect();
        assert_eq!(found, [("east", Some(2)), ("west", Some(1)), ("north", Some(0))]);
    }
}
