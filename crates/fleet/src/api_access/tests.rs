use serde_json::json;

use super::*;

const ADDRESS: &str = "192.0.2.7:6443";

fn account_ref() -> AccountRef {
    AccountRef { workspace: "w".into(), namespace: "shop".into(), name: "web".into() }
}

fn deployment(spec: Value) -> Value {
    json!({ "apiVersion": "apps/v1", "kind": "Deployment", "spec": { "template": { "spec": spec } } })
}

/// Returns the Pod specification with access, or `None` if nothing refers to the access Secret.
fn with_access(spec: Value, automounts: bool) -> Option<Value> {
    let mut object = deployment(spec);
    let is_given = give_access(&mut object, &account_ref(), automounts, ADDRESS.parse().unwrap());
    is_given.then(|| object["spec"]["template"]["spec"].take())
}

fn environment() -> Value {
    json!([
        { "name": "KUBERNETES_SERVICE_HOST", "value": "192.0.2.7" },
        { "name": "KUBERNETES_SERVICE_PORT", "value": "6443" },
        { "name": "KUBERNETES_SERVICE_PORT_HTTPS", "value": "6443" },
    ])
}

#[test]
fn all_containers_get_token_and_address() {
    let name = account_ref().secret_name();
    let found = with_access(
        json!({ "containers": [{ "name": "a" }], "initContainers": [{ "name": "b", "env": [{ "name": "X", "value": "y" }] }] }),
        true,
    );
    let mount = json!([{ "name": name, "readOnly": true, "mountPath": MOUNT_PATH }]);
    let mut of_init = vec![json!({ "name": "X", "value": "y" })];
    of_init.extend(items(&environment()).iter().cloned());
    assert_eq!(
        found.unwrap(),
        json!({
            "automountServiceAccountToken": false,
            "containers": [{ "name": "a", "volumeMounts": mount, "env": environment() }],
            "initContainers": [{ "name": "b", "volumeMounts": mount, "env": of_init }],
            "volumes": [{ "name": name, "secret": { "secretName": name, "defaultMode": 420, "optional": true } }],
        })
    );
}

#[test]
fn access_is_given_where_tokens_are_mounted() {
    let containers = json!([{ "name": "a" }]);
    for (spec, automounts, expected) in [
        (json!({}), true, true),
        (json!({}), false, false),
        (json!({ "automountServiceAccountToken": true }), false, true),
        (json!({ "automountServiceAccountToken": false }), true, false),
        (json!({ "volumes": [{ "name": account_ref().secret_name() }] }), true, false),
    ] {
        let mut whole = spec.clone();
        whole["containers"] = containers.clone();
        assert_eq!(with_access(whole, automounts).is_some(), expected, "{spec} {automounts}");
    }
}

#[test]
fn choices_of_containers_stay() {
    let own_mount =
        json!({ "name": "a", "volumeMounts": [{ "name": "v", "mountPath": format!("{MOUNT_PATH}/") }] });
    let found = with_access(json!({ "containers": [own_mount, { "name": "b" }] }), true).unwrap();
    assert_eq!(found["containers"][0], own_mount, "it has a volume of its own");
    assert_eq!(found["containers"][1]["env"], environment());
    assert_eq!(with_access(json!({ "containers": [own_mount] }), true), None);

    let own_host = json!([{ "name": "KUBERNETES_SERVICE_HOST", "value": "10.0.0.1" }]);
    let found = with_access(json!({ "containers": [{ "name": "a", "env": own_host }] }), true).unwrap();
    assert_eq!(found["containers"][0]["env"], own_host);
}

#[test]
fn projected_tokens_for_the_api_are_replaced() {
    let volume = |audience: Value| {
        json!({ "name": "v", "projected": { "sources": [
            { "serviceAccountToken": { "path": "token", "expirationSeconds": 3607, "audience": audience } },
            { "configMap": { "name": "kube-root-ca.crt", "items": [{ "key": "ca.crt", "path": "ca.crt" }] } },
            { "downwardAPI": { "items": [{ "path": "namespace", "fieldRef": { "fieldPath": "metadata.namespace" } }] } },
            { "configMap": { "name": "other" } },
        ] } })
    };
    let spec = |audience| {
        json!({
            "automountServiceAccountToken": false, "volumes": [volume(audience)],
            "containers": [{ "name": "a", "volumeMounts": [{ "name": "v", "mountPath": "/x" }] }, { "name": "b" }],
        })
    };
    let found = with_access(spec(Value::Null), true).unwrap();
    let source = |key: &str| {
        json!({ "secret": {
            "name": account_ref().secret_name(), "optional": true, "items": [{ "key": key, "path": key }],
        } })
    };
    assert_eq!(
        found["volumes"][0]["projected"]["sources"],
        json!([source("token"), source("ca.crt"), source("namespace"), { "configMap": { "name": "other" } }])
    );
    assert_eq!(found["volumes"].as_array().unwrap().len(), 1);
    assert_eq!(found["containers"][0]["env"], environment());
    assert_eq!(found["containers"][1], json!({ "name": "b" }));
    assert_eq!(with_access(spec("vault".into()), true), None, "it is for another program");
}

#[test]
fn accounts_are_those_of_objects_that_create_pods() {
    let spec = json!({ "serviceAccountName": "web", "containers": [] });
    let template = |annotations: Value| json!({ "metadata": { "annotations": annotations }, "spec": spec });
    let of =
        |version: &str, kind: &str, spec: Value| json!({ "apiVersion": version, "kind": kind, "spec": spec });
    let whole = |value: Value| json!({ "template": template(value) });
    for (object, expected, invalid) in [
        (of("apps/v1", "Deployment", whole(json!({}))), Some("web"), None),
        (of("v1", "ReplicationController", whole(json!({}))), Some("web"), None),
        (of("batch/v1", "Job", whole(json!({}))), Some("web"), None),
        (
            of("batch/v1", "CronJob", json!({ "jobTemplate": { "spec": whole(json!({})) } })),
            Some("web"),
            None,
        ),
        (of("v1", "Pod", spec.clone()), Some("web"), None),
        (of("example.com/v1", "Deployment", whole(json!({}))), None, None),
        (of("v1", "PodTemplate", whole(json!({}))), None, None),
        (of("v1", "ConfigMap", json!({})), None, None),
        (of("apps/v1", "Deployment", whole(json!({ ANNOTATION: "workspace" }))), Some("web"), None),
        (of("apps/v1", "Deployment", whole(json!({ ANNOTATION: "cluster" }))), None, None),
        (of("apps/v1", "Deployment", whole(json!({ ANNOTATION: "none" }))), Some("web"), Some("none")),
    ] {
        assert_eq!((account(&object), invalid_choice(&object)), (expected, invalid), "{object}");
    }
}

#[test]
fn secrets_have_stable_names() {
    let account = account_ref();
    // Fixed, because Pod templates in clusters refer to it.
    assert_eq!(account.secret_name(), "atoll-api-qix3s2uf5rfiv");
    assert_ne!(account.secret_name(), AccountRef { namespace: "b".into(), ..account_ref() }.secret_name());
    let secret = account.secret(Some("t"), "pem", "2026-01-01T00:00:00Z");
    assert_eq!(
        (&secret["type"], &secret["data"]),
        (
            &json!(SECRET_TYPE),
            &json!({ "token": "dA==", "ca.crt": base64::encode(b"pem"), "namespace": base64::encode(b"shop") })
        )
    );
    assert!(is_access_secret(&secret) && account.secret(None, "pem", "")["data"].get("token").is_none());
    assert!(!is_access_secret(&json!({ "metadata": { "name": "atoll-api-x" } })));
}

#[test]
fn adopted_templates_are_those_that_have_not_changed() {
    let object = deployment(json!({ "containers": [{ "name": "a" }] }));
    let annotated = |value: String| {
        let mut above = object.clone();
        object::set_annotation(&mut above, crate::marks::ADOPTED_TEMPLATES, &value);
        above
    };
    let one = annotated(with_adopted_template(&object, &object, "east").unwrap());
    let both = annotated(with_adopted_template(&one, &object, "west").unwrap());
    let mut changed = object.clone();
    changed["spec"]["template"]["spec"]["containers"][0]["image"] = "x:2".into();
    for (above, shaped, cluster, expected) in [
        (&object, &object, "east", false),
        (&one, &object, "east", true),
        (&one, &object, "west", false),
        (&both, &object, "east", true),
        (&both, &object, "west", true),
        (&both, &changed, "west", false),
    ] {
        assert_eq!(has_adopted_template(above, shaped, cluster), expected, "{above} {shaped} {cluster}");
    }
    assert_eq!(with_adopted_template(&json!({ "kind": "ConfigMap" }), &json!({}), "east"), None);
}

#[test]
fn pods_cannot_reach_addresses_of_one_machine() {
    for (address, expected) in [
        ("192.0.2.7", true),
        ("10.0.0.1", true),
        ("2001:db8::1", true),
        ("127.0.0.1", false),
        ("127.8.0.1", false),
        ("0.0.0.0", false),
        ("::1", false),
        ("::", false),
        ("::ffff:127.0.0.1", false),
    ] {
        assert_eq!(is_reachable(address.parse().unwrap()), expected, "{address}");
    }
}
