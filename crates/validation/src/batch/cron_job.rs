//! CronJobs.

// upstream: pkg/apis/batch/validation/validation.go

use atoll_meta::{FieldError, FieldPath, object};
use serde_json::Value;

use super::{job, schedule};
use crate::Checks;
use crate::apps::render_selector;
use crate::fields::{Errors, Fields, named, not_negative};

pub(crate) static CHECKS: Checks = Checks {
    create: |object| {
        let mut errors = Vec::new();
        check(&mut errors, object.part("spec"), None);
        // The suffix of Job names must fit into a label too.
        let name = object::name(object);
        if name.len() > 52 {
            let path = FieldPath::new("metadata").child("name");
            errors.push(FieldError::invalid(&path, name, "must be no more than 52 characters"));
        }
        errors
    },
    update: |new, old| {
        let mut errors = Vec::new();
        check(&mut errors, new.part("spec"), Some(old.part("spec")));
        errors
    },
    ..Checks::NONE
};

fn check(errors: &mut Errors, spec: &Value, old: Option<&Value>) {
    let path = FieldPath::new("spec");
    check_schedule(errors, spec, old, &path.child("schedule"));
    not_negative(errors, spec, "startingDeadlineSeconds", &path);
    if let Some(zone) = spec.optional_text("timeZone")
        && old.is_none_or(|old| old.optional_text("timeZone") != Some(zone))
    {
        for detail in schedule::time_zone(zone) {
            errors.push(FieldError::invalid(&path.child("timeZone"), named(zone), detail));
        }
    }
    match spec.text("concurrencyPolicy") {
        "Allow" | "Forbid" | "Replace" => {}
        "" => errors.push(FieldError::required(&path.child("concurrencyPolicy"), "")),
        other => errors.push(FieldError::not_supported(
            &path.child("concurrencyPolicy"),
            named(other),
            &["Allow", "Forbid", "Replace"],
        )),
    }
    let old_job = old.map(|old| old.part("jobTemplate").part("spec"));
    let job_path = path.child("jobTemplate").child("spec");
    check_template(errors, spec.part("jobTemplate").part("spec"), old_job, &job_path);
    not_negative(errors, spec, "successfulJobsHistoryLimit", &path);
    not_negative(errors, spec, "failedJobsHistoryLimit", &path);
}

fn check_schedule(errors: &mut Errors, spec: &Value, old: Option<&Value>, path: &FieldPath) {
    let text = spec.text("schedule");
    if text.is_empty() {
        errors.push(FieldError::required(path, ""));
        return;
    }
    if let Err(detail) = schedule::parse(text) {
        errors.push(FieldError::invalid(path, text, detail));
    }
    if !text.contains("TZ") {
        return;
    }
    let detail = if !old.is_some_and(|old| old.text("schedule").contains("TZ")) {
        "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
    } else if spec.field("timeZone").is_some() {
        "cannot use both timeZone field and TZ or CRON_TZ in schedule"
    } else {
        return;
    };
    errors.push(FieldError::invalid(path, text, detail));
}

fn check_template(errors: &mut Errors, spec: &Value, old: Option<&Value>, path: &FieldPath) {
    job::check_spec(errors, spec, old, path);
    if let Some(selector) = spec.field("selector") {
        let detail = "`selector` will be auto-generated";
        errors.push(FieldError::invalid(&path.child("selector"), render_selector(selector), detail));
    }
    if spec.flag("manualSelector") {
        errors.push(FieldError::not_supported(&path.child("manualSelector"), true, &["nil", "false"]));
    }
}
