use serde_json::{Value, json};

use super::{indexes, schedule};
use crate::cases::{edited, lines};
use crate::checks_for;

/// Edits of an object by path.
type Edits = Vec<(&'static str, Value)>;
/// Resource, object, edits, and the expected errors.
type Case = (&'static str, Value, Edits, Vec<&'static str>);

fn job() -> Value {
    let labels = json!({
        "controller-uid": "1", "batch.kubernetes.io/controller-uid": "1",
        "job-name": "pi", "batch.kubernetes.io/job-name": "pi",
    });
    json!({ "metadata": { "name": "pi", "uid": "1" }, "spec": {
        "parallelism": 1,
        "completions": 3,
        "backoffLimit": 6,
        "completionMode": "NonIndexed",
        "manualSelector": false,
        "suspend": false,
        "podReplacementPolicy": "TerminatingOrFailed",
        "selector": { "matchLabels": { "batch.kubernetes.io/controller-uid": "1" } },
        "template": { "metadata": { "labels": labels }, "spec": {
            "containers": [{
                "name": "main",
                "image": "perl",
                "imagePullPolicy": "Always",
                "terminationMessagePolicy": "File",
            }],
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            "securityContext": {},
        } },
    } })
}

fn indexed() -> Value {
    edited(&job(), &[("spec.completionMode", json!("Indexed"))])
}

fn cron_job() -> Value {
    let template = edited(&job()["spec"], &[("selector", Value::Null)]);
    json!({ "metadata": { "name": "nightly" }, "spec": {
        "schedule": "0 3 * * *",
        "concurrencyPolicy": "Allow",
        "suspend": false,
        "jobTemplate": { "spec": template },
    } })
}

#[test]
fn creation() {
    let cases: Vec<Case> = vec![
        ("jobs", job(), vec![], vec![]),
        (
            "jobs",
            job(),
            vec![
                ("spec.template.metadata.labels.job-name", json!("other")),
                ("spec.selector.matchLabels", json!({ "a": "b" })),
            ],
            vec![
                "spec.template.metadata.labels[job-name]: Invalid value: {\"batch.kubernetes.io/controller-uid\":\"1\",\
                 \"batch.kubernetes.io/job-name\":\"pi\",\"controller-uid\":\"1\",\"job-name\":\"other\"}: must be 'pi'",
                "spec.selector: Invalid value: {\"matchLabels\":{\"a\":\"b\"}}: `selector` not auto-generated",
                "spec.template.metadata.labels: Invalid value: {\"batch.kubernetes.io/controller-uid\":\"1\",\
                 \"batch.kubernetes.io/job-name\":\"pi\",\"controller-uid\":\"1\",\"job-name\":\"other\"}: `selector` does not \
                 match template `labels`",
            ],
        ),
        (
            "jobs",
            job(),
            vec![("spec.template.spec.restartPolicy", json!("Always"))],
            vec!["spec.template.spec.restartPolicy: Required value: valid values: \"OnFailure\", \"Never\""],
        ),
        (
            "jobs",
            job(),
            vec![("spec.backoffLimitPerIndex", json!(1)), ("spec.managedBy", json!("me"))],
            vec![
                "spec.managedBy: Invalid value: \"me\": must be a domain-prefixed path (such as \"acme.io/foo\")",
                "spec.backoffLimitPerIndex: Invalid value: 1: requires indexed completion mode",
            ],
        ),
        (
            "jobs",
            indexed(),
            vec![
                ("spec.completions", json!(200_000)),
                ("spec.backoffLimitPerIndex", json!(1)),
                ("spec.parallelism", json!(20_000)),
            ],
            vec![
                "spec.maxFailedIndexes: Required value: must be specified when completions is above 100000",
                "spec.parallelism: Invalid value: 20000: must be less than or equal to 10000 when completions are above 100000 \
                 and used with backoff limit per index",
            ],
        ),
        (
            "jobs",
            job(),
            vec![(
                "spec.podFailurePolicy",
                json!({ "rules": [
                { "action": "", "onExitCodes": { "operator": "In", "values": [3, 0, 3] } },
                { "action": "FailIndex" },
            ] }),
            )],
            vec![
                "spec.podFailurePolicy.rules[0].action: Required value: valid values: [\"Count\" \"FailIndex\" \"FailJob\" \
                 \"Ignore\"]",
                "spec.podFailurePolicy.rules[0].onExitCodes.values[1]: Invalid value: 0: must not be 0 for the In operator",
                "spec.podFailurePolicy.rules[0].onExitCodes.values[2]: Duplicate value: 3",
                "spec.podFailurePolicy.rules[0].onExitCodes.values: Invalid value: [3,0,3]: must be ordered",
                "spec.podFailurePolicy.rules[1].action: Invalid value: \"FailIndex\": requires the backoffLimitPerIndex to be \
                 set",
                "spec.podFailurePolicy.rules[1]: Invalid value: specifying one of OnExitCodes and OnPodConditions is required",
                "spec.podReplacementPolicy: Unsupported value: \"TerminatingOrFailed\": supported values: \"Failed\"",
            ],
        ),
        (
            "jobs",
            indexed(),
            vec![(
                "spec.successPolicy",
                json!({ "rules": [{ "succeededIndexes": "0-1", "succeededCount": 3 }] }),
            )],
            vec![
                "spec.successPolicy.rules[0].succeededCount: Invalid value: 3: must be less than or equal to 2 (the number of \
                 indexes in the specified succeededIndexes field)",
            ],
        ),
        ("cronjobs", cron_job(), vec![], vec![]),
        (
            "cronjobs",
            cron_job(),
            vec![("spec.schedule", json!("TZ=UTC 61 * * * *")), ("spec.timeZone", json!("Mars/Olympus"))],
            vec![
                "spec.schedule: Invalid value: \"TZ=UTC 61 * * * *\": end of range (61) above maximum (59): 61",
                "spec.schedule: Invalid value: \"TZ=UTC 61 * * * *\": cannot use TZ or CRON_TZ in schedule, use timeZone field \
                 instead",
                "spec.timeZone: Invalid value: \"Mars/Olympus\": unknown time zone Mars/Olympus",
            ],
        ),
        (
            "cronjobs",
            cron_job(),
            vec![
                ("spec.jobTemplate.spec.manualSelector", json!(true)),
                ("metadata.name", json!("n".repeat(53))),
            ],
            vec![
                "spec.jobTemplate.spec.manualSelector: Unsupported value: true: supported values: \"nil\", \"false\"",
                "metadata.name: Invalid value: \"nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn\": must be no more than 52 \
                 characters",
            ],
        ),
    ];
    for (resource, object, edits, expected) in cases {
        let errors = (checks_for("batch", resource).create)(&edited(&object, &edits));
        assert_eq!(lines(&errors), expected, "{resource} {edits:?}");
    }
}

#[test]
fn updates() {
    let suspended = edited(&job(), &[("spec.suspend", json!(true))]);
    let cases: Vec<(Value, Edits, Vec<&str>)> = vec![
        (job(), vec![("spec.parallelism", json!(5))], vec![]),
        (
            job(),
            vec![("spec.completions", json!(5))],
            vec!["spec.completions: Invalid value: 5: field is immutable"],
        ),
        (
            indexed(),
            vec![("spec.completions", json!(5))],
            vec!["spec.completions: Invalid value: 5: can only be modified in tandem with spec.parallelism"],
        ),
        (indexed(), vec![("spec.completions", json!(5)), ("spec.parallelism", json!(5))], vec![]),
        (
            indexed(),
            vec![("spec.successPolicy", json!({ "rules": [{ "succeededCount": 1 }] }))],
            vec![
                "spec.successPolicy: Invalid value: {\"Rules\":[{\"SucceededIndexes\":null,\"SucceededCount\":1}]}: field is \
                 immutable",
            ],
        ),
        (suspended.clone(), vec![("spec.template.spec.nodeSelector", json!({ "disk": "ssd" }))], vec![]),
        (
            suspended,
            vec![("spec.template.spec.containers.0.resources", json!({ "requests": { "cpu": "1" } }))],
            vec![],
        ),
    ];
    for (old, edits, expected) in cases {
        let errors = (checks_for("batch", "jobs").update)(&edited(&old, &edits), &old);
        assert_eq!(lines(&errors), expected, "{edits:?}");
    }
    let changed = edited(&job(), &[("spec.template.spec.nodeSelector", json!({ "disk": "ssd" }))]);
    let errors = lines(&(checks_for("batch", "jobs").update)(&changed, &job()));
    assert_eq!(errors.len(), 1, "{errors:?}");
    // Metadata is rendered with the field names of the API, the rest with those of the internal Go types.
    let beginning =
        "spec.template: Invalid value: {\"labels\":{\"batch.kubernetes.io/controller-uid\":\"1\",";
    assert!(errors[0].starts_with(beginning), "{}", errors[0]);
    assert!(errors[0].contains("\"NodeSelector\":{\"disk\":\"ssd\"}"), "{}", errors[0]);
    assert!(errors[0].ends_with(": field is immutable"), "{}", errors[0]);
}

#[test]
fn statuses() {
    let condition = |kind: &str| json!({ "type": kind, "status": "True" });
    let cases = [
        (json!({ "active": 1, "ready": 1 }), json!({}), vec![]),
        (
            json!({ "active": 1, "ready": 2, "conditions": [condition("Complete")] }),
            json!({ "succeeded": 1 }),
            vec![
                "status.completionTime: Required value: completionTime is required for Complete jobs",
                "status.conditions: Invalid value: cannot set Complete=True condition without the SuccessCriteriaMet=true \
                 condition",
                "status.active: Invalid value: 1: active>0 is invalid for finished job",
                "status.startTime: Required value: startTime is required for finished job",
                "status.ready: Invalid value: 2: cannot set more ready pods than active",
                "status.succeeded: Invalid value: 0: cannot decrease the succeeded counter",
            ],
        ),
        (
            json!({ "startTime": "2026-01-02T00:00:00Z" }),
            json!({ "startTime": "2026-01-01T00:00:00Z", "conditions": [condition("Failed")] }),
            vec![
                "status.conditions: Invalid value: cannot disable the terminal Failed=True condition",
                "status.startTime: Invalid value: \"2026-01-02T00:00:00Z\": field is immutable for unsuspended job once set",
            ],
        ),
        (
            json!({ "uncountedTerminatedPods": { "succeeded": ["a", ""], "failed": ["a"] } }),
            json!({}),
            vec![
                "status.uncountedTerminatedPods.succeeded[1]: Invalid value: \"\": must not be empty",
                "status.uncountedTerminatedPods.failed[0]: Duplicate value: \"a\"",
            ],
        ),
    ];
    for (status, before, expected) in cases {
        let new = edited(&job(), &[("status", status.clone())]);
        let old = edited(&job(), &[("status", before)]);
        assert_eq!(
            lines(&(checks_for("batch", "jobs").subresource)("status", &new, &old)),
            expected,
            "{status}"
        );
    }
}

#[test]
fn schedules() {
    let cases = [
        ("* * * * *", Ok(())),
        ("*/5 8-18 1,15 JAN-mar sun,mon-fri", Ok(())),
        ("@daily", Ok(())),
        ("@every 1h30m", Ok(())),
        (", ? * * *", Ok(())),
        ("* * * *", Err("expected exactly 5 fields, found 4: [* * * *]")),
        ("60 * * * *", Err("end of range (60) above maximum (59): 60")),
        ("* * 0 * *", Err("beginning of range (0) below minimum (1): 0")),
        ("* * * * 5-2", Err("beginning of range (5) beyond end of range (2): 5-2")),
        ("*/0 * * * *", Err("step of range should be a positive number: */0")),
        ("1-2-3 * * * *", Err("too many hyphens: 1-2-3")),
        ("1/2/3 * * * *", Err("too many slashes: 1/2/3")),
        ("x * * * *", Err("failed to parse int from x: strconv.Atoi: parsing \"x\": invalid syntax")),
        ("@sometimes", Err("unrecognized descriptor: @sometimes")),
        ("@every day", Err("failed to parse duration @every day: time: invalid duration \"day\"")),
        ("@every 5", Err("failed to parse duration @every 5: time: missing unit in duration \"5\"")),
        ("TZ=x", Err("invalid schedule format: runtime error: slice bounds out of range [:-1]")),
        ("TZ=x * * * * *", Err("provided bad location x: unknown time zone x")),
    ];
    for (text, expected) in cases {
        assert_eq!(schedule::parse(text), expected.map_err(str::to_owned), "{text}");
    }
}

#[test]
fn sets_of_indexes() {
    let cases = [
        ("", Ok(0)),
        ("0,2-4", Ok(4)),
        ("5", Err("too large index: \"5\"")),
        ("a", Err("cannot convert string to integer for index: \"a\"")),
        ("2,1", Err("non-increasing order, previous: 2, current: 1")),
        ("3-3", Err("non-increasing order, previous: 3, current: 3")),
        (
            "1-2-3",
            Err(
                "the fragment \"1-2-3\" violates the requirement that an index interval can have at most two parts separated by '-'",
            ),
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(indexes::count(text, 5), expected.map_err(str::to_owned), "{text}");
    }
    for (one, other, expected) in
        [("0-2", "3", None), ("0-2", "2-4", Some(2)), ("x,1", "1", Some(1)), ("", "1", None)]
    {
        assert_eq!(indexes::overlap(one, other, 5), expected, "{one} {other}");
    }
}
