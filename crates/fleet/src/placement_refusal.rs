//! Whether a cluster accepts new objects. Placements, labels, advice and conditions all use this check, so
//! that none of them suggests a cluster that another one refuses.

use atoll_meta::object;
use serde_json::Value;

use crate::cluster::ClusterView;
pub use crate::cluster::FENCED;
use crate::placed_condition;

/// Reason why a cluster accepts no new objects, and the command that changes that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacementRefusal {
    cluster: String,
    /// State such as `cordoned`; details follow after a comma or a colon.
    state: String,
    /// Text before the command.
    lead: &'static str,
    command: String,
    /// Whether objects can be placed there with force, along with their dependents.
    pub can_be_forced: bool,
}

impl PlacementRefusal {
    /// Returns a message such as `cluster east is cordoned; open it with: atoll cluster uncordon east`.
    pub fn why(&self) -> String {
        let PlacementRefusal { cluster, state, lead, command, .. } = self;
        format!("cluster {cluster} is {state}; {lead}: {command}")
    }

    /// Returns a short message such as `east is cordoned (atoll cluster uncordon east)`.
    pub fn short(&self) -> String {
        let state = self.state.split([',', ':']).next().unwrap_or_default();
        format!("{} is {state} ({})", self.cluster, self.command)
    }
}

/// Whether a Cluster is fenced: an administrator has declared that nothing runs on it any more.
pub fn is_fenced(cluster: &Value) -> bool {
    ClusterView::of(cluster).is_fenced()
}

/// Returns why a Cluster accepts no new objects, if so. [`crate::workspaces`] decides which workspaces may
/// use it.
pub fn placement_refusal(cluster: &Value) -> Option<PlacementRefusal> {
    let (name, view) = (object::name(cluster), ClusterView::of(cluster));
    let because = |state: &str, lead: &'static str, command: String, can_be_forced: bool| {
        Some(PlacementRefusal {
            cluster: name.to_string(),
            state: state.to_string(),
            lead,
            command,
            can_be_forced,
        })
    };
    let describe = || format!("atoll cluster describe {name}");
    if object::is_being_deleted(cluster) {
        return because("being removed", "see what is still there with", describe(), false);
    }
    if view.is_observed() {
        let join = format!("atoll cluster join {name} --kubeconfig FILE");
        return because("only observed, nothing can be written to it", "to manage it", join, false);
    }
    if view.is_fenced() {
        let lift = format!("atoll cluster fence {name} --lift");
        return because("fenced, nothing runs there", "lift that with", lift, false);
    }
    if view.is_unschedulable() {
        return because("cordoned", "open it with", format!("atoll cluster uncordon {name}"), true);
    }
    // A cluster without a Ready condition is not known to be bad: placed objects wait for its syncer.
    let unready = view.condition("Ready").filter(|ready| ready.is_false())?;
    let state = format!("not ready: {}", unready.reason());
    because(&state, "see what is wrong with", describe(), true)
}

/// The cluster that would accept an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClusterChoice {
    /// The nearest cluster that accepts it.
    Accepts(String),
    /// All clusters refuse it; the reason.
    Refused(String),
    /// No cluster serves the workspace.
    NoCluster,
}

impl ClusterChoice {
    /// Chooses among the clusters that serve a workspace, given the name of each and the reason of its
    /// refusal, if any.
    pub fn among(clusters: impl IntoIterator<Item = (String, Option<String>)>) -> ClusterChoice {
        let mut refusals = Vec::new();
        for (name, refusal) in clusters {
            match refusal {
                None => return ClusterChoice::Accepts(name),
                Some(refusal) => refusals.push(refusal),
            }
        }
        match refusals.as_slice() {
            [] => ClusterChoice::NoCluster,
            [refusal] => ClusterChoice::Refused(format!("no cluster accepts the object: {refusal}")),
            [first, others @ ..] => ClusterChoice::Refused(format!(
                "no cluster accepts the object: {first}; {} it as well, see: atoll cluster list",
                match others.len() {
                    1 => "another cluster refuses".to_string(),
                    count => format!("{count} other clusters refuse"),
                }
            )),
        }
    }

    /// Returns advice for an object without a placement; `None` if there is no cluster for it.
    pub fn advice(&self, kind: &str, namespace: &str, name: &str) -> Option<String> {
        match self {
            ClusterChoice::Accepts(cluster) => {
                Some(format!("place it with: {}", placed_condition::command(kind, namespace, name, cluster)))
            }
            ClusterChoice::Refused(why) => Some(why.clone()),
            ClusterChoice::NoCluster => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn refusing_clusters_have_a_reason() {
        let ready = |status: &str| json!([{ "type": "Ready", "status": status, "reason": "Overloaded" }]);
        let fence = "fenced, nothing runs there; lift that with: atoll cluster fence east --lift";
        let observed = "only observed, nothing can be written to it; to manage it: atoll cluster join east --kubeconfig FILE";
        for (spec, conditions, expected) in [
            (json!({}), json!(null), None),
            (json!({ "access": "manage" }), ready("True"), None),
            (json!({}), ready("Unknown"), None),
            (json!({ "taints": [{ "key": "dedicated" }] }), ready("True"), None),
            (
                json!({ "access": "observe" }),
                ready("True"),
                Some((observed, "only observed (atoll cluster join east --kubeconfig FILE)", false)),
            ),
            (
                json!({ "unschedulable": true }),
                ready("True"),
                Some((
                    "cordoned; open it with: atoll cluster uncordon east",
                    "cordoned (atoll cluster uncordon east)",
                    true,
                )),
            ),
            (
                json!({ "taints": [{ "key": FENCED }] }),
                ready("True"),
                Some((fence, "fenced (atoll cluster fence east --lift)", false)),
            ),
            (
                json!({ "unschedulable": true, "taints": [{ "key": FENCED }] }),
                ready("True"),
                Some((fence, "fenced (atoll cluster fence east --lift)", false)),
            ),
            (
                json!({}),
                ready("False"),
                Some((
                    "not ready: Overloaded; see what is wrong with: atoll cluster describe east",
                    "not ready (atoll cluster describe east)",
                    true,
                )),
            ),
        ] {
            let cluster = json!({ "metadata": { "name": "east" }, "spec": spec, "status": { "conditions": conditions } });
            let found = placement_refusal(&cluster);
            let told = found.as_ref().map(|found| (found.why(), found.short(), found.can_be_forced));
            let expected = expected.map(|(why, short, forced)| {
                (format!("cluster east is {why}"), format!("east is {short}"), forced)
            });
            assert_eq!(told, expected, "{cluster}");
        }
        let going = json!({ "metadata": { "name": "east", "deletionTimestamp": "now" } });
        assert!(placement_refusal(&going).is_some_and(|closed| !closed.can_be_forced));
    }

    #[test]
    fn only_accepting_clusters_are_suggested() {
        let east = || ("east".to_string(), Some("east is cordoned".to_string()));
        let west = |refusal: Option<&str>| ("west".to_string(), refusal.map(str::to_string));
        for (clusters, expected) in [
            (vec![], None),
            (vec![east()], Some("no cluster accepts the object: east is cordoned")),
            (
                vec![east(), west(Some("west is fenced"))],
                Some(
                    "no cluster accepts the object: east is cordoned; another cluster refuses it as well, see: atoll cluster list",
                ),
            ),
            (vec![east(), west(None)], Some("place it with: atoll place job/a --namespace n --on west")),
        ] {
            let advice = ClusterChoice::among(clusters.clone()).advice("Job", "n", "a");
            assert_eq!(advice.as_deref(), expected, "{clusters:?}");
        }
    }
}
