//! Workloads of the group `apps`.

// upstream: pkg/apis/apps/v1/defaults.go
// upstream: pkg/apis/apps/v1/conversion.go

use serde_json::Value;

use crate::object::{
    ObjectMap, annotate, annotation, child_mut, drop_annotations, entry, items_mut, set, set_absent,
    set_empty, text,
};

const ROLLBACK: &str = "deprecated.deployment.rollback.to";
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";
const ROLLING: &str = "RollingUpdate";

pub fn deployment(deployment: &mut ObjectMap) {
    if let Some(spec) = child_mut(deployment, "spec") {
        rolling(spec, "strategy", "25%".into(), "25%".into());
    }
    // The internal type stores the revision as a number.
    match annotation(deployment, ROLLBACK) {
        Some("") => drop_annotations(deployment, &[ROLLBACK]),
        Some(text) => {
            if let Ok(revision) = text.parse::<i64>() {
                annotate(deployment, ROLLBACK, revision.to_string());
            }
        }
        None => {}
    }
}

pub fn daemon_set(daemon_set: &mut ObjectMap) {
    if let Some(spec) = child_mut(daemon_set, "spec") {
        rolling(spec, "updateStrategy", 1.into(), 0.into());
    }
    // The internal type has a field for this annotation, which is always written back.
    let generation = annotation(daemon_set, TEMPLATE_GENERATION).map_or(Ok(0), str::parse::<i64>);
    if let Ok(generation) = generation {
        annotate(daemon_set, TEMPLATE_GENERATION, generation.to_string());
    }
}

fn rolling(spec: &mut ObjectMap, strategy: &str, unavailable: Value, surge: Value) {
    let Some(strategy) = entry(spec, strategy) else { return };
    set_empty(strategy, "type", ROLLING);
    if text(strategy, "type") == ROLLING {
        if let Some(rolling) = entry(strategy, "rollingUpdate") {
            set_absent(rolling, "maxUnavailable", unavailable);
            set_absent(rolling, "maxSurge", surge);
        }
    } else if let Some(rolling) = child_mut(strategy, "rollingUpdate") {
        // The fields are not pointers in the internal type, so they are written as zero.
        set_absent(rolling, "maxUnavailable", 0);
        set_absent(rolling, "maxSurge", 0);
    }
}

pub fn stateful_set(stateful_set: &mut ObjectMap) {
    let Some(spec) = child_mut(stateful_set, "spec") else { return };
    if let Some(strategy) = entry(spec, "updateStrategy") {
        if text(strategy, "type").is_empty() {
            set(strategy, "type", ROLLING);
            entry(strategy, "rollingUpdate");
        }
        if let Some(rolling) = child_mut(strategy, "rollingUpdate") {
            set_absent(rolling, "partition", 0);
        }
    }
    if let Some(retention) = entry(spec, "persistentVolumeClaimRetentionPolicy") {
        set_empty(retention, "whenDeleted", "Retain");
        set_empty(retention, "whenScaled", "Retain");
    }
    // Volume claim templates always have a kind.
    for claim in items_mut(spec, "volumeClaimTemplates") {
        set(claim, "apiVersion", "v1");
        set(claim, "kind", "PersistentVolumeClaim");
    }
}
