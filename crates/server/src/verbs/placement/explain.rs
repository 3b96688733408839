//! Reads a placement with an explanation: `GET …/placement?explain=true`.

use atoll_fleet::Placement;
use atoll_fleet::explanation::{ClusterExplanation, Explanation};
use atoll_fleet::placement::Share;
use atoll_meta::{Status, object};
use atoll_registry::catalog::ATOLL;
use atoll_registry::{ObjectRef, Row};
use serde_json::Value;

use crate::Server;
use crate::questions::EXPLAIN;

/// The parameter that asks for an explanation.
pub const PARAMETER: &str = "explain";
/// The resource of reports.
const REPORTS: &str = "objectstatuses";
/// The namespace of the reports about objects without a namespace.
const DEFAULT_NAMESPACE: &str = "default";

/// Explains the placement of an object: the scheduler's decision, with what clusters report.
pub async fn explain(
    server: &Server,
    row: &Row,
    object_ref: &ObjectRef<'_>,
    object: &Value,
) -> Result<Explanation, Status> {
    let placement = Placement::of(object);
    let answer = match server.advisor.clone() {
        None => Err("no scheduler runs in this control plane, so nothing is known but the placement"),
        Some(advisor) => {
            let tenant = server.registry.tenant_of(object_ref.workspace);
            let names =
                [&row.group, &row.resource, object_ref.workspace, object_ref.namespace, object_ref.name];
            let names = names.map(str::to_string);
            let explained = EXPLAIN.answered(&tenant, move |_| {
                let [group, resource, workspace, namespace, name] = names.each_ref().map(String::as_str);
                advisor.explain((group, resource), &ObjectRef { workspace, namespace, name })
            });
            explained.await?.ok_or("the scheduler does not place it, so nothing is known but the placement")
        }
    };
    let mut explanation = answer.unwrap_or_else(|note| as_placed(&placement, note));
    // Shares on clusters that serve the workspace no more are shown, too.
    for share in &placement.clusters {
        let is_listed = |known: &ClusterExplanation| share.is_of(&known.name, &known.uid);
        if !explanation.clusters.iter().any(is_listed) {
            explanation.clusters.push(ClusterExplanation { chosen: false, ..of_share(share) });
        }
    }
    for cluster in &mut explanation.clusters {
        add_report(server, object_ref, object::uid(object), cluster);
    }
    Ok(explanation)
}

fn as_placed(placement: &Placement, note: &str) -> Explanation {
    let clusters = placement.clusters.iter().map(of_share).collect();
    Explanation { by: placement.by.clone(), note: note.to_string(), clusters, ..Explanation::default() }
}

fn of_share(share: &Share) -> ClusterExplanation {
    ClusterExplanation {
        name: share.name.clone(),
        uid: share.uid.clone(),
        chosen: true,
        replicas: share.replicas.or(share.completions),
        ..ClusterExplanation::default()
    }
}

/// Adds what a cluster reports about the object.
fn add_report(server: &Server, of: &ObjectRef<'_>, uid: &str, cluster: &mut ClusterExplanation) {
    let namespace = if of.namespace.is_empty() { DEFAULT_NAMESPACE } else { of.namespace };
    let name = format!("{uid}.{}", cluster.name);
    let report = server.registry.catalog.stored(ATOLL, REPORTS).and_then(|row| {
        let object_ref = ObjectRef { workspace: of.workspace, namespace, name: &name };
        super::parse(&server.registry.get(row, &object_ref).ok()?.json()).ok()
    });
    let is_its = |report: &Value| cluster.uid.is_empty() || report["spec"]["clusterUID"] == cluster.uid;
    let Some(report) = report.filter(is_its) else { return };
    let status = &report["status"];
    let pods = status["pods"]["ready"].as_i64();
    cluster.ready = pods.or_else(|| status["status"]["readyReplicas"].as_i64());
    cluster.since = report["metadata"]["creationTimestamp"].as_str().unwrap_or_default().to_string();
}
