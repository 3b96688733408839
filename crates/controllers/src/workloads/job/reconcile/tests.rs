use serde_json::json;

use super::super::manage::Manage;
use super::super::new_pods::{INDEX, TRACKING};
use super::*;

const NOW: Timestamp = Timestamp { seconds: 1_800_000_000, nanos: 0 };

fn job(spec: Value) -> Value {
    let mut job = json!({
        "metadata": {"name": "j", "namespace": "n", "uid": "job"},
        "spec": {
            "parallelism": 2, "completions": 4, "backoffLimit": 6, "completionMode": "NonIndexed",
            "podReplacementPolicy": "TerminatingOrFailed",
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [], "restartPolicy": "Never"}},
        },
    });
    for (field, value) in spec.as_object().into_iter().flatten() {
        job["spec"][field] = value.clone();
    }
    job
}

/// Parses a pod: the letter of its phase, `*` ready, `!` being deleted, `.` without the tracking finalizer, a
/// number its index.
fn pod(place: usize, state: &str) -> Arc<Value> {
    let phase = match state.chars().next() {
        Some('R') => "Running",
        Some('F') => "Failed",
        Some('S') => "Succeeded",
        _ => "Pending",
    };
    let since = Timestamp::new(NOW.seconds - 1000, 0).to_time();
    let mut pod = json!({
        "metadata": {"name": format!("p{place}"), "namespace": "n", "uid": format!("u{place}"), "creationTimestamp": since},
        "status": {"phase": phase},
    });
    if state.contains('*') {
        pod["status"]["conditions"] =
            json!([{"type": "Ready", "status": "True", "lastTransitionTime": since}]);
    }
    if state.contains('!') {
        object::set_deletion_timestamp(&mut pod, &since);
    }
    if !state.contains('.') {
        object::set_finalizers(&mut pod, &[TRACKING]);
    }
    let digits: String = state.chars().filter(char::is_ascii_digit).collect();
    if !digits.is_empty() {
        object::set_annotation(&mut pod, INDEX, &digits);
    }
    Arc::new(pod)
}

fn pods(states: &str) -> Vec<Arc<Value>> {
    states.split_whitespace().enumerate().map(|(place, state)| pod(place, state)).collect()
}

fn with_context<T>(job: &Value, states: &str, ask: impl Fn(SyncContext<'_>) -> T) -> T {
    let pods = pods(states);
    ask(observe(&Observed { job, pods: &pods, failures: Failures::default(), now: NOW }))
}

/// Describes the action: `+2` creates two pods, `+[0,3]` those with indexes, `-p1` deletes one, `wait 5`
/// waits.
fn describe(manage: Manage) -> String {
    match manage {
        Manage::Nothing => String::new(),
        Manage::Wait(wait) => format!("wait {}", wait.as_secs()),
        Manage::Delete(pods) => {
            let mut names: Vec<_> = pods.iter().map(|pod| format!("-{}", object::name(pod))).collect();
            names.sort_unstable();
            names.join(" ")
        }
        Manage::Create(pods) => match pods.iter().filter_map(index).collect::<Vec<_>>().as_slice() {
            [] => format!("+{}", pods.len()),
            indexes => format!("+{indexes:?}").replace(", ", ","),
        },
    }
}

#[test]
fn pods_are_created_and_deleted() {
    for (spec, states, expected) in [
        (json!({}), "", "+2"),
        (json!({}), "R R", ""),
        (json!({}), "R S", "+1"),
        (json!({}), "S S S", "+1"),
        (json!({}), "S S S R R", "-p3"),
        (json!({}), "S S S S", ""),
        (json!({}), "R R*", ""),
        (json!({"parallelism": 1}), "R R*", "-p0"),
        (json!({"parallelism": 0}), "R P", "-p0 -p1"),
        (json!({"parallelism": 9}), "R", "+3"),
        (json!({"suspend": true}), "", ""),
        (json!({"suspend": true}), "R P S", "-p0 -p1"),
        (json!({"completions": null}), "", "+2"),
        (json!({"completions": null}), "R S", ""),
        (json!({"completions": null}), "R F", "+1"),
        (json!({}), "R R!", "+1"),
        (json!({"podReplacementPolicy": "Failed"}), "R R!", ""),
        (json!({"podReplacementPolicy": "Failed"}), "R F!", "+1"),
        (json!({}), "R S.", "+1"),
    ] {
        let manage = with_context(&job(spec.clone()), states, |context| describe(context.manage()));
        assert_eq!(manage, expected, "{spec} {states:?}");
    }
}

#[test]
fn indexes_have_one_pod_each() {
    for (spec, states, expected) in [
        (json!({}), "", "+[0,1]"),
        (json!({}), "R0 R1", ""),
        (json!({}), "R1", "+[0]"),
        (json!({}), "S0 R1", "+[2]"),
        (json!({}), "S0 S1 F2", "+[2,3]"),
        (json!({}), "R0 R*0", "-p0"),
        (json!({}), "R R0", "-p0"),
        (json!({}), "R7 R0", "-p0"),
        (json!({"parallelism": 9}), "S1 S3", "+[0,2]"),
        (json!({}), "R!0 R1", "+[0]"),
        (json!({"podReplacementPolicy": "Failed"}), "R!0 R1", ""),
    ] {
        let mut job = job(spec.clone());
        job["spec"]["completionMode"] = "Indexed".into();
        let manage = with_context(&job, states, |context| describe(context.manage()));
        assert_eq!(manage, expected, "{spec} {states:?}");
    }
}

#[test]
fn terminal_conditions() {
    let on_failure = json!({
        "metadata": {"labels": {"a": "b"}}, "spec": {"containers": [], "restartPolicy": "OnFailure"},
    });
    let indexed = |mut more: Value| {
        more["completionMode"] = "Indexed".into();
        more
    };
    let per_index = |limit: i64, more: Value| {
        let mut spec = indexed(more);
        spec["backoffLimitPerIndex"] = limit.into();
        spec["backoffLimit"] = i32::MAX.into();
        spec
    };
    let none = "";
    for (spec, states, expected) in [
        (json!({}), "F F", none),
        (json!({"backoffLimit": 1}), "F", none),
        (json!({"backoffLimit": 1}), "F F", "FailureTarget BackoffLimitExceeded"),
        (json!({"backoffLimit": 0}), "R!", "FailureTarget BackoffLimitExceeded"),
        (json!({"backoffLimit": 0, "podReplacementPolicy": "Failed"}), "R!", none),
        (json!({"backoffLimit": 0}), "F.", none),
        (json!({"backoffLimit": 0, "template": on_failure}), "R", none),
        (json!({"activeDeadlineSeconds": 10}), "R", none),
        (per_index(0, json!({})), "F0", none),
        (per_index(0, json!({"maxFailedIndexes": 0})), "F0", "FailureTarget MaxFailedIndexesExceeded"),
        (per_index(0, json!({})), "F0 S1 S2 S3", "FailureTarget FailedIndexes"),
        (per_index(1, json!({})), "F0 S1 S2 S3", none),
        (
            indexed(json!({"successPolicy": {"rules": [{"succeededCount": 1}]}})),
            "S2 R0",
            "SuccessCriteriaMet SuccessPolicy",
        ),
    ] {
        let end = with_context(&job(spec.clone()), states, |context| {
            context.finished.map_or(String::new(), |end| format!("{} {}", end.kind, end.reason))
        });
        assert_eq!(end, expected, "{spec} {states:?}");
    }
}

#[test]
fn deadlines_start_with_the_start_time() {
    let mut job = job(json!({"activeDeadlineSeconds": 10}));
    let started = |job: &mut Value, ago: i64| {
        job["status"]["startTime"] = Timestamp::new(NOW.seconds - ago, 0).to_time().into();
    };
    started(&mut job, 4);
    let left = with_context(&job, "R", |context| (context.finished, context.time_left));
    assert_eq!(left, (None, Some(Duration::from_secs(6))));
    started(&mut job, 10);
    let reason = with_context(&job, "R", |context| context.finished.map(|end| end.reason));
    assert_eq!(reason.as_deref(), Some("DeadlineExceeded"));
    job["spec"]["suspend"] = true.into();
    assert_eq!(with_context(&job, "R", |context| context.finished), None, "suspended jobs have no deadline");
}

#[test]
fn interim_conditions_are_kept() {
    let mut job = job(json!({}));
    job["status"]["conditions"] =
        json!([{"type": "FailureTarget", "status": "True", "reason": "X", "message": "because"}]);
    let end = with_context(&job, "S S S S", |context| context.finished);
    assert_eq!(end, Some(Condition::new(FAILED, "X", "because")));
    job["status"]["conditions"][0]["type"] = SUCCESS_CRITERIA_MET.into();
    let end = with_context(&job, "F F F F F F F F", |context| context.finished);
    assert_eq!(end, Some(Condition::new(SUCCESS_CRITERIA_MET, "X", "because")));
}

#[test]
fn failed_pods_are_replaced_after_a_backoff() {
    let job = job(json!({}));
    let mut failed = pod(0, "F").as_ref().clone();
    let ended = Timestamp::new(NOW.seconds - 4, 0).to_time();
    failed["status"]["containerStatuses"] =
        json!([{"state": {"terminated": {"finishedAt": ended, "exitCode": 1}}}]);
    let pods = [Arc::new(failed)];
    let context = observe(&Observed { job: &job, pods: &pods, failures: Failures::default(), now: NOW });
    assert_eq!(describe(context.manage()), "wait 6");
    let before = Failures { count: 2, last: Some(NOW) };
    let context = observe(&Observed { job: &job, pods: &pods, failures: before, now: NOW });
    assert_eq!(describe(context.manage()), "wait 36");
}

#[test]
fn jobs_are_suspended_and_resumed() {
    let mut job = job(json!({"suspend": true}));
    job["status"]["startTime"] = NOW.to_time().into();
    let (changed, status) = with_context(&job, "R R", |mut context| {
        let managed = Managed { deleted: 2, ..Managed::default() };
        (context.update_running(managed), context.status)
    });
    assert_eq!((changed, status.start_time.clone(), status.active), (Some(true), None, 0));
    assert_eq!(status.terminating, Some(2));
    job["spec"]["suspend"] = false.into();
    job["status"] = status.to_value();
    let (changed, status) =
        with_context(&job, "", |mut context| (context.update_running(Managed::default()), context.status));
    assert_eq!((changed, status.start_time), (Some(false), Some(NOW.to_time())));
    assert_eq!(status.conditions[0]["reason"], "JobResumed");
}

#[test]
fn complete_jobs_have_no_active_pods() {
    for (spec, states, expected) in [
        (json!({}), "S S S S", true),
        (json!({}), "S S S S R", false),
        (json!({}), "S S S", false),
        (json!({"completions": null}), "S", true),
        (json!({"completions": null}), "S R", false),
        (json!({"completions": null}), "F", false),
        (json!({"completions": 0}), "", true),
    ] {
        let end = with_context(&job(spec.clone()), states, |mut context| {
            context.update_running(Managed::default());
            context.finished.map(|end| end.reason)
        });
        assert_eq!(end.as_deref(), expected.then_some("CompletionsReached"), "{spec} {states:?}");
    }
}
