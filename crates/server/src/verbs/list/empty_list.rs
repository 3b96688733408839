//! Errors for kubectl commands on Pods that run in member clusters.
//!
//! `kubectl logs`, `exec`, `attach` and `port-forward` of a workload or Service list Pods by its selector and
//! wait until there are some, which never happens if the workload runs in member clusters or nowhere. kubectl
//! sends its command (`Kubectl-Command`), so only these commands get an error that says where the Pods are.

use std::sync::Arc;

use atoll_fleet::Placement;
use atoll_meta::{LabelSelector, Status, json, object};
use atoll_registry::{Row, Selection, Stage};
use atoll_watch::{Object, Scope};
use http::HeaderMap;
use serde_json::Value;

use crate::Server;
use crate::chain::Call;
use crate::options::ListOptions;
use crate::sync::warnings;

const HEADER: &str = "kubectl-command";
/// Commands that need a Pod to connect to.
const CONNECTING: [&str; 4] = ["attach", "exec", "logs", "port-forward"];
/// Size of the workloads in a namespace up to which they are searched.
const MAX_BYTES: usize = 4 << 20;
/// Resources that create Pods.
const WORKLOADS: [(&str, &str, &str); 6] = [
    ("apps", "deployments", "Deployment"),
    ("apps", "statefulsets", "StatefulSet"),
    ("apps", "daemonsets", "DaemonSet"),
    ("apps", "replicasets", "ReplicaSet"),
    ("batch", "jobs", "Job"),
    ("", "replicationcontrollers", "ReplicationController"),
];

/// Returns the kubectl command of a request, if it needs a Pod.
fn command(headers: &HeaderMap) -> Option<&str> {
    let command = headers.get(HEADER)?.to_str().ok()?.trim();
    let command = command.strip_prefix("kubectl ").unwrap_or(command);
    CONNECTING.contains(&command).then_some(command)
}

/// Returns an error instead of an empty list to a command that would wait, if the Pods run elsewhere.
pub async fn check(server: &Server, row: &Row, call: &Call, options: &ListOptions) -> Result<(), Status> {
    let labels = &options.selection.labels;
    if !row.strategy.explains_empty_lists || call.info.namespace.is_empty() || labels.is_empty() {
        return Ok(());
    }
    let (Some(command), Some(workspace)) = (command(&call.headers), call.workspace.scope()) else {
        return Ok(());
    };
    let snapshot = server.registry.snapshot();
    let namespace = call.info.namespace.as_str();
    let pods = Scope::new("core", "pods", Some(workspace), Some(namespace));
    let selection = Selection { labels: labels.clone(), ..Selection::everything() };
    if !server.registry.select(row, &snapshot, &pods, &selection, None, 1).await?.is_empty() {
        return Ok(());
    }
    let (mut workloads, mut size) = (Vec::new(), 0);
    for (position, (group, resource, _)) in WORKLOADS.iter().enumerate() {
        let stored_group = if group.is_empty() { "core" } else { group };
        let scope = Scope::new(stored_group, resource, Some(workspace), Some(namespace));
        for workload in snapshot.list_borrowed(&scope, None) {
            size += workload.size();
            if size > MAX_BYTES {
                return Ok(());
            }
            workloads.push((position, workload.into_owned()));
        }
    }
    let find = || find_elsewhere(&workloads, labels, namespace, command);
    let Some((position, workload)) = server.registry.run_sized(workspace, size, Stage::New, find).await??
    else {
        return Ok(());
    };
    let (group, resource, kind) = WORKLOADS[position];
    let row = server.registry.catalog.stored(group, resource);
    row.and_then(|row| unplaced_error(server, row, workspace, kind, &workload)).map_or(Ok(()), Err)
}

/// Returns an error if a workload with these labels runs in member clusters, or the first that runs nowhere, with
/// the position of its resource.
fn find_elsewhere(
    workloads: &[(usize, Arc<Object>)],
    labels: &LabelSelector,
    namespace: &str,
    command: &str,
) -> Result<Option<(usize, Value)>, Status> {
    let mut unplaced = None;
    for (position, found) in workloads {
        let Ok(workload) = json::parse(&found.json()).map(|parsed| parsed.value) else { continue };
        if !labels.matches_labels(&workload["spec"]["template"]["metadata"]["labels"].as_object()) {
            continue;
        }
        // Its Pods are created in the control plane, so waiting makes sense.
        if warnings::creates_pods_here(&workload) {
            return Ok(None);
        }
        let clusters = Placement::of(&workload).clusters;
        if clusters.is_empty() {
            unplaced = unplaced.or(Some((*position, workload)));
            continue;
        }
        let names: Vec<&str> = clusters.iter().map(|share| share.name.as_str()).collect();
        let (kind, name) = (WORKLOADS[*position].2, object::name(&workload));
        return Err(Status::bad_request(format!(
            "the pods of {kind} {namespace}/{name} run in {} {} and are not available here; run kubectl \
             {command} with the kubeconfig of that cluster",
            if names.len() == 1 { "cluster" } else { "clusters" },
            names.join(", "),
        )));
    }
    Ok(unplaced)
}

/// Returns an error that a workload is not placed. Without clusters, controllers outside of this server may
/// run it, unless this server runs controllers, which do not create Pods for it.
fn unplaced_error(
    server: &Server,
    row: &Row,
    workspace: &str,
    kind: &str,
    workload: &Value,
) -> Option<Status> {
    let (namespace, name) = (object::namespace(workload), object::name(workload));
    let advice = server.registry.cluster_choice(row, workspace, workload).advice(kind, namespace, name);
    let may_run_elsewhere = server.runs_workloads || !server.runs_controllers;
    let advice = match advice {
        None if may_run_elsewhere => return None,
        None => "no cluster serves this workspace; join one with: atoll cluster join NAME --kubeconfig FILE"
            .to_string(),
        Some(advice) => advice,
    };
    Some(Status::bad_request(format!(
        "{kind} {namespace}/{name} runs nowhere, because it is placed on no cluster; {advice}"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_commands_that_need_a_pod_are_detected() {
        for (given, expected) in [
            ("kubectl logs", Some("logs")),
            ("kubectl exec", Some("exec")),
            ("port-forward", Some("port-forward")),
            ("kubectl get", None),
            ("", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(HEADER, given.parse().unwrap());
            assert_eq!(command(&headers), expected, "{given}");
        }
        assert_eq!(command(&HeaderMap::new()), None);
    }
}
