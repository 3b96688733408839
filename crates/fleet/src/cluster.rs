//! A typed view of Clusters, like those of Pods and nodes in [`atoll_meta::views`].

use atoll_meta::object;
use atoll_meta::views::{ConditionView, TaintView, condition, items, text};
use serde_json::{Value, json};

use crate::pause;

/// Taint of a fenced cluster.
pub const FENCED: &str = "atoll.dev/fenced";

/// Maximum number of labels of a Cluster: placement keeps an index of them.
pub const MAX_LABELS: usize = 64;
/// Maximum number of taints of a Cluster: they are compared with all tolerations of pods.
pub const MAX_TAINTS: usize = 64;

/// Maximum number of bytes of the annotation that describes a pause, in the small form of a Cluster.
const MAX_PAUSE: usize = 4 << 10;

atoll_meta::view! {
    /// A Cluster.
    ClusterView
}

/// Reference to a Secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SecretReference<'a> {
    pub namespace: &'a str,
    pub name: &'a str,
}

/// The problem that a syncer has reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReportedProblem<'a> {
    pub reason: &'a str,
    pub message: &'a str,
}

impl<'a> ClusterView<'a> {
    fn spec(self) -> &'a Value {
        &self.json()["spec"]
    }

    fn status(self) -> &'a Value {
        &self.json()["status"]
    }

    /// Returns how the cluster is synced: `push`, `pull` or `none`; the default is `push`.
    pub fn mode(self) -> &'a str {
        self.spec()["mode"].as_str().unwrap_or("push")
    }

    /// Whether the cluster has joined with read access only; the default is to manage it.
    pub fn is_observed(self) -> bool {
        self.spec()["access"] == "observe"
    }

    /// Whether the cluster is cordoned.
    pub fn is_unschedulable(self) -> bool {
        self.spec()["unschedulable"] == true
    }

    pub fn is_paused(self) -> bool {
        self.spec()["paused"] == true
    }

    /// Whether controllers may be placed on the cluster; the default is no.
    pub fn allows_controllers(self) -> bool {
        self.spec()["controllers"] == "allow"
    }

    pub fn taints(self) -> impl Iterator<Item = TaintView<'a>> {
        items(&self.spec()["taints"]).iter().map(TaintView::of)
    }

    /// Whether an administrator has declared that nothing runs on the cluster any more.
    pub fn is_fenced(self) -> bool {
        self.taints().any(|taint| taint.key() == FENCED)
    }

    /// Returns the workspaces that may use the cluster, relative to the registering one; `None` for all.
    pub fn workspaces(self) -> Option<&'a [Value]> {
        self.spec()["workspaces"].as_array().map(Vec::as_slice)
    }

    /// Returns the Pod Security level that the cluster requires; `None` for the default of the workspace.
    pub fn pod_security(self) -> Option<&'a str> {
        self.spec()["podSecurity"].as_str()
    }

    /// Returns the policy for changes by other writers; `None` for the default.
    pub fn drift(self) -> Option<&'a str> {
        self.spec()["drift"].as_str()
    }

    /// Returns the changes to shapes; null without any.
    pub fn overrides(self) -> &'a Value {
        &self.spec()["overrides"]
    }

    /// Returns the Secret with the credential for the cluster.
    pub fn credentials(self) -> Option<SecretReference<'a>> {
        let secret = &self.spec()["credentials"]["secret"];
        Some(SecretReference { namespace: secret["namespace"].as_str()?, name: secret["name"].as_str()? })
    }

    /// Returns the identity of the cluster that has joined; `None` before its first heartbeat.
    pub fn id(self) -> Option<&'a str> {
        text(&self.status()["id"])
    }

    /// Returns the problem of the last heartbeat.
    pub fn problem(self) -> Option<ReportedProblem<'a>> {
        let problem = &self.status()["problem"];
        Some(ReportedProblem {
            reason: problem["reason"].as_str()?,
            message: problem["message"].as_str().unwrap_or_default(),
        })
    }

    /// Returns why the syncer is paused, as it has reported.
    pub fn reported_pause(self) -> Option<&'a str> {
        self.status()["paused"].as_str()
    }

    /// Returns the namespaces that other workspaces use under plain names.
    pub fn unmapped_namespaces(self) -> &'a [Value] {
        items(&self.status()["unmappedNamespaces"])
    }

    /// Returns the rights that the syncer lacks.
    pub fn missing_rights(self) -> &'a [Value] {
        items(&self.status()["missingRights"])
    }

    pub fn condition(self, kind: &str) -> Option<ConditionView<'a>> {
        condition(self.json(), kind)
    }

    /// Returns a small Cluster with only the fields that decide about placements: the state, the workspaces, the
    /// Pod Security level, the pause and the Ready condition.
    pub fn placement_fields(self) -> Value {
        let metadata = &self.json()["metadata"];
        let pick = |from: &Value, names: &[&str]| -> Value {
            names.iter().filter_map(|name| Some((name.to_string(), from.get(name)?.clone()))).collect()
        };
        let mut spec = pick(self.spec(), &["access", "unschedulable", "paused", "podSecurity", "workspaces"]);
        if self.is_fenced() {
            spec["taints"] = json!([{ "key": FENCED }]);
        }
        let mut small = json!({ "metadata": pick(metadata, &["name", "uid", "deletionTimestamp", "labels"]), "spec": spec });
        // Policies select Clusters by labels, and spread over regions and zones.
        let reported = pick(&self.json()["status"], &["region", "zones"]);
        if reported != json!({}) {
            small["status"] = reported;
        }
        let told = object::annotation(self.json(), pause::ANNOTATION);
        if let Some(told) = told.filter(|told| told.len() <= MAX_PAUSE) {
            object::set_annotation(&mut small, pause::ANNOTATION, told);
        }
        if let Some(ready) = self.condition("Ready") {
            small["status"]["conditions"] = json!([pick(ready.json(), &["type", "status", "reason"])]);
        }
        small
    }

    pub fn is_ready(self) -> bool {
        self.condition("Ready").is_some_and(ConditionView::is_true)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn unset_fields_have_their_defaults() {
        for object in [json!({}), json!({"spec": null, "status": null}), json!({"spec": {}, "status": {}})] {
            let view = ClusterView::of(&object);
            assert_eq!((view.mode(), view.is_observed(), view.is_unschedulable()), ("push", false, false));
            assert_eq!(
                (view.is_paused(), view.allows_controllers(), view.is_fenced()),
                (false, false, false)
            );
            assert_eq!((view.workspaces(), view.pod_security(), view.drift()), (None, None, None));
            assert_eq!((view.credentials(), view.id(), view.problem()), (None, None, None));
            assert_eq!((view.reported_pause(), view.unmapped_namespaces().len()), (None, 0));
            assert!(view.overrides().is_null() && !view.is_ready(), "{object}");
        }
    }

    #[test]
    fn set_fields_are_read() {
        let object = json!({
            "spec": {
                "mode": "pull", "access": "observe", "unschedulable": true, "paused": true, "controllers": "allow",
                "taints": [{"key": FENCED}], "workspaces": [], "podSecurity": "baseline", "drift": "report",
                "overrides": [], "credentials": {"secret": {"namespace": "n", "name": "s"}},
            },
            "status": {
                "id": "i", "paused": "why", "problem": {"reason": "R"}, "unmappedNamespaces": [{}],
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        });
        let view = ClusterView::of(&object);
        assert_eq!((view.mode(), view.is_observed(), view.is_unschedulable()), ("pull", true, true));
        assert_eq!((view.is_paused(), view.allows_controllers(), view.is_fenced()), (true, true, true));
        assert_eq!((view.workspaces().map(<[_]>::len), view.pod_security()), (Some(0), Some("baseline")));
        assert_eq!((view.drift(), view.overrides()), (Some("report"), &json!([])));
        assert_eq!(view.credentials(), Some(SecretReference { namespace: "n", name: "s" }));
        assert_eq!(view.problem(), Some(ReportedProblem { reason: "R", message: "" }));
        assert_eq!((view.id(), view.reported_pause()), (Some("i"), Some("why")));
        assert_eq!((view.unmapped_namespaces().len(), view.is_ready()), (1, true));
    }

    #[test]
    fn incomplete_references_are_unset() {
        for secret in [json!({}), json!({"name": "s"}), json!({"namespace": "n"})] {
            let object = json!({"spec": {"credentials": {"secret": secret}}, "status": {"id": ""}});
            assert_eq!((ClusterView::of(&object).credentials(), ClusterView::of(&object).id()), (None, None));
        }
    }
}
