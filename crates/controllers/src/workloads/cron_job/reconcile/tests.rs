use super::*;

fn at(text: &str) -> Timestamp {
    time::parse(text).unwrap()
}

fn cron(spec: Value, status: Value) -> Value {
    let mut cron = json!({
        "metadata": {"name": "c", "namespace": "n", "uid": "cron", "creationTimestamp": "2026-11-15T08:00:00Z"},
        "spec": {
            "schedule": "0 * * * *", "concurrencyPolicy": "Allow", "suspend": false,
            "successfulJobsHistoryLimit": 1, "failedJobsHistoryLimit": 1,
            "jobTemplate": {
                "metadata": {"labels": {"l": "1"}, "annotations": {"a": "2"}},
                "spec": {"template": {"spec": {}}},
            },
        },
        "status": status,
    });
    for (field, value) in spec.as_object().into_iter().flatten() {
        cron["spec"][field] = value.clone();
    }
    cron
}

fn plan(cron: &Value, jobs: &[Arc<Value>], now: &str) -> Plan {
    let schedule = Schedule::parse(cron["spec"]["schedule"].as_str().unwrap(), &|_| None);
    let observed = Observed { cron, jobs, missing: &[], zone: ZoneName::Known, schedule, now: at(now) };
    let status = if cron["status"].is_null() { json!({}) } else { cron["status"].clone() };
    reconcile(&observed, status)
}

fn job(name: &str, end: Option<&str>, started: &str) -> Arc<Value> {
    let mut job = json!({
        "metadata": {"name": name, "namespace": "n", "uid": name},
        "status": {"startTime": started, "completionTime": started},
    });
    if let Some(end) = end {
        job["status"]["conditions"] = json!([{"type": end, "status": "True"}]);
    }
    Arc::new(job)
}

fn active(names: &[&str]) -> Value {
    names.iter().map(|name| json!({"name": name, "namespace": "n", "uid": name})).collect()
}

/// Describes the actions and events of a plan.
fn describe(plan: &Plan) -> String {
    let next = match &plan.next {
        NextAction::Wait => "rest".to_owned(),
        NextAction::RequeueAfter(delay) => format!("in {}", delay.as_secs()),
        NextAction::Start(time) => format!("start {}", time::format(*time)),
    };
    plan.events.iter().map(|event| event.reason.to_owned()).chain([next]).collect::<Vec<_>>().join(", ")
}

#[test]
fn jobs_are_started_on_schedule() {
    let none = json!({});
    let last = |time: &str| json!({"lastScheduleTime": time});
    let running = |name: &str| json!({"lastScheduleTime": "2026-11-15T09:00:00Z", "active": active(&[name])});
    for (spec, status, now, expected) in [
        (none.clone(), none.clone(), "2026-11-15T08:59:59Z", "in 1"),
        (none.clone(), none.clone(), "2026-11-15T09:00:00Z", "start 2026-11-15T09:00:00Z"),
        (none.clone(), none.clone(), "2026-11-15T09:20:00Z", "start 2026-11-15T09:00:00Z"),
        (none.clone(), none.clone(), "2026-11-15T11:20:00Z", "start 2026-11-15T11:00:00Z"),
        (none.clone(), last("2026-11-15T09:00:00Z"), "2026-11-15T09:20:00Z", "in 2400"),
        (none.clone(), last("2026-11-15T09:00:00Z"), "2026-11-15T10:00:00Z", "start 2026-11-15T10:00:00Z"),
        (
            none.clone(),
            none.clone(),
            "2026-12-15T08:00:00Z",
            "TooManyMissedTimes, start 2026-12-15T08:00:00Z",
        ),
        (json!({"suspend": true}), none.clone(), "2026-11-15T09:20:00Z", "rest"),
        (
            json!({"startingDeadlineSeconds": 300}),
            none.clone(),
            "2026-11-15T09:04:00Z",
            "start 2026-11-15T09:00:00Z",
        ),
        (json!({"startingDeadlineSeconds": 300}), none.clone(), "2026-11-15T09:20:00Z", "in 2400"),
        (
            json!({"startingDeadlineSeconds": 300}),
            none.clone(),
            "2026-12-15T08:04:00Z",
            "start 2026-12-15T08:00:00Z",
        ),
        (json!({"schedule": "nonsense"}), none.clone(), "2026-11-15T09:20:00Z", "UnparseableSchedule, rest"),
        (json!({"schedule": "59 23 31 2 *"}), none.clone(), "2026-11-15T09:20:00Z", "InvalidSchedule, rest"),
        (none.clone(), running("c-x"), "2026-11-15T10:00:00Z", "start 2026-11-15T10:00:00Z"),
        (
            json!({"concurrencyPolicy": "Forbid"}),
            running("c-x"),
            "2026-11-15T10:00:00Z",
            "JobAlreadyActive, in 3600",
        ),
        (
            json!({"concurrencyPolicy": "Replace"}),
            running("c-x"),
            "2026-11-15T10:00:00Z",
            "start 2026-11-15T10:00:00Z",
        ),
        (
            json!({"schedule": "@every 1h"}),
            none.clone(),
            "2026-11-15T10:30:00Z",
            "start 2026-11-15T10:00:00Z",
        ),
    ] {
        let cron = cron(spec.clone(), status.clone());
        assert_eq!(describe(&plan(&cron, &[], now)), expected, "{spec} {status} {now}");
    }
}

#[test]
fn names_are_derived_from_the_scheduled_time() {
    let cron = cron(json!({}), json!({}));
    let started = super::job(&cron, at("2026-11-15T09:00:00Z").seconds, 3600);
    assert_eq!(object::name(&started), format!("c-{}", at("2026-11-15T09:00:00Z").seconds / 60));
    let annotations = json!({"a": "2", SCHEDULED_TIMESTAMP: "2026-11-15T10:00:00+01:00"});
    assert_eq!(started["metadata"]["annotations"], annotations);
    assert_eq!(started["metadata"]["labels"], json!({"l": "1"}));
    assert_eq!(started["metadata"]["ownerReferences"][0]["kind"], "CronJob");
    assert_eq!(time::format_in_zone(at("2026-11-15T09:00:00Z").seconds, 0), "2026-11-15T09:00:00Z");
    assert_eq!(
        time::format_in_zone(at("2026-11-15T09:00:00Z").seconds, -12_600),
        "2026-11-15T05:30:00-03:30"
    );
    // The job's name shows that it was already started, even if the status could not be written.
    let known = self::cron(json!({}), json!({"active": active(&[object::name(&started)])}));
    assert_eq!(describe(&plan(&known, &[], "2026-11-15T09:00:01Z")), "in 3599");
}

#[test]
fn finished_and_unexpected_jobs_are_recorded() {
    let cron = cron(json!({"suspend": true}), json!({"active": active(&["a", "b"])}));
    let jobs = [
        job("a", Some("Complete"), "2026-11-15T08:10:00Z"),
        job("b", None, "2026-11-15T08:20:00Z"),
        job("c", None, "2026-11-15T08:30:00Z"),
    ];
    let plan = plan(&cron, &jobs, "2026-11-15T08:59:59Z");
    assert_eq!(describe(&plan), "SawCompletedJob, UnexpectedJob, rest");
    assert_eq!(plan.events[0].message, "Saw completed job: a, condition: Complete");
    assert_eq!(plan.status, json!({"active": active(&["b"]), "lastSuccessfulTime": "2026-11-15T08:10:00Z"}));
}

#[test]
fn missing_jobs_are_removed_from_the_status() {
    let cron = cron(json!({"suspend": true}), json!({"active": active(&["a", "b"])}));
    let observed = Observed {
        cron: &cron,
        jobs: &[job("b", None, "2026-11-15T08:20:00Z")],
        missing: &["a".to_owned()],
        zone: ZoneName::Known,
        schedule: Err(String::new()),
        now: at("2026-11-15T08:59:59Z"),
    };
    let plan = reconcile(&observed, cron["status"].clone());
    assert_eq!(plan.events[0].message, "Active job went missing: a");
    assert_eq!(plan.status["active"], active(&["b"]));
}

#[test]
fn unknown_time_zones_stop_scheduling() {
    let cron = cron(json!({"timeZone": "Mars/Olympus"}), json!({}));
    let observed = Observed {
        cron: &cron,
        jobs: &[],
        missing: &[],
        zone: ZoneName::Unknown,
        schedule: Err(String::new()),
        now: at("2026-11-15T09:00:00Z"),
    };
    let plan = reconcile(&observed, json!({}));
    assert_eq!(describe(&plan), "UnknownTimeZone, rest");
    assert_eq!(plan.events[0].message, "invalid timeZone: \"Mars/Olympus\": unknown time zone Mars/Olympus");
}

#[test]
fn jobs_beyond_the_history_limit_are_deleted() {
    let cron = cron(json!({}), json!({}));
    let jobs = [
        job("new", Some("Complete"), "2026-11-15T08:30:00Z"),
        job("old", Some("Complete"), "2026-11-15T08:10:00Z"),
        job("running", None, "2026-11-15T08:00:00Z"),
        job("bad", Some("Failed"), "2026-11-15T08:00:00Z"),
        job("worse", Some("Failed"), "2026-11-15T08:20:00Z"),
    ];
    let names = |cron: &Value| {
        jobs_to_delete(cron, &jobs).iter().map(|job| object::name(job).to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(&cron), ["old", "bad"]);
    let keep = |good: Value, bad: Value| {
        names(&self::cron(
            json!({"successfulJobsHistoryLimit": good, "failedJobsHistoryLimit": bad}),
            json!({}),
        ))
    };
    assert_eq!(keep(json!(0), json!(5)), ["old", "new"]);
    assert_eq!(keep(json!(null), json!(0)), ["bad", "worse"]);
}

#[test]
fn dates_are_rfc1123() {
    let message = missed(at("2026-11-15T08:07:06Z").seconds);
    assert_eq!(message, "Missed scheduled time to start a job: Sun, 15 Nov 2026 08:07:06 +0000");
    let cron = cron(json!({"startingDeadlineSeconds": 0}), json!({}));
    let late = Timestamp::new(at("2026-11-15T09:00:00Z").seconds, 1);
    let schedule = Schedule::parse("0 * * * *", &|_| None);
    let observed =
        Observed { cron: &cron, jobs: &[], missing: &[], zone: ZoneName::Known, schedule, now: late };
    // The earliest time is later than now, so no time was missed.
    assert_eq!(describe(&reconcile(&observed, json!({}))), "in 3600");
}
