//! Workloads and disruption budgets.

// upstream: pkg/printers/internalversion/printers.go

use atoll_meta::time::{Timestamp, human_duration};
use serde_json::Value;

use super::{AGE, NAME, PLAIN};
use crate::fields::{at, flag, is_condition_true, is_deleting, list, number, text};
use crate::format::{between, moment, selector};
use crate::{Cell, Column, Printer};

pub fn printer(kind: &str) -> &'static Printer {
    match kind {
        "Deployment" => &DEPLOYMENT,
        "ReplicaSet" => &REPLICA_SET,
        "StatefulSet" => &STATEFUL_SET,
        "DaemonSet" => &DAEMON_SET,
        "ControllerRevision" => &CONTROLLER_REVISION,
        "Job" => &JOB,
        "CronJob" => &CRON_JOB,
        "PodDisruptionBudget" => &POD_DISRUPTION_BUDGET,
        _ => &PLAIN,
    }
}

const CONTAINERS: Column =
    Column::new("Containers", Cell::ContainerNames("spec.template.spec"), "Names of the containers.").wide();
const IMAGES: Column =
    Column::new("Images", Cell::ContainerImages("spec.template.spec"), "Images of the containers.").wide();
const SELECTOR: Column =
    Column::new("Selector", Cell::Selector("spec.selector"), "Selector of the pods.").wide();
const DESIRED: Column =
    Column::new("Desired", Cell::Number("spec.replicas"), "Desired number of pods.").integer();
const CURRENT: Column =
    Column::new("Current", Cell::Number("status.replicas"), "Current number of pods.").integer();
const READY: Column =
    Column::new("Ready", Cell::Number("status.readyReplicas"), "Number of ready pods.").integer();

pub static REPLICATION_CONTROLLER: Printer = Printer::new(&[
    NAME,
    DESIRED,
    CURRENT,
    READY,
    AGE,
    CONTAINERS,
    IMAGES,
    Column::new("Selector", Cell::Labels("spec.selector"), "Selector of the pods.").wide(),
]);

static REPLICA_SET: Printer =
    Printer::new(&[NAME, DESIRED, CURRENT, READY, AGE, CONTAINERS, IMAGES, SELECTOR]);

static DEPLOYMENT: Printer = Printer::new(&[
    NAME,
    Column::new("Ready", Cell::Special(ready), "Ready and desired pods."),
    Column::new("Up-to-date", Cell::Number("status.updatedReplicas"), "Pods of the latest template."),
    Column::new(
        "Available",
        Cell::Number("status.availableReplicas"),
        "Pods that have been ready for the minimum time.",
    ),
    AGE,
    CONTAINERS,
    IMAGES,
    Column::new("Selector", Cell::Special(deployment_selector), "Selector of the pods.").wide(),
]);

static STATEFUL_SET: Printer = Printer::new(&[
    NAME,
    Column::new("Ready", Cell::Special(ready), "Ready and desired pods."),
    AGE,
    CONTAINERS,
    IMAGES,
]);

fn ready(object: &Value, _: Timestamp) -> Value {
    format!("{}/{}", number(object, "status.readyReplicas"), number(object, "spec.replicas")).into()
}

/// Unlike for other kinds, this is empty if it selects everything.
fn deployment_selector(object: &Value, _: Timestamp) -> Value {
    selector(at(object, "spec.selector")).unwrap_or_else(|| "<invalid>".to_owned()).into()
}

static DAEMON_SET: Printer = Printer::new(&[
    NAME,
    Column::new("Desired", Cell::Number("status.desiredNumberScheduled"), "Nodes that should run it.")
        .integer(),
    Column::new("Current", Cell::Number("status.currentNumberScheduled"), "Nodes that run it.").integer(),
    Column::new("Ready", Cell::Number("status.numberReady"), "Nodes where it is ready.").integer(),
    Column::new(
        "Up-to-date",
        Cell::Number("status.updatedNumberScheduled"),
        "Nodes with the latest template.",
    )
    .integer(),
    Column::new(
        "Available",
        Cell::Number("status.numberAvailable"),
        "Nodes where it has been ready for the minimum time.",
    )
    .integer(),
    Column::new("Node Selector", Cell::Labels("spec.template.spec.nodeSelector"), "Labels of its nodes."),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
]);

static CONTROLLER_REVISION: Printer = Printer::new(&[
    NAME,
    Column::new("Controller", Cell::Special(controller), "Controller of the revision."),
    Column::new("Revision", Cell::Number("revision"), "Number of the revision."),
    AGE,
]);

fn controller(object: &Value, _: Timestamp) -> Value {
    let owners = list(object, "metadata.ownerReferences");
    let Some(owner) = owners.iter().find(|owner| flag(owner, "controller")) else { return "<none>".into() };
    let kind = text(owner, "kind");
    let name = text(owner, "name");
    match text(owner, "apiVersion").split_once('/') {
        Some((group, _)) => format!("{}/{name}", format!("{kind}.{group}").to_lowercase()).into(),
        None if kind.is_empty() => name.into(),
        None => format!("{}/{name}", kind.to_lowercase()).into(),
    }
}

static JOB: Printer = Printer::new(&[
    NAME,
    Column::new("Status", Cell::Special(job_status), "Status of the job."),
    Column::new("Completions", Cell::Special(completions), "Succeeded and desired pods."),
    Column::new("Duration", Cell::Special(duration), "Duration of the job."),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
]);

fn job_status(job: &Value, _: Timestamp) -> Value {
    let named = |names: &[(&'static str, &'static str)]| {
        names.iter().find(|(kind, _)| is_condition_true(job, kind)).map(|(_, word)| *word)
    };
    let ended = named(&[("Complete", "Complete"), ("Failed", "Failed")]);
    let deleting = || is_deleting(job).then_some("Terminating");
    let halfway = || {
        named(&[
            ("Suspended", "Suspended"),
            ("FailureTarget", "FailureTarget"),
            ("SuccessCriteriaMet", "SuccessCriteriaMet"),
        ])
    };
    ended.or_else(deleting).or_else(halfway).unwrap_or("Running").into()
}

fn completions(job: &Value, _: Timestamp) -> Value {
    let succeeded = number(job, "status.succeeded");
    let parallelism = number(job, "spec.parallelism");
    match at(job, "spec.completions") {
        Some(completions) => format!("{succeeded}/{completions}").into(),
        None if parallelism > 1 => format!("{succeeded}/1 of {parallelism}").into(),
        None => format!("{succeeded}/1").into(),
    }
}

fn duration(job: &Value, now: Timestamp) -> Value {
    let time = |path| moment(text(job, path));
    match (time("status.startTime"), time("status.completionTime")) {
        (None, _) => "".into(),
        (Some(start), end) => human_duration(between(start, end.unwrap_or(now))).into(),
    }
}

static CRON_JOB: Printer = Printer::new(&[
    NAME,
    Column::new("Schedule", Cell::Text("spec.schedule"), "Schedule in Cron format."),
    Column::new("Timezone", Cell::Given("spec.timeZone", "<none>"), "Time zone of the schedule."),
    Column::new("Suspend", Cell::Special(suspended), "Whether the cron job is suspended.").boolean(),
    Column::new("Active", Cell::Length("status.active"), "Number of running jobs.").integer(),
    Column::new(
        "Last Schedule",
        Cell::SinceOr("status.lastScheduleTime", "<none>"),
        "Time since the last run.",
    ),
    AGE,
    Column::new(
        "Containers",
        Cell::ContainerNames("spec.jobTemplate.spec.template.spec"),
        "Names of the containers.",
    )
    .wide(),
    Column::new(
        "Images",
        Cell::ContainerImages("spec.jobTemplate.spec.template.spec"),
        "Images of the containers.",
    )
    .wide(),
    Column::new("Selector", Cell::Selector("spec.jobTemplate.spec.selector"), "Selector of the pods.").wide(),
]);

fn suspended(job: &Value, _: Timestamp) -> Value {
    match at(job, "spec.suspend").and_then(Value::as_bool) {
        Some(true) => "True",
        Some(false) => "False",
        None => "<unset>",
    }
    .into()
}

static POD_DISRUPTION_BUDGET: Printer = Printer::new(&[
    NAME,
    Column::new(
        "Min Available",
        Cell::Special(|budget, _| bound(budget, "spec.minAvailable")),
        "Pods that must be available.",
    ),
    Column::new(
        "Max Unavailable",
        Cell::Special(|budget, _| bound(budget, "spec.maxUnavailable")),
        "Pods that may be unavailable.",
    ),
    Column::new(
        "Allowed Disruptions",
        Cell::Number("status.disruptionsAllowed"),
        "Pods that may be disrupted now.",
    )
    .integer(),
    AGE,
]);

/// Formats a number or a percentage as text.
fn bound(budget: &Value, path: &str) -> Value {
    match at(budget, path) {
        Some(Value::String(text)) => text.as_str().into(),
        Some(number) => number.to_string().into(),
        None => "N/A".into(),
    }
}
