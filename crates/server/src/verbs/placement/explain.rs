//! Reads a placement with an explanation: `GET …/placement?explain=true`.

use std::sync::Arc;

use atoll_fleet::Placement;
use atoll_fleet::explanation::{ClusterExplanation, Explanation};
use atoll_fleet::placement::Share;
use atoll_meta::{Status, object};
use atoll_registry::catalog::ATOLL;
use atoll_registry::{ObjectRef, Row};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::Server;
use crate::advisor_queue::EXPLAIN;
use crate::chain::Call;
use crate::sync::pauses;

/// The parameter that asks for an explanation.
pub const PARAMETER: &str = "explain";
/// The resource of reports.
const REPORTS: &str = "objectstatuses";
/// The namespace of the reports about objects without a namespace.
const DEFAULT_NAMESPACE: &str = "default";

/// Explains the placement of an object: the scheduler's decision, with what clusters report. There may be many large
/// reports, so they are read where the decision is explained, not on a thread that serves requests.
pub async fn explain(
    server: &Arc<Server>,
    row: &Row,
    call: &Call,
    object: &Value,
) -> Result<Explanation, Status> {
    let object_ref = super::object_ref(row, call)?;
    let pause = pauses::workspace_pause_reason(server, &call.workspace);
    let (placement, uid) = (Placement::of(object), object::uid(object).to_string());
    let tenant = server.registry.tenant_of(object_ref.workspace);
    let names = [&row.group, &row.resource, object_ref.workspace, object_ref.namespace, object_ref.name];
    let names = names.map(str::to_string);
    let server = server.clone();
    let explained = EXPLAIN.answered(&tenant, move |is_over| {
        let [group, resource, workspace, namespace, name] = names.each_ref().map(String::as_str);
        let object_ref = ObjectRef { workspace, namespace, name };
        let answer = match &server.advisor {
            None => Err("no scheduler runs in this control plane, so nothing is known but the placement"),
            Some(advisor) => advisor
                .explain((group, resource), &object_ref)
                .ok_or("the scheduler does not place it, so nothing is known but the placement"),
        };
        let mut explanation = answer.unwrap_or_else(|note| as_placed(&placement, note));
        if let Some(pause) = pause {
            let rest =
                if explanation.note.is_empty() { String::new() } else { format!("; {}", explanation.note) };
            explanation.note = format!("{pause}{rest}");
        }
        // Shares on clusters that serve the workspace no more are shown, too.
        for share in &placement.clusters {
            let is_listed = |known: &ClusterExplanation| share.is_of(&known.name, &known.uid);
            if !explanation.clusters.iter().any(is_listed) {
                explanation.clusters.push(ClusterExplanation { chosen: false, ..of_share(share) });
            }
        }
        explanation.clusters.sort_by(|one, other| one.name.cmp(&other.name));
        for cluster in explanation.clusters.iter_mut().take_while(|_| !is_over()) {
            add_report(&server, &object_ref, &uid, cluster);
        }
        explanation
    });
    explained.await
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

/// The fields of a report that an explanation contains. The others, which may be many, are skipped.
#[derive(Deserialize)]
struct Report<'a> {
    metadata: ReportMetadata,
    #[serde(default)]
    spec: ReportSpec,
    #[serde(borrow, default)]
    status: ReportStatus<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReportMetadata {
    #[serde(default)]
    creation_timestamp: String,
}

#[derive(Default, Deserialize)]
struct ReportSpec {
    #[serde(default, rename = "clusterUID")]
    cluster_uid: String,
}

/// A status may have any form, depending on the kind of the object.
#[derive(Default, Deserialize)]
struct ReportStatus<'a> {
    #[serde(borrow)]
    pods: Option<&'a RawValue>,
    #[serde(borrow)]
    status: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct ReportedPods {
    ready: Option<i64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReportedReplicas {
    ready_replicas: Option<i64>,
}

/// Adds what a cluster reports about the object.
fn add_report(server: &Server, of: &ObjectRef<'_>, uid: &str, cluster: &mut ClusterExplanation) {
    let namespace = if of.namespace.is_empty() { DEFAULT_NAMESPACE } else { of.namespace };
    let name = format!("{uid}.{}", cluster.name);
    let object_ref = ObjectRef { workspace: of.workspace, namespace, name: &name };
    let stored = server.registry.catalog.stored(ATOLL, REPORTS);
    let Some(stored) = stored.and_then(|row| server.registry.get(row, &object_ref).ok()) else { return };
    let json = stored.json();
    let is_its = |report: &Report<'_>| cluster.uid.is_empty() || report.spec.cluster_uid == cluster.uid;
    let Some(report) = serde_json::from_slice(&json).ok().filter(is_its) else { return };
    let Report { metadata, status, .. } = report;
    cluster.ready = ready(&status);
    cluster.since = metadata.creation_timestamp;
}

/// Number of ready Pods or replicas in a report.
fn ready(status: &ReportStatus<'_>) -> Option<i64> {
    let pods = status.pods.and_then(|pods| serde_json::from_str::<ReportedPods>(pods.get()).ok()?.ready);
    pods.or_else(|| serde_json::from_str::<ReportedReplicas>(status.status?.get()).ok()?.ready_replicas)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_of_any_kind_are_read() {
        for (status, expected) in [
            (r#"{"pods":{"ready":2},"status":{"readyReplicas":1}}"#, Some(2)),
            (r#"{"status":{"readyReplicas":1,"list":[1,2,3]}}"#, Some(1)),
            (r#"{"status":{"readyReplicas":"1"}}"#, None),
            (r#"{"status":"Bound"}"#, None),
            (r#"{"status":null}"#, None),
            ("{}", None),
        ] {
            let json = format!(r#"{{"metadata":{{}},"spec":{{"clusterUID":"u"}},"status":{status}}}"#);
            let report: Report<'_> = serde_json::from_str(&json).unwrap();
            assert_eq!(ready(&report.status), expected, "{status}");
            assert_eq!(report.spec.cluster_uid, "u");
        }
    }
}
