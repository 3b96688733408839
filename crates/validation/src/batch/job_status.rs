//! The status of a Job: a finished Job stays finished, and its counts must be consistent with its conditions.

// upstream: pkg/apis/batch/validation/validation.go
// upstream: pkg/registry/batch/job/strategy.go

use std::collections::HashSet;

use atoll_meta::field::BadValue;
use atoll_meta::object::FIELD_IS_IMMUTABLE;
use atoll_meta::time;
use serde_json::Value;

use super::indexes;
use crate::field_value::{Errors, FieldValue};
use crate::internal;
use crate::pod::same;

/// Whether a condition of this type has this status.
pub(super) fn is_condition(status: &FieldValue<'_>, kind: &str, value: &str) -> bool {
    let is =
        |condition: FieldValue<'_>| condition.text_of("type") == kind && condition.text_of("status") == value;
    status.get("conditions").items().any(is)
}

/// The conditions that matter for validation.
struct JobConditions {
    complete: bool,
    failed: bool,
    failing: bool,
    succeeding: bool,
}

impl JobConditions {
    fn of(status: &FieldValue<'_>) -> JobConditions {
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

/// The parts of a Job, the status before the update, and the conditions of both statuses.
struct StatusUpdate<'a> {
    spec: FieldValue<'a>,
    status: FieldValue<'a>,
    before: FieldValue<'a>,
    now: JobConditions,
    then: JobConditions,
}

impl StatusUpdate<'_> {
    fn invalid_conditions(&self, errors: &mut Errors, detail: &str) {
        errors.push(self.status.get("conditions").invalid_as(BadValue::Omitted, detail));
    }

    fn changes(&self, field: &'static str) -> bool {
        self.status.get(field).value != self.before.get(field).value
    }
}

/// Checks an update of the status. Most rules apply only to what the update changes.
pub(super) fn update(job: &Value, old_job: &Value) -> Errors {
    let mut errors = Errors::new();
    let (status, before) = (FieldValue::field(job, "status"), FieldValue::field(old_job, "status"));
    for field in ["active", "succeeded", "failed", "ready", "terminating"] {
        status.get(field).not_negative(&mut errors);
    }
    uncounted(&mut errors, &status.get("uncountedTerminatedPods"));
    let (now, then) = (JobConditions::of(&status), JobConditions::of(&before));
    let update = StatusUpdate { spec: FieldValue::field(job, "spec"), status, before, now, then };
    finished_conditions(&mut errors, &update);
    finished(&mut errors, &update);
    index_sets(&mut errors, &update);
    finished_counts(&mut errors, &update);
    success(&mut errors, &update);
    transitions(&mut errors, &update);
    errors
}

fn uncounted(errors: &mut Errors, pods: &FieldValue<'_>) {
    let mut seen = HashSet::new();
    for field in ["succeeded", "failed"] {
        for uid in pods.get(field).items() {
            if uid.is_empty() {
                errors.push(uid.invalid_named("must not be empty"));
            } else if !seen.insert(uid.text()) {
                errors.push(uid.duplicate_as(uid.named()));
            }
        }
    }
}

fn finished_conditions(errors: &mut Errors, update: &StatusUpdate<'_>) {
    let StatusUpdate { status, now, then, .. } = update;
    let completes = now.complete != then.complete;
    let fails = now.failed != then.failed;
    if (completes || fails) && now.complete && now.failed {
        update.invalid_conditions(errors, "cannot set Complete=True and Failed=true conditions");
    }
    if (completes || now.failing != then.failing) && now.complete && now.failing {
        update.invalid_conditions(errors, "cannot set Complete=True and FailureTarget=true conditions");
    }
    let (start, end) = (status.get("startTime"), status.get("completionTime"));
    let (new_start, new_end) = (update.changes("startTime"), update.changes("completionTime"));
    if completes || new_end {
        if end.is_set() && !now.complete {
            errors.push(end.invalid("cannot set completionTime when there is no Complete=True condition"));
        } else if !end.is_set() && now.complete {
            errors.push(end.required("completionTime is required for Complete jobs"));
        }
    }
    if (new_start || new_end)
        && let (Ok(first), Ok(last)) = (time::parse(start.text()), time::parse(end.text()))
        && last < first
    {
        errors.push(end.invalid("must be equal to or after `startTime`"));
    }
    if (fails || update.changes("failedIndexes")) && now.failed && !now.failing {
        let detail = "cannot set Failed=True condition without the FailureTarget=true condition";
        update.invalid_conditions(errors, detail);
    }
    if (completes || now.succeeding != then.succeeding) && now.complete && !now.succeeding {
        let detail = "cannot set Complete=True condition without the SuccessCriteriaMet=true condition";
        update.invalid_conditions(errors, detail);
    }
}

fn finished(errors: &mut Errors, update: &StatusUpdate<'_>) {
    let StatusUpdate { spec, status, before, now, then } = update;
    if !now.is_finished() {
        return;
    }
    let finishes = !then.is_finished();
    let active = status.get("active");
    if (finishes || active.integer() != before.get("active").integer()) && active.integer() > 0 {
        errors.push(active.invalid("active>0 is invalid for finished job"));
    }
    let never_starts = spec.get("suspend").flag() && spec.get("completions").number() == Some(0);
    let start = status.get("startTime");
    if (finishes || update.changes("startTime")) && !never_starts && !start.is_set() {
        errors.push(start.required("startTime is required for finished job"));
    }
    let uncounted = status.get("uncountedTerminatedPods");
    let is_empty = uncounted.get("succeeded").is_empty() && uncounted.get("failed").is_empty();
    let before = before.get("uncountedTerminatedPods");
    if (finishes || !same(uncounted.value, before.value)) && !is_empty {
        let rendered = internal::render("UncountedTerminatedPods", uncounted.value);
        errors.push(uncounted.invalid_as(rendered, "must be empty for finished job"));
    }
}

fn index_sets(errors: &mut Errors, update: &StatusUpdate<'_>) {
    let StatusUpdate { spec, status, before, .. } = update;
    let completions = spec.get("completions").number();
    let per_index = spec.has("backoffLimitPerIndex");
    let (done, failed) = (status.get("completedIndexes"), status.get("failedIndexes"));
    let new_done = done.text() != before.text_of("completedIndexes");
    let new_failed = update.changes("failedIndexes");
    if let (true, Some(completions)) = (new_done, completions)
        && let Err(reason) = indexes::count(done.text(), completions)
    {
        errors.push(done.invalid_text(format!("error parsing completedIndexes: {reason}")));
    }
    if let (true, Some(completions)) = (new_failed && per_index && failed.is_set(), completions)
        && let Err(reason) = indexes::count(failed.text(), completions)
    {
        errors.push(failed.invalid_named(format!("error parsing failedIndexes: {reason}")));
    }
    if new_done && !done.is_empty() && spec.text_of("completionMode") != "Indexed" {
        let detail = "cannot set non-empty completedIndexes when non-indexed completion mode";
        errors.push(done.invalid(detail));
    }
    if new_failed && !per_index && failed.is_set() {
        errors.push(failed.invalid("cannot set non-null failedIndexes when backoffLimitPerIndex is null"));
    }
    if let (true, Some(completions)) = ((new_failed || new_done) && failed.is_set(), completions)
        && let Some(index) = indexes::overlap(done.text(), failed.text(), completions)
    {
        let detail = format!("failedIndexes and completedIndexes overlap at index: {index}");
        errors.push(failed.invalid(detail));
    }
}

fn finished_counts(errors: &mut Errors, update: &StatusUpdate<'_>) {
    let StatusUpdate { status, before, now, then, .. } = update;
    let (active, ready) = (status.get("active").integer(), status.get("ready"));
    let terminating = status.get("terminating");
    let finish_changes = now.is_finished() != then.is_finished();
    if (finish_changes || update.changes("terminating")) && terminating.integer() > 0 && now.is_finished() {
        errors.push(terminating.invalid("terminating>0 is invalid for finished job"));
    }
    let active_changes = active != before.get("active").integer();
    if (update.changes("ready") || active_changes) && ready.number().is_some_and(|ready| ready > active) {
        errors.push(ready.invalid("cannot set more ready pods than active"));
    }
}

fn success(errors: &mut Errors, update: &StatusUpdate<'_>) {
    let now = &update.now;
    if now.succeeding && now.failed {
        update.invalid_conditions(errors, "cannot set SuccessCriteriaMet=True and Failed=true conditions");
    }
    if now.succeeding && now.failing {
        let detail = "cannot set SuccessCriteriaMet=True and FailureTarget=true conditions";
        update.invalid_conditions(errors, detail);
    }
    if update.spec.has("successPolicy") && !now.succeeding && now.complete {
        let detail = "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True";
        update.invalid_conditions(errors, detail);
    }
}

fn transitions(errors: &mut Errors, update: &StatusUpdate<'_>) {
    let StatusUpdate { spec, status, before, now, then } = update;
    for (kind, was, is) in [
        ("Failed", then.failed, now.failed),
        ("Complete", then.complete, now.complete),
        ("FailureTarget", then.failing, now.failing),
    ] {
        if was && !is {
            let detail = format!("cannot disable the terminal {kind}=True condition");
            update.invalid_conditions(errors, &detail);
        }
    }
    let is_elastic = spec.text_of("completionMode") == "Indexed"
        && spec.get("completions").number() == spec.get("parallelism").number();
    for (field, may_shrink) in [("failed", false), ("succeeded", is_elastic)] {
        let count = status.get(field);
        if !may_shrink && count.integer() < before.get(field).integer() {
            errors.push(count.invalid_integer(format!("cannot decrease the {field} counter")));
        }
    }
    let (start, end) = (status.get("startTime"), status.get("completionTime"));
    if end.is_set() && before.has("completionTime") && update.changes("completionTime") {
        errors.push(end.invalid(FIELD_IS_IMMUTABLE));
    }
    let resumes = is_condition(before, "Suspended", "True") && is_condition(status, "Suspended", "False");
    let had_start = before.has("startTime");
    if had_start && update.changes("startTime") && !resumes && !spec.get("suspend").flag() {
        errors.push(start.invalid("field is immutable for unsuspended job once set"));
    }
    if then.succeeding && !now.succeeding {
        update.invalid_conditions(errors, "cannot disable the SuccessCriteriaMet=True condition");
    }
    if then.complete && !then.succeeding && now.succeeding {
        let detail = "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions";
        update.invalid_conditions(errors, detail);
    }
}
