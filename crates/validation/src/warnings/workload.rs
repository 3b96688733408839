//! Warnings about pods and workloads.

// upstream: pkg/api/pod/warnings.go
// upstream: pkg/registry/batch/job/strategy.go
// upstream: pkg/registry/batch/cronjob/strategy.go

use atoll_meta::object;
use serde_json::Value;

use super::{Warnings, addresses, host_name, pod, storage};
use crate::field_value::FieldValue;

pub static PODS: Warnings =
    Warnings { input: |pod| pod::app_armor_annotations(pod), object: new_pod, status: pod_status };
pub static POD_TEMPLATES: Warnings = Warnings {
    object: |new, old| {
        on_change(new, old, |warnings| pod::template(&FieldValue::field(new, "template"), warnings))
    },
    ..Warnings::NONE
};
pub static REPLICATION_CONTROLLERS: Warnings = Warnings { object: replication_controller, ..Warnings::NONE };
pub static DAEMON_SETS: Warnings = Warnings { object: daemon_set, ..Warnings::NONE };
/// Deployments and ReplicaSets.
pub static REPLICATED: Warnings = Warnings { object: replicated, ..Warnings::NONE };
pub static STATEFUL_SETS: Warnings = Warnings { object: stateful_set, ..Warnings::NONE };
pub static CRON_JOBS: Warnings = Warnings { object: cron_job, ..Warnings::NONE };
pub static JOBS: Warnings = Warnings { object: job, ..Warnings::NONE };

const IN_NAMES: &str = "Pod names and hostnames";

fn spec_template(object: &Value) -> FieldValue<'_> {
    FieldValue::field(object, "spec").get("template")
}

/// Calls `look` for new objects and for those whose generation has changed.
fn on_change(new: &Value, old: Option<&Value>, look: impl FnOnce(&mut Vec<String>)) -> Vec<String> {
    let mut warnings = Vec::new();
    if old.is_none_or(|old| object::generation(old) != object::generation(new)) {
        look(&mut warnings);
    }
    warnings
}

/// Warns about new pods only, because pods are updated too often.
fn new_pod(new: &Value, old: Option<&Value>) -> Vec<String> {
    let mut warnings = Vec::new();
    if old.is_none() {
        host_name(new, "the Pod's hostname", &mut warnings);
        pod::pod(new, &mut warnings);
    }
    warnings
}

fn pod_status(new: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    for list in ["podIPs", "hostIPs"] {
        let found = FieldValue::field(new, "status").get(list);
        found.items().for_each(|found| addresses::address(&found.get("ip"), &mut warnings));
    }
    warnings
}

fn replication_controller(new: &Value, old: Option<&Value>) -> Vec<String> {
    on_change(new, old, |warnings| match old {
        // Upstream checks the template of the old object.
        Some(old) => pod::template(&spec_template(old), warnings),
        None => {
            host_name(new, IN_NAMES, warnings);
            pod::template(&spec_template(new), warnings);
        }
    })
}

fn replicated(new: &Value, old: Option<&Value>) -> Vec<String> {
    on_change(new, old, |warnings| {
        if old.is_none() {
            host_name(new, IN_NAMES, warnings);
        }
        pod::template(&spec_template(new), warnings);
    })
}

fn daemon_set(new: &Value, old: Option<&Value>) -> Vec<String> {
    let mut warnings = Vec::new();
    let template = spec_template(new);
    if old.is_none_or(|old| spec_template(old).value != template.value) {
        pod::template(&template, &mut warnings);
    }
    warnings
}

fn stateful_set(new: &Value, old: Option<&Value>) -> Vec<String> {
    let mut warnings = on_change(new, old, |warnings| pod::template(&spec_template(new), warnings));
    let spec = FieldValue::field(new, "spec");
    for claim in spec.get("volumeClaimTemplates").items() {
        // Upstream uses both paths.
        let path = if old.is_some() { claim.path.child("Spec") } else { claim.path.clone() };
        storage::claim_spec(&claim.get("spec").with_path(path), &mut warnings);
    }
    if spec.get("revisionHistoryLimit").number().is_some_and(|limit| limit < 0) {
        let message = "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is \
                       recommended";
        warnings.push(message.to_owned());
    }
    warnings
}

fn job(new: &Value, old: Option<&Value>) -> Vec<String> {
    on_change(new, old, |warnings| {
        if old.is_none() {
            host_name(new, IN_NAMES, warnings);
        }
        job_spec(&FieldValue::field(new, "spec"), warnings);
    })
}

fn cron_job(new: &Value, old: Option<&Value>) -> Vec<String> {
    let spec = FieldValue::field(new, "spec");
    let mut warnings = on_change(new, old, |warnings| {
        if old.is_none() {
            host_name(new, IN_NAMES, warnings);
        }
        job_spec(&spec.get("jobTemplate").get("spec"), warnings);
    });
    if old.is_some() && spec.text_of("schedule").contains("TZ") {
        warnings.push(
            "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see \
             https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
                .to_owned(),
        );
    }
    warnings
}

const MANY_COMPLETIONS: i64 = 100_000;
const MANY_AT_ONCE: i64 = 10_000;

fn job_spec(spec: &FieldValue<'_>, warnings: &mut Vec<String>) {
    let count = |name: &'static str| spec.get(name).number().unwrap_or_default();
    let many = count("completions") > MANY_COMPLETIONS && count("parallelism") > MANY_AT_ONCE;
    if spec.text_of("completionMode") == "Indexed" && many {
        warnings.push(format!(
            "{}: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, \
             Kubernetes might not be able to track completedIndexes when a big number of indexes fail",
            spec.path
        ));
    }
    pod::template(&spec.get("template"), warnings);
}
