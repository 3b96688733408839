use serde_json::{Value, json};

use super::{author, created, kind, managers};
use crate::apply::{Author, REPLICAS, ResetFields, is_reset, parent_fields, scale_fields};

fn deployment() -> Value {
    json!({
        "kind": "Deployment", "apiVersion": "apps/v1",
        "metadata": {"name": "d", "namespace": "n", "labels": {"app": "a"}},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": "a"}},
            "strategy": {"type": "Recreate"},
            "template": {
                "metadata": {"labels": {"app": "a"}},
                "spec": {"containers": [{
                    "name": "c", "image": "i",
                    "ports": [{"containerPort": 443, "protocol": "TCP"}, {"containerPort": 80, "protocol": "TCP"}],
                    "env": [{"name": "A", "value": "1"}],
                    "args": ["x"],
                    "resources": {},
                }]}
            }
        },
        "status": {}
    })
}

#[test]
fn create_owns_all_fields() {
    let cases = [
        (
            json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a"}, "data": {"k": "v"}}),
            json!({"f:data": {".": {}, "f:k": {}}}),
        ),
        (
            json!({"kind": "Service", "apiVersion": "v1", "metadata": {"name": "a"}, "status": {"loadBalancer": {}},
                "spec": {"selector": {"a": "b"}, "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}]}}),
            json!({"f:spec": {"f:selector": {}, "f:ports": {".": {}, "k:{\"port\":80,\"protocol\":\"TCP\"}":
                {".": {}, "f:port": {}, "f:protocol": {}, "f:targetPort": {}}}}}),
        ),
        (
            deployment(),
            json!({
                "f:metadata": {"f:labels": {".": {}, "f:app": {}}},
                "f:spec": {"f:replicas": {}, "f:selector": {}, "f:strategy": {"f:type": {}}, "f:template": {
                    "f:metadata": {"f:labels": {".": {}, "f:app": {}}},
                    "f:spec": {"f:containers": {"k:{\"name\":\"c\"}": {
                        ".": {}, "f:name": {}, "f:image": {}, "f:args": {}, "f:resources": {},
                        "f:env": {".": {}, "k:{\"name\":\"A\"}": {".": {}, "f:name": {}, "f:value": {}}},
                        "f:ports": {".": {},
                            "k:{\"containerPort\":443,\"protocol\":\"TCP\"}":
                                {".": {}, "f:containerPort": {}, "f:protocol": {}},
                            "k:{\"containerPort\":80,\"protocol\":\"TCP\"}":
                                {".": {}, "f:containerPort": {}, "f:protocol": {}}},
                    }}},
                }},
            }),
        ),
        // A kind without types: maps are members themselves, lists are atomic.
        (
            json!({"kind": "Workspace", "apiVersion": "atoll.dev/v1alpha1", "metadata": {"name": "a"},
                "spec": {"list": [{"name": "a"}], "map": {"a": {}}, "null": null}}),
            json!({"f:spec": {".": {}, "f:list": {}, "f:map": {".": {}, "f:a": {}}, "f:null": {}}}),
        ),
    ];
    for (object, expected) in cases {
        let version = object["apiVersion"].as_str().unwrap().to_owned();
        let kind = kind(&version, object["kind"].as_str().unwrap());
        let object = created(&kind, object, "m");
        assert_eq!(managers(&object), json!({"m Update": expected}));
        let entry = &object["metadata"]["managedFields"][0];
        assert_eq!(entry["apiVersion"], version.as_str());
        assert_eq!(
            (&entry["fieldsType"], &entry["time"]),
            (&json!("FieldsV1"), &json!("2026-01-01T00:00:00Z"))
        );
    }
}

#[test]
fn empty_objects_have_no_managers() {
    let kind = kind("v1", "ConfigMap");
    let object = json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a"}});
    assert_eq!(created(&kind, object, "m")["metadata"].get("managedFields"), None);
}

fn later(manager: &str) -> Author<'_> {
    Author { time: "2026-01-01T00:00:01Z", ..author(manager) }
}

#[test]
fn update_owns_changed_fields() {
    let kind = kind("v1", "ConfigMap");
    let object = |data: Value| json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a", "uid": "1"}, "data": data});
    let both = json!({"a": "1", "b": "1"});
    let cases = [
        // Without changes the managers stay the same.
        (json!({"a": "1", "b": "1"}), json!({"x Update": {"f:data": {".": {}, "f:a": {}, "f:b": {}}}})),
        (
            json!({"a": "2", "b": "1"}),
            json!({"x Update": {"f:data": {".": {}, "f:b": {}}}, "y Update": {"f:data": {"f:a": {}}}}),
        ),
        (
            json!({"a": "1", "b": "1", "c": "1"}),
            json!({"x Update": {"f:data": {".": {}, "f:a": {}, "f:b": {}}}, "y Update": {"f:data": {"f:c": {}}}}),
        ),
        (json!({"b": "1"}), json!({"x Update": {"f:data": {".": {}, "f:b": {}}}})),
        (
            json!({"a": "2", "b": "2"}),
            json!({"x Update": {"f:data": {".": {}}}, "y Update": {"f:data": {"f:a": {}, "f:b": {}}}}),
        ),
    ];
    for (data, expected) in cases {
        let live = created(&kind, object(both.clone()), "x");
        let mut new = object(data.clone());
        kind.record(&live, &mut new, &later("y"));
        // A path that is a prefix of others has a dot; without others it does not.
        let expected = expected.to_string().replace("{\".\":{}}", "{}");
        assert_eq!(managers(&new).to_string(), expected, "{data}");
    }
}

#[test]
fn time_is_that_of_the_last_change() {
    let kind = kind("v1", "ConfigMap");
    let object =
        json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a"}, "data": {"a": "1"}});
    let live = created(&kind, object, "x");
    let time = |object: &Value| object["metadata"]["managedFields"][0]["time"].as_str().unwrap().to_owned();
    let mut same = live.clone();
    kind.record(&live, &mut same, &later("x"));
    assert_eq!(same, live);
    let mut changed = live.clone();
    changed["data"]["a"] = json!("2");
    kind.record(&live, &mut changed, &later("x"));
    assert_eq!(time(&changed), "2026-01-01T00:00:01Z");
    assert_eq!(managers(&changed), json!({"x Update": {"f:data": {".": {}, "f:a": {}}}}));
}

#[test]
fn clients_can_reset_and_replace_managers() {
    let kind = kind("v1", "ConfigMap");
    let object =
        json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a"}, "data": {"a": "1"}});
    let live = created(&kind, object, "x");
    let entry = |operation: &str| {
        json!({"manager": "z", "operation": operation, "apiVersion": "v1", "fieldsType": "FieldsV1",
            "fieldsV1": {"f:data": {"f:a": {}}}})
    };
    let kept = managers(&live);
    let cases = [
        (json!(null), kept.clone()),
        (json!([]), json!({})),
        (json!([{}]), json!({})),
        (json!([{}, {}]), kept.clone()),
        (json!([entry("Update")]), json!({"z Update": {"f:data": {"f:a": {}}}})),
        (json!([entry("Nothing")]), kept.clone()),
        (json!([{"manager": "z", "operation": "Update", "apiVersion": "v1"}]), kept),
    ];
    for (sent, expected) in cases {
        let mut new = live.clone();
        new["metadata"]["managedFields"] = sent.clone();
        kind.record(&live, &mut new, &later("y"));
        assert_eq!(managers(&new), expected, "{sent}");
    }
    assert!(is_reset(Some(&json!([{}]))) && is_reset(Some(&json!([]))));
    assert!(!is_reset(None) && !is_reset(Some(&json!([{"manager": "a"}]))));
    // Writes of a subresource cannot.
    let mut new = live.clone();
    new["metadata"]["managedFields"] = json!([]);
    kind.record(&live, &mut new, &Author { subresource: "status", ..later("y") });
    assert_eq!(new, live);
    // An update does not start tracking of an untracked object.
    let mut untracked = live.clone();
    untracked["metadata"].as_object_mut().unwrap().remove("managedFields");
    let mut new = untracked.clone();
    new["data"]["a"] = json!("2");
    kind.record(&untracked, &mut new, &later("y"));
    assert_eq!(managers(&new), json!({}));
}

#[test]
fn status_and_spec_have_separate_managers() {
    let kind = kind("apps/v1", "Deployment");
    let live = created(&kind, deployment(), "kubectl");
    let mut new = live.clone();
    new["spec"]["replicas"] = json!(3);
    new["status"]["replicas"] = json!(3);
    let mut spec = new.clone();
    kind.record(&live, &mut spec, &later("m"));
    assert_eq!(managers(&spec)["m Update"], json!({"f:spec": {"f:replicas": {}}}));
    let resets = ResetFields::Paths(&[&["spec"], &["metadata", "labels"]]);
    kind.record(&live, &mut new, &Author { subresource: "status", resets, ..later("m") });
    assert_eq!(managers(&new)["m Update"], json!({"f:status": {"f:replicas": {}}}));
    assert_eq!(new["metadata"]["managedFields"][1]["subresource"], "status");
}

#[test]
fn old_managers_are_combined() {
    let kind = kind("v1", "ConfigMap");
    let object =
        json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a"}, "data": {"k00": "1"}});
    let mut live = created(&kind, object, "m00");
    for number in 1..14 {
        let mut new = live.clone();
        new["data"][format!("k{number:02}")] = json!("1");
        let (manager, time) = (format!("m{number:02}"), format!("2026-01-01T00:00:{number:02}Z"));
        kind.record(&live, &mut new, &Author { time: &time, ..author(&manager) });
        live = new;
    }
    let rendered = managers(&live);
    assert_eq!(rendered.as_object().unwrap().len(), 10);
    let ancient =
        json!({"f:data": {".": {}, "f:k00": {}, "f:k01": {}, "f:k02": {}, "f:k03": {}, "f:k04": {}}});
    assert_eq!(rendered["ancient-changes Update"], ancient);
    assert_eq!(live["metadata"]["managedFields"][0]["time"], "2026-01-01T00:00:04Z");
}

#[test]
fn entries_of_other_versions_and_types_are_repaired() {
    let kind = kind("v1", "Service");
    let object = json!({"kind": "Service", "apiVersion": "v1", "metadata": {"name": "a"},
        "spec": {"selector": {"a": "b"}}});
    let live = created(&kind, object, "x");
    let entry = |manager: &str, version: &str, fields: Value| {
        json!({"manager": manager, "operation": "Update", "apiVersion": version, "fieldsType": "FieldsV1",
            "fieldsV1": fields})
    };
    let mut new = live.clone();
    new["metadata"]["managedFields"] = json!([
        entry("old", "v1beta1", json!({"f:spec": {"f:selector": {}}})),
        entry("parts", "v1", json!({"f:spec": {"f:selector": {".": {}, "f:a": {}}}})),
        entry("nothing", "v1", json!({})),
    ]);
    kind.record(&live, &mut new, &later("y"));
    assert_eq!(managers(&new), json!({"parts Update": {"f:spec": {"f:selector": {}}}}));
}

#[test]
fn duplicate_items_are_one_value() {
    let kind = kind("v1", "Pod");
    let pod = |env: Value| {
        json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "a", "uid": "1"},
            "spec": {"containers": [{"name": "c", "env": env}]}})
    };
    let env = |object: &Value, manager: &str| {
        managers(object)[manager]["f:spec"]["f:containers"]["k:{\"name\":\"c\"}"]["f:env"].clone()
    };
    let twice = json!([{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]);
    let once = json!([{"name": "A", "value": "1"}]);
    let mut fresh = pod(twice.clone());
    fresh["metadata"].as_object_mut().unwrap().remove("uid");
    let live = created(&kind, fresh, "x");
    assert_eq!(env(&live, "x Update"), json!({".": {}, "k:{\"name\":\"A\"}": {}}));
    let mut new = pod(once);
    kind.record(&live, &mut new, &later("y"));
    assert_eq!(env(&new, "y Update"), json!({"k:{\"name\":\"A\"}": {".": {}, "f:name": {}, "f:value": {}}}));
    let mut again = pod(twice);
    kind.record(&new, &mut again, &later("z"));
    assert_eq!(env(&again, "z Update"), json!({"k:{\"name\":\"A\"}": {}}));
}

#[test]
fn scale_shows_managers_of_replicas() {
    let kind = kind("apps/v1", "Deployment");
    let live = created(&kind, deployment(), "x");
    let parent = &live["metadata"]["managedFields"];
    let scale = scale_fields(Some(parent), "apps/v1", REPLICAS).unwrap();
    assert_eq!(scale[0]["apiVersion"], "autoscaling/v1");
    assert_eq!(scale[0]["fieldsV1"], json!({"f:spec": {"f:replicas": {}}}));
    let expected = json!([{"manager": "y", "operation": "Update", "apiVersion": "autoscaling/v1", "subresource": "scale",
        "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:replicas": {}}}}]);
    let entries = parent_fields(Some(parent), Some(&expected), "apps/v1", REPLICAS).unwrap();
    let object = json!({"metadata": {"managedFields": entries}});
    assert_eq!(managers(&object)["y Update"], json!({"f:spec": {"f:replicas": {}}}));
    assert_eq!(managers(&object)["x Update"]["f:spec"].get("f:replicas"), None);
    let entry = &object["metadata"]["managedFields"][0];
    assert_eq!((&entry["apiVersion"], &entry["subresource"]), (&json!("apps/v1"), &json!("scale")));
}
