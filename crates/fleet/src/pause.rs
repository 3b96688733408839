//! Pauses: while one is active, nothing is placed, moved or deleted.

use atoll_meta::object;
use atoll_meta::text::clean;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::cluster::ClusterView;
use crate::marks::SYSTEM_NAMESPACE;

/// Name of the ConfigMap in the system namespace of a workspace that pauses it and its descendants.
pub const NAME: &str = "atoll-brake";
/// Annotation of a Cluster with `spec.paused`: the pause as JSON.
pub const ANNOTATION: &str = "atoll.dev/pause";
/// Cause in the Status of a refused request.
pub const CAUSE: &str = "Paused";

/// Longest user, reason and start time. Every refused request repeats them.
const LONGEST_BY: usize = 256;
const LONGEST_REASON: usize = 1024;
const LONGEST_TIME: usize = 64;

/// The user, reason and start time of a pause.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Pause {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub by: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub since: String,
}

impl Pause {
    /// Returns the pause of a cluster, if it is paused.
    pub fn of_cluster(cluster: &Value) -> Option<Pause> {
        let told = object::annotation(cluster, ANNOTATION).unwrap_or_default();
        let pause: Pause =
            ClusterView::of(cluster).is_paused().then(|| serde_json::from_str(told).unwrap_or_default())?;
        Some(pause.bounded())
    }

    fn bounded(self) -> Pause {
        Pause {
            by: clean(&self.by, LONGEST_BY),
            reason: clean(&self.reason, LONGEST_REASON),
            since: clean(&self.since, LONGEST_TIME),
        }
    }

    /// Reads a pause from its ConfigMap; missing fields are empty.
    pub fn of_config_map(config_map: &Value) -> Pause {
        let text = |name: &str| config_map["data"][name].as_str().unwrap_or_default().to_string();
        Pause { by: text("by"), reason: text("reason"), since: text("since") }.bounded()
    }

    /// Returns the ConfigMap of the pause.
    pub fn config_map(&self) -> Value {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": NAME, "namespace": SYSTEM_NAMESPACE },
            "data": self,
        })
    }

    /// Returns the value of the annotation.
    pub fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Returns a message with user, start time and reason. `what` is paused, and `how` is the command that
    /// resumes it.
    pub fn why(&self, what: &str, how: &str) -> String {
        let mut text = format!("{what} is paused");
        for (word, part) in [(" by ", &self.by), (" since ", &self.since), (": ", &self.reason)] {
            if !part.is_empty() {
                text.push_str(word);
                text.push_str(part);
            }
        }
        format!("{text}; resume with: {how}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pause_round_trips() {
        let pause =
            Pause { by: "alice".into(), reason: "incident".into(), since: "2026-11-16T04:00:00Z".into() };
        assert_eq!(Pause::of_config_map(&pause.config_map()), pause);
        let paused = json!({ "metadata": { "annotations": { ANNOTATION: pause.text() } }, "spec": { "paused": true } });
        assert_eq!(Pause::of_cluster(&paused), Some(pause.clone()));
        assert_eq!(Pause::of_cluster(&json!({ "spec": { "paused": true } })), Some(Pause::default()));
        assert_eq!(Pause::of_cluster(&json!({ "spec": { "paused": false } })), None);
        assert_eq!(Pause::of_cluster(&json!({})), None);
        assert_eq!(
            pause.why("cluster east", "atoll resume --cluster east"),
            "cluster east is paused by alice since 2026-11-16T04:00:00Z: incident; resume with: atoll resume --cluster east"
        );
        let long = Pause { reason: "é".repeat(5000), ..pause };
        assert!(Pause::of_config_map(&long.config_map()).reason.len() <= LONGEST_REASON + 3);
        assert_eq!(Pause::default().why("root", "atoll resume"), "root is paused; resume with: atoll resume");
    }
}
