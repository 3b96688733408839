//! The status of kcp clusters.

use atoll_meta::object;
use serde_json::{Value, json};

use atoll_joining::rights;

/// Annotation of an Atoll Cluster: the last `unschedulable` of the kcp object. It is applied only when it
/// changes, so that a manual cordon stays.
const LAST_UNSCHEDULABLE: &str = "atoll.dev/kcp-unschedulable";

/// The condition Ready of a kcp cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Readiness {
    pub status: String,
    pub reason: String,
    pub message: String,
}

impl Readiness {
    pub fn not_ready(reason: &str, message: impl Into<String>) -> Readiness {
        Readiness { status: "False".into(), reason: reason.into(), message: message.into() }
    }

    /// Derived from the Atoll Cluster, if it exists.
    pub fn of(cluster: Option<&Value>) -> Readiness {
        let Some(cluster) = cluster else {
            return Readiness::not_ready(
                "InvalidKubeConfig",
                "the cluster has not joined: spec.kubeconfig was empty, or its Cluster was removed; apply it again with a kubeconfig",
            );
        };
        let conditions = cluster["status"]["conditions"].as_array().into_iter().flatten();
        let Some(ready) = conditions.into_iter().find(|condition| condition["type"] == "Ready") else {
            let message = "the syncer has not started yet";
            return Readiness {
                status: "Unknown".into(),
                ..Readiness::not_ready("WorkloadClusterStatusUnknown", message)
            };
        };
        let text = |name: &str| ready[name].as_str().unwrap_or_default().to_string();
        Readiness { status: text("status"), reason: text("reason"), message: text("message") }
    }
}

/// The new status, or `None` if it is unchanged.
pub fn new_status(
    current: &Value,
    cluster: Option<&Value>,
    readiness: &Readiness,
    now: &str,
) -> Option<Value> {
    let mut status = if current.is_object() { current.clone() } else { json!({}) };
    let conditions = current["conditions"].as_array().cloned().unwrap_or_default();
    let before = conditions.iter().find(|condition| condition["type"] == "Ready");
    let since = match before {
        Some(before) if before["status"] == *readiness.status => before["lastTransitionTime"].clone(),
        _ => now.into(),
    };
    let mut ready = json!({ "type": "Ready", "status": readiness.status, "lastTransitionTime": since });
    for (name, value) in [("reason", &readiness.reason), ("message", &readiness.message)] {
        if !value.is_empty() {
            ready[name] = value.as_str().into();
        }
    }
    if readiness.status == "False" {
        ready["severity"] = "Error".into();
    }
    let mut all: Vec<Value> = vec![ready];
    all.extend(conditions.into_iter().filter(|condition| condition["type"] != "Ready"));
    status["conditions"] = all.into();
    let reported = cluster.map_or(&Value::Null, |cluster| &cluster["status"]);
    for name in ["allocatable", "capacity"] {
        match reported.get(name).filter(|value| value.is_object()) {
            Some(value) => status[name] = value.clone(),
            None => drop(status.as_object_mut().and_then(|fields| fields.remove(name))),
        }
    }
    if readiness.status == "True" {
        status["syncedResources"] = rights::placeable_resources().into();
    }
    (status != *current).then_some(status)
}

/// The patch of the Atoll Cluster, if `unschedulable` of the kcp object has changed.
pub fn follow_unschedulable(cluster: &Value, wanted: bool) -> Option<Value> {
    let last = object::annotation(cluster, LAST_UNSCHEDULABLE).unwrap_or("false");
    let word = if wanted { "true" } else { "false" };
    (last != word).then(
        || json!({ "metadata": { "annotations": { LAST_UNSCHEDULABLE: word } }, "spec": { "unschedulable": wanted } }),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transition_time_changes_with_the_status_only() {
        let cluster = |status: &str, reason: &str| {
            json!({ "status": {
                "conditions": [{ "type": "Ready", "status": status, "reason": reason, "message": "m" }],
                "capacity": { "cpu": "4" },
            } })
        };
        let ready = cluster("True", "AllGood");
        let first =
            new_status(&Value::Null, Some(&ready), &Readiness::of(Some(&ready)), "1").expect("it is new");
        assert_eq!(
            first["conditions"],
            json!([{ "type": "Ready", "status": "True", "lastTransitionTime": "1", "reason": "AllGood", "message": "m" }])
        );
        assert_eq!(first["capacity"], json!({ "cpu": "4" }));
        assert!(first["syncedResources"].as_array().expect("a list").contains(&json!("deployments.apps")));
        assert_eq!(new_status(&first, Some(&ready), &Readiness::of(Some(&ready)), "2"), None);
        let lost = cluster("False", "Unreachable");
        let second =
            new_status(&first, Some(&lost), &Readiness::of(Some(&lost)), "2").expect("it has changed");
        assert_eq!(
            (&second["conditions"][0]["lastTransitionTime"], &second["conditions"][0]["severity"]),
            (&json!("2"), &json!("Error"))
        );
        let removed = new_status(&second, None, &Readiness::of(None), "3").expect("it has changed");
        assert_eq!(removed["conditions"][0]["lastTransitionTime"], "2");
        assert_eq!(removed["conditions"][0]["reason"], "InvalidKubeConfig");
        assert!(removed.get("capacity").is_none());
    }

    #[test]
    fn unschedulable_is_applied_only_when_it_changes() {
        let cluster = |followed: Option<&str>| match followed {
            Some(word) => json!({ "metadata": { "annotations": { LAST_UNSCHEDULABLE: word } } }),
            None => json!({ "metadata": {} }),
        };
        assert_eq!(follow_unschedulable(&cluster(None), false), None);
        assert_eq!(follow_unschedulable(&cluster(Some("true")), true), None);
        let closed = follow_unschedulable(&cluster(None), true).expect("a change");
        assert_eq!(closed["spec"]["unschedulable"], true);
        let opened = follow_unschedulable(&cluster(Some("true")), false).expect("a change");
        assert_eq!(opened["spec"]["unschedulable"], false);
    }
}
