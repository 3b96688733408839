//! Reads stored reports (ObjectStatus objects).

use std::collections::{HashMap, HashSet};
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

/// Returns the reports about an object by cluster. A report of a cluster that neither has the object nor still removes
/// it does not count: the server may have stopped before it deleted that. Nor does one of a deleted cluster count for
/// another cluster with the same name.
pub fn of_object(object: &Value, records: &[Arc<Value>]) -> Vec<(String, Record)> {
    let placement = Placement::of(object);
    let shares: HashMap<&str, &Share> =
        placement.clusters.iter().rev().map(|share| (share.name.as_str(), share)).collect();
    let leaving: HashSet<&str> = placement.leaving.iter().map(|leaving| leaving.name.as_str()).collect();
    let counts = |record: &Value| {
        let text = |field: &str| record["spec"][field].as_str().unwrap_or_default();
        let (cluster, uid) = (text("cluster"), text("clusterUID"));
        match shares.get(cluster) {
            Some(share) => share.is_of(cluster, uid),
            None => leaving.contains(cluster),
        }
    };
    records.iter().filter(|record| counts(record)).filter_map(|record| read(record)).collect()
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn reports_count_while_their_cluster_has_the_object() {
        let placement = json!({
            "clusters": [{ "name": "east", "uid": "1" }], "leaving": ["west"], "leavingUids": ["2"],
        });
        let object =
            json!({ "metadata": { "annotations": { "atoll.dev/placement": placement.to_string() } } });
        let report = |cluster: &str, uid: &str| {
            let spec = json!({ "uid": "u", "cluster": cluster, "clusterUID": uid });
            Arc::new(json!({ "spec": spec, "status": { "state": "Applied", "generation": 1 } }))
        };
        for (cluster, uid, expected) in [
            ("east", "1", 1),
            // Another cluster had the name before.
            ("east", "0", 0),
            ("west", "2", 1),
            // The server stopped when the cluster had confirmed that the object is gone.
            ("north", "3", 0),
        ] {
            assert_eq!(of_object(&object, &[report(cluster, uid)]).len(), expected, "{cluster}");
        }
    }
}
