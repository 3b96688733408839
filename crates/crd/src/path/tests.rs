use serde_json::json;

use super::*;

#[test]
fn paths_have_the_same_results_as_upstream() {
    let object = json!({
        "metadata": {"name": "a", "labels": {"app.kubernetes.io/name": "web"}},
        "spec": {"replicas": 3, "ratio": 0.5, "hosts": ["x", "y", "z"], "none": null},
        "status": {"conditions": [
            {"type": "Ready", "status": "True", "weight": 1},
            {"type": "Synced", "status": "False", "weight": 2},
        ]},
    });
    let cases = [
        (".metadata.name", Some(json!("a"))),
        (".spec.replicas", Some(json!(3))),
        (".spec.missing", None),
        (".spec.none", Some(json!(null))),
        (".spec.hosts[0]", Some(json!("x"))),
        (".spec.hosts[-1]", Some(json!("z"))),
        (".spec.hosts[1:]", Some(json!("y"))),
        (".spec.hosts[5]", None),
        (".spec.hosts[*]", Some(json!("x"))),
        (".spec.hosts[0,2]", Some(json!("x"))),
        (".metadata.labels['app\\.kubernetes\\.io/name']", Some(json!("web"))),
        (".metadata.labels.app\\.kubernetes\\.io/name", Some(json!("web"))),
        (".status.conditions[?(@.type==\"Ready\")].status", Some(json!("True"))),
        (".status.conditions[?(@.type=='Synced')].status", Some(json!("False"))),
        (".status.conditions[?(@.weight>1)].type", Some(json!("Synced"))),
        (".status.conditions[?(@.weight)].type", Some(json!("Ready"))),
        (".status.conditions[?(@.type==\"Gone\")].status", None),
        (".status.conditions[?(@.type==1)].status", None),
        ("$.spec.replicas", Some(json!(3))),
        ("..replicas", Some(json!(3))),
        (".spec.hosts.name", None),
        (".metadata.name.x", None),
        (".", None),
    ];
    for (path, expected) in cases {
        let parsed = JsonPath::parse(path).expect(path);
        let found = parsed.first(&object).map(|found| found.value().clone().into_owned());
        assert_eq!(found, expected, "{path}");
    }
}

#[test]
fn paths_that_upstream_refuses_are_errors() {
    for path in [".spec[", ".spec[x]", ".spec[?(@.a", "....a", ".a[?(@.b==1)x", "#"] {
        assert!(JsonPath::parse(path).is_err(), "{path}");
    }
}
