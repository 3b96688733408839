//! CronJobs: creates Jobs on a schedule.
//!
//! ```text
//!   cron jobs, their jobs ─► queue ─► delete surplus jobs ─► reconcile ─► create a job ─► status, requeue
//!                                                                └─ schedule, zone: times to run
//! ```

// upstream: pkg/controller/cronjob/cronjob_controllerv2.go

mod reconcile;
pub(crate) mod schedule;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use atoll_informer::{ApiScope, Cache, DeleteOptions, Key, Next, Queue, Recorder, resources};
use atoll_meta::{Status, object};
use atoll_zones::Zone;
use serde_json::Value;

use self::reconcile::{
    NextAction, Observed, Plan, ZoneName, add_active, jobs_to_delete, reconcile, remove_active, until_next,
};
use self::schedule::Schedule;
use crate::context::Context;
use crate::shared::controller_refs::is_managed_by;
use crate::shared::enqueue;
use crate::shared::views::{CronJobStatusView, CronJobView};

const WORKERS: usize = 8;
/// Number of time zones that are kept in memory.
const ZONES: usize = 1000;

/// Whether the times of a CronJob have changed.
fn is_rescheduled(old: CronJobView<'_>, new: CronJobView<'_>) -> bool {
    (old.schedule(), old.time_zone()) != (new.schedule(), new.time_zone())
}

struct Controller {
    context: Context,
    api: ApiScope,
    crons: Arc<Cache>,
    jobs: Arc<Cache>,
    recorder: Recorder,
    /// Time zones by name. Unknown zones are not stored.
    zones: Mutex<HashMap<String, Arc<Zone>>>,
}

pub async fn run(context: Context) {
    let informers = context.informers.clone();
    let controller = Arc::new(Controller {
        api: informers.api().clone(),
        crons: informers.of(&resources::CRON_JOBS),
        jobs: informers.of(&resources::JOBS),
        recorder: context.events.recorder("cronjob-controller"),
        zones: Mutex::default(),
        context,
    });
    let queue = Queue::new();
    controller.enqueue_on_change(&queue);
    enqueue::controllers(&controller.jobs, &controller.crons, &queue);
    controller.crons.synced().await;
    controller.jobs.synced().await;
    queue
        .work("cron jobs", WORKERS, move |key| {
            let controller = controller.clone();
            async move { controller.sync(key).await }
        })
        .await;
}

impl Controller {
    /// Enqueues a CronJob when it changes. With a new schedule it is enqueued for the next time of that
    /// schedule, so that earlier times are not started now.
    fn enqueue_on_change(self: &Arc<Self>, queue: &Queue) {
        // A strong reference from the cache's listener would keep the cache alive.
        let (controller, queue) = (Arc::downgrade(self), queue.clone());
        self.crons.listen(move |change| {
            if let (Some(old), Some(new)) = (&change.old, &change.new)
                && let Some(controller) = controller.upgrade()
                && is_rescheduled(CronJobView::of(old), CronJobView::of(new))
                && let Ok(schedule) = controller.schedule(new)
            {
                let delay =
                    until_next(new, CronJobView::of(new).status(), &schedule, controller.context.clock.now());
                queue.add_after(change.key.clone(), delay);
            } else {
                queue.add(change.key.clone());
            }
        });
    }

    async fn sync(&self, key: Key) -> Result<Next, Status> {
        let Some(cron) = self.crons.get(&key).filter(|cron| self.context.manages(cron)) else {
            return Ok(Next::Done);
        };
        let uid = object::uid(&cron);
        let mut jobs = self.jobs.owned_by(&key, uid);
        jobs.retain(|job| is_managed_by(job, uid));
        let view = CronJobView::of(&cron);
        let stored = view.status().json();
        let mut status = Value::Object(stored.as_object().cloned().unwrap_or_default());
        for job in jobs_to_delete(&cron, &jobs) {
            // A failed delete is retried with the next sync.
            let _ = self.delete(&cron, &job, &mut status).await;
        }
        let missing = self.missing(&cron, &jobs).await?;
        let is_known = view.time_zone().is_none_or(|name| self.zone(name).is_some());
        let observed = Observed {
            cron: &cron,
            jobs: &jobs,
            missing: &missing,
            zone: if is_known { ZoneName::Known } else { ZoneName::Unknown },
            schedule: self.schedule(&cron),
            now: self.context.clock.now(),
        };
        let Plan { mut status, events, next } = reconcile(&observed, status);
        for event in events {
            match event.is_warning {
                true => self.recorder.warning(&resources::CRON_JOBS, &cron, event.reason, event.message),
                false => self.recorder.normal(&resources::CRON_JOBS, &cron, event.reason, event.message),
            }
        }
        let next = match next {
            NextAction::Wait => Ok(Next::Done),
            NextAction::RequeueAfter(delay) => Ok(Next::After(delay)),
            NextAction::Start(at) => match (self.start(&cron, at, &mut status).await, &observed.schedule) {
                (Ok(true), Ok(schedule)) => {
                    Ok(Next::After(until_next(&cron, CronJobStatusView::of(&status), schedule, observed.now)))
                }
                (outcome, _) => outcome.map(|_| Next::Done),
            },
        };
        if status != *stored && !(stored.is_null() && status == serde_json::json!({})) {
            let mut changed = cron.as_ref().clone();
            changed["status"] = status;
            let written = self.api.update_status(&resources::CRON_JOBS, &changed).await?;
            self.crons.wrote(&written);
        }
        next
    }

    fn schedule(&self, cron: &Value) -> Result<Schedule, String> {
        let (text, zone) = (CronJobView::of(cron).schedule(), CronJobView::of(cron).time_zone());
        let zones = |name: &str| self.zone(name);
        match zone.filter(|name| self.zone(name).is_some()) {
            Some(zone) if !text.contains("TZ") => Schedule::parse(&format!("TZ={zone} {text}"), &zones),
            _ => Schedule::parse(text, &zones),
        }
    }

    fn zone(&self, name: &str) -> Option<Arc<Zone>> {
        let mut known = self.zones.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(zone) = known.get(name) {
            return Some(zone.clone());
        }
        let zone = Arc::new(atoll_zones::named(name)?);
        if known.len() >= ZONES {
            known.clear();
        }
        known.insert(name.into(), zone.clone());
        Some(zone)
    }

    /// Returns the uids of jobs in the status that do not exist any more.
    async fn missing(&self, cron: &Value, jobs: &[Arc<Value>]) -> Result<Vec<String>, Status> {
        let mut missing = Vec::new();
        for reference in CronJobView::of(cron).status().active() {
            let text = |field: &str| reference[field].as_str().unwrap_or_default();
            if jobs.iter().any(|job| object::uid(job) == text("uid")) {
                continue;
            }
            match self.api.get(&resources::JOBS, &Key::of(cron).sibling(text("name"))).await {
                Ok(_) => {}
                Err(status) if status.reason() == "NotFound" => missing.push(text("uid").to_owned()),
                Err(status) => return Err(status),
            }
        }
        Ok(missing)
    }

    /// Creates the job for a scheduled time. Returns whether to requeue for the next time.
    async fn start(&self, cron: &Value, at: i64, status: &mut Value) -> Result<bool, Status> {
        if CronJobView::of(cron).concurrency_policy() == "Replace" {
            self.replace(cron, status).await?;
        }
        let zone = CronJobView::of(cron).time_zone().and_then(|name| self.zone(name));
        let wanted = reconcile::job(cron, at, zone.map_or(0, |zone| zone.offset(at)));
        let key_of_cron = Key::of(cron);
        let created =
            self.api.create(&resources::JOBS, &key_of_cron.workspace, &key_of_cron.namespace, &wanted).await;
        let job = match created {
            Ok(job) => {
                self.jobs.wrote(&job);
                let message = format!("Created job {}", object::name(&job));
                self.recorder.normal(&resources::CRON_JOBS, cron, "SuccessfulCreate", message);
                job
            }
            Err(status) if status.has_cause("NamespaceTerminating") => return Err(status),
            Err(status) if status.reason() == "AlreadyExists" => {
                // Created before the status could be written, or it belongs to another owner.
                let key = key_of_cron.sibling(object::name(&wanted));
                let job = self.api.get(&resources::JOBS, &key).await?;
                if !is_managed_by(&job, object::uid(cron)) {
                    return Ok(false);
                }
                job
            }
            Err(status) => {
                let message = format!("Error creating job: {status}");
                self.recorder.warning(&resources::CRON_JOBS, cron, "FailedCreate", message);
                return Err(status);
            }
        };
        remove_active(status, object::uid(&job));
        add_active(status, &job, at);
        Ok(true)
    }

    /// Deletes the running jobs.
    async fn replace(&self, cron: &Value, status: &mut Value) -> Result<(), Status> {
        let active: Vec<Value> = CronJobStatusView::of(status).active().to_vec();
        for reference in active {
            let name = reference["name"].as_str().unwrap_or_default();
            let job = self.api.get(&resources::JOBS, &Key::of(cron).sibling(name)).await;
            let job = job.inspect_err(|error| {
                let message = format!("Get job: {error}");
                self.recorder.warning(&resources::CRON_JOBS, cron, "FailedGet", message);
            })?;
            self.delete(cron, &job, status).await?;
        }
        Ok(())
    }

    async fn delete(&self, cron: &Value, job: &Value, status: &mut Value) -> Result<(), Status> {
        let (key, uid) = (Key::of(job), object::uid(job));
        let options = DeleteOptions { propagation: Some("Background"), ..DeleteOptions::default() };
        if let Err(error) = self.api.delete(&resources::JOBS, &key, options).await {
            let message = format!("Deleted job: {error}");
            self.recorder.warning(&resources::CRON_JOBS, cron, "FailedDelete", message);
            return Err(error);
        }
        self.jobs.deleting(&key, uid);
        remove_active(status, uid);
        let message = format!("Deleted job {}", object::name(job));
        self.recorder.normal(&resources::CRON_JOBS, cron, "SuccessfulDelete", message);
        Ok(())
    }
}
