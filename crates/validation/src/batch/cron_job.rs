//! CronJobs.

// upstream: pkg/apis/batch/validation/validation.go

use atoll_meta::object;

use super::{job, schedule};
use crate::Checks;
use crate::apps::render_selector;
use crate::field_value::{Errors, FieldValue};

pub(crate) static CHECKS: Checks = Checks {
    create: |object| {
        let mut errors = Errors::new();
        check(&mut errors, &FieldValue::field(object, "spec"), None);
        // The suffix of Job names must fit into a label too.
        if object::name(object).len() > 52 {
            let name = FieldValue::field(object, "metadata").get("name");
            errors.push(name.invalid("must be no more than 52 characters"));
        }
        errors
    },
    update: |new, old| {
        let mut errors = Errors::new();
        let old = FieldValue::field(old, "spec");
        check(&mut errors, &FieldValue::field(new, "spec"), Some(&old));
        errors
    },
    ..Checks::NONE
};

fn check(errors: &mut Errors, spec: &FieldValue<'_>, old: Option<&FieldValue<'_>>) {
    check_schedule(errors, spec, old);
    spec.get("startingDeadlineSeconds").not_negative(errors);
    if let Some(zone) = spec.given("timeZone")
        && old.is_none_or(|old| old.get("timeZone").value != zone.value)
    {
        errors.extend(schedule::time_zone(zone.text()).into_iter().map(|detail| zone.invalid_named(detail)));
    }
    spec.get("concurrencyPolicy").one_of(errors, &["Allow", "Forbid", "Replace"]);
    let old_job = old.map(|old| old.get("jobTemplate").get("spec"));
    check_template(errors, &spec.get("jobTemplate").get("spec"), old_job.as_ref());
    spec.get("successfulJobsHistoryLimit").not_negative(errors);
    spec.get("failedJobsHistoryLimit").not_negative(errors);
}

fn check_schedule(errors: &mut Errors, spec: &FieldValue<'_>, old: Option<&FieldValue<'_>>) {
    let schedule = spec.get("schedule");
    if schedule.is_empty() {
        errors.push(schedule.required(""));
        return;
    }
    if let Err(detail) = schedule::parse(schedule.text()) {
        errors.push(schedule.invalid(detail));
    }
    if !schedule.text().contains("TZ") {
        return;
    }
    let detail = if !old.is_some_and(|old| old.text_of("schedule").contains("TZ")) {
        "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
    } else if spec.has("timeZone") {
        "cannot use both timeZone field and TZ or CRON_TZ in schedule"
    } else {
        return;
    };
    errors.push(schedule.invalid(detail));
}

fn check_template(errors: &mut Errors, spec: &FieldValue<'_>, old: Option<&FieldValue<'_>>) {
    job::check_spec(errors, spec, old);
    if let Some(selector) = spec.given("selector") {
        let detail = "`selector` will be auto-generated";
        errors.push(selector.invalid_as(render_selector(&selector), detail));
    }
    let manual = spec.get("manualSelector");
    if manual.flag() {
        errors.push(manual.unsupported_as(true, &["nil", "false"]));
    }
}
