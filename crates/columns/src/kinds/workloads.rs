//! What makes pods, and what protects them.

use atoll_meta::time::{Timestamp, human_duration};
use serde_json::Value;

use super::{AGE, NAME, PLAIN};
use crate::format::{between, moment, selector};
use crate::look::{at, flag, is_condition_true, is_deleting, list, number, text};
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
    Column::new("Selector", Cell::Selector("spec.selector"), "Which pods are its own.").wide();
const DESIRED: Column =
    Column::new("Desired", Cell::Number("spec.replicas"), "How many pods there should be.").integer();
const CURRENT: Column =
    Column::new("Current", Cell::Number("status.replicas"), "How many there are.").integer();
const READY: Column =
    Column::new("Ready", Cell::Number("status.readyReplicas"), "How many are ready.").integer();

pub static REPLICATION_CONTROLLER: Printer = Printer::new(&[
    NAME,
    DESIRED,
    CURRENT,
    READY,
    AGE,
    CONTAINERS,
    IMAGES,
    Column::new("Selector", Cell::Labels("spec.selector"), "Which pods are its own.").wide(),
]);

static REPLICA_SET: Printer =
    Printer::new(&[NAME, DESIRED, CURRENT, READY, AGE, CONTAINERS, IMAGES, SELECTOR]);

static DEPLOYMENT: Printer = Printer::new(&[
    NAME,
    Column::new("Ready", Cell::Special(ready), "Pods that are ready, of those that should be."),
    Column::new("Up-to-date", Cell::Number("status.updatedReplicas"), "Pods of the latest template."),
    Column::new(
        "Available",
        Cell::Number("status.availableReplicas"),
        "Pods that have been ready for a while.",
    ),
    AGE,
    CONTAINERS,
    IMAGES,
    Column::new("Selector", Cell::Special(deployment_selector), "Which pods are its own.").wide(),
]);

static STATEFUL_SET: Printer = Printer::new(&[
    NAME,
    Column::new("Ready", Cell::Special(ready), "Pods that are ready, of those that should be."),
    AGE,
    CONTAINERS,
    IMAGES,
]);

fn ready(object: &Value, _: Timestamp) -> Value {
    format!("{}/{}", number(object, "status.readyReplicas"), number(object, "spec.replicas")).into()
}

/// Unlike other kinds' this is empty if it selects everything.
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
        "Nodes where it has been ready for a while.",
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
    Column::new("Controller", Cell::Special(controller), "Whose history this is part of."),
    Column::new("Revision", Cell::Number("revision"), "Its number in that history."),
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
    Column::new("Status", Cell::Special(job_status), "How far the job is."),
    Column::new("Completions", Cell::Special(completions), "Pods that have succeeded, of those that must."),
    Column::new("Duration", Cell::Special(duration), "Time that it took or takes."),
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
    Column::new("Schedule", Cell::Text("spec.schedule"), "When it runs."),
    Column::new("Timezone", Cell::Given("spec.timeZone", "<none>"), "Where that time holds."),
    Column::new("Suspend", Cell::Special(suspended), "Whether it is paused.").boolean(),
    Column::new("Active", Cell::Length("status.active"), "Jobs that are running.").integer(),
    Column::new("Last Schedule", Cell::SinceOr("status.lastScheduleTime", "<none>"), "When it last ran."),
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
    Column::new("Selector", Cell::Selector("spec.jobTemplate.spec.selector"), "Which pods are its own.")
        .wide(),
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
        "Pods that must stay.",
    ),
    Column::new(
        "Max Unavailable",
        Cell::Special(|budget, _| bound(budget, "spec.maxUnavailable")),
        "Pods that may be missing.",
    ),
    Column::new("Allowed Disruptions", Cell::Number("status.disruptionsAllowed"), "Pods that may go now.")
        .integer(),
    AGE,
]);

/// A number or a percentage, always as text.
fn bound(budget: &Value, path: &str) -> Value {
    match at(budget, path) {
        Some(Value::String(text)) => text.as_str().into(),
        Some(number) => number.to_string().into(),
        None => "N/A".into(),
    }
}
