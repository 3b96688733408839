//! Warnings for clients that write objects: that nothing runs yet, or that deletion waits.

use atoll_fleet::placed_by::{self, REFERENCE};
use atoll_fleet::placed_condition;
use atoll_fleet::placement_refusal::ClusterChoice;
use atoll_fleet::scheduled::CLUSTERS;
use atoll_fleet::{Placement, api_access};
use atoll_meta::object;
use atoll_registry::dialect::Intent;
use atoll_registry::placement::is_placeable;
use atoll_registry::{ObjectRef, Row};
use serde_json::Value;

use super::pauses;
use crate::Server;
use crate::workspace::Workspace;

/// The annotation with which Pods of a workload are created in the control plane.
const GRAIN: &str = "atoll.dev/grain";
const NOWHERE: &str = "it is placed on no cluster, so nothing runs yet";

/// Whether the Pods of a workload are created in the control plane instead of its clusters.
pub fn creates_pods_here(workload: &Value) -> bool {
    object::annotation(workload, GRAIN) == Some("pod")
}

/// Whether the object asks to be placed nowhere.
fn stays_above(object: &Value) -> bool {
    object::annotation(object, atoll_placement::intent::ANNOTATION) == Some(atoll_placement::intent::NONE)
}

/// Returns a warning for a new workload that is not placed, if there are clusters and no scheduler that places
/// it.
pub fn unplaced(server: &Server, row: &Row, object_ref: &ObjectRef<'_>, new: &Value) -> Option<String> {
    let is_workload = placed_condition::is_workload((&row.group, &row.resource));
    if !is_workload || creates_pods_here(new) || !Placement::of(new).is_empty() {
        return None;
    }
    let registry = &server.registry;
    let advice = || {
        let choice = registry.cluster_choice(row, object_ref.workspace, new);
        let is_placed_soon = matches!(choice, ClusterChoice::Accepts(_)) && server.has_scheduler();
        choice
            .advice(&row.kind, object_ref.namespace, object::name(new))
            .filter(|_| !is_placed_soon && !stays_above(new))
    };
    let dialects = registry.catalog.dialects().filter(|dialect| dialect.placed_by().is_some());
    let Some((dialect, intents)) =
        dialects.map(|dialect| (dialect, dialect.intents(new))).find(|(_, intents)| !intents.is_empty())
    else {
        return Some(format!("{NOWHERE}; {}", advice()?));
    };
    if !registry.dialect_enabled(object_ref.workspace, dialect.name()) {
        let (source, enable) = (intents[0].source, format!("atoll dialect enable {}", dialect.name()));
        return Some(match advice() {
            Some(advice) => format!("{NOWHERE}; its {source} does nothing here ({enable}); {advice}"),
            None if server.has_scheduler() => format!("its {source} does nothing here ({enable})"),
            None => return None,
        });
    }
    let named: Vec<_> = intents
        .iter()
        .map(|intent| (intent, registry.accepts(row, object_ref.workspace, new, intent.cluster)))
        .collect();
    // A cluster that a label names is placed without further action.
    let is_taken = named.iter().any(|(_, outcome)| matches!(outcome, Some(Ok(_))));
    let refused = named.iter().filter_map(|(intent, outcome)| match outcome {
        Some(Ok(_)) => None,
        Some(Err(why)) => Some(format!("its {} is not followed: {why}", intent.source)),
        None => Some(format!(
            "its {} names the cluster {:?}, which does not exist",
            intent.source, intent.cluster
        )),
    });
    let refused: Vec<String> = refused.collect();
    match (is_taken, refused.is_empty()) {
        (true, true) => None,
        (true, false) => Some(refused.join("; ")),
        (false, _) => Some(format!("{NOWHERE}; {}", refused.join("; "))),
    }
}

/// Returns warnings about labels of dialects that are new or changed and will not be followed. Those of new workloads
/// are in [`unplaced`].
pub fn not_followed(
    server: &Server,
    row: &Row,
    object_ref: &ObjectRef<'_>,
    new: &Value,
    old: Option<&Value>,
) -> Vec<String> {
    let is_told = old.is_none() && placed_condition::is_workload((&row.group, &row.resource));
    if is_told || !is_placeable(row) {
        return Vec::new();
    }
    let registry = &server.registry;
    let mut found = Vec::new();
    for dialect in registry.enabled_dialects(object_ref.workspace) {
        let Some(by) = dialect.placed_by() else { continue };
        let before = old.map(|old| dialect.intents(old)).unwrap_or_default();
        let changed = dialect.intents(new).into_iter().filter(|intent| !before.contains(intent));
        found.extend(changed.filter_map(|intent| {
            let outcome = || registry.accepts(row, object_ref.workspace, new, intent.cluster);
            why_not_followed(new, by, &intent, outcome)
        }));
    }
    found
}

/// Why a label is not followed. `outcome` says whether its cluster exists and accepts the object.
fn why_not_followed(
    object: &Value,
    by: &str,
    intent: &Intent<'_>,
    outcome: impl FnOnce() -> Option<Result<String, String>>,
) -> Option<String> {
    let (source, placement) = (intent.source, Placement::of(object));
    if object::annotation(object, CLUSTERS).is_some() {
        return Some(format!("its {source} has no effect, because its annotation {CLUSTERS} decides"));
    }
    if !placement.clusters.is_empty() && placement.by != by && !placed_by::yields_to_labels(&placement.by) {
        return Some(match placement.by.as_str() {
            REFERENCE => format!("its {source} has no effect, because it goes with the objects that need it"),
            other => format!("its {source} has no effect, because the object is placed by {other}"),
        });
    }
    if placement.share(intent.cluster).is_some() {
        return None;
    }
    match outcome() {
        Some(Ok(_)) => None,
        Some(Err(why)) => Some(format!("its {source} is not followed: {why}")),
        None => Some(format!(
            "its {source} names the cluster {:?}, which does not exist; see: atoll cluster list",
            intent.cluster
        )),
    }
}

/// Returns a warning that clusters do not delete the object because they are paused.
pub fn paused(server: &Server, workspace: &Workspace, old: &Value) -> Option<String> {
    let placement = Placement::of(old);
    let why = pauses::pause_reason(server, workspace, &placement)?;
    Some(format!("it stays until its clusters have deleted it, and {why}"))
}

/// Returns a warning about an annotation on a Pod template that does not name an API, if it is new.
pub fn invalid_api(new: &Value, old: Option<&Value>) -> Option<String> {
    let invalid = api_access::invalid_choice(new)?;
    let is_new = old.and_then(api_access::invalid_choice) != Some(invalid);
    is_new.then(|| {
        format!(
            "the annotation {} of the Pod template has the unknown value {invalid:?} and is ignored: use \"cluster\" or \"workspace\"",
            api_access::ANNOTATION
        )
    })
}

/// Returns a warning that the placement annotation cannot be written by clients.
pub fn ignored(server: &Server, row: &Row, object_ref: &ObjectRef<'_>, new: &Value) -> String {
    let what = format!("metadata.annotations[{}] is ignored", atoll_fleet::marks::PLACEMENT);
    let choice = is_placeable(row).then(|| server.registry.cluster_choice(row, object_ref.workspace, new));
    match choice.and_then(|choice| choice.advice(&row.kind, object_ref.namespace, object::name(new))) {
        Some(advice) => format!("{what}; {advice}"),
        None => what,
    }
}

#[cfg(test)]
mod tests {
    use atoll_registry::dialect::IntentSource;
    use serde_json::json;

    use super::*;

    #[test]
    fn labels_without_effect_are_explained() {
        let intent = Intent { source: IntentSource::Label("l"), cluster: "east" };
        let placed = |by: &str| json!({ "clusters": [{ "name": "west" }], "by": by }).to_string();
        let annotations = |key: &str, value: &str| json!({ "metadata": { "annotations": { key: value } } });
        let marked = |by: &str| annotations(atoll_fleet::marks::PLACEMENT, &placed(by));
        let exists = || Some(Ok("uid".to_string()));
        let why = |object: &Value, outcome: Option<Result<String, String>>| {
            why_not_followed(object, "label", &intent, || outcome)
        };
        assert_eq!(why(&json!({}), exists()), None);
        assert_eq!(why(&marked("label"), exists()), None);
        assert_eq!(why(&marked("default"), exists()), None);
        for (object, outcome, expected) in [
            (annotations(CLUSTERS, "west"), exists(), "because its annotation atoll.dev/clusters decides"),
            (marked("hand"), exists(), "because the object is placed by hand"),
            (marked("reference"), exists(), "because it goes with the objects that need it"),
            (marked("label"), None, "names the cluster \"east\", which does not exist"),
            (json!({}), Some(Err("east is full".to_string())), "its label l is not followed: east is full"),
        ] {
            let found = why(&object, outcome).expect("there is a warning");
            assert!(found.contains(expected), "{found}");
        }
    }
}
