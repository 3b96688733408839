//! Derives faults and conditions of a cluster.

use std::net::SocketAddr;
use std::time::Duration;

use atoll_fleet::health::{ClusterProblem, Reach, syncer_advice};
use atoll_fleet::{ClusterView, api_access};
use atoll_meta::object;
use serde_json::{Value, json};

use super::damping::DelayInfo;
use super::heartbeats::{ExpiryCause, HeartbeatState};

/// Reason of a cluster before its first heartbeat.
const NO_HEARTBEAT: &str = "NeverHeardOf";

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
            reason => ClusterProblem::find(reason).map_or(Reach::Unknown, |problem| problem.reach),
        }
    }

    /// Whether the fault may be transient.
    pub fn may_be_transient(&self) -> bool {
        ClusterProblem::find(&self.reason).is_some_and(|problem| problem.is_transient)
    }
}

/// Returns the current fault of a cluster.
pub fn find(cluster: &Value, heartbeat: HeartbeatState, grace_period: Duration) -> Option<Fault> {
    let (name, mode) = (object::name(cluster), ClusterView::of(cluster).mode());
    match heartbeat {
        HeartbeatState::Never => {
            let message = format!(
                "no syncer has sent a heartbeat yet: the first one follows when the cluster has answered, or a syncer has \
                 waited for that for some seconds. {}",
                syncer_advice(mode, name)
            );
            Some(Fault::new(NO_HEARTBEAT, message))
        }
        HeartbeatState::Unknown { .. } => stored_fault(cluster),
        HeartbeatState::Expired { cause } => {
            let reason = match cause {
                ExpiryCause::Stopped => "SyncerStopped",
                ExpiryCause::Connected => "SyncerHangs",
                ExpiryCause::Disconnected => "SyncerSilent",
            };
            let detail = format!("for {} seconds", grace_period.as_secs());
            let description = ClusterProblem::find(reason)
                .map(|problem| problem.message(name, &detail))
                .unwrap_or_default();
            Some(Fault::new(reason, format!("{description}. {}", syncer_advice(mode, name))))
        }
        HeartbeatState::Recent { .. } => {
            let problem = ClusterView::of(cluster).problem()?;
            Some(Fault::new(problem.reason, problem.message))
        }
    }
}

/// Returns the fault that the last stored condition describes.
fn stored_fault(cluster: &Value) -> Option<Fault> {
    match ClusterView::of(cluster).condition("Ready").filter(|ready| !ready.status().is_empty()) {
        Some(ready) if ready.is_true() => None,
        Some(ready) => Some(Fault::new(ready.reason(), ready.message())),
        None => Some(Fault::new(NO_HEARTBEAT, "no syncer has sent a heartbeat yet")),
    }
}

/// Returns the fault of a recovered cluster whose delay is not over.
pub fn flapping(info: &DelayInfo) -> Fault {
    let message = format!(
        "the cluster answers, but has failed {} times since {}; it becomes ready at {} unless it fails again. Next: find out why it \
         fails: kubectl get events --namespace default --field-selector involvedObject.kind=Cluster",
        info.failures,
        info.since.to_time(),
        info.until.to_time()
    );
    Fault::new("Flapping", message)
}

/// Returns the conditions without time and generation.
pub fn conditions(cluster: &Value, fault: Option<&Fault>) -> [Value; 3] {
    let condition = |kind: &str, status: &str, reason: &str, message: &str| json!({ "type": kind, "status": status, "reason": reason, "message": message });
    let ready = match fault {
        None => condition("Ready", "True", "Synced", "the cluster is reachable and synced"),
        // A cluster without any heartbeat is not known to be faulty.
        Some(fault) if fault.reason == NO_HEARTBEAT => {
            condition("Ready", "Unknown", &fault.reason, &fault.message)
        }
        Some(fault) => condition("Ready", "False", &fault.reason, &fault.message),
    };
    let reachable = match fault.map(|fault| (fault, fault.reach())) {
        None | Some((_, Reach::Answers)) => {
            condition("Reachable", "True", "Answers", "the cluster's API responds")
        }
        Some((fault, Reach::Fails)) => condition("Reachable", "False", &fault.reason, &fault.message),
        Some((fault, Reach::Unknown)) => condition("Reachable", "Unknown", &fault.reason, &fault.message),
    };
    let view = ClusterView::of(cluster);
    let schedulable = match () {
        () if view.is_unschedulable() => {
            condition("Schedulable", "False", "Cordoned", "the cluster was cordoned by an administrator")
        }
        () if view.is_paused() || view.reported_pause().is_some() => {
            let message = view.reported_pause().unwrap_or("the cluster was paused by an administrator");
            condition("Schedulable", "False", "Paused", message)
        }
        () if view.is_observed() => {
            condition("Schedulable", "False", "Observed", "the cluster has joined with read access only")
        }
        () if fault.is_some() => condition("Schedulable", "False", "NotReady", "the cluster is not ready"),
        () => condition("Schedulable", "True", "Open", "the cluster accepts new objects"),
    };
    [ready, reachable, schedulable]
}

/// Condition that lists namespaces of the cluster which other workspaces use under plain names.
pub const MAPPED: &str = "NamespacesMapped";
/// Maximum number of namespaces in its message.
const MAX_NAMED: usize = 10;

/// Returns the condition that workspaces other than the one of the Cluster use namespaces without an
/// administrator's consent, which was possible before names were mapped; `None` if there is no such
/// namespace.
pub fn mapping(cluster: &Value) -> Option<Value> {
    let namespaces = ClusterView::of(cluster).unmapped_namespaces();
    let first = namespaces.first()?;
    let text = |namespace: &Value, field: &str| namespace[field].as_str().unwrap_or_default().to_string();
    let named: Vec<String> = namespaces
        .iter()
        .take(MAX_NAMED)
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
    let message = format!(
        "workspaces other than the one of the Cluster use namespaces of the cluster under plain names: {}{more}. Next: if they may, \
         label each, as in: kubectl --kubeconfig FILE label namespace {} atoll.dev/workspace={}; if not, remove their \
         objects from the cluster",
        named.join(", "),
        text(first, "name"),
        text(first, "workspace")
    );
    Some(json!({ "type": MAPPED, "status": "False", "reason": "PlainNames", "message": message }))
}

/// Condition that lists rights that the syncer lacks.
pub const RIGHTS: &str = "RightsComplete";

/// Returns the condition that the syncer lacks rights, because the cluster has joined with an earlier
/// version; `None` if it has all. The cluster is synced nevertheless.
pub fn rights(cluster: &Value) -> Option<Value> {
    let missing: Vec<&str> =
        ClusterView::of(cluster).missing_rights().iter().filter_map(Value::as_str).take(MAX_NAMED).collect();
    if missing.is_empty() {
        return None;
    }
    let message = format!(
        "the syncer of the cluster lacks rights that later versions need: {}. Next: grant them with: atoll cluster join {} \
         --kubeconfig FILE",
        missing.join(", "),
        object::name(cluster)
    );
    Some(json!({ "type": RIGHTS, "status": "False", "reason": "RightsMissing", "message": message }))
}

/// Condition that tells whether the agent of a cluster has a tunnel.
pub const TUNNEL: &str = "TunnelOpen";

/// Returns the condition; `None` for a cluster that needs no tunnel, and while nothing is known.
pub fn tunnel(cluster: &Value, has_tunnel: Option<bool>) -> Option<Value> {
    let mode = ClusterView::of(cluster).mode();
    let has_tunnel = has_tunnel.filter(|_| mode != "push")?;
    Some(match has_tunnel {
        true => json!({
            "type": TUNNEL, "status": "True", "reason": "Connected",
            "message": "the control plane reaches the cluster through the tunnel of its agent",
        }),
        false => {
            let message = format!(
                "the agent of the cluster has no tunnel to the control plane, which can send no requests to the cluster. {}",
                syncer_advice(mode, object::name(cluster))
            );
            json!({ "type": TUNNEL, "status": "False", "reason": "Disconnected", "message": message })
        }
    })
}

/// Condition that tells whether Pods of the cluster reach the API of their workspace.
pub const PODS: &str = "PodsReachApi";

/// Returns the condition; `None` for a cluster that gets no Pods, and if the address is not known.
pub fn pods_reach_api(cluster: &Value, advertised: Option<SocketAddr>) -> Option<Value> {
    let view = ClusterView::of(cluster);
    let address = advertised.filter(|_| !view.is_observed())?;
    let (status, reason, message) = match () {
        () if view.mode() == "pull" => (
            "False",
            "NoRelay",
            "Pods reach the API of the cluster only: an agent does not relay requests of Pods to the control plane".to_string(),
        ),
        () if !api_access::is_reachable(address.ip()) => (
            "False",
            "LoopbackAddress",
            format!(
                "Pods reach the API of the cluster only: they cannot reach the address {} of the control plane. Next: start it \
                 with --advertise-address and an address that Pods can reach, and with --listen on that address",
                address.ip()
            ),
        ),
        () => ("True", "Direct", format!("Pods reach the API of their workspace at https://{address}")),
    };
    Some(json!({ "type": PODS, "status": status, "reason": reason, "message": message }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_agents_have_tunnels() {
        let cluster = |mode: &str| json!({ "metadata": { "name": "east" }, "spec": { "mode": mode } });
        for (mode, has_tunnel, expected) in [
            ("push", Some(false), None),
            ("none", None, None),
            ("none", Some(true), Some(("True", "Connected"))),
            ("pull", Some(false), Some(("False", "Disconnected"))),
        ] {
            let found = tunnel(&cluster(mode), has_tunnel);
            let expected = expected.map(|(status, reason)| (json!(status), json!(reason)));
            assert_eq!(found.map(|one| (one["status"].clone(), one["reason"].clone())), expected, "{mode}");
        }
    }

    #[test]
    fn pods_reach_addresses_of_other_machines() {
        let cluster = |spec: Value| json!({ "spec": spec });
        let (own, other) = ("127.0.0.1:6443".parse().unwrap(), "192.0.2.7:6443".parse().unwrap());
        for (spec, address, expected) in [
            (json!({}), Some(other), Some(("True", "Direct"))),
            (json!({ "mode": "none" }), Some(other), Some(("True", "Direct"))),
            (json!({ "mode": "pull" }), Some(other), Some(("False", "NoRelay"))),
            (json!({}), Some(own), Some(("False", "LoopbackAddress"))),
            (json!({ "access": "observe" }), Some(other), None),
            (json!({}), None, None),
        ] {
            let found = pods_reach_api(&cluster(spec.clone()), address);
            let expected = expected.map(|(status, reason)| (json!(status), json!(reason)));
            assert_eq!(found.map(|one| (one["status"].clone(), one["reason"].clone())), expected, "{spec}");
        }
        let message = pods_reach_api(&cluster(json!({})), Some(own)).unwrap()["message"].to_string();
        assert!(
            message.contains("address 127.0.0.1 of") && message.contains("--advertise-address"),
            "{message}"
        );
    }

    #[test]
    fn missing_rights_have_a_command() {
        assert_eq!(rights(&json!({ "status": { "missingRights": [] } })), None);
        let status = json!({ "missingRights": ["list pods.metrics.k8s.io"] });
        let condition = rights(&json!({ "metadata": { "name": "east" }, "status": status })).unwrap();
        let message = condition["message"].as_str().unwrap();
        assert!(message.contains(": list pods.metrics.k8s.io. Next: "), "{message}");
        assert!(message.ends_with("atoll cluster join east --kubeconfig FILE"), "{message}");
    }

    #[test]
    fn namespaces_with_plain_names_are_listed() {
        assert_eq!(mapping(&json!({})), None);
        assert_eq!(mapping(&json!({ "status": { "unmappedNamespaces": [] } })), None);
        let namespace =
            |number: usize| json!({ "name": format!("n{number}"), "workspace": "w", "path": "root:team" });
        let all: Vec<Value> = (0..12).map(namespace).collect();
        let condition = mapping(&json!({ "status": { "unmappedNamespaces": all } })).expect("a condition");
        let message = condition["message"].as_str().expect("a message");
        assert_eq!((&condition["status"], &condition["reason"]), (&json!("False"), &json!("PlainNames")));
        assert!(
            message.contains("n0 by root:team, n1 by root:team") && message.contains(" and 2 more"),
            "{message}"
        );
        assert!(message.contains("label namespace n0 atoll.dev/workspace=w"), "{message}");
    }

    #[test]
    fn conditions_follow_from_heartbeats_and_reports() {
        let grace_period = Duration::from_secs(40);
        let problem = |reason: &str| json!({ "problem": { "reason": reason, "message": "m" } });
        let was = |status: &str, reason: &str| json!({ "conditions": [{ "type": "Ready", "status": status, "reason": reason }] });
        let recent = HeartbeatState::Recent { left: grace_period };
        let unknown_yet = HeartbeatState::Unknown { left: grace_period };
        let expired = |cause| HeartbeatState::Expired { cause };
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
        for (spec, status, heartbeat, expected) in [
            (json!({}), json!({}), HeartbeatState::Never, new.clone()),
            (json!({}), json!({}), recent, ready("True/Open")),
            (json!({}), json!({}), expired(ExpiryCause::Disconnected), unknown("SyncerSilent")),
            (json!({}), json!({}), expired(ExpiryCause::Connected), unknown("SyncerHangs")),
            (json!({}), json!({}), expired(ExpiryCause::Stopped), unknown("SyncerStopped")),
            // The last reported problem is outdated when the heartbeat has expired.
            (
                json!({}),
                problem("ConnectionRefused"),
                expired(ExpiryCause::Disconnected),
                unknown("SyncerSilent"),
            ),
            // After a start, the stored state stays until there is a heartbeat, or none for too long.
            (json!({}), was("True", "Synced"), unknown_yet, ready("True/Open")),
            (json!({ "unschedulable": true }), was("True", "Synced"), unknown_yet, ready("False/Cordoned")),
            (json!({}), was("False", "SyncerSilent"), unknown_yet, unknown("SyncerSilent")),
            (json!({}), json!({}), unknown_yet, new.clone()),
            (json!({}), problem("ConnectionRefused"), recent, fails("ConnectionRefused")),
            (json!({}), problem("CredentialsRefused"), recent, fails("CredentialsRefused")),
            (json!({}), problem("CredentialsMissing"), recent, unknown("CredentialsMissing")),
            (json!({}), problem("PermissionsMissing"), recent, answers("PermissionsMissing")),
            (json!({}), problem("AnotherCluster"), recent, answers("AnotherCluster")),
            (json!({}), problem("OfAnotherVersion"), recent, unknown("OfAnotherVersion")),
            (json!({ "unschedulable": true }), json!({}), recent, ready("False/Cordoned")),
            (json!({ "access": "observe" }), json!({}), recent, ready("False/Observed")),
            (json!({ "paused": true }), json!({}), recent, ready("False/Paused")),
            (json!({}), json!({ "paused": "its workspace is paused" }), recent, ready("False/Paused")),
        ] {
            let cluster = json!({ "metadata": { "name": "east" }, "spec": spec, "status": status });
            let fault = find(&cluster, heartbeat, grace_period);
            let text = |condition: &Value, field: &str| condition[field].as_str().unwrap().to_string();
            let found: Vec<String> = conditions(&cluster, fault.as_ref())
                .iter()
                .map(|one| format!("{}={}/{}", text(one, "type"), text(one, "status"), text(one, "reason")))
                .collect();
            assert_eq!(found.join(" "), expected, "{status} {heartbeat:?}");
        }
    }

    #[test]
    fn messages_name_the_next_step() {
        let cluster = |mode: &str| json!({ "metadata": { "name": "east" }, "spec": { "mode": mode } });
        let grace_period = Duration::from_secs(40);
        let message = |mode: &str, heartbeat| find(&cluster(mode), heartbeat, grace_period).unwrap().message;
        let disconnected = HeartbeatState::Expired { cause: ExpiryCause::Disconnected };
        assert!(
            message("none", disconnected).contains("atoll syncer --from-kubeconfig"),
            "{}",
            message("none", disconnected)
        );
        assert!(message("none", disconnected).contains("for 40 seconds"));
        assert!(message("push", disconnected).contains("clusterpush"));
        assert!(message("none", HeartbeatState::Never).contains("atoll syncer"));
    }
}
