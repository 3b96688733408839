use serde_json::{Value, json};

use super::{to_stored, to_view};

fn stored(spec: Value, status: Value) -> Value {
    json!({"metadata": {"name": "a"}, "spec": spec, "status": status})
}

#[test]
fn the_first_cpu_metric_is_a_field_and_others_are_in_an_annotation() {
    let cpu = |percent: i64| json!({"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": percent}}});
    let queue = json!({"type": "External", "external": {
        "metric": {"name": "queue", "selector": {"matchLabels": {"b": "2", "a": "<1>"}}},
        "target": {"type": "AverageValue", "averageValue": "5"},
    }});
    let mut object = stored(json!({"minReplicas": 2, "metrics": [queue, cpu(50), cpu(60)]}), json!({}));
    to_view(&mut object);
    assert_eq!(object["spec"], json!({"minReplicas": 2, "targetCPUUtilizationPercentage": 50}));
    let annotation = r#"[{"type":"External","external":{"metricName":"queue","metricSelector":{"matchLabels":{"a":"\u003c1\u003e","b":"2"}},"targetAverageValue":"5"}}]"#;
    assert_eq!(
        object["metadata"]["annotations"],
        json!({"autoscaling.alpha.kubernetes.io/metrics": annotation})
    );
    to_stored(&mut object);
    assert_eq!(object["spec"]["metrics"], json!([queue, cpu(50)]), "the second is lost, as in upstream");
    assert!(object["metadata"].get("annotations").is_none_or(|annotations| annotations == &json!({})));
}

#[test]
fn behavior_is_written_with_go_names() {
    let behavior = json!({"scaleDown": {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 60}]}});
    let mut object = stored(json!({"behavior": behavior}), json!({}));
    to_view(&mut object);
    let annotation = &object["metadata"]["annotations"]["autoscaling.alpha.kubernetes.io/behavior"];
    assert_eq!(
        annotation,
        r#"{"ScaleUp":null,"ScaleDown":{"StabilizationWindowSeconds":null,"SelectPolicy":null,"Policies":[{"Type":"Pods","Value":1,"PeriodSeconds":60}],"Tolerance":null}}"#
    );
    to_stored(&mut object);
    assert_eq!(object["spec"]["behavior"], behavior);
}

#[test]
fn unreadable_annotations_are_ignored() {
    for (name, text) in [
        ("metrics", "[{\"type\":1}]"),
        ("metrics", "{}"),
        ("metrics", "[{\"type\":\"Pods\",\"pods\":{\"targetAverageValue\":\"x\"}}]"),
        ("behavior", "[]"),
        ("behavior", "{}"),
        ("behavior", "{\"scaleup\":null}"),
        ("current-metrics", "no"),
        ("conditions", "[5]"),
    ] {
        let mut object = stored(json!({}), json!({}));
        let annotation = format!("autoscaling.alpha.kubernetes.io/{name}");
        object["metadata"]["annotations"] = json!({annotation: text, "kept": "1"});
        to_stored(&mut object);
        assert_eq!(object["metadata"]["annotations"], json!({"kept": "1"}), "{name} {text}");
        assert_eq!(
            object["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"], 80,
            "{name} {text}"
        );
        assert!(object["spec"].get("behavior").is_none(), "{name} {text}");
        assert_eq!(object["status"], json!({}), "{name} {text}");
    }
}

#[test]
fn target_types_are_derived_from_values() {
    for (annotation, target) in [
        (r#"{"object":{"targetValue":"3"}}"#, json!({"type": "Value", "value": "3"})),
        (r#"{"object":{}}"#, json!({"type": "Value", "value": "0"})),
        (
            r#"{"Object":{"averagevalue":"2","targetValue":"0"}}"#,
            json!({"type": "AverageValue", "averageValue": "2"}),
        ),
        (r#"{"pods":{}}"#, json!({"type": "AverageValue", "averageValue": "0"})),
        (r#"{"external":{"targetValue":1}}"#, json!({"type": "Value", "value": "1"})),
        (
            r#"{"resource":{"targetAverageUtilization":1}}"#,
            json!({"type": "Utilization", "averageUtilization": 1}),
        ),
        (r#"{"containerResource":{}}"#, json!({"type": "AverageValue"})),
    ] {
        let mut object = stored(json!({}), json!({}));
        object["metadata"]["annotations"] =
            json!({"autoscaling.alpha.kubernetes.io/metrics": format!("[{annotation}]")});
        to_stored(&mut object);
        let metric = object["spec"]["metrics"][0].as_object().expect("a metric");
        let source = metric.values().find(|value| value.is_object()).expect("a source");
        assert_eq!(source["target"], target, "{annotation}");
    }
}

#[test]
fn the_last_cpu_metric_is_the_current_one() {
    let used = |percent: i64| json!({"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": percent}}});
    let mut object = stored(json!({}), json!({"currentMetrics": [used(10), used(20)]}));
    to_view(&mut object);
    assert_eq!(object["status"], json!({"currentCPUUtilizationPercentage": 20}));
    let annotation = &object["metadata"]["annotations"]["autoscaling.alpha.kubernetes.io/current-metrics"];
    assert!(annotation.as_str().is_some_and(|annotation| {
        annotation.contains(r#""currentAverageUtilization":10,"currentAverageValue":"0""#)
    }));
}
