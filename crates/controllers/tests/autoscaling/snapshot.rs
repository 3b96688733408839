//! Normalized state of autoscalers.

use std::collections::{BTreeMap, BTreeSet};

use atoll_testkit::Client;
use serde_json::{Value, json};

use crate::cases::{AUTOSCALERS, NAMESPACE, WIDGETS};

pub async fn list(client: &Client, path: &str) -> Vec<Value> {
    client.get(path).await.expect(200)["items"].as_array().cloned().unwrap_or_default()
}

pub fn name(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap_or_default().to_string()
}

/// State by autoscaler name.
#[derive(Default)]
pub struct Snapshot {
    pub statuses: BTreeMap<String, Value>,
    /// Sizes of targets, and events.
    rest: BTreeMap<String, BTreeSet<String>>,
}

pub async fn take(client: &Client) -> Snapshot {
    let mut snapshot = Snapshot::default();
    for autoscaler in list(client, AUTOSCALERS).await {
        snapshot.statuses.insert(name(&autoscaler), status(&autoscaler["status"]));
    }
    for widget in list(client, WIDGETS).await {
        let events_text = format!("the target has {}", widget["spec"]["replicas"]);
        snapshot.rest.entry(name(&widget)).or_default().insert(events_text);
    }
    for event in list(client, &format!("/api/v1/namespaces/{NAMESPACE}/events")).await {
        let about = &event["involvedObject"];
        // Conflicts of status updates are random.
        if about["kind"] != "HorizontalPodAutoscaler" || event["reason"] == "FailedUpdateStatus" {
            continue;
        }
        let message = ordered(event["message"].as_str().unwrap_or_default());
        let events_text =
            json!([event["type"], event["reason"], message, event["source"], event["reportingComponent"]]);
        let of = about["name"].as_str().unwrap_or_default().to_string();
        snapshot.rest.entry(of).or_default().insert(events_text.to_string());
    }
    snapshot
}

/// Replaces times by a placeholder.
fn status(status: &Value) -> Value {
    let mut status = status.clone();
    if status.get("lastScaleTime").is_some() {
        status["lastScaleTime"] = "sometime".into();
    }
    for condition in status["conditions"].as_array_mut().into_iter().flatten() {
        condition["lastTransitionTime"] = "sometime".into();
        let message = ordered(condition["message"].as_str().unwrap_or_default());
        condition["message"] = message.into();
    }
    status
}

/// Sorts names in brackets.
fn ordered(message: &str) -> String {
    let Some((before, inside)) = message.strip_suffix(']').and_then(|message| message.split_once('[')) else {
        return message.to_string();
    };
    let mut names: Vec<&str> = inside.split(' ').collect();
    names.sort_unstable();
    format!("{before}[{}]", names.join(" "))
}

/// Describes the differences.
pub fn differences(upstream: &Snapshot, atoll: &Snapshot) -> Vec<String> {
    let names: BTreeSet<&String> = [upstream, atoll]
        .into_iter()
        .flat_map(|snapshot| snapshot.statuses.keys().chain(snapshot.rest.keys()))
        .collect();
    let mut found = Vec::new();
    for name in names {
        let (one, other) = (upstream.statuses.get(name), atoll.statuses.get(name));
        if one != other {
            let shown = |status: Option<&Value>| status.map(Value::to_string).unwrap_or_default();
            found.push(format!("{name}\n  upstream: {}\n  atoll:   {}", shown(one), shown(other)));
        }
        let nothing = BTreeSet::new();
        let (one, other) =
            (upstream.rest.get(name).unwrap_or(&nothing), atoll.rest.get(name).unwrap_or(&nothing));
        found
            .extend(one.difference(other).map(|events_text| format!("{name}: only upstream: {events_text}")));
        found.extend(other.difference(one).map(|events_text| format!("{name}: only atoll:   {events_text}")));
    }
    found
}
