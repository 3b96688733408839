//! The workloads of an observed cluster that have no controller.

use atoll_client::kubeconfig::Kubeconfig;
use atoll_fleet::ClusterView;
use atoll_meta::{object, time};
use serde_json::Value;

use super::connection;
use super::control_plane_connection::{ControlPlaneConnection, uid};
use crate::advice::Failure;
use crate::workspace::session::encoded;
use atoll_joining::api::Api;
use atoll_joining::credential;

/// Maximum number of rows.
const MAX_ROWS: usize = 200;
/// Objects per page, and maximum number of pages per kind.
const PAGE: usize = 500;
const PAGES: usize = 20;

/// Path and kind of all workloads.
const WORKLOADS: [(&str, &str); 8] = [
    ("/apis/batch/v1/cronjobs", "CronJob"),
    ("/apis/apps/v1/daemonsets", "DaemonSet"),
    ("/apis/apps/v1/deployments", "Deployment"),
    ("/apis/batch/v1/jobs", "Job"),
    ("/api/v1/pods", "Pod"),
    ("/apis/apps/v1/replicasets", "ReplicaSet"),
    ("/api/v1/replicationcontrollers", "ReplicationController"),
    ("/apis/apps/v1/statefulsets", "StatefulSet"),
];

pub const HEADERS: [&str; 5] = ["NAMESPACE", "KIND", "NAME", "READY", "AGE"];

/// The rows to show, and the number of rows left out.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct RunningWorkloads {
    pub rows: Vec<Vec<String>>,
    pub more: usize,
    /// Kinds that could not be listed completely.
    pub hidden: Vec<&'static str>,
}

/// Lists the workloads with the credential from the join, or through the agent of the cluster. `registering_workspace` is the
/// workspace in which it is registered.
pub async fn find(
    cluster: &Value,
    secret: Option<&Value>,
    registering_workspace: &ControlPlaneConnection,
    now: i64,
) -> Result<RunningWorkloads, Failure> {
    let api = open(cluster, secret, registering_workspace).await?;
    let (mut found, mut hidden) = (Vec::new(), Vec::new());
    for (path, kind) in WORKLOADS {
        let mut next = String::new();
        for page in 0..=PAGES {
            if page == PAGES {
                hidden.push(kind);
                break;
            }
            let list = match api.get(&format!("{path}?limit={PAGE}{next}")).await {
                Ok(list) => list,
                Err(problem) if problem.is("Forbidden") || problem.is("NotFound") => {
                    hidden.push(kind);
                    break;
                }
                Err(problem) => return Err(problem.into()),
            };
            let items = list["items"].as_array().into_iter().flatten();
            found.extend(items.filter(|item| has_no_controller(item)).map(|item| row(kind, item, now)));
            match object::continuation(&list) {
                Some(token) => next = format!("&continue={}", encoded(token)),
                None => break,
            }
        }
    }
    Ok(truncate(found, hidden))
}

fn truncate(mut rows: Vec<Vec<String>>, hidden: Vec<&'static str>) -> RunningWorkloads {
    rows.sort_unstable();
    let more = rows.len().saturating_sub(MAX_ROWS);
    rows.truncate(MAX_ROWS);
    RunningWorkloads { rows, more, hidden }
}

/// Connects to the cluster and checks that its identity has not changed since it joined.
async fn open(
    cluster: &Value,
    secret: Option<&Value>,
    registering_workspace: &ControlPlaneConnection,
) -> Result<Api, Failure> {
    let api = match ClusterView::of(cluster).mode() {
        "pull" => connection::through_agent(object::name(cluster), registering_workspace)?,
        _ => with_credential(secret)?,
    };
    let id = uid(&api.get("/api/v1/namespaces/kube-system").await?).to_string();
    match ClusterView::of(cluster).id() {
        Some(pinned) if pinned != id => {
            Err(format!("its address now leads to another cluster: {id}, not {pinned}").into())
        }
        _ => Ok(api),
    }
}

fn with_credential(secret: Option<&Value>) -> Result<Api, Failure> {
    let kubeconfig = secret
        .and_then(credential::kubeconfig_from_secret)
        .ok_or("its credential cannot be read".to_string())?;
    let unreadable = |problem| format!("its credential cannot be read: {problem}");
    let config = Kubeconfig::parse(&kubeconfig).map_err(unreadable)?;
    let context = config.context(config.current(), None).map_err(unreadable)?;
    Api::below(&context, "kubectl get nodes".into())
}

/// Whether the object has no controller.
fn has_no_controller(item: &Value) -> bool {
    object::controller_of(item).is_none()
}

fn row(kind: &str, item: &Value, now: i64) -> Vec<String> {
    let created = item["metadata"]["creationTimestamp"].as_str().and_then(|text| time::parse(text).ok());
    let age = created.map_or_else(String::new, |created| time::human_duration(now - created.seconds));
    let (namespace, name) = (object::namespace(item).to_string(), object::name(item).to_string());
    vec![namespace, kind.to_string(), name, readiness(kind, item), age]
}

/// The READY column: ready and desired replicas, or the phase.
fn readiness(kind: &str, item: &Value) -> String {
    let (spec, status) = (&item["spec"], &item["status"]);
    let number = |value: &Value, otherwise: i64| value.as_i64().unwrap_or(otherwise);
    match kind {
        "CronJob" => format!("{} active", status["active"].as_array().map_or(0, Vec::len)),
        "DaemonSet" => {
            format!("{}/{}", number(&status["numberReady"], 0), number(&status["desiredNumberScheduled"], 0))
        }
        "Job" => format!("{}/{}", number(&status["succeeded"], 0), number(&spec["completions"], 1)),
        "Pod" => status["phase"].as_str().unwrap_or("Unknown").to_string(),
        _ => format!("{}/{}", number(&status["readyReplicas"], 0), number(&spec["replicas"], 1)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn readiness_depends_on_the_kind() {
        for (kind, item, expected) in [
            ("Deployment", json!({ "spec": { "replicas": 3 }, "status": { "readyReplicas": 2 } }), "2/3"),
            ("StatefulSet", json!({ "spec": {} }), "0/1"),
            ("DaemonSet", json!({ "status": { "numberReady": 1, "desiredNumberScheduled": 4 } }), "1/4"),
            ("Job", json!({ "spec": { "completions": 5 }, "status": { "succeeded": 5 } }), "5/5"),
            ("CronJob", json!({ "status": { "active": [{}] } }), "1 active"),
            ("Pod", json!({ "status": { "phase": "Running" } }), "Running"),
            ("Pod", json!({}), "Unknown"),
        ] {
            assert_eq!(readiness(kind, &item), expected, "{kind}");
        }
        let pod = json!({ "metadata": { "ownerReferences": [{ "controller": true, "kind": "ReplicaSet", "name": "a", "uid": "u" }] } });
        assert!(!has_no_controller(&pod) && has_no_controller(&json!({ "metadata": {} })));
    }

    #[test]
    fn rows_are_limited() {
        let rows = (0..MAX_ROWS + 3).map(|number| vec![format!("{number:04}")]).rev().collect();
        let shown = truncate(rows, vec!["Pod"]);
        assert_eq!((shown.rows.len(), shown.more, shown.rows[0][0].as_str()), (MAX_ROWS, 3, "0000"));
    }
}
