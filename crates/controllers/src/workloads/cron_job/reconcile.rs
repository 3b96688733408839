//! Computes from a CronJob, its Jobs and the time whether to start a job, and when to requeue.

// upstream: pkg/controller/cronjob/cronjob_controllerv2.go
// upstream: pkg/controller/cronjob/utils.go

use std::sync::Arc;
use std::time::Duration;

use atoll_informer::resources;
use atoll_meta::object;
use atoll_meta::time::{self, Timestamp};
use serde_json::{Map, Value, json};

use super::schedule::{NEVER, Schedule};
use crate::context::GRAIN;
use crate::shared::pods::controller_reference;
use crate::shared::views::{CronJobStatusView, CronJobView, JobView};
use crate::workloads::job::finished;

const SCHEDULED_TIMESTAMP: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";
/// Requeue a little later than the scheduled time, because clocks differ.
const MARGIN: Duration = Duration::from_millis(100);
/// More missed start times than this cause a warning.
const MAX_MISSED: i64 = 100;

pub struct Observed<'a> {
    pub cron: &'a Value,
    pub jobs: &'a [Arc<Value>],
    /// Uids of jobs in the status that do not exist any more.
    pub missing: &'a [String],
    pub zone: ZoneName,
    pub schedule: Result<Schedule, String>,
    pub now: Timestamp,
}

/// Whether the time zone that a CronJob names is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneName {
    Known,
    Unknown,
}

/// An event to record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingEvent {
    pub is_warning: bool,
    pub reason: &'static str,
    pub message: String,
}

#[derive(Clone, Debug, PartialEq)]
pub enum NextAction {
    /// No action until a change.
    Wait,
    RequeueAfter(Duration),
    /// Create a job for this time.
    Start(i64),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    pub status: Value,
    pub events: Vec<PendingEvent>,
    pub next: NextAction,
}

fn is_active(status: &Value, uid: &str) -> bool {
    CronJobStatusView::of(status).active().iter().any(|reference| reference["uid"] == uid)
}

/// Removes a job from `status.active`.
pub fn remove_active(status: &mut Value, uid: &str) {
    if let Some(active) = status["active"].as_array_mut() {
        active.retain(|reference| reference["uid"] != uid);
        if active.is_empty()
            && let Some(status) = status.as_object_mut()
        {
            status.remove("active");
        }
    }
}

pub fn add_active(status: &mut Value, job: &Value, at: i64) {
    let reference = json!({
        "apiVersion": resources::JOBS.api_version(),
        "kind": resources::JOBS.kind,
        "name": object::name(job),
        "namespace": object::namespace(job),
        "uid": object::uid(job),
        "resourceVersion": object::resource_version(job),
    });
    match status["active"].as_array_mut() {
        Some(active) => active.push(reference),
        None => status["active"] = json!([reference]),
    }
    status["lastScheduleTime"] = time::format(at).into();
}

/// Returns finished jobs beyond the history limits: the oldest successful ones, then the oldest failed ones.
pub fn jobs_to_delete(cron: &Value, jobs: &[Arc<Value>]) -> Vec<Arc<Value>> {
    let started = |job: &Value| JobView::of(job).start_time().map(String::from);
    let (view, mut found) = (CronJobView::of(cron), Vec::new());
    let limits =
        [("Complete", view.successful_jobs_history_limit()), ("Failed", view.failed_jobs_history_limit())];
    for (kind, limit) in limits {
        let Some(limit) = limit else { continue };
        let is_finished = |job: &&Arc<Value>| {
            !object::is_being_deleted(job) && finished(job).is_some_and(|end| end.kind() == kind)
        };
        let mut ended: Vec<_> = jobs.iter().filter(is_finished).cloned().collect();
        ended.sort_by_cached_key(|job| {
            let started = started(job);
            (started.is_none(), started, object::name(job).to_owned())
        });
        let count = ended.len().saturating_sub(usize::try_from(limit).unwrap_or(0));
        found.extend(ended.into_iter().take(count));
    }
    found
}

pub fn reconcile(observed: &Observed<'_>, status: Value) -> Plan {
    let mut plan = Plan { status, events: Vec::new(), next: NextAction::Wait };
    plan.observe_jobs(observed);
    if object::is_being_deleted(observed.cron) {
        return plan;
    }
    let cron = CronJobView::of(observed.cron);
    if observed.zone == ZoneName::Unknown {
        let name = cron.time_zone().unwrap_or_default();
        plan.warn("UnknownTimeZone", format!("invalid timeZone: {name:?}: unknown time zone {name}"));
        return plan;
    }
    if cron.is_suspended() {
        return plan;
    }
    let text = cron.schedule();
    if text.contains("TZ") {
        plan.warn(
            "UnsupportedSchedule",
            format!(
                "CRON_TZ or TZ used in schedule {text:?} is not officially supported, see \
                 https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
            ),
        );
    }
    let schedule = match &observed.schedule {
        Ok(schedule) => schedule,
        Err(why) => {
            plan.warn("UnparseableSchedule", format!("unparseable schedule: {text:?} : {why}"));
            return plan;
        }
    };
    plan.next = plan.due(observed, schedule);
    plan
}

impl Plan {
    fn status(&self) -> CronJobStatusView<'_> {
        CronJobStatusView::of(&self.status)
    }

    fn warn(&mut self, reason: &'static str, message: impl Into<String>) {
        self.events.push(PendingEvent { is_warning: true, reason, message: message.into() });
    }

    fn record(&mut self, reason: &'static str, message: impl Into<String>) {
        self.events.push(PendingEvent { is_warning: false, reason, message: message.into() });
    }

    fn observe_jobs(&mut self, observed: &Observed<'_>) {
        for job in observed.jobs {
            let (uid, name) = (object::uid(job), object::name(job));
            let was_active = is_active(&self.status, uid);
            let Some(end) = finished(job) else {
                if !was_active {
                    let message = format!("Saw a job that the controller did not create or forgot: {name}");
                    self.warn("UnexpectedJob", message);
                }
                continue;
            };
            let kind = end.kind();
            if was_active {
                remove_active(&mut self.status, uid);
                self.record("SawCompletedJob", format!("Saw completed job: {name}, condition: {kind}"));
            }
            let completed = JobView::of(job).completion_time().filter(|_| kind == "Complete");
            // Times are UTC in RFC 3339, so later times compare greater as text.
            if let Some(completed) = completed
                && self.status().last_successful_time().is_none_or(|last| completed > last)
            {
                self.status["lastSuccessfulTime"] = completed.into();
            }
        }
        for uid in observed.missing {
            let mut active = self.status().active().iter();
            let named = active.find(|reference| reference["uid"] == *uid.as_str());
            let name = named.and_then(|reference| reference["name"].as_str()).unwrap_or_default().to_owned();
            self.record("MissingJob", format!("Active job went missing: {name}"));
            remove_active(&mut self.status, uid);
        }
    }

    fn due(&mut self, observed: &Observed<'_>, schedule: &Schedule) -> NextAction {
        let cron = CronJobView::of(observed.cron);
        let (text, deadline) = (cron.schedule(), cron.starting_deadline_seconds());
        let later =
            NextAction::RequeueAfter(until_next(observed.cron, self.status(), schedule, observed.now));
        let recent = match most_recent_time(observed.cron, self.status(), schedule, deadline, observed.now) {
            Ok(recent) => recent,
            Err(why) => {
                self.warn("InvalidSchedule", format!("invalid schedule: {text} : {why}"));
                return NextAction::Wait;
            }
        };
        let Some(at) = recent.time else { return later };
        if recent.missed > MAX_MISSED {
            let message = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew";
            self.warn("TooManyMissedTimes", message);
        }
        let is_over = |deadline: i64| Timestamp::new(at.saturating_add(deadline), 0) < observed.now;
        if deadline.is_some_and(is_over) {
            self.warn("MissSchedule", missed(at));
            return later;
        }
        let name = job_name(observed.cron, at);
        let status = self.status();
        let is_known = status.active().iter().any(|reference| reference["name"] == *name.as_str());
        if is_known || seconds(status.last_schedule_time()) == Some(at) {
            return later;
        }
        if cron.concurrency_policy() == "Forbid" && !status.active().is_empty() {
            let message =
                "Not starting job because prior execution is running and concurrency policy is Forbid";
            self.record("JobAlreadyActive", message);
            return later;
        }
        NextAction::Start(at)
    }
}

fn seconds(text: Option<&str>) -> Option<i64> {
    time::parse(text?).ok().map(|time| time.seconds)
}

/// The most recent scheduled time that has passed, and the number of missed times.
struct MostRecentTime {
    earliest: i64,
    time: Option<i64>,
    missed: i64,
}

fn most_recent_time(
    cron: &Value,
    status: CronJobStatusView<'_>,
    schedule: &Schedule,
    deadline: Option<i64>,
    now: Timestamp,
) -> Result<MostRecentTime, &'static str> {
    let now = now.seconds;
    let created = || seconds(object::creation_timestamp(cron));
    let mut earliest = seconds(status.last_schedule_time()).or_else(created).unwrap_or(0);
    if let Some(deadline) = deadline {
        earliest = earliest.max(now.saturating_sub(deadline));
    }
    let first = schedule.next(earliest);
    let second = schedule.next(first);
    if now < first {
        return Ok(MostRecentTime { earliest, time: None, missed: 0 });
    }
    if now < second {
        return Ok(MostRecentTime { earliest, time: Some(first), missed: 0 });
    }
    let between = second - first;
    if between < 1 {
        return Err("time difference between two schedules is less than 1 second");
    }
    // An estimate, as if all times were as far apart as the first two.
    let missed = (now - first) / between + 1;
    let (mut time, mut next) = (None, schedule.next(first + (missed - 2) * between));
    while next <= now && next != NEVER && time != Some(next) {
        time = Some(next);
        next = schedule.next(next);
    }
    Ok(MostRecentTime { earliest, time, missed })
}

/// Returns the time until the next scheduled time.
pub fn until_next(
    cron: &Value,
    status: CronJobStatusView<'_>,
    schedule: &Schedule,
    now: Timestamp,
) -> Duration {
    let from = match most_recent_time(cron, status, schedule, None, now) {
        Ok(MostRecentTime { time: Some(time), .. }) => time,
        Ok(MostRecentTime { earliest, missed: 0, .. }) => earliest,
        _ => now.seconds,
    };
    let left = crate::workloads::job::until(Timestamp::new(schedule.next(from), 0), now);
    left + MARGIN
}

/// Returns the message about a missed time, which is formatted as RFC 1123.
fn missed(at: i64) -> String {
    format!("Missed scheduled time to start a job: {} +0000", time::format_rfc1123(at))
}

/// Derives the name from the time, so that no job is started twice for the same time.
fn job_name(cron: &Value, at: i64) -> String {
    format!("{}-{}", object::name(cron), at / 60)
}

/// Returns the job for a scheduled time. `offset` is the zone's offset from UTC in seconds.
pub fn job(cron: &Value, at: i64, offset: i64) -> Value {
    let template = CronJobView::of(cron).job_template();
    let map = |field: &str| template["metadata"][field].as_object().cloned().unwrap_or_default();
    let (labels, mut annotations): (Map<String, Value>, Map<String, Value>) =
        (map("labels"), map("annotations"));
    annotations.insert(SCHEDULED_TIMESTAMP.into(), time::format_in_zone(at, offset).into());
    // The Job has the grain of its CronJob.
    if let Some(grain) = object::annotation(cron, GRAIN) {
        annotations.entry(GRAIN).or_insert(grain.into());
    }
    let mut job = json!({
        "apiVersion": resources::JOBS.api_version(),
        "kind": resources::JOBS.kind,
        "metadata": {
            "name": job_name(cron, at),
            "annotations": annotations,
            "ownerReferences": [controller_reference(&resources::CRON_JOBS, cron)],
        },
        "spec": template["spec"],
    });
    if !labels.is_empty() {
        job["metadata"]["labels"] = labels.into();
    }
    job
}

#[cfg(test)]
mod tests;
