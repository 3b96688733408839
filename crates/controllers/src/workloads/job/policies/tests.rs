use serde_json::json;

use super::*;

fn pod() -> Value {
    json!({
        "metadata": {"name": "p", "namespace": "n"},
        "status": {
            "containerStatuses": [
                {"name": "fine", "state": {"terminated": {"exitCode": 0}}},
                {"name": "main", "state": {"terminated": {"exitCode": 5}}},
                {"name": "busy", "state": {"running": {}}},
            ],
            "initContainerStatuses": [{"name": "init", "state": {"terminated": {"exitCode": 9}}}],
            "conditions": [{"type": "DisruptionTarget", "status": "True"}],
        },
    })
}

#[test]
fn the_first_rule_that_matches_counts() {
    let exit = |operator: &str, values: &[i64], name: Value, action: &str| json!({"action": action, "onExitCodes": {"operator": operator, "values": values, "containerName": name}});
    let condition = |status: &str, action: &str| json!({"action": action, "onPodConditions": [{"type": "DisruptionTarget", "status": status}]});
    let failed = "Container main for pod n/p failed with exit code 5 matching FailJob rule at index 0";
    for (rules, expected) in [
        (json!([]), FailureAction::Count),
        (json!([exit("In", &[5], Value::Null, "FailJob")]), FailureAction::FailJob(failed.into())),
        (json!([exit("In", &[5], json!("init"), "FailJob")]), FailureAction::Count),
        (json!([exit("In", &[0], Value::Null, "FailJob")]), FailureAction::Count),
        (json!([exit("NotIn", &[5, 9], Value::Null, "Ignore")]), FailureAction::Count),
        (json!([exit("NotIn", &[5], Value::Null, "Ignore")]), FailureAction::Ignore),
        (json!([exit("In", &[9], Value::Null, "FailIndex")]), FailureAction::FailIndex),
        (json!([condition("False", "Ignore"), condition("True", "Count")]), FailureAction::Count),
        (json!([condition("True", "Ignore"), condition("True", "FailJob")]), FailureAction::Ignore),
        (
            json!([exit("In", &[7], Value::Null, "Ignore"), condition("True", "FailJob")]),
            FailureAction::FailJob(
                "Pod n/p has condition DisruptionTarget matching FailJob rule at index 1".into(),
            ),
        ),
    ] {
        assert_eq!(failure_action(&json!({"rules": rules}), &pod()), expected, "{rules}");
    }
    assert_eq!(failure_action(&Value::Null, &pod()), FailureAction::Count);
}

#[test]
fn success_policies_apply() {
    for (rules, succeeded, expected) in [
        (json!([{"succeededCount": 2}]), "0", None),
        (json!([{"succeededCount": 2}]), "0,3", Some(0)),
        (json!([{"succeededIndexes": "0-2"}]), "0,1", None),
        (json!([{"succeededIndexes": "0-2"}]), "0-2", Some(0)),
        (json!([{"succeededIndexes": "0-2", "succeededCount": 1}]), "3,4", None),
        (json!([{"succeededIndexes": "0-2", "succeededCount": 1}]), "2,3", Some(0)),
        (json!([{"succeededIndexes": "9"}, {"succeededCount": 1}]), "1", Some(1)),
        (json!([{"succeededCount": 0}]), "", None),
    ] {
        let met = success(&json!({"rules": rules}), 5, &Indexes::parse(succeeded, 5));
        let expected = expected.map(|place| format!("Matched rules at index {place}"));
        assert_eq!(met, expected, "{rules} {succeeded}");
    }
}
