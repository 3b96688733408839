//! `atoll move`: asks for other clusters, and waits until the replicas are there.

use std::time::{Duration, Instant};

use atoll_client::path;
use atoll_fleet::placement::Share;
use atoll_fleet::scheduled::COMMAND_MANAGER;
use atoll_meta::object;
use atoll_scheduler::ACCEPT_EMPTY_VOLUMES;
use serde_json::{Value, json};

use super::by_intent::{PlaceRequest, is_followed, is_scheduled};
use super::{DEFAULT_NAMESPACE, check_clusters, discover, parse_object_arg, placement_failure, shares};
use crate::advice::{Failure, invocation};
use crate::cluster::{Api, in_workspace};
use crate::command::{MoveOptions, PlaceOptions};
use crate::workspace::session::{Session, encoded};
use crate::{output, process};

const POLL_INTERVAL: Duration = Duration::from_millis(200);

pub fn run(options: MoveOptions) -> Result<(), String> {
    process::run_command(async { move_objects(&options).await.map_err(String::from) })
}

async fn move_objects(options: &MoveOptions) -> Result<(), Failure> {
    let session = Session::open(&options.connection)?;
    let context = session.config.context()?;
    let api = Api::above(&context, &in_workspace(&session.current, ""))?;
    let resources = discover(&api).await?;
    let namespace =
        options.namespace.as_deref().or(context.namespace.as_deref()).unwrap_or(DEFAULT_NAMESPACE);
    check_clusters(&session, &options.to).await?;
    let deadline = Instant::now() + Duration::from_secs(options.timeout.into());
    let mut begun = Vec::new();
    for word in &options.objects {
        let (resource, name) = parse_object_arg(&resources, word)?;
        let namespace = if resource.namespaced { namespace } else { "" };
        let object_path = path::object(&resource.collection(namespace), name);
        let current = match api.get(&format!("{object_path}/placement")).await {
            Ok(current) => current,
            Err(problem) => return Err(placement_failure(&api, resource, &object_path, problem).await),
        };
        if !is_scheduled(&current) {
            return Err(Failure::new(
                format!("no scheduler moves {word}"),
                format!("place it by hand, as in: {} place {word} --on {}", invocation(), options.to),
            ));
        }
        if options.accept_empty_volumes {
            let patch = json!({ "metadata": { "annotations": { ACCEPT_EMPTY_VOLUMES: "true" } } });
            api.merge(&format!("{object_path}?fieldManager={COMMAND_MANAGER}"), &patch).await?;
        }
        let place = PlaceOptions { on: Some(options.to.clone()), ..PlaceOptions::default() };
        let request =
            PlaceRequest { api: &api, resource, path: &object_path, intent: &options.to, options: &place };
        request.write_intent(&current).await?;
        let title = match namespace {
            "" => format!("{} {name}", resource.kind),
            namespace => format!("{} {namespace}/{name}", resource.kind),
        };
        begun.push(MoveProgress {
            api: &api,
            title,
            path: object_path,
            namespace,
            name,
            told: String::new(),
        });
    }
    for progress in &mut begun {
        progress.wait(options, deadline).await?;
    }
    Ok(())
}

/// The progress of one object.
struct MoveProgress<'a> {
    api: &'a Api,
    title: String,
    path: String,
    namespace: &'a str,
    name: &'a str,
    told: String,
}

impl MoveProgress<'_> {
    /// Prints each step until the object has arrived.
    async fn wait(&mut self, options: &MoveOptions, deadline: Instant) -> Result<(), Failure> {
        loop {
            let placement = self.api.get(&format!("{}/placement", self.path)).await?;
            let has_ended = placement["spec"]["target"].is_null();
            let has_arrived = has_ended && is_followed(&options.to, &placement);
            let text = match has_arrived {
                true => format!("{} runs on {}.\n", self.title, on(&placement, "clusters")),
                false => step(&self.title, &placement, self.blocked(&placement).await),
            };
            if text != self.told {
                output::print(&text);
                self.told = text;
            }
            if has_arrived || options.timeout == 0 {
                return Ok(());
            }
            if Instant::now() >= deadline {
                return Err(Failure::new(
                    format!("{} has not arrived on {} in time", self.title, options.to),
                    "the move continues; see its events with: kubectl describe",
                ));
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// The message of the last event that says why the object stays.
    async fn blocked(&self, placement: &Value) -> Option<String> {
        let is_blocked = placement["spec"]["blocked"].is_string();
        last_warning(self.api, self.namespace, self.name, is_blocked).await
    }
}

/// Reasons of events about objects that do not move.
const BLOCKING: [&str; 6] =
    ["MoveBlocked", "VolumesStay", "NotFenced", "Paused", "Unschedulable", "PlacementRefused"];

/// The message of the last event that says why an object stays where it is. Events may not be readable. Unless its
/// placement says that it `is_blocked`, a later event about a move means that it does not stay.
pub async fn last_warning(api: &Api, namespace: &str, name: &str, is_blocked: bool) -> Option<String> {
    let selector = encoded(&format!("involvedObject.name={name}"));
    let events =
        api.get(&format!("/api/v1/namespaces/{namespace}/events?fieldSelector={selector}")).await.ok()?;
    let all = events["items"].as_array()?;
    let about = |event: &&Value| {
        let reason = event["reason"].as_str().unwrap_or_default();
        BLOCKING.contains(&reason) || (!is_blocked && matches!(reason, "Placed" | "Moving" | "FailedOver"))
    };
    let time = |event: &&Value| event["lastTimestamp"].as_str().map(str::to_string);
    let version = |event: &&Value| object::resource_version(event).parse::<u64>().unwrap_or(0);
    let last = all.iter().filter(about).max_by_key(|event| (time(event), version(event)))?;
    let is_blocking = BLOCKING.contains(&last["reason"].as_str().unwrap_or_default());
    last["message"].as_str().filter(|_| is_blocking).map(str::to_string)
}

fn on(placement: &Value, field: &str) -> String {
    let found: Vec<Share> = serde_json::from_value(placement["spec"][field].clone()).unwrap_or_default();
    shares::format_list(&found)
}

fn step(title: &str, placement: &Value, blocked: Option<String>) -> String {
    let phase = placement["spec"]["phase"].as_str().unwrap_or_default();
    match (phase, blocked) {
        ("" | atoll_scheduler::AWAY, Some(blocked)) => {
            format!("{title} stays on {}: {blocked}\n", on(placement, "clusters"))
        }
        ("" | atoll_scheduler::AWAY, None) => format!("{title} is on {}.\n", on(placement, "clusters")),
        (phase, _) => {
            let (now, target) = (on(placement, "clusters"), on(placement, "target"));
            format!("{title} is on {now}; {phase}, until it runs on {target}.\n")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_sentences() {
        let moving = json!({ "spec": {
            "clusters": [{ "name": "east", "replicas": 3 }, { "name": "west", "replicas": 3 }],
            "phase": "adding", "target": [{ "name": "west", "replicas": 3 }],
        } });
        assert_eq!(
            step("Deployment default/web", &moving, None),
            "Deployment default/web is on east (3) and west (3); adding, until it runs on west (3).\n"
        );
        let stays = json!({ "spec": { "clusters": [{ "name": "east" }] } });
        assert_eq!(step("Job a/b", &stays, Some("no room".into())), "Job a/b stays on east: no room\n");
    }
}
