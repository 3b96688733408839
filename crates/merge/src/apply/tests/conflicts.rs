use serde_json::{Value, json};

use super::{author, created, kind, managers};
use crate::apply::{Author, Kind};

fn config_map(data: Value) -> Value {
    json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a"}, "data": data})
}

fn apply(kind: &Kind, live: &Value, config: &Value, manager: &str, force: bool) -> Result<Value, String> {
    let applied = kind.apply(live, config, &author(manager), force);
    applied
        .map(|mut applied| {
            applied["metadata"]["uid"] = json!("1");
            applied
        })
        .map_err(|status| status.message().to_owned())
}

#[test]
fn apply_shares_conflicts_forces_and_removes() {
    let kind = kind("v1", "ConfigMap");
    let first = apply(&kind, kind.empty(), &config_map(json!({"a": "1", "b": "1"})), "x", false).unwrap();
    assert_eq!(managers(&first), json!({"x Apply": {"f:data": {"f:a": {}, "f:b": {}}}}));
    // Both managers own the same value.
    let shared = apply(&kind, &first, &config_map(json!({"a": "1"})), "y", false).unwrap();
    let both = json!({"x Apply": {"f:data": {"f:a": {}, "f:b": {}}}, "y Apply": {"f:data": {"f:a": {}}}});
    assert_eq!(managers(&shared), both);
    // The object did not change, so no time is recorded.
    assert_eq!(shared["metadata"]["managedFields"][0].get("time"), None);
    // A different value conflicts with all owners.
    let other = config_map(json!({"a": "2"}));
    let refused = apply(&kind, &shared, &other, "z", false).unwrap_err();
    assert_eq!(
        refused,
        "Apply failed with 2 conflicts: conflicts with \"x\":\n- .data.a\nconflicts with \"y\":\n- .data.a"
    );
    let forced = apply(&kind, &shared, &other, "z", true).unwrap();
    let expected = json!({"x Apply": {"f:data": {"f:b": {}}}, "z Apply": {"f:data": {"f:a": {}}}});
    assert_eq!(managers(&forced), expected);
    assert_eq!(forced["data"], json!({"a": "2", "b": "1"}));
    // A field that is no longer applied and has no other owner is removed.
    let given_up = apply(&kind, &shared, &config_map(json!({"b": "1"})), "x", false).unwrap();
    assert_eq!(given_up["data"], json!({"a": "1", "b": "1"}));
    let alone = apply(&kind, &given_up, &config_map(json!({})), "y", false).unwrap();
    assert_eq!(alone["data"], json!({"b": "1"}));
}

#[test]
fn unchanged_apply_changes_nothing() {
    let kind = kind("v1", "ConfigMap");
    let config = config_map(json!({"a": "1"}));
    let first = apply(&kind, kind.empty(), &config, "x", false).unwrap();
    let again = kind.apply(&first, &config, &Author { time: "2027-01-01T00:00:00Z", ..author("x") }, false);
    assert_eq!(again.unwrap(), first);
}

#[test]
fn conflicts_name_managers_and_fields() {
    let kind = kind("apps/v1", "Deployment");
    let object = |replicas: u8, image: &str| {
        json!({"kind": "Deployment", "apiVersion": "apps/v1", "metadata": {"name": "d"},
            "spec": {"replicas": replicas, "template": {"spec": {"containers": [{"name": "c", "image": image}]}}}})
    };
    let live = created(&kind, object(1, "a"), "kubectl-create");
    let one = apply(&kind, &live, &object(2, "a"), "x", false).unwrap_err();
    assert_eq!(
        one,
        "Apply failed with 1 conflict: conflict with \"kubectl-create\" using apps/v1: .spec.replicas"
    );
    let two = kind.apply(&live, &object(2, "b"), &author("x"), false).unwrap_err();
    assert_eq!(
        two.message(),
        "Apply failed with 2 conflicts: conflicts with \"kubectl-create\" using apps/v1:\n- .spec.replicas\n\
         - .spec.template.spec.containers[name=\"c\"].image"
    );
    assert_eq!((two.code(), two.reason()), (409, "Conflict"));
    let causes = &two.details().unwrap().causes;
    assert_eq!(causes[1].reason, "FieldManagerConflict");
    assert_eq!(causes[1].message, "conflict with \"kubectl-create\" using apps/v1");
    assert_eq!(causes[1].field, ".spec.template.spec.containers[name=\"c\"].image");
}

#[test]
fn lists_keep_the_order_of_the_configuration() {
    let kind = kind("v1", "Pod");
    let pod = |names: &[&str]| {
        let containers: Vec<_> = names.iter().map(|name| json!({"name": name, "image": "i"})).collect();
        json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "a"}, "spec": {"containers": containers}})
    };
    let cases: [(&[&str], &[&str], &[&str]); 6] = [
        (&["a", "b", "c"], &["d"], &["a", "b", "c", "d"]),
        (&["a", "b", "c"], &["c", "a"], &["b", "c", "a"]),
        (&["a", "b", "c"], &["a", "x", "c"], &["a", "b", "x", "c"]),
        (&["a", "b"], &["b", "x", "a"], &["b", "x", "a"]),
        (&["a", "b", "c", "d"], &["d", "b"], &["a", "c", "d", "b"]),
        (&[], &["b", "a"], &["b", "a"]),
    ];
    for (live, config, expected) in cases {
        let live = created(&kind, pod(live), "x");
        let merged = apply(&kind, &live, &pod(config), "y", true).unwrap();
        let names: Vec<_> =
            merged["spec"]["containers"].as_array().unwrap().iter().map(|item| &item["name"]).collect();
        assert_eq!(json!(names), json!(expected), "{config:?}");
    }
}

#[test]
fn absent_keys_count_as_their_defaults() {
    let kind = kind("v1", "Service");
    let service = |port: Value| json!({"kind": "Service", "apiVersion": "v1", "metadata": {"name": "a"}, "spec": {"ports": [port]}});
    let live = created(&kind, service(json!({"port": 80, "protocol": "TCP", "targetPort": 80})), "x");
    let merged = apply(&kind, &live, &service(json!({"port": 80, "name": "http"})), "y", false).unwrap();
    let port = json!([{"port": 80, "protocol": "TCP", "targetPort": 80, "name": "http"}]);
    assert_eq!(merged["spec"]["ports"], port);
    let owned = json!({"f:spec": {"f:ports": {"k:{\"port\":80,\"protocol\":\"TCP\"}":
        {".": {}, "f:name": {}, "f:port": {}}}}});
    assert_eq!(managers(&merged)["y Apply"], owned);
    let twice = json!({"kind": "Service", "apiVersion": "v1", "metadata": {"name": "a", "namespace": "n"},
        "spec": {"ports": [{"port": 80}, {"port": 80, "protocol": "TCP"}]}});
    assert_eq!(
        apply(&kind, &live, &twice, "y", false).unwrap_err(),
        "failed to create typed patch object (n/a; /v1, Kind=Service): .spec.ports: duplicate entries for key \
         [port=80,protocol=\"TCP\"]"
    );
}

#[test]
fn invalid_configurations_are_rejected() {
    let kind = kind("apps/v1", "Deployment");
    let with = |spec: Value| json!({"kind": "Deployment", "apiVersion": "apps/v1", "metadata": {"name": "d"}, "spec": spec});
    let cases = [
        (with(json!({"nothing": 1})), ".spec.nothing: field not declared in schema"),
        (with(json!({"replicas": "1"})), ".spec.replicas: expected numeric (int or float), got string"),
        (with(json!({"paused": "no"})), ".spec.paused: expected boolean, got &{no}"),
        (with(json!({"selector": []})), ".spec.selector: expected map, got &{[]}"),
        (with(json!("a")), ".spec: expected map, got &{a}"),
        (
            with(json!({"strategy": {"type": 1}})),
            ".spec.strategy.type: expected string, got &value.valueUnstructured{Value:1}",
        ),
        (
            with(json!({"template": {"spec": {"containers": {}}}})),
            ".spec.template.spec.containers: expected list, got &{map[]}",
        ),
        (
            with(json!({"template": {"spec": {"containers": [1]}}})),
            ".spec.template.spec.containers: element 0: associative list with keys may not have non-map elements",
        ),
        (
            with(json!({"strategy": {"rollingUpdate": {"maxSurge": {"a": 1}}}})),
            ".spec.strategy.rollingUpdate.maxSurge: expected any scalar, got &{map[a:1]}",
        ),
        (
            with(json!({"replicas": "1", "paused": 1})),
            "errors:\n  .spec.paused: expected boolean, got &{1}\n  .spec.replicas: expected numeric (int or float), got \
             string",
        ),
    ];
    for (config, expected) in cases {
        let refused = apply(&kind, kind.empty(), &config, "x", false).unwrap_err();
        let message =
            format!("failed to create typed patch object (/d; apps/v1, Kind=Deployment): {expected}");
        assert_eq!(refused, message);
    }
    let other = json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "d"}});
    assert_eq!(
        apply(&kind, kind.empty(), &other, "x", false).unwrap_err(),
        "invalid object type: /v1, Kind=ConfigMap"
    );
    let mut with_managers = with(json!({}));
    with_managers["metadata"]["managedFields"] = json!([]);
    let refused = apply(&kind, kind.empty(), &with_managers, "x", false).unwrap_err();
    assert_eq!(refused, "metadata.managedFields must be nil");
}

#[test]
fn first_apply_records_existing_fields() {
    let kind = kind("v1", "ConfigMap");
    let mut live = config_map(json!({"a": "1"}));
    live["metadata"]["uid"] = json!("1");
    let applied = apply(&kind, &live, &config_map(json!({"b": "1"})), "x", false).unwrap();
    let expected = json!({"before-first-apply Update": {"f:data": {".": {}, "f:a": {}}}, "x Apply": {"f:data": {"f:b": {}}}});
    assert_eq!(managers(&applied), expected);
    let refused = apply(&kind, &live, &config_map(json!({"a": "2"})), "x", false).unwrap_err();
    assert_eq!(
        refused,
        "Apply failed with 1 conflict: conflict with \"before-first-apply\" using v1: .data.a"
    );
}

#[test]
fn kubectl_takes_over_client_side_applied_fields() {
    const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
    let kind = kind("v1", "ConfigMap");
    let before = json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a", "annotations": {}},
        "data": {"a": "1", "b": "1"}});
    let mut live = config_map(json!({"a": "1", "b": "changed"}));
    live["metadata"]["annotations"] = json!({ANNOTATION: before.to_string()});
    let live = created(&kind, live, "kubectl-client-side-apply");
    // kubectl may change fields that are unchanged since.
    let applied = apply(&kind, &live, &config_map(json!({"a": "2"})), "kubectl", false).unwrap();
    assert_eq!(applied["data"], json!({"a": "2", "b": "changed"}));
    let annotation = applied["metadata"]["annotations"][ANNOTATION].as_str().unwrap();
    assert_eq!(annotation, format!("{}\n", config_map(json!({"a": "2"}))));
    // Other managers may not, and kubectl may not change fields of other managers.
    let other = apply(&kind, &live, &config_map(json!({"a": "2"})), "x", false).unwrap_err();
    assert_eq!(
        other,
        "Apply failed with 1 conflict: conflict with \"kubectl-client-side-apply\" using v1: .data.a"
    );
    let both = apply(&kind, &live, &config_map(json!({"a": "2", "b": "2"})), "kubectl", false).unwrap_err();
    assert_eq!(
        both,
        "Apply failed with 1 conflict: conflict with \"kubectl-client-side-apply\" using v1: .data.b"
    );
}
