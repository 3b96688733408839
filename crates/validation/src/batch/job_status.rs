//! The status of a Job: a finished Job stays finished, and its counts must be consistent with its conditions.

// upstream: pkg/apis/batch/validation/validation.go
// upstream: pkg/registry/batch/job/strategy.go

use std::collections::HashSet;

use atoll_meta::field::BadValue;
use atoll_meta::object::FIELD_IS_IMMUTABLE;
use atoll_meta::{FieldError, FieldPath, time};
use serde_json::Value;

use super::indexes;
use crate::fields::{Errors, Fields, named, not_negative};
use crate::internal;
use crate::pod::same;

/// Whether a condition of this type has this status.
pub(super) fn is_condition(status: &Value, kind: &str, value: &str) -> bool {
    let mut conditions = status.list("conditions").iter();
    conditions.any(|condition| condition.text("type") == kind && condition.text("status") == value)
}

/// The conditions that matter for validation.
struct JobConditions {
    complete: bool,
    failed: bool,
    failing: bool,
    succeeding: bool,
}

impl JobConditions {
    fn of(status: &Value) -> JobConditions {
        let is = |kind| is_condition(status, kind, "True");
        JobConditions {
            complete: is("Complete"),
            failed: is("Failed"),
            failing: is("FailureTarget"),
            succeeding: is("SuccessCriteriaMet"),
        }
    }

    fn is_finished(&self) -> bool {
        self.complete || self.failed
    }
}

/// Checks an update of the status. Most rules apply only to what the update changes.
pub(super) fn update(job: &Value, old_job: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let path = FieldPath::new("status");
    let (status, before) = (job.part("status"), old_job.part("status"));
    for field in ["active", "succeeded", "failed", "ready", "terminating"] {
        not_negative(&mut errors, status, field, &path);
    }
    uncounted(&mut errors, status, &path.child("uncountedTerminatedPods"));
    let (now, then) = (JobConditions::of(status), JobConditions::of(before));
    finished_conditions(&mut errors, status, before, &now, &then, &path);
    finished(&mut errors, job, before, &now, &then, &path);
    index_sets(&mut errors, job, before, &path);
    finished_counts(&mut errors, status, before, &now, &then, &path);
    success(&mut errors, job, &now, &path);
    transitions(&mut errors, job, before, &now, &then, &path);
    errors
}

fn invalid_conditions(errors: &mut Errors, path: &FieldPath, detail: &str) {
    errors.push(FieldError::invalid(&path.child("conditions"), BadValue::Omitted, detail));
}

fn uncounted(errors: &mut Errors, status: &Value, path: &FieldPath) {
    let mut seen = HashSet::new();
    for field in ["succeeded", "failed"] {
        for (index, uid) in status.part("uncountedTerminatedPods").texts(field).enumerate() {
            let path = || path.child(field).index(index);
            if uid.is_empty() {
                errors.push(FieldError::invalid(&path(), named(uid), "must not be empty"));
            } else if !seen.insert(uid) {
                errors.push(FieldError::duplicate(&path(), named(uid)));
            }
        }
    }
}

fn finished_conditions(
    errors: &mut Errors,
    status: &Value,
    before: &Value,
    now: &JobConditions,
    then: &JobConditions,
    path: &FieldPath,
) {
    let completes = now.complete != then.complete;
    let fails = now.failed != then.failed;
    if (completes || fails) && now.complete && now.failed {
        invalid_conditions(errors, path, "cannot set Complete=True and Failed=true conditions");
    }
    if (completes || now.failing != then.failing) && now.complete && now.failing {
        invalid_conditions(errors, path, "cannot set Complete=True and FailureTarget=true conditions");
    }
    let (start, end) = (status.field("startTime"), status.field("completionTime"));
    let new_start = start != before.field("startTime");
    let new_end = end != before.field("completionTime");
    let end_path = || path.child("completionTime");
    if completes || new_end {
        match end {
            Some(end) if !now.complete => {
                let detail = "cannot set completionTime when there is no Complete=True condition";
                errors.push(FieldError::invalid(&end_path(), end.clone(), detail));
            }
            None if now.complete => {
                let detail = "completionTime is required for Complete jobs";
                errors.push(FieldError::required(&end_path(), detail));
            }
            _ => {}
        }
    }
    let moment = |value: &Value| time::parse(value.as_str().unwrap_or_default()).ok();
    if let (Some(start), Some(end), true) = (start, end, new_start || new_end)
        && let (Some(first), Some(last)) = (moment(start), moment(end))
        && last < first
    {
        let detail = "must be equal to or after `startTime`";
        errors.push(FieldError::invalid(&end_path(), end.clone(), detail));
    }
    let new_indexes = status.field("failedIndexes") != before.field("failedIndexes");
    if (fails || new_indexes) && now.failed && !now.failing {
        let detail = "cannot set Failed=True condition without the FailureTarget=true condition";
        invalid_conditions(errors, path, detail);
    }
    if (completes || now.succeeding != then.succeeding) && now.complete && !now.succeeding {
        let detail = "cannot set Complete=True condition without the SuccessCriteriaMet=true condition";
        invalid_conditions(errors, path, detail);
    }
}

fn finished(
    errors: &mut Errors,
    job: &Value,
    before: &Value,
    now: &JobConditions,
    then: &JobConditions,
    path: &FieldPath,
) {
    if !now.is_finished() {
        return;
    }
    let status = job.part("status");
    let spec = job.part("spec");
    let finishes = !then.is_finished();
    let active = status.integer("active");
    if (finishes || active != before.integer("active")) && active > 0 {
        let detail = "active>0 is invalid for finished job";
        errors.push(FieldError::invalid(&path.child("active"), active, detail));
    }
    let never_starts = spec.flag("suspend") && spec.optional_integer("completions") == Some(0);
    let start = status.field("startTime");
    if (finishes || start != before.field("startTime")) && !never_starts && start.is_none() {
        let detail = "startTime is required for finished job";
        errors.push(FieldError::required(&path.child("startTime"), detail));
    }
    let uncounted = status.part("uncountedTerminatedPods");
    let is_empty = uncounted.list("succeeded").is_empty() && uncounted.list("failed").is_empty();
    if (finishes || !same(uncounted, before.part("uncountedTerminatedPods"))) && !is_empty {
        let rendered = internal::render("UncountedTerminatedPods", uncounted);
        let path = path.child("uncountedTerminatedPods");
        errors.push(FieldError::invalid(&path, rendered, "must be empty for finished job"));
    }
}

fn index_sets(errors: &mut Errors, job: &Value, before: &Value, path: &FieldPath) {
    let (spec, status) = (job.part("spec"), job.part("status"));
    let completions = spec.optional_integer("completions");
    let per_index = spec.field("backoffLimitPerIndex").is_some();
    let done = status.text("completedIndexes");
    let failed = status.optional_text("failedIndexes");
    let new_done = done != before.text("completedIndexes");
    let new_failed = failed != before.optional_text("failedIndexes");
    let (done_path, failed_path) = (|| path.child("completedIndexes"), || path.child("failedIndexes"));
    if let (true, Some(completions)) = (new_done, completions)
        && let Err(reason) = indexes::count(done, completions)
    {
        let detail = format!("error parsing completedIndexes: {reason}");
        errors.push(FieldError::invalid(&done_path(), done, detail));
    }
    if let (true, true, Some(completions), Some(failed)) = (new_failed, per_index, completions, failed)
        && let Err(reason) = indexes::count(failed, completions)
    {
        let detail = format!("error parsing failedIndexes: {reason}");
        errors.push(FieldError::invalid(&failed_path(), named(failed), detail));
    }
    if new_done && !done.is_empty() && spec.text("completionMode") != "Indexed" {
        let detail = "cannot set non-empty completedIndexes when non-indexed completion mode";
        errors.push(FieldError::invalid(&done_path(), done, detail));
    }
    if let (true, false, Some(failed)) = (new_failed, per_index, failed) {
        let detail = "cannot set non-null failedIndexes when backoffLimitPerIndex is null";
        errors.push(FieldError::invalid(&failed_path(), failed, detail));
    }
    if let (true, Some(completions), Some(failed)) = (new_failed || new_done, completions, failed)
        && let Some(index) = indexes::overlap(done, failed, completions)
    {
        let detail = format!("failedIndexes and completedIndexes overlap at index: {index}");
        errors.push(FieldError::invalid(&failed_path(), failed, detail));
    }
}

fn finished_counts(
    errors: &mut Errors,
    status: &Value,
    before: &Value,
    now: &JobConditions,
    then: &JobConditions,
    path: &FieldPath,
) {
    let is_new = |field: &str| status.optional_integer(field) != before.optional_integer(field);
    let terminating = status.integer("terminating");
    let finish_changes = now.is_finished() != then.is_finished();
    if (finish_changes || is_new("terminating")) && terminating > 0 && now.is_finished() {
        let detail = "terminating>0 is invalid for finished job";
        errors.push(FieldError::invalid(&path.child("terminating"), terminating, detail));
    }
    let active_changes = status.integer("active") != before.integer("active");
    if let Some(ready) = status.optional_integer("ready")
        && (is_new("ready") || active_changes)
        && ready > status.integer("active")
    {
        let detail = "cannot set more ready pods than active";
        errors.push(FieldError::invalid(&path.child("ready"), ready, detail));
    }
}

fn success(errors: &mut Errors, job: &Value, now: &JobConditions, path: &FieldPath) {
    if now.succeeding && now.failed {
        invalid_conditions(errors, path, "cannot set SuccessCriteriaMet=True and Failed=true conditions");
    }
    if now.succeeding && now.failing {
        let detail = "cannot set SuccessCriteriaMet=True and FailureTarget=true conditions";
        invalid_conditions(errors, path, detail);
    }
    if job.part("spec").field("successPolicy").is_some() && !now.succeeding && now.complete {
        let detail = "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True";
        invalid_conditions(errors, path, detail);
    }
}

fn transitions(
    errors: &mut Errors,
    job: &Value,
    before: &Value,
    now: &JobConditions,
    then: &JobConditions,
    path: &FieldPath,
) {
    let (spec, status) = (job.part("spec"), job.part("status"));
    for (kind, was, is) in [
        ("Failed", then.failed, now.failed),
        ("Complete", then.complete, now.complete),
        ("FailureTarget", then.failing, now.failing),
    ] {
        if was && !is {
            invalid_conditions(errors, path, &format!("cannot disable the terminal {kind}=True condition"));
        }
    }
    let is_elastic = spec.text("completionMode") == "Indexed"
        && spec.optional_integer("completions") == spec.optional_integer("parallelism");
    for (field, may_shrink) in [("failed", false), ("succeeded", is_elastic)] {
        let count = status.integer(field);
        if !may_shrink && count < before.integer(field) {
            let detail = format!("cannot decrease the {field} counter");
            errors.push(FieldError::invalid(&path.child(field), count, detail));
        }
    }
    if let (Some(end), Some(old_end)) = (status.field("completionTime"), before.field("completionTime"))
        && end != old_end
    {
        errors.push(FieldError::invalid(&path.child("completionTime"), end.clone(), FIELD_IS_IMMUTABLE));
    }
    let start = status.part("startTime");
    let resumes = is_condition(before, "Suspended", "True") && is_condition(status, "Suspended", "False");
    let had_start = before.field("startTime").is_some();
    if had_start && start != before.part("startTime") && !resumes && !spec.flag("suspend") {
        let detail = "field is immutable for unsuspended job once set";
        errors.push(FieldError::invalid(&path.child("startTime"), start.clone(), detail));
    }
    if then.succeeding && !now.succeeding {
        invalid_conditions(errors, path, "cannot disable the SuccessCriteriaMet=True condition");
    }
    if then.complete && !then.succeeding && now.succeeding {
        let detail = "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions";
        invalid_conditions(errors, path, detail);
    }
}
