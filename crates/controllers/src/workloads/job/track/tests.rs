//! Property: each pod is counted exactly once, whatever fails.

use serde_json::json;

use super::super::backoff::Failures;
use super::super::manage::Manage;
use super::super::new_pods::{TRACKING, new_pod};
use super::super::reconcile::{Managed, Observed, observe};
use super::*;

const NOW: Timestamp = Timestamp { seconds: 1_800_000_000, nanos: 0 };

/// Deterministic pseudo-random numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// An API with one Job and its pods, and the expected counts.
struct Api {
    job: Value,
    pods: Vec<Arc<Value>>,
    made: usize,
    succeeded: i64,
    failed: i64,
    random: Random,
}

/// A failed write, or a crash of the controller.
struct Crash;

impl Api {
    fn new(seed: u64, indexed: bool) -> Api {
        let mode = if indexed { "Indexed" } else { "NonIndexed" };
        let job = json!({
            "metadata": {"name": "j", "namespace": "n", "uid": "job"},
            "spec": {
                "parallelism": 3, "completions": 12, "backoffLimit": 100_000, "completionMode": mode,
                "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": []}},
            },
        });
        Api { job, pods: Vec::new(), made: 0, succeeded: 0, failed: 0, random: Random(seed * 2 + 1) }
    }

    fn may_crash(&mut self) -> Result<(), Crash> {
        if self.random.below(6) == 0 { Err(Crash) } else { Ok(()) }
    }

    fn write(&mut self, status: &JobStatus) -> Result<(), Crash> {
        self.may_crash()?;
        self.job["status"] = status.to_value();
        self.check(status);
        self.may_crash()
    }

    /// Checks that only finished pods are counted, and none twice.
    fn check(&self, status: &JobStatus) {
        let succeeded = status.succeeded + status.uncounted_succeeded.len() as i64;
        let failed = status.failed + status.uncounted_failed.len() as i64;
        assert!(succeeded <= self.succeeded, "{succeeded} succeeded, and in truth {}", self.succeeded);
        assert!(failed <= self.failed, "{failed} failed, and in truth {}", self.failed);
    }

    fn create(&mut self, mut pod: Value) -> Result<(), Crash> {
        self.may_crash()?;
        object::set_name(&mut pod, &format!("p{}", self.made));
        object::set_uid(&mut pod, &format!("u{}", self.made));
        pod["metadata"]["creationTimestamp"] = Timestamp::new(NOW.seconds - 10_000, 0).to_time().into();
        pod["status"]["phase"] = "Running".into();
        self.made += 1;
        self.pods.push(Arc::new(pod));
        self.may_crash()
    }

    fn remove_tracking_finalizer(&mut self, uid: &str) -> Result<(), Crash> {
        self.may_crash()?;
        if let Some(pod) = self.pods.iter_mut().find(|pod| object::uid(pod) == uid) {
            let mut changed = pod.as_ref().clone();
            object::set_finalizers::<&str>(&mut changed, &[]);
            *pod = Arc::new(changed);
        }
        // Terminating pods without the finalizer are gone.
        self.pods.retain(|pod| !object::is_being_deleted(pod) || is_tracked(pod));
        self.may_crash()
    }

    /// Simulates an event: a pod finishes, or a user deletes it.
    fn simulate_event(&mut self) {
        if self.pods.is_empty() {
            return;
        }
        let place = self.random.below(self.pods.len() as u64) as usize;
        let mut pod = self.pods[place].as_ref().clone();
        let is_over = matches!(phase(&pod), "Succeeded" | "Failed") || object::is_being_deleted(&pod);
        match (is_over, self.random.below(4)) {
            (false, 0) => {
                pod["status"]["phase"] = "Failed".into();
                self.failed += 1;
            }
            (false, 1) => {
                object::set_deletion_timestamp(&mut pod, &NOW.to_time());
                self.failed += 1;
            }
            (false, _) => {
                pod["status"]["phase"] = "Succeeded".into();
                self.succeeded += 1;
            }
            (true, 0) => object::set_deletion_timestamp(&mut pod, &NOW.to_time()),
            (true, _) => {}
        }
        self.pods[place] = Arc::new(pod);
        self.pods.retain(|pod| !object::is_being_deleted(pod) || is_tracked(pod));
    }

    /// Syncs the Job in the order of the real controller.
    fn sync(&mut self) -> Result<(), Crash> {
        let (job, pods) = (self.job.clone(), self.pods.clone());
        let now = Timestamp::new(NOW.seconds + self.made as i64 * 1000, 0);
        let mut context = observe(&Observed { job: &job, pods: &pods, failures: Failures::default(), now });
        match context.manage() {
            _ if context.finished.is_some() => drop(context.apply(Managed::default())),
            Manage::Create(new) => {
                let created = new.len() as i64;
                for pod in new {
                    self.create(pod)?;
                }
                context.update_running(Managed { created, ..Managed::default() });
            }
            Manage::Nothing => drop(context.update_running(Managed::default())),
            other => panic!("{other:?}"),
        }
        let Tracked { mut status, release, mut tracked_uids, finished, .. } = track(context);
        if status != JobStatus::of(&job) {
            self.write(&status)?;
        }
        for pod in release {
            self.remove_tracking_finalizer(object::uid(&pod))?;
            tracked_uids.remove(object::uid(&pod));
        }
        let mut is_changed = count(&mut status, &tracked_uids);
        is_changed |= finished.is_some_and(|end| finish(&mut status, &end, NOW));
        if is_changed {
            self.write(&status)?;
        }
        Ok(())
    }
}

#[test]
fn pods_are_counted_once() {
    for (seed, indexed) in (1..=40).flat_map(|seed| [(seed, false), (seed, true)]) {
        let mut api = Api::new(seed, indexed);
        for _ in 0..3000 {
            if super::super::status::finished(&api.job).is_some() {
                break;
            }
            match api.random.below(3) {
                0 => api.simulate_event(),
                _ => drop(api.sync()),
            }
        }
        let status = JobStatus::of(&api.job);
        assert!(status.completion_time.is_some(), "seed {seed}: {status:?}");
        assert_eq!(status.failed, api.failed, "seed {seed}");
        if indexed {
            assert_eq!((status.succeeded, status.completed_indexes.as_str()), (12, "0-11"), "seed {seed}");
        } else {
            assert_eq!(status.succeeded, api.succeeded, "seed {seed}");
        }
        assert!(status.uncounted_succeeded.is_empty() && status.uncounted_failed.is_empty());
        assert!(api.pods.iter().all(|pod| !is_tracked(pod)), "seed {seed}: nothing is held back");
    }
}

#[test]
fn pods_without_finalizer_are_counted() {
    let uids = |uids: &[&str]| uids.iter().map(|uid| (*uid).to_owned()).collect::<Vec<_>>();
    let mut status = JobStatus {
        succeeded: 1,
        failed: 2,
        uncounted_succeeded: uids(&["a", "b"]),
        uncounted_failed: uids(&["c", "d", "e"]),
        ..JobStatus::default()
    };
    let tracked_uids: HashSet<String> = uids(&["b", "c"]).into_iter().collect();
    assert!(count(&mut status, &tracked_uids));
    assert_eq!((status.succeeded, status.failed), (2, 4));
    assert_eq!(
        (status.uncounted_succeeded.clone(), status.uncounted_failed.clone()),
        (uids(&["b"]), uids(&["c"]))
    );
    assert!(!count(&mut status, &tracked_uids));
}

#[test]
fn jobs_finish_when_all_pods_are_counted() {
    let end = Condition::new(COMPLETE, "CompletionsReached", "m");
    let mut waiting = JobStatus { uncounted_failed: vec!["a".into()], ..JobStatus::default() };
    assert!(!finish(&mut waiting, &end, NOW));
    let mut ending = JobStatus { terminating: Some(1), ..JobStatus::default() };
    assert!(!finish(&mut ending, &end, NOW));
    let mut done = JobStatus { terminating: Some(0), ..JobStatus::default() };
    assert!(finish(&mut done, &end, NOW));
    assert_eq!(done.completion_time, Some(NOW.to_time()));
    let mut failed = JobStatus::default();
    assert!(finish(&mut failed, &Condition::new(FAILED, "X", "m"), NOW));
    assert_eq!(failed.completion_time, None);
}

#[test]
fn active_pods_fail_with_their_job() {
    let job = json!({
        "metadata": {"name": "j", "uid": "job"},
        "spec": {"parallelism": 2, "completions": 2, "backoffLimit": 0, "template": {"spec": {"containers": []}}},
    });
    let pod = |uid: &str, phase: &str| {
        let mut pod = new_pod(&job);
        object::set_uid(&mut pod, uid);
        pod["status"]["phase"] = phase.into();
        Arc::new(pod)
    };
    let pods = [pod("a", "Failed"), pod("b", "Running"), pod("c", "Succeeded")];
    assert!(pods.iter().all(|pod| object::finalizers(pod).any(|finalizer| finalizer == TRACKING)));
    let mut context = observe(&Observed { job: &job, pods: &pods, failures: Failures::default(), now: NOW });
    context.apply(Managed { deleted: 1, ..Managed::default() });
    let tracked = track(context);
    assert_eq!(tracked.release.len(), 3);
    assert_eq!(tracked.status.uncounted_failed, ["a", "b"]);
    assert_eq!(tracked.status.uncounted_succeeded, ["c"]);
    assert_eq!(tracked.status.conditions[0]["type"], FAILURE_TARGET);
    assert_eq!(tracked.finished.map(|end| end.kind), Some(FAILED));
    assert_eq!(tracked.status.terminating, Some(1), "the job finishes after the pod");
}
