//! The numbers of a share in a shape.

use serde_json::{Map, Value, json};

use super::type_of;
use crate::placement::ShareNumbers;

/// Sets the numbers of a share, for kinds that have them.
pub(super) fn divide(shaped: &mut Value, object: &Value, share: ShareNumbers) {
    let replicas = share.replicas.map(|replicas| replicas.max(0));
    match type_of(object) {
        ("batch", "Job") => {
            set(shaped, "completions", share.completions);
            set(shaped, "parallelism", share.parallelism.or(replicas));
        }
        ("batch", "CronJob") => {
            set_in(shaped, &["spec", "jobTemplate", "spec"], "parallelism", share.parallelism)
        }
        ("apps", "StatefulSet") => {
            set(shaped, "replicas", replicas);
            if let Some(first) = share.first_ordinal {
                ordinals(shaped, object, first.max(0));
            }
        }
        ("apps", "Deployment") => {
            set(shaped, "replicas", replicas);
            rollout_budget(shaped, object, "strategy", share);
        }
        ("apps", "DaemonSet") => rollout_budget(shaped, object, "updateStrategy", share),
        ("apps", "ReplicaSet") | ("", "ReplicationController") => set(shaped, "replicas", replicas),
        // A percentage applies to the Pods of each cluster.
        ("policy", "PodDisruptionBudget") => {
            for field in ["minAvailable", "maxUnavailable"] {
                if object["spec"][field].is_i64() {
                    set(shaped, field, replicas);
                }
            }
        }
        _ if object["spec"].get("replicas").is_some() => set(shaped, "replicas", replicas),
        _ => {}
    }
}

/// Shifts the ordinals of a StatefulSet by the Pods of other clusters. A partition counts from the first
/// ordinal of the StatefulSet.
// upstream: pkg/controller/statefulset/stateful_set_utils.go
fn ordinals(shaped: &mut Value, object: &Value, first: i64) {
    let start = object["spec"]["ordinals"]["start"].as_i64().unwrap_or(0).saturating_add(first);
    let start = start.min(i64::from(i32::MAX));
    let is_set = shaped["spec"].get("ordinals").is_some();
    if (start > 0 || is_set)
        && let Some(spec) = spec(shaped)
    {
        spec.insert("ordinals".to_owned(), json!({ "start": start }));
    }
    let rolling = shaped.pointer_mut("/spec/updateStrategy/rollingUpdate").and_then(Value::as_object_mut);
    if let Some(partition) = rolling.and_then(|rolling| rolling.get_mut("partition"))
        && let Some(whole) = partition.as_i64()
    {
        *partition = whole.saturating_sub(first).max(0).into();
    }
}

/// Sets the part of a share in the budget of a rolling update.
fn rollout_budget(shaped: &mut Value, object: &Value, strategy: &str, share: ShareNumbers) {
    let is_rolling = matches!(object["spec"][strategy]["type"].as_str(), None | Some("RollingUpdate"));
    if !is_rolling || (share.max_unavailable, share.max_surge) == (None, None) {
        return;
    }
    let Some(spec) = spec(shaped) else { return };
    let budget = json!({
        "maxUnavailable": share.max_unavailable.unwrap_or(0).max(0),
        "maxSurge": share.max_surge.unwrap_or(0).max(0),
    });
    spec.insert(strategy.to_owned(), json!({ "type": "RollingUpdate", "rollingUpdate": budget }));
}

fn set(shaped: &mut Value, field: &str, number: Option<i64>) {
    set_in(shaped, &["spec"], field, number);
}

fn set_in(shaped: &mut Value, path: &[&str], field: &str, number: Option<i64>) {
    if let Some(number) = number
        && let Some(parent) = object_at(shaped, path)
    {
        parent.insert(field.to_owned(), number.max(0).into());
    }
}

/// The spec of a shape, which is added if it is missing.
fn spec(shaped: &mut Value) -> Option<&mut Map<String, Value>> {
    object_at(shaped, &["spec"])
}

fn object_at<'s>(shaped: &'s mut Value, path: &[&str]) -> Option<&'s mut Map<String, Value>> {
    let mut found = shaped;
    for name in path {
        found = found.as_object_mut()?.entry(*name).or_insert_with(|| json!({}));
    }
    found.as_object_mut()
}
