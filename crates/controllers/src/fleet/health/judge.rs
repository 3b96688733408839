//! What conditions say of a cluster.

use std::time::Duration;

use atoll_fleet::health::{Problem, Reach, awaken};
use atoll_meta::object;
use serde_json::{Value, json};

use super::beats::{Heard, Silence};
use super::damping::Held;

/// Reason of a cluster before its first heartbeat.
const NEVER_HEARD_OF: &str = "NeverHeardOf";

/// Why a cluster is not ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub reason: String,
    pub message: String,
}

impl Fault {
    fn new(reason: &str, message: impl Into<String>) -> Fault {
        Fault { reason: reason.into(), message: message.into() }
    }

    fn reach(&self) -> Reach {
        match self.reason.as_str() {
            "Flapping" => Reach::Answers,
            reason => Problem::find(reason).map_or(Reach::Unknown, |problem| problem.reach),
        }
    }

    /// Whether it may be over in a moment.
    pub fn passes(&self) -> bool {
        Problem::find(&self.reason).is_some_and(|problem| problem.passes)
    }
}

/// What is wrong with a cluster, as far as that can be told now.
pub fn fault(cluster: &Value, heard: Heard, patience: Duration) -> Option<Fault> {
    let (name, mode) = (object::name(cluster), cluster["spec"]["mode"].as_str().unwrap_or("push"));
    match heard {
        Heard::Never => {
            let message = format!("nobody has begun to sync it yet. {}", awaken(mode, name));
            Some(Fault::new(NEVER_HEARD_OF, message))
        }
        Heard::NotYet { .. } => said(cluster),
        Heard::LongAgo { why } => {
            let reason = match why {
                Silence::Stopped => "SyncerStopped",
                Silence::Connected => "SyncerHangs",
                Silence::Gone => "SyncerSilent",
            };
            let detail = format!("for {} seconds", patience.as_secs());
            let what =
                Problem::find(reason).map(|problem| problem.message(name, &detail)).unwrap_or_default();
            Some(Fault::new(reason, format!("{what}. {}", awaken(mode, name))))
        }
        Heard::Lately { .. } => {
            let problem = &cluster["status"]["problem"];
            let reason = problem["reason"].as_str()?;
            Some(Fault::new(reason, problem["message"].as_str().unwrap_or_default()))
        }
    }
}

/// What was said last.
fn said(cluster: &Value) -> Option<Fault> {
    let ready = crate::conditions::find(cluster, "Ready");
    let text = |field: &str| ready.map_or("", |ready| ready[field].as_str().unwrap_or_default());
    match text("status") {
        "True" => None,
        "" => Some(Fault::new(NEVER_HEARD_OF, "nobody has begun to sync it yet")),
        _ => Some(Fault::new(text("reason"), text("message"))),
    }
}

/// That it is well again is not believed yet.
pub fn flapping(held: &Held) -> Fault {
    let message = format!(
        "it answers, but it has failed {} times since {}; it is ready again at {} if it does not fail before. Next: see why it \
         fails: kubectl get events --namespace default --field-selector involvedObject.kind=Cluster",
        held.falls,
        held.since.to_time(),
        held.until.to_time()
    );
    Fault::new("Flapping", message)
}

/// What conditions say, but when and of which generation.
pub fn conditions(cluster: &Value, fault: Option<&Fault>) -> [Value; 3] {
    let condition = |kind: &str, status: &str, reason: &str, message: &str| json!({ "type": kind, "status": status, "reason": reason, "message": message });
    let ready = match fault {
        None => condition("Ready", "True", "Synced", "it is reached and synced"),
        // Nothing is known to be wrong with one that nobody has begun to sync.
        Some(fault) if fault.reason == NEVER_HEARD_OF => {
            condition("Ready", "Unknown", &fault.reason, &fault.message)
        }
        Some(fault) => condition("Ready", "False", &fault.reason, &fault.message),
    };
    let reachable = match fault.map(|fault| (fault, fault.reach())) {
        None | Some((_, Reach::Answers)) => condition("Reachable", "True", "Answers", "its API answers"),
        Some((fault, Reach::Fails)) => condition("Reachable", "False", &fault.reason, &fault.message),
        Some((fault, Reach::Unknown)) => condition("Reachable", "Unknown", &fault.reason, &fault.message),
    };
    let spec = &cluster["spec"];
    let schedulable = match () {
        () if spec["unschedulable"] == true => {
            condition("Schedulable", "False", "Cordoned", "an administrator has closed it to new work")
        }
        () if spec["paused"] == true || cluster["status"]["paused"].is_string() => {
            let why = cluster["status"]["paused"].as_str().unwrap_or("an administrator has paused it");
            condition("Schedulable", "False", "Paused", why)
        }
        () if spec["access"] == "observe" => {
            condition("Schedulable", "False", "Observed", "it joined to be looked at only")
        }
        () if fault.is_some() => condition("Schedulable", "False", "NotReady", "it is not ready"),
        () => condition("Schedulable", "True", "Open", "new work may go there"),
    };
    [ready, reachable, schedulable]
}

/// The condition that lists namespaces of the cluster which other workspaces use under plain names.
pub const MAPPED: &str = "NamespacesMapped";
/// How many namespaces its message names.
const MOST_NAMED: usize = 10;

/// That workspaces other than the one of the Cluster use namespaces without an administrator's consent, as they could before
/// their names were mapped; `None` if there is no such namespace.
pub fn mapping(cluster: &Value) -> Option<Value> {
    let namespaces = cluster["status"]["unmappedNamespaces"].as_array().filter(|all| !all.is_empty())?;
    let text = |namespace: &Value, field: &str| namespace[field].as_str().unwrap_or_default().to_string();
    let named: Vec<String> = namespaces
        .iter()
        .take(MOST_NAMED)
        .map(|namespace| {
            let workspace = Some(text(namespace, "path")).filter(|path| !path.is_empty());
            let workspace = workspace.unwrap_or_else(|| text(namespace, "workspace"));
            format!("{} by {workspace}", text(namespace, "name"))
        })
        .collect();
    let more = match namespaces.len() - named.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let first = &namespaces[0];
    let message = format!(
        "workspaces other than the one of the Cluster use namespaces of the cluster under plain names: {}{more}. Next: if they may, \
         label each, as in: kubectl --kubeconfig FILE label namespace {} atoll.dev/workspace={}; if not, take what they \
         have placed off the cluster",
        named.join(", "),
        text(first, "name"),
        text(first, "workspace")
    );
    Some(json!({ "type": MAPPED, "status": "False", "reason": "PlainNames", "message": message }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_with_plain_names_are_listed() {
        assert_eq!(mapping(&json!({})), None);
        assert_eq!(mapping(&json!({ "status": { "unmappedNamespaces": [] } })), None);
        let namespace =
            |number: usize| json!({ "name": format!("n{number}"), "workspace": "w", "path": "root:team" });
        let all: Vec<Value> = (0..12).map(namespace).collect();
        let condition = mapping(&json!({ "status": { "unmappedNamespaces": all } })).expect("there are some");
        let message = condition["message"].as_str().expect("a message");
        assert_eq!((&condition["status"], &condition["reason"]), (&json!("False"), &json!("PlainNames")));
        assert!(
            message.contains("n0 by root:team, n1 by root:team") && message.contains(" and 2 more"),
            "{message}"
        );
        assert!(message.contains("label namespace n0 atoll.dev/workspace=w"), "{message}");
    }

    #[test]
    fn clusters_are_judged_by_what_was_heard() {
        let patience = Duration::from_secs(40);
        let problem = |reason: &str| json!({ "problem": { "reason": reason, "message": "m" } });
        let was = |status: &str, reason: &str| json!({ "conditions": [{ "type": "Ready", "status": status, "reason": reason }] });
        let lately = Heard::Lately { left: patience };
        let not_yet = Heard::NotYet { left: patience };
        let silent = |why| Heard::LongAgo { why };
        let unknown = |reason: &str| {
            format!("Ready=False/{reason} Reachable=Unknown/{reason} Schedulable=False/NotReady")
        };
        let new = "Ready=Unknown/NeverHeardOf Reachable=Unknown/NeverHeardOf Schedulable=False/NotReady"
            .to_string();
        let fails = |reason: &str| {
            format!("Ready=False/{reason} Reachable=False/{reason} Schedulable=False/NotReady")
        };
        let answers =
            |reason: &str| format!("Ready=False/{reason} Reachable=True/Answers Schedulable=False/NotReady");
        let ready =
            |schedulable: &str| format!("Ready=True/Synced Reachable=True/Answers Schedulable={schedulable}");
        for (spec, status, heard, expected) in [
            (json!({}), json!({}), Heard::Never, new.clone()),
            (json!({}), json!({}), lately, ready("True/Open")),
            (json!({}), json!({}), silent(Silence::Gone), unknown("SyncerSilent")),
            (json!({}), json!({}), silent(Silence::Connected), unknown("SyncerHangs")),
            (json!({}), json!({}), silent(Silence::Stopped), unknown("SyncerStopped")),
            // What was wrong when it was last heard of is not what is wrong now.
            (json!({}), problem("ConnectionRefused"), silent(Silence::Gone), unknown("SyncerSilent")),
            // After a start, what was so stays so until something is heard, or nothing for too long.
            (json!({}), was("True", "Synced"), not_yet, ready("True/Open")),
            (json!({ "unschedulable": true }), was("True", "Synced"), not_yet, ready("False/Cordoned")),
            (json!({}), was("False", "SyncerSilent"), not_yet, unknown("SyncerSilent")),
            (json!({}), json!({}), not_yet, new.clone()),
            (json!({}), problem("ConnectionRefused"), lately, fails("ConnectionRefused")),
            (json!({}), problem("CredentialsRefused"), lately, fails("CredentialsRefused")),
            (json!({}), problem("CredentialsMissing"), lately, unknown("CredentialsMissing")),
            (json!({}), problem("PermissionsMissing"), lately, answers("PermissionsMissing")),
            (json!({}), problem("AnotherCluster"), lately, answers("AnotherCluster")),
            (json!({}), problem("OfAnotherVersion"), lately, unknown("OfAnotherVersion")),
            (json!({ "unschedulable": true }), json!({}), lately, ready("False/Cordoned")),
            (json!({ "access": "observe" }), json!({}), lately, ready("False/Observed")),
            (json!({ "paused": true }), json!({}), lately, ready("False/Paused")),
            (json!({}), json!({ "paused": "its workspace is paused" }), lately, ready("False/Paused")),
        ] {
            let cluster = json!({ "metadata": { "name": "east" }, "spec": spec, "status": status });
            let fault = fault(&cluster, heard, patience);
            let text = |condition: &Value, field: &str| condition[field].as_str().unwrap().to_string();
            let said: Vec<String> = conditions(&cluster, fault.as_ref())
                .iter()
                .map(|one| format!("{}={}/{}", text(one, "type"), text(one, "status"), text(one, "reason")))
                .collect();
            assert_eq!(said.join(" "), expected, "{status} {heard:?}");
        }
    }

    #[test]
    fn people_are_told_what_to_do() {
        let cluster = |mode: &str| json!({ "metadata": { "name": "east" }, "spec": { "mode": mode } });
        let patience = Duration::from_secs(40);
        let message = |mode: &str, heard| fault(&cluster(mode), heard, patience).unwrap().message;
        let gone = Heard::LongAgo { why: Silence::Gone };
        assert!(
            message("none", gone).contains("atoll syncer --from-kubeconfig"),
            "{}",
            message("none", gone)
        );
        assert!(message("none", gone).contains("for 40 seconds"));
        assert!(message("push", gone).contains("clusterpush"));
        assert!(message("none", Heard::Never).contains("atoll syncer"));
    }
}
