//! Responses, compared with those of the API server.

use serde_json::{Value, json};

use super::*;
use crate::field::{BadValue, FieldError, FieldPath};
use crate::names;

fn path(text: &'static str) -> FieldPath {
    FieldPath::new(text)
}

fn text(status: &Status) -> String {
    String::from_utf8(status.to_json()).unwrap()
}

fn invalid_name_and_key() -> Vec<FieldError> {
    let name = names::dns1123_subdomain("A_b").remove(0);
    let key = names::config_map_key("k k").remove(0);
    vec![
        FieldError::invalid(&path("metadata").child("name"), "A_b", name),
        FieldError::invalid(&path("data").key("k k"), "k k", key),
    ]
}

fn new_finalizer() -> FieldError {
    let detail = "no new finalizers can be added if the object is being deleted, found new finalizers []string{\"example.com/g\"}";
    FieldError::forbidden(&path("metadata.finalizers"), detail)
}

fn bad_definition() -> Vec<FieldError> {
    let versions = r#"[{"Name":"v1","Served":true,"Storage":false,"Deprecated":false,"DeprecationWarning":null,"Schema":null,"Subresources":null,"AdditionalPrinterColumns":null,"SelectableFields":null}]"#;
    vec![
        FieldError::invalid(
            &path("metadata.name"),
            "bad.example.com",
            "must be spec.names.plural+\".\"+spec.group",
        ),
        FieldError::required(
            &path("spec").child("versions").index(0).child("schema").child("openAPIV3Schema"),
            "",
        ),
        FieldError::invalid(
            &path("spec.versions"),
            BadValue::Rendered(versions.to_owned()),
            "must have exactly one version marked as storage version",
        ),
        FieldError::invalid(
            &path("status.storedVersions"),
            Value::Null,
            "must have at least one stored version",
        ),
    ]
}

#[test]
fn statuses_match_recorded_responses() {
    for (name, status, body) in recorded() {
        assert_eq!(text(&status), body, "{name}");
        let value: Value = serde_json::from_str(body).unwrap();
        assert_eq!(Status::from_value(&value), Some(status), "{name}, read back");
    }
}

#[test]
fn other_statuses_have_upstreams_messages() {
    let cases: Vec<(Status, u16, &str, &str, Value)> = vec![
        (
            Status::generate_name_conflict("apps", "deployments", "web-x", 1),
            409,
            "AlreadyExists",
            "deployments.apps \"web-x\" already exists, the server was not able to generate a unique name for the object",
            json!({"name": "web-x", "group": "apps", "kind": "deployments", "retryAfterSeconds": 1}),
        ),
        (Status::unauthorized(""), 401, "Unauthorized", "not authorized", Value::Null),
        (Status::forbidden("", "", "", "no"), 403, "Forbidden", "forbidden: no", json!({})),
        (
            Status::method_not_supported("apps", "deployments", "delete"),
            405,
            "MethodNotAllowed",
            "delete is not supported on resources of kind \"deployments.apps\"",
            json!({"group": "apps", "kind": "deployments"}),
        ),
        (Status::gone("old"), 410, "Gone", "old", Value::Null),
        (Status::expired("too old"), 410, "Expired", "too old", Value::Null),
        (Status::timeout("slow", 0), 504, "Timeout", "Timeout: slow", json!({})),
        (
            Status::server_timeout("", "pods", "get", 2),
            500,
            "ServerTimeout",
            "The get operation against pods could not be completed at this time, please try again.",
            json!({"name": "get", "kind": "pods", "retryAfterSeconds": 2}),
        ),
        (
            Status::too_many_requests("wait", 5),
            429,
            "TooManyRequests",
            "wait",
            json!({"retryAfterSeconds": 5}),
        ),
        (
            Status::request_entity_too_large("limit is 3145728"),
            413,
            "RequestEntityTooLarge",
            "Request entity too large: limit is 3145728",
            Value::Null,
        ),
        (
            Status::internal_error("broken"),
            500,
            "InternalError",
            "Internal error occurred: broken",
            json!({"causes": [{"message": "broken"}]}),
        ),
        (Status::service_unavailable("later"), 503, "ServiceUnavailable", "later", Value::Null),
        (
            Status::not_acceptable_types(&["a/b", "c/d"]),
            406,
            "NotAcceptable",
            "only the following media types are accepted: a/b, c/d",
            Value::Null,
        ),
        (
            Status::not_acceptable_conversion("v1, Kind=Table", &["a/b"]),
            406,
            "NotAcceptable",
            "only the following media types are accepted when converting to v1, Kind=Table: a/b",
            Value::Null,
        ),
        (
            Status::invalid("", "Pod", "p", Vec::new()),
            422,
            "Invalid",
            "Pod \"p\" is invalid",
            json!({"name": "p", "kind": "Pod"}),
        ),
    ];
    for (status, code, reason, message, details) in cases {
        let value: Value = serde_json::from_slice(&status.to_json()).unwrap();
        assert_eq!(value["code"], code, "{message}");
        assert_eq!(value["reason"], reason, "{message}");
        assert_eq!(value["message"], message);
        assert_eq!(value["details"], details, "{message}");
        assert_eq!((status.code(), status.reason(), status.to_string().as_str()), (code, reason, message));
    }
}

#[test]
fn status_has_the_size_of_a_pointer() {
    assert_eq!(size_of::<Result<(), Status>>(), size_of::<usize>());
}

#[test]
fn missing_codes_are_derived() {
    assert_eq!(Status::success(Details::default()).code(), 200);
    let failure =
        Status::from_value(&json!({"kind": "Status", "apiVersion": "v1", "status": "Failure"})).unwrap();
    assert_eq!((failure.code(), failure.is_success()), (500, false));
}

#[test]
fn other_objects_are_not_decoded_as_status() {
    assert_eq!(Status::from_value(&json!({"kind": "Pod", "apiVersion": "v1"})), None);
    assert_eq!(Status::from_value(&json!({"kind": "Status", "apiVersion": "example.com/v1"})), None);
    assert_eq!(Status::from_value(&json!("Status")), None);
}

#[test]
fn expired_list_can_be_continued() {
    let status = Status::expired("expired").with_continue("token");
    assert_eq!(status.continue_token(), "token");
    let body = r#"{"kind":"Status","apiVersion":"v1","metadata":{"continue":"token"},"status":"Failure","message":"expired","reason":"Expired","code":410}"#;
    assert_eq!(text(&status), body);
    assert_eq!(Status::from_value(&serde_json::from_str(body).unwrap()), Some(status));
}

#[test]
fn builders_change_one_thing() {
    let status = Status::not_found("", "pods", "p").with_message("other").with_details(Details::default());
    assert_eq!((status.message(), status.details()), ("other", Some(&Details::default())));
    assert_eq!(status.retry_after(), None);
    let late = Status::resource_version_too_large(2, 1);
    assert!(late.has_cause("ResourceVersionTooLarge") && !late.has_cause("Other"));
    assert_eq!(late.retry_after(), Some(1));
}

/// Recorded from kube-apiserver 1.36: the request, the status, and the response body.
#[rustfmt::skip]
fn recorded() -> Vec<(&'static str, Status, &'static str)> {
    vec![
        ("object not found", Status::not_found("", "configmaps", "nope"), r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"configmaps \"nope\" not found","reason":"NotFound","details":{"name":"nope","kind":"configmaps"},"code":404}"#),
        ("unknown resource", Status::not_found_generic(), r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"the server could not find the requested resource","reason":"NotFound","details":{},"code":404}"#),
        ("method not allowed", Status::method_not_supported_generic(), r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"the server does not allow this method on the requested resource","reason":"MethodNotAllowed","details":{},"code":405}"#),
        ("bad token", Status::unauthorized("Unauthorized"), r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Unauthorized","reason":"Unauthorized","code":401}"#),
        ("anonymous", Status::forbidden("", "configmaps", "", r#"User "system:anonymous" cannot list resource "configmaps" in API group "" in the namespace "golden""#), r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"configmaps is forbidden: User \"system:anonymous\" cannot list resource \"configmaps\" in API group \"\" in the namespace \"golden\"","reason":"Forbidden","details":{"kind":"configmaps"},"code":403}"#),
        ("role escalation as bob", Status::forbidden("rbac.authorization.k8s.io", "roles", "", r#"User "bob" cannot create resource "roles" in API group "rbac.authorization.k8s.io" in the namespace "golden""#), r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"roles.rbac.authorization.k8s.io is forbidden: User \"bob\" cannot create resource \"roles\" in API group \"rbac.authorization.k8s.io\" in the namespace \"golden\"","reason":"Forbidden","details":{"group":"rbac.authorization.k8s.io","kind":"roles"},"code":403}"#),
        ("create in terminating namespace", Status::forbidden("", "configmaps", "late", "unable to create new content in namespace golden because it is being terminated").with_cause("NamespaceTerminating", "namespace golden is being terminated", "metadata.namespace"), r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"configmaps \"late\" is forbidden: unable to create new content in namespace golden because it is being terminated","reason":"Forbidden","details":{"name":"late","kind":"configmaps","causes":[{"reason":"NamespaceTerminating","message":"namespace golden is being terminated","field":"metadata.namespace"}]},"code":403}"#),
        ("create again", Status::already_exists("", "configmaps", "a"), r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"configmaps \"a\" already exists","reason":"AlreadyExists","details":{"name":"a","kind":"configmaps"},"code":409}"#),
        ("create, invalid name and key", Status::invalid("", "ConfigMap", "A_b", invalid_name_and_key()), r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"ConfigMap \"A_b\" is invalid: [metadata.name: Invalid value: \"A_b\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*'), data[k k]: Invalid value: \"k k\": a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')]","reason":"Invalid","details":{"name":"A_b","kind":"ConfigMap","causes":[{"reason":"FieldValueInvalid","message":"Invalid value: \"A_b\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')","field":"metadata.name"},{"reason":"FieldValueInvalid","message":"Invalid value: \"k k\": a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')","field":"data[k k]"}]},"code":422}"#),
        ("create, no name", Status::invalid("", "ConfigMap", "", vec![FieldError::required(&path("metadata.name"), "name or generateName is required")]), r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"ConfigMap \"\" is invalid: metadata.name: Required value: name or generateName is required","reason":"Invalid","details":{"kind":"ConfigMap","causes":[{"reason":"FieldValueRequired","message":"Required value: name or generateName is required","field":"metadata.name"}]},"code":422}"#),
        ("create, fieldValidation bogus", Status::invalid("meta.k8s.io", "CreateOptions", "", vec![FieldError::not_supported(&path("fieldValidation"), "X", &["", "Ignore", "Strict", "Warn"])]), r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"CreateOptions.meta.k8s.io \"\" is invalid: fieldValidation: Unsupported value: \"X\": supported values: \"\", \"Ignore\", \"Strict\", \"Warn\"","reason":"Invalid","details":{"group":"meta.k8s.io","kind":"CreateOptions","causes":[{"reason":"FieldValueNotSupported","message":"Unsupported value: \"X\": supported values: \"\", \"Ignore\", \"Strict\", \"Warn\"","field":"fieldValidation"}]},"code":422}"#),
        ("create, dryRun bogus", Status::invalid("meta.k8s.io", "CreateOptions", "", vec![FieldError::not_supported(&path("dryRun"), vec!["X"], &["All"])]), r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"CreateOptions.meta.k8s.io \"\" is invalid: dryRun: Unsupported value: [\"X\"]: supported values: \"All\"","reason":"Invalid","details":{"group":"meta.k8s.io","kind":"CreateOptions","causes":[{"reason":"FieldValueNotSupported","message":"Unsupported value: [\"X\"]: supported values: \"All\"","field":"dryRun"}]},"code":422}"#),
        ("invalid deployment", Status::invalid("apps", "Deployment", "e", vec![FieldError::invalid(&path("spec.replicas"), -1, "must be greater than or equal to 0"), FieldError::invalid(&path("spec.template.metadata.labels"), json!({"a": "c"}), "`selector` does not match template `labels`"), FieldError::required(&path("spec.template.spec.containers"), "")]), r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Deployment.apps \"e\" is invalid: [spec.replicas: Invalid value: -1: must be greater than or equal to 0, spec.template.metadata.labels: Invalid value: {\"a\":\"c\"}: `selector` does not match template `labels`, spec.template.spec.containers: Required value]","reason":"Invalid","details":{"name":"e","group":"apps","kind":"Deployment","causes":[{"reason":"FieldValueInvalid","message":"Invalid value: -1: must be greater than or equal to 0","field":"spec.replicas"},{"reason":"FieldValueInvalid","message":"Invalid value: {\"a\":\"c\"}: `selector` does not match template `labels`","field":"spec.template.metadata.labels"},{"reason":"FieldValueRequired","message":"Required value","field":"spec.template.spec.containers"}]},"code":422}"#),
        ("custom object, invalid", Status::invalid("example.com", "Thing", "t2", vec![FieldError::not_supported(&path("spec.kind"), "z", &["a", "b"]), FieldError::invalid(&path("spec.size"), 99, "spec.size in body should be less than or equal to 9")]), r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Thing.example.com \"t2\" is invalid: [spec.kind: Unsupported value: \"z\": supported values: \"a\", \"b\", spec.size: Invalid value: 99: spec.size in body should be less than or equal to 9]","reason":"Invalid","details":{"name":"t2","group":"example.com","kind":"Thing","causes":[{"reason":"FieldValueNotSupported","message":"Unsupported value: \"z\": supported values: \"a\", \"b\"","field":"spec.kind"},{"reason":"FieldValueInvalid","message":"Invalid value: 99: spec.size in body should be less than or equal to 9","field":"spec.size"}]},"code":422}"#),
        ("add finalizer while deleting", Status::invalid("", "ConfigMap", "a", vec![new_finalizer(), new_finalizer()]), r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"ConfigMap \"a\" is invalid: metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{\"example.com/g\"}","reason":"Invalid","details":{"name":"a","kind":"ConfigMap","causes":[{"reason":"FieldValueForbidden","message":"Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{\"example.com/g\"}","field":"metadata.finalizers"},{"reason":"FieldValueForbidden","message":"Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{\"example.com/g\"}","field":"metadata.finalizers"}]},"code":422}"#),
        ("create CustomResourceDefinition bad.example.com", Status::invalid("apiextensions.k8s.io", "CustomResourceDefinition", "bad.example.com", bad_definition()), r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"CustomResourceDefinition.apiextensions.k8s.io \"bad.example.com\" is invalid: [metadata.name: Invalid value: \"bad.example.com\": must be spec.names.plural+\".\"+spec.group, spec.versions[0].schema.openAPIV3Schema: Required value, spec.versions: Invalid value: [{\"Name\":\"v1\",\"Served\":true,\"Storage\":false,\"Deprecated\":false,\"DeprecationWarning\":null,\"Schema\":null,\"Subresources\":null,\"AdditionalPrinterColumns\":null,\"SelectableFields\":null}]: must have exactly one version marked as storage version, status.storedVersions: Invalid value: null: must have at least one stored version]","reason":"Invalid","details":{"name":"bad.example.com","group":"apiextensions.k8s.io","kind":"CustomResourceDefinition","causes":[{"reason":"FieldValueInvalid","message":"Invalid value: \"bad.example.com\": must be spec.names.plural+\".\"+spec.group","field":"metadata.name"},{"reason":"FieldValueRequired","message":"Required value","field":"spec.versions[0].schema.openAPIV3Schema"},{"reason":"FieldValueInvalid","message":"Invalid value: [{\"Name\":\"v1\",\"Served\":true,\"Storage\":false,\"Deprecated\":false,\"DeprecationWarning\":null,\"Schema\":null,\"Subresources\":null,\"AdditionalPrinterColumns\":null,\"SelectableFields\":null}]: must have exactly one version marked as storage version","field":"spec.versions"},{"reason":"FieldValueInvalid","message":"Invalid value: null: must have at least one stored version","field":"status.storedVersions"}]},"code":422}"#),
        ("create, other namespace in body", Status::bad_request("the namespace of the provided object does not match the namespace sent on the request"), r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"the namespace of the provided object does not match the namespace sent on the request","reason":"BadRequest","code":400}"#),
        ("create, resourceVersion set", Status::plain_internal("resourceVersion should not be set on objects to be created"), r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"resourceVersion should not be set on objects to be created","code":500}"#),
        ("create, unsupported media type", Status::unsupported_media_type(&["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"]), r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"the body of the request was in an unknown format - accepted media types include: application/json, application/yaml, application/vnd.kubernetes.protobuf","reason":"UnsupportedMediaType","code":415}"#),
        ("patch, plain JSON type", Status::unsupported_media_type_generic(), r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"415: Unsupported Media Type","reason":"UnsupportedMediaType","details":{},"code":415}"#),
        ("not acceptable", Status::not_acceptable(&["application/json", "application/yaml", "application/vnd.kubernetes.protobuf", "application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch"]), r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, application/vnd.kubernetes.protobuf, application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch","reason":"NotAcceptable","details":{},"code":406}"#),
        ("update, stale", Status::conflict("", "configmaps", "a", "the object has been modified; please apply your changes to the latest version and try again"), r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Operation cannot be fulfilled on configmaps \"a\": the object has been modified; please apply your changes to the latest version and try again","reason":"Conflict","details":{"name":"a","kind":"configmaps"},"code":409}"#),
        ("pod: bind again", Status::conflict("", "pods/binding", "p", "pod p is already assigned to node \"node-1\""), r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Operation cannot be fulfilled on pods/binding \"p\": pod p is already assigned to node \"node-1\"","reason":"Conflict","details":{"name":"p","kind":"pods/binding"},"code":409}"#),
        ("apply, conflict", Status::apply_conflict(vec![Cause { reason: "FieldManagerConflict".to_owned(), message: "conflict with \"me\" using v1".to_owned(), field: ".data.k".to_owned() }], "Apply failed with 1 conflict: conflict with \"me\" using v1: .data.k"), r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Apply failed with 1 conflict: conflict with \"me\" using v1: .data.k","reason":"Conflict","details":{"causes":[{"reason":"FieldManagerConflict","message":"conflict with \"me\" using v1","field":".data.k"}]},"code":409}"#),
        ("JSON patch, test fails", Status::invalid_generic(), r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"the server rejected our request due to an error in our request","reason":"Invalid","details":{},"code":422}"#),
        ("list, future revision", Status::resource_version_too_large(99_999_999, 232), r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Timeout: Too large resource version: 99999999, current: 232","reason":"Timeout","details":{"causes":[{"reason":"ResourceVersionTooLarge","message":"Too large resource version"}],"retryAfterSeconds":1},"code":504}"#),
        ("delete, dry run", Status::success(Details { name: "a".to_owned(), kind: "configmaps".to_owned(), uid: "909b9314-420f-4dbf-bc04-e45eb5b8c4eb".to_owned(), ..Details::default() }), r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","details":{"name":"a","kind":"configmaps","uid":"909b9314-420f-4dbf-bc04-e45eb5b8c4eb"}}"#),
        ("pod: bind", Status::success_with_code(201), r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":201}"#),
    ]
}

#[test]
fn untrusted_statuses_are_bounded() {
    let long = "\u{1b}[2Jé".repeat(1000);
    let mut status = Status::forbidden("", "", "", "a").with_message(long.clone());
    for _ in 0..100 {
        status = status.with_cause(&long, long.clone(), &long);
    }
    let status = status.with_continue(long.clone()).bounded(100);
    assert_eq!((status.code(), status.reason()), (403, "Forbidden"));
    assert!(status.to_json().len() < 32 * 3 * 150 + 1000, "{}", status.to_json().len());
    assert!(!status.message().contains('\u{1b}') && status.message().starts_with("[2Jé"));
    let plain = Status::service_unavailable("busy").with_cause("A", "b", "c");
    assert_eq!(plain.clone().bounded(100), plain);
}

#[test]
fn only_the_first_of_many_errors_are_shown() {
    let error = |n: usize| FieldError::invalid(&FieldPath::new("a").index(n), "x".repeat(1000), "is wrong");
    let status = Status::invalid("g", "Kind", "name", (0..10_000).map(error).collect());
    assert!(status.to_json().len() < 2 << 20, "{}", status.to_json().len());
    let shown = status.details().map_or(0, |details| details.causes.len()) - 1;
    assert!(status.message().ends_with(&format!(": {} more errors are not shown]", 10_000 - shown)));
    let status = Status::invalid("g", "Kind", "name", (0..100).map(error).collect());
    assert_eq!(status.details().map_or(0, |details| details.causes.len()), 100);
    // A single error is shown regardless of its length.
    let long = FieldError::invalid(&FieldPath::new("a"), "x".repeat(1 << 20), "is wrong");
    assert!(Status::invalid("g", "Kind", "name", vec![long]).message().ends_with("is wrong"));
}
