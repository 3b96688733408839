//! Jobs: pods that run to completion, counted exactly once.
//!
//! ```text
//!   jobs, pods ─► queue ─► observe ─► running: create, delete pods; finished: delete active pods ─► track
//!   track ─► status ─► tracking finalizers removed ─► counts, conditions ─► status
//!   pods with the tracking finalizer and without a job ─► orphans: finalizer removed
//! ```

// upstream: pkg/controller/job/job_controller.go

mod backoff;
mod execute;
pub(crate) mod indexes;
mod manage;
mod new_pods;
mod orphans;
mod policies;
mod reconcile;
mod status;
mod sync;
mod track;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use atoll_informer::{ApiScope, Cache, Change, Key, Queue, resources};
use atoll_meta::object;
use serde_json::Value;

use self::backoff::Failures;
use crate::context::Context;
use crate::shared::controller_refs;
use crate::shared::enqueue;
use crate::shared::pods::PodControl;
use crate::shared::views::JobView;

pub(crate) use self::backoff::until;
pub(crate) use self::status::finished;

/// Number of Jobs that are reconciled concurrently.
const WORKERS: usize = 8;
/// Delay that combines the changes of many pods into one sync.
const BATCH: Duration = Duration::from_secs(1);
/// Value of `spec.managedBy` for this controller.
const JOB_CONTROLLER_NAME: &str = "kubernetes.io/job-controller";

struct Controller {
    context: Context,
    api: ApiScope,
    jobs: Arc<Cache>,
    pods: Arc<Cache>,
    /// Index of pods without a controller.
    orphans: usize,
    pod_control: PodControl,
    /// Failures since the last success, by Job.
    failures: Mutex<HashMap<Key, Failures>>,
}

pub async fn run(context: Context) {
    let informers = context.informers.clone();
    let pods = informers.of(&resources::PODS);
    let controller = Arc::new(Controller {
        api: informers.api().clone(),
        jobs: informers.of(&resources::JOBS),
        orphans: pods.index(controller_refs::orphans),
        pod_control: PodControl {
            api: informers.api().clone(),
            cache: pods.clone(),
            recorder: context.events.recorder("job-controller"),
            owners: &resources::JOBS,
        },
        pods,
        failures: Mutex::default(),
        context,
    });
    let (queue, orphans) = (Queue::new(), Queue::new());
    let adding = queue.clone();
    controller.jobs.listen(move |change| match may_be_delayed(change) {
        true => adding.add_after(change.key.clone(), BATCH),
        false => adding.add(change.key.clone()),
    });
    enqueue::owners_after(&controller.pods, &controller.jobs, &queue, BATCH);
    controller.enqueue_orphans(&orphans);
    controller.jobs.synced().await;
    controller.pods.synced().await;
    let orphan_controller = controller.clone();
    tokio::join!(
        queue.work("jobs", WORKERS, move |key| {
            let controller = controller.clone();
            async move { controller.sync(key).await }
        }),
        orphans.work("orphaned job pods", WORKERS, move |key| {
            let controller = orphan_controller.clone();
            async move { controller.sync_orphan(key).await }
        }),
    );
}

/// Whether a change may be delayed: status updates are mostly the controller's own writes.
fn may_be_delayed(change: &Change) -> bool {
    match (&change.old, &change.new) {
        (Some(old), Some(new)) => {
            object::generation(old) == object::generation(new)
                && object::uid(old) == object::uid(new)
                && !is_finished(new)
                && object::is_being_deleted(old) == object::is_being_deleted(new)
        }
        _ => false,
    }
}

/// Whether another controller manages the Job.
fn is_managed_elsewhere(job: &Value) -> bool {
    JobView::of(job).managed_by().is_some_and(|manager| manager != JOB_CONTROLLER_NAME)
}

fn is_finished(job: &Value) -> bool {
    finished(job).is_some()
}

/// Returns the Job that controls a pod, if it exists.
fn job_of(jobs: &Cache, pod: &Value) -> Option<Arc<Value>> {
    jobs.get(&controller_refs::controller_key(jobs, &resources::JOBS, pod)?)
}

/// Whether a pod's controller is a Job, existing or not.
fn is_controlled_by_job(pod: &Value) -> bool {
    object::controller_of(pod).is_some_and(|owner| {
        owner.kind == resources::JOBS.kind && owner.api_version == resources::JOBS.api_version()
    })
}
