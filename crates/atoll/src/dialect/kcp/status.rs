//! How a cluster fares, in the words of kcp.

use atoll_meta::object;
use serde_json::{Value, json};

use crate::cluster::rights;

/// On a Cluster of Atoll's: what the kcp object said last about new things, so that whoever cordons it by hand is left alone.
const FOLLOWED: &str = "atoll.dev/kcp-unschedulable";

/// Whether a cluster can be used, and why not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub status: String,
    pub reason: String,
    pub message: String,
}

impl Finding {
    pub fn not_ready(reason: &str, message: impl Into<String>) -> Finding {
        Finding { status: "False".into(), reason: reason.into(), message: message.into() }
    }

    /// From the Cluster that was made, if one was.
    pub fn of(cluster: Option<&Value>) -> Finding {
        let Some(cluster) = cluster else {
            return Finding::not_ready(
                "InvalidKubeConfig",
                "it has not joined: spec.kubeconfig was empty, or what it made was removed; apply it with a kubeconfig",
            );
        };
        let conditions = cluster["status"]["conditions"].as_array().into_iter().flatten();
        let Some(ready) = conditions.into_iter().find(|condition| condition["type"] == "Ready") else {
            let message = "nobody has begun to sync it yet";
            return Finding {
                status: "Unknown".into(),
                ..Finding::not_ready("WorkloadClusterStatusUnknown", message)
            };
        };
        let text = |name: &str| ready[name].as_str().unwrap_or_default().to_string();
        Finding { status: text("status"), reason: text("reason"), message: text("message") }
    }
}

/// The status that is to be shown, if it is not the one that is there.
pub fn shown(current: &Value, cluster: Option<&Value>, finding: &Finding, now: &str) -> Option<Value> {
    let mut status = if current.is_object() { current.clone() } else { json!({}) };
    let conditions = current["conditions"].as_array().cloned().unwrap_or_default();
    let before = conditions.iter().find(|condition| condition["type"] == "Ready");
    let since = match before {
        Some(before) if before["status"] == *finding.status => before["lastTransitionTime"].clone(),
        _ => now.into(),
    };
    let mut ready = json!({ "type": "Ready", "status": finding.status, "lastTransitionTime": since });
    for (name, value) in [("reason", &finding.reason), ("message", &finding.message)] {
        if !value.is_empty() {
            ready[name] = value.as_str().into();
        }
    }
    if finding.status == "False" {
        ready["severity"] = "Error".into();
    }
    let mut all: Vec<Value> = vec![ready];
    all.extend(conditions.into_iter().filter(|condition| condition["type"] != "Ready"));
    status["conditions"] = all.into();
    let told = cluster.map_or(&Value::Null, |cluster| &cluster["status"]);
    for name in ["allocatable", "capacity"] {
        match told.get(name).filter(|value| value.is_object()) {
            Some(value) => status[name] = value.clone(),
            None => drop(status.as_object_mut().and_then(|fields| fields.remove(name))),
        }
    }
    if finding.status == "True" {
        status["syncedResources"] = rights::placed().into();
    }
    (status != *current).then_some(status)
}

/// The change of a Cluster when the kcp object says something else about new things than before.
pub fn follow_unschedulable(cluster: &Value, wanted: bool) -> Option<Value> {
    let said = object::annotation(cluster, FOLLOWED).unwrap_or("false");
    let word = if wanted { "true" } else { "false" };
    (said != word).then(
        || json!({ "metadata": { "annotations": { FOLLOWED: word } }, "spec": { "unschedulable": wanted } }),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_changes_its_time_with_its_status_only() {
        let cluster = |status: &str, reason: &str| {
            json!({ "status": {
                "conditions": [{ "type": "Ready", "status": status, "reason": reason, "message": "m" }],
                "capacity": { "cpu": "4" },
            } })
        };
        let ready = cluster("True", "AllGood");
        let first = shown(&Value::Null, Some(&ready), &Finding::of(Some(&ready)), "1").expect("it is new");
        assert_eq!(
            first["conditions"],
            json!([{ "type": "Ready", "status": "True", "lastTransitionTime": "1", "reason": "AllGood", "message": "m" }])
        );
        assert_eq!(first["capacity"], json!({ "cpu": "4" }));
        assert!(first["syncedResources"].as_array().expect("a list").contains(&json!("deployments.apps")));
        assert_eq!(shown(&first, Some(&ready), &Finding::of(Some(&ready)), "2"), None);
        let lost = cluster("False", "Unreachable");
        let second = shown(&first, Some(&lost), &Finding::of(Some(&lost)), "2").expect("it has changed");
        assert_eq!(
            (&second["conditions"][0]["lastTransitionTime"], &second["conditions"][0]["severity"]),
            (&json!("2"), &json!("Error"))
        );
        let nobody = shown(&second, None, &Finding::of(None), "3").expect("it has changed");
        assert_eq!(nobody["conditions"][0]["lastTransitionTime"], "2");
        assert_eq!(nobody["conditions"][0]["reason"], "InvalidKubeConfig");
        assert!(nobody.get("capacity").is_none());
    }

    #[test]
    fn only_what_kcp_says_anew_closes_and_opens() {
        let cluster = |followed: Option<&str>| match followed {
            Some(word) => json!({ "metadata": { "annotations": { FOLLOWED: word } } }),
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
