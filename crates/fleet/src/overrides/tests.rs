use atoll_meta::FieldPath;
use serde_json::json;

use super::*;

fn overridden(overrides: Value, mut object: Value) -> Result<Value, String> {
    assert_eq!(validate(&overrides, &FieldPath::new("o")), []);
    let before = object.clone();
    let result = Overrides::read(&overrides).and_then(|overrides| overrides.apply(&mut object));
    if result.is_err() {
        assert_eq!(object, before, "a failed override changes nothing");
    }
    result.map(|()| object)
}

fn deployment(spec: Value) -> Value {
    json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web", "namespace": "shop", "labels": { "app": "web" } },
        "spec": { "template": { "spec": spec } } })
}

#[test]
fn overrides_are_applied() {
    let containers = |image: &str| {
        json!({
            "initContainers": [{ "name": "i", "image": image }], "containers": [{ "name": "c", "image": image }],
            "volumes": [{ "name": "v", "image": { "reference": image } }, { "name": "w", "emptyDir": {} }],
        })
    };
    let claim =
        |class: Value| json!({ "kind": "PersistentVolumeClaim", "spec": { "storageClassName": class } });
    let cases = [
        (json!([]), deployment(json!({})), deployment(json!({}))),
        (json!(null), deployment(json!({})), deployment(json!({}))),
        (
            json!([{ "registry": { "to": "r.io" } }]),
            deployment(containers("nginx")),
            deployment(containers("r.io/library/nginx")),
        ),
        (
            json!([{ "registry": { "from": "ghcr.io", "to": "r.io/hub" } }]),
            json!({ "kind": "Pod", "spec": { "containers": [{ "image": "ghcr.io/a:1" }, { "image": "nginx" }, {}] } }),
            json!({ "kind": "Pod", "spec": { "containers": [{ "image": "r.io/hub/a:1" }, { "image": "nginx" }, {}] } }),
        ),
        (
            json!([{ "registry": { "to": "r.io" } }]),
            json!({ "kind": "CronJob", "spec": { "jobTemplate": { "spec": { "template": { "spec": containers("a/b") } } } } }),
            json!({ "kind": "CronJob", "spec": { "jobTemplate": { "spec": { "template": { "spec": containers("r.io/a/b") } } } } }),
        ),
        (json!([{ "storageClass": { "fast": "nvme" } }]), claim(json!("fast")), claim(json!("nvme"))),
        (json!([{ "storageClass": { "fast": "nvme" } }]), claim(json!("slow")), claim(json!("slow"))),
        (json!([{ "storageClass": { "fast": "nvme" } }]), claim(json!(null)), claim(json!(null))),
        (
            json!([{ "storageClass": { "fast": "nvme" } }]),
            json!({ "kind": "PersistentVolumeClaim", "metadata": { "annotations": { "volume.beta.kubernetes.io/storage-class": "fast" } }, "spec": {} }),
            json!({ "kind": "PersistentVolumeClaim", "metadata": { "annotations": { "volume.beta.kubernetes.io/storage-class": "nvme" } }, "spec": {} }),
        ),
        (
            json!([{ "storageClass": { "fast": "nvme" } }]),
            json!({ "kind": "StatefulSet", "spec": { "volumeClaimTemplates": [claim(json!("fast"))], "template": { "spec": {
                "volumes": [{ "ephemeral": { "volumeClaimTemplate": { "spec": { "storageClassName": "fast" } } } }] } } } }),
            json!({ "kind": "StatefulSet", "spec": { "volumeClaimTemplates": [claim(json!("nvme"))], "template": { "spec": {
                "volumes": [{ "ephemeral": { "volumeClaimTemplate": { "spec": { "storageClassName": "nvme" } } } }] } } } }),
        ),
        (
            json!([{ "env": [{ "name": "REGION", "value": "east" }, { "name": "EMPTY" }] }]),
            deployment(json!({ "containers": [
                { "name": "a", "env": [{ "name": "REGION", "valueFrom": {} }, { "name": "X", "value": "y" }] }, { "name": "b" }] })),
            deployment(json!({ "containers": [
                { "name": "a", "env": [{ "name": "REGION", "value": "east" }, { "name": "X", "value": "y" }, { "name": "EMPTY", "value": "" }] },
                { "name": "b", "env": [{ "name": "REGION", "value": "east" }, { "name": "EMPTY", "value": "" }] }] })),
        ),
        (
            json!([{ "labels": { "a": "b" }, "annotations": { "c": "d" } }]),
            json!({ "kind": "ConfigMap", "metadata": { "labels": { "a": "x", "k": "v" } } }),
            json!({ "kind": "ConfigMap", "metadata": { "labels": { "a": "b", "k": "v" }, "annotations": { "c": "d" } } }),
        ),
        (
            json!([{ "patch": [{ "op": "add", "path": "/data/x", "value": "y" }, { "op": "remove", "path": "/data/a" }] }]),
            json!({ "kind": "ConfigMap", "data": { "a": "b" } }),
            json!({ "kind": "ConfigMap", "data": { "x": "y" } }),
        ),
        // Later rows see the changes of earlier ones.
        (
            json!([{ "labels": { "a": "b" } }, { "match": { "labels": { "a": "b" } }, "annotations": { "c": "d" } }]),
            json!({ "kind": "ConfigMap", "metadata": {} }),
            json!({ "kind": "ConfigMap", "metadata": { "labels": { "a": "b" }, "annotations": { "c": "d" } } }),
        ),
    ];
    for (overrides, object, expected) in cases {
        assert_eq!(overridden(overrides.clone(), object), Ok(expected), "{overrides}");
    }
}

#[test]
fn only_matching_objects_are_changed() {
    let cases = [
        (json!({}), true),
        (json!({ "kinds": ["Deployment"] }), true),
        (json!({ "kinds": ["StatefulSet", "Deployment.apps"] }), true),
        (json!({ "kinds": ["Deployment.example.com"] }), false),
        (json!({ "kinds": ["ConfigMap"] }), false),
        (json!({ "namespaces": ["other", "shop"] }), true),
        (json!({ "namespaces": ["other"] }), false),
        (json!({ "labels": { "app": "web" } }), true),
        (json!({ "labels": { "app": "web", "tier": "a" } }), false),
        (json!({ "kinds": ["Deployment"], "namespaces": ["other"] }), false),
    ];
    for (matches, expected) in cases {
        let changed =
            overridden(json!([{ "match": matches, "labels": { "x": "y" } }]), deployment(json!({}))).unwrap();
        assert_eq!(changed["metadata"]["labels"].get("x").is_some(), expected, "{matches}");
    }
}

#[test]
fn patches_that_do_not_apply_change_nothing() {
    let cases = [
        (json!([{ "op": "remove", "path": "/spec/none" }]), "spec.overrides[1].patch: "),
        (
            json!([{ "op": "test", "path": "/kind", "value": "Pod" }]),
            "spec.overrides[1].patch: testing value /kind failed",
        ),
        (
            json!([{ "op": "copy", "from": "/metadata/labels/app", "path": "/metadata/labels/x" },
                { "op": "replace", "path": "nothing/metadata/name", "value": "other" }]),
            "spec.overrides[1].patch: it would change the identity of the object",
        ),
    ];
    for (patch, expected) in cases {
        let overrides = json!([{ "labels": { "x": "y" } }, { "patch": patch }]);
        let mut object = deployment(json!({}));
        let error = Overrides::read(&overrides).unwrap().apply(&mut object).unwrap_err();
        assert!(error.starts_with(expected), "{error}");
        assert_eq!(object, deployment(json!({})));
    }
}

#[test]
fn errors_have_field_paths() {
    let cases = [
        (json!({}), "o: Invalid value: {}: must be a list"),
        (json!(["a"]), "o[0]: Invalid value: \"a\": must be an object"),
        (json!([{ "images": 1 }]), "o[0]: Unsupported value: \"images\": supported values: \"match\", "),
        (json!([{ "env": 7 }]), "o[0].env: Forbidden: cannot be read: invalid type: "),
        (json!([{ "registry": {} }]), "o[0].registry: Forbidden: cannot be read: missing field `to`"),
        (json!([{ "registry": { "to": "" } }]), "o[0].registry.to: Required value"),
        (
            json!([{ "registry": { "to": "https://r.io" } }]),
            "o[0].registry.to: Invalid value: \"https://r.io\": must have no scheme",
        ),
        (
            json!([{ "registry": { "to": "mirror" } }]),
            "o[0].registry.to: Invalid value: \"mirror\": must begin with the host of a registry, such",
        ),
        (
            json!([{ "registry": { "to": "r.io/" } }]),
            "o[0].registry.to: Invalid value: \"r.io/\": must be a registry, perhaps with folders",
        ),
        (
            json!([{ "registry": { "to": "r.io/a:1" } }]),
            "o[0].registry.to: Invalid value: \"r.io/a:1\": must be a registry, perhaps",
        ),
        (
            json!([{ "registry": { "from": "r io.x", "to": "r.io" } }]),
            "o[0].registry.from: Invalid value: \"r io.x\": must begin with the host",
        ),
        (
            json!([{ "storageClass": { "fast": "A_B" } }]),
            "o[0].storageClass[fast]: Invalid value: \"A_B\": a lowercase RFC 1123",
        ),
        (json!([{ "env": [{ "name": "" }] }]), "o[0].env[0].name: Required value"),
        (
            json!([{ "env": [{ "name": "A=B" }] }]),
            "o[0].env[0].name: Invalid value: \"A=B\": a valid environment",
        ),
        (json!([{ "env": [{ "name": "A" }, { "name": "A" }] }]), "o[0].env[1].name: Duplicate value: \"A\""),
        (json!([{ "labels": { "a b": "c" } }]), "o[0].labels: Invalid value: \"a b\": name part must"),
        (
            json!([{ "labels": { "atoll.dev/uid": "c" } }]),
            "o[0].labels[atoll.dev/uid]: Forbidden: is set by Atoll only",
        ),
        (
            json!([{ "annotations": { "atoll.dev/uid": "c" } }]),
            "o[0].annotations[atoll.dev/uid]: Forbidden: is set",
        ),
        (
            json!([{ "match": { "kinds": ["deployments"] } }]),
            "o[0].match.kinds[0]: Invalid value: \"deployments\": must be a kind",
        ),
        (
            json!([{ "match": { "namespaces": ["a", "B"] } }]),
            "o[0].match.namespaces[1]: Invalid value: \"B\": a lowercase",
        ),
        (json!([{ "match": { "labels": { "a": "-" } } }]), "o[0].match.labels: Invalid value: \"-\""),
        (json!([{ "patch": [{}] }]), "o[0].patch[0].op: Required value"),
        (
            json!([{ "patch": [{ "op": "merge" }] }]),
            "o[0].patch[0].op: Unsupported value: \"merge\": supported",
        ),
        (json!([{ "patch": [{ "op": "remove" }] }]), "o[0].patch[0].path: Required value"),
        (
            json!([{ "patch": [{ "op": "remove", "path": "a" }] }]),
            "o[0].patch[0].path: Invalid value: \"a\": must begin with '/'",
        ),
        (json!([{ "patch": [{ "op": "add", "path": "/a" }] }]), "o[0].patch[0].value: Required value"),
        (json!([{ "patch": [{ "op": "move", "path": "/a" }] }]), "o[0].patch[0].from: Required value"),
        (
            json!([{ "patch": [{ "op": "move", "path": "/a", "from": "/kind" }] }]),
            "o[0].patch[0].from: Forbidden: /kind cannot be changed",
        ),
        (
            json!([{ "patch": [{ "op": "replace", "path": "/metadata", "value": {} }] }]),
            "o[0].patch[0].path: Forbidden: /metadata cannot be changed",
        ),
        (
            json!([{ "patch": [{ "op": "add", "path": "/status/x", "value": 1 }] }]),
            "o[0].patch[0].path: Forbidden: /status/x cannot be changed",
        ),
    ];
    for (overrides, expected) in cases {
        let errors = validate(&overrides, &FieldPath::new("o"));
        let shown: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(shown.len(), 1, "{overrides}: {shown:?}");
        assert!(shown[0].starts_with(expected), "{overrides}: {}", shown[0]);
    }
    let many: Value = vec![json!({}); 101].into();
    assert_eq!(
        validate(&many, &FieldPath::new("o"))[0].to_string(),
        "o: Too many: 101: must have at most 100 items"
    );
}

#[test]
fn overrides_of_many_containers_are_limited() {
    let of = |count: usize| {
        let containers: Vec<Value> =
            (0..count).map(|index| json!({ "name": format!("c{index}"), "image": "app" })).collect();
        deployment(json!({ "containers": containers }))
    };
    let registry = json!([{ "registry": { "to": format!("r.io/{}", "a".repeat(1000)) } }]);
    let variables: Vec<Value> =
        (0..100).map(|index| json!({ "name": format!("V{index}"), "value": "x" })).collect();
    let env = json!([{ "env": variables }]);
    // Each row is within the limit, but not all of them.
    let rows: Vec<Value> = (0..100).map(|_| env[0].clone()).collect();
    let copies: Vec<Value> = (0..100)
        .map(|index| {
            json!({ "patch": [
            { "op": "copy", "from": "/spec/template", "path": format!("/spec/copy{index}") },
        ] })
        })
        .collect();
    for (overrides, count, expected) in [
        (registry.clone(), 100, None),
        (
            registry,
            2000,
            Some("spec.overrides[0].registry: the overrides of the cluster would add more than 1024 KiB"),
        ),
        (env.clone(), 10, None),
        (env, 2000, Some("spec.overrides[0].env: the overrides of the cluster would add more than 1024 KiB")),
        (json!(rows), 100, Some("spec.overrides[1].env: ")),
        (json!(copies), 10, None),
        (json!(copies), 2000, Some("].patch: ")),
    ] {
        let error = overridden(overrides, of(count)).err();
        match (error, expected) {
            (None, None) => {}
            (Some(error), Some(expected)) => assert!(error.contains(expected), "{error}"),
            (error, expected) => panic!("{count}: {error:?} instead of {expected:?}"),
        }
    }
}
