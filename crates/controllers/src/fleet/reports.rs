//! Reads stored reports (ObjectStatus objects).

use std::collections::HashMap;
use std::sync::Arc;

use atoll_fleet::Placement;
use atoll_fleet::placement::Share;
use atoll_fleet::view::{Record, State};
use atoll_informer::{Key, Resource};
use serde_json::Value;

/// The uid of the object that a report is about.
pub fn reported_uid(record: &Value) -> Option<&str> {
    record["spec"]["uid"].as_str()
}

/// Index of reports by their object.
pub fn by_object(record: &Value) -> Vec<String> {
    reported_uid(record).map(|uid| object_key(&Key::of(record).workspace, uid)).into_iter().collect()
}

/// The index key of an object. Reports in one workspace never count for an object of another one.
pub fn object_key(workspace: &str, uid: &str) -> String {
    format!("{workspace}/{uid}")
}

/// Returns the object that a report is about.
pub fn target(record: &Value, key: &Key) -> Option<(Resource, Key)> {
    let spec = &record["spec"];
    let text = |value: &Value| value.as_str().map(str::to_string);
    let namespace = spec["namespace"].as_str().unwrap_or_default();
    let resource = Resource {
        group: text(&spec["resource"]["group"])?.into(),
        version: text(&spec["resource"]["version"])?.into(),
        plural: text(&spec["resource"]["resource"])?.into(),
        kind: "".into(),
        namespaced: !namespace.is_empty(),
    };
    Some((resource, Key::new(&key.workspace, namespace, spec["name"].as_str()?)))
}

/// Returns the reports about an object by cluster. A report of a deleted cluster does not count for another
/// cluster with the same name.
pub fn of_object(object: &Value, records: &[Arc<Value>]) -> Vec<(String, Record)> {
    let placement = Placement::of(object);
    let shares: HashMap<&str, &Share> =
        placement.clusters.iter().rev().map(|share| (share.name.as_str(), share)).collect();
    let is_of_another = |record: &Value| {
        let text = |field: &str| record["spec"][field].as_str().unwrap_or_default();
        let share = shares.get(text("cluster"));
        share.is_some_and(|share| !share.is_of(text("cluster"), text("clusterUID")))
    };
    records.iter().filter(|record| !is_of_another(record)).filter_map(|record| read(record)).collect()
}

fn read(record: &Value) -> Option<(String, Record)> {
    let cluster = record["spec"]["cluster"].as_str()?.to_string();
    let status = &record["status"];
    let report = Record {
        generation: status["generation"].as_i64().unwrap_or(0),
        state: serde_json::from_value(status["state"].clone()).ok()?,
        message: status["message"].as_str().unwrap_or_default().to_string(),
        observed: status["observed"].as_bool().unwrap_or(false),
        status: status["status"].clone(),
        held: status["held"] == true,
        ..Record::default()
    };
    Some((cluster, report))
}

/// Returns the problem of an object in a cluster, or its drift: reason and message.
pub fn problem(record: &Record) -> Option<(&'static str, &str)> {
    match record.state {
        State::Conflict => Some(("Conflict", &record.message)),
        State::Refused => Some(("Refused", &record.message)),
        State::Applied => record.drift().map(|drift| ("Drift", drift)),
        State::Gone => None,
    }
}

/// Whether the reason is recorded in events for each cluster.
pub fn is_refusal(reason: &str) -> bool {
    matches!(reason, "Conflict" | "Refused")
}
