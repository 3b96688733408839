//! Jobs. The template of a CronJob is not defaulted.

// upstream: pkg/apis/batch/v1/defaults.go

use super::core::labels_from_template;
use crate::object::{ObjectMap, child, child_mut, is_absent, set, set_absent};

const UNBOUNDED: i64 = i32::MAX as i64;

pub fn job(job: &mut ObjectMap) {
    let Some(spec) = child_mut(job, "spec") else { return };
    if is_absent(spec, "completions") && is_absent(spec, "parallelism") {
        set(spec, "completions", 1);
    }
    set_absent(spec, "parallelism", 1);
    let limit = if is_absent(spec, "backoffLimitPerIndex") { 6 } else { UNBOUNDED };
    set_absent(spec, "backoffLimit", limit);
    let replacement = if is_absent(spec, "podFailurePolicy") { "TerminatingOrFailed" } else { "Failed" };
    set_absent(spec, "podReplacementPolicy", replacement);
    let template = child(spec, "template").and_then(|template| child(template, "metadata"));
    if let Some(labels) = template.and_then(|metadata| child(metadata, "labels")).cloned() {
        labels_from_template(job, labels);
    }
}
