//! Effects of Go's decoding and encoding on objects.

use atoll_schema::{Types, normalise};
use serde_json::{Value, json};

fn run(kind: (&str, &str, &str), mut value: Value) -> Result<(Value, Vec<String>), String> {
    let types = Types::get();
    let id = types.by_kind(kind.0, kind.1, kind.2).expect("a kind that is served");
    match normalise(types, id, &mut value) {
        Ok(unknown) => Ok((value, unknown.iter().map(ToString::to_string).collect())),
        Err(mismatch) => Err(mismatch.to_string()),
    }
}

const CONFIG_MAP: (&str, &str, &str) = ("", "v1", "ConfigMap");
const POD: (&str, &str, &str) = ("", "v1", "Pod");
const CRD: (&str, &str, &str) = ("apiextensions.k8s.io", "v1", "CustomResourceDefinition");

#[test]
fn values_are_normalised_as_in_go() {
    type Kind = (&'static str, &'static str, &'static str);
    let cases: &[(&str, Kind, Value, Value)] = &[
        (
            "nothing to do",
            CONFIG_MAP,
            json!({"metadata": {"name": "a"}, "data": {"a": "1"}}),
            json!({"metadata": {"name": "a"}, "data": {"a": "1"}}),
        ),
        ("null is unset", CONFIG_MAP, json!({"data": null, "immutable": null}), json!({"metadata": {}})),
        (
            "null in a map is the zero value",
            CONFIG_MAP,
            json!({"data": {"a": null}}),
            json!({"metadata": {}, "data": {"a": ""}}),
        ),
        ("empty is unset", CONFIG_MAP, json!({"data": {}, "kind": ""}), json!({"metadata": {}})),
        (
            "a pointer to false stays",
            CONFIG_MAP,
            json!({"immutable": false}),
            json!({"metadata": {}, "immutable": false}),
        ),
        (
            "structs are always written",
            POD,
            json!({}),
            json!({"metadata": {}, "spec": {"containers": null}, "status": {}}),
        ),
        (
            "within lists too",
            POD,
            json!({"spec": {"containers": [{}, null]}}),
            json!({"metadata": {}, "spec": {"containers": [{"name": "", "resources": {}}, {"name": "", "resources": {}}]}, "status": {}}),
        ),
        (
            "embedded structs lie flat",
            POD,
            json!({"spec": {"containers": [], "volumes": [{"name": "a", "emptyDir": {}}]}}),
            json!({"metadata": {}, "spec": {"containers": [], "volumes": [{"name": "a", "emptyDir": {}}]}, "status": {}}),
        ),
        (
            "times become UTC",
            CONFIG_MAP,
            json!({"metadata": {"creationTimestamp": "2020-01-01T01:00:00.5+02:00"}}),
            json!({"metadata": {"creationTimestamp": "2019-12-31T23:00:00Z"}}),
        ),
        (
            "the zero time is unset",
            CONFIG_MAP,
            json!({"metadata": {"creationTimestamp": "0001-01-01T00:00:00Z"}}),
            json!({"metadata": {}}),
        ),
        (
            "quantities",
            POD,
            json!({"spec": {"containers": [{"name": "a", "resources": {"limits": {"cpu": 1, "memory": "1024Mi", "a": "0.5", "b": null}}}]}}),
            json!({"metadata": {}, "spec": {"containers": [{"name": "a", "resources": {"limits": {"cpu": "1", "memory": "1Gi", "a": "500m", "b": "0"}}}]}, "status": {}}),
        ),
        (
            "int or string",
            POD,
            json!({"spec": {"containers": [{"name": "a", "livenessProbe": {"httpGet": {"port": null}}, "readinessProbe": {"tcpSocket": {"port": ""}}}]}}),
            json!({"metadata": {}, "spec": {"containers": [{"name": "a", "resources": {}, "livenessProbe": {"httpGet": {"port": 0}}, "readinessProbe": {"tcpSocket": {"port": ""}}}]}, "status": {}}),
        ),
        (
            "bytes",
            ("", "v1", "Secret"),
            json!({"data": {"a": "YQ==", "b": "YR\n==", "c": null, "d": [1, 2]}}),
            json!({"metadata": {}, "data": {"a": "YQ==", "b": "YQ==", "c": null, "d": "AQI="}}),
        ),
        (
            "raw extensions are kept",
            ("apps", "v1", "ControllerRevision"),
            json!({"data": {"a": null, "b": {"c": 1}}, "revision": 0}),
            json!({"metadata": {}, "data": {"a": null, "b": {"c": 1}}, "revision": 0}),
        ),
        (
            "and null where they are unset",
            ("apps", "v1", "ControllerRevision"),
            json!({}),
            json!({"metadata": {}, "data": null, "revision": 0}),
        ),
    ];
    for (name, kind, input, expected) in cases {
        let (value, unknown) = run(*kind, input.clone()).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(value, *expected, "{name}");
        assert_eq!(unknown, [""; 0], "{name}");
    }
}

#[test]
fn crd_schemas_have_custom_unmarshalers() {
    let schema = |schema: Value| json!({"spec": {"group": "", "names": {"plural": "", "kind": ""}, "scope": "", "versions": [{"name": "v1", "served": false, "storage": false, "schema": {"openAPIV3Schema": schema}}]}});
    let input = schema(json!({
        "items": {"type": "string", "unknown": 1}, "additionalProperties": true, "default": {"a": null}, "maximum": 1.0,
        "properties": {"a": {"x": 1, "additionalProperties": {"maxLength": 1}}}
    }));
    let (value, unknown) = run(CRD, input).unwrap();
    assert_eq!(
        value["spec"]["versions"][0]["schema"]["openAPIV3Schema"],
        json!({"items": {"type": "string"}, "additionalProperties": true, "default": {"a": null}, "maximum": 1,
               "properties": {"a": {"additionalProperties": {"maxLength": 1}}}})
    );
    // Strict decoding does not check types with custom unmarshalers.
    assert_eq!(unknown, ["unknown field \"spec.versions[0].schema.openAPIV3Schema.properties.a.x\""]);
    assert_eq!(
        run(CRD, schema(json!({"properties": {"a": {"items": {"properties": {"b": 1}}}}}))).unwrap_err(),
        "json: cannot unmarshal number into Go struct field JSONSchemaProps.spec.versions.schema.openAPIV3Schema.\
         properties.items.properties of type v1.JSONSchemaProps"
    );
    assert_eq!(
        run(CRD, schema(json!({"additionalProperties": 1}))).unwrap_err(),
        "boolean or JSON schema expected"
    );
}

#[test]
fn unknown_fields_are_removed_and_reported() {
    let input = json!({
        "metadata": {"name": "z", "foo": 1}, "bar": null,
        "spec": {"containers": [{"name": "a", "resources": {}, "foo": {}}], "nodeSelector": {"a": "b"}, "Volumes": []}
    });
    let (value, mut unknown) = run(POD, input).unwrap();
    let spec = json!({"containers": [{"name": "a", "resources": {}}], "nodeSelector": {"a": "b"}});
    assert_eq!(value, json!({"metadata": {"name": "z"}, "spec": spec, "status": {}}));
    unknown.sort();
    assert_eq!(
        unknown,
        [
            "unknown field \"bar\"",
            "unknown field \"metadata.foo\"",
            "unknown field \"spec.Volumes\"",
            "unknown field \"spec.containers[0].foo\""
        ]
    );
}

#[test]
fn mismatches_have_go_messages() {
    let container = |container: Value| json!({"spec": {"containers": [container]}});
    let cases = [
        (
            CONFIG_MAP,
            json!({"metadata": {"labels": {"a": 1}}}),
            "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string",
        ),
        (CONFIG_MAP, json!([]), "json: cannot unmarshal array into Go value of type v1.ConfigMap"),
        (
            CONFIG_MAP,
            json!({"kind": 1}),
            "json: cannot unmarshal number into Go struct field ConfigMap.TypeMeta.kind of type string",
        ),
        (
            CONFIG_MAP,
            json!({"data": []}),
            "json: cannot unmarshal array into Go struct field ConfigMap.data of type map[string]string",
        ),
        (
            CONFIG_MAP,
            json!({"binaryData": {"a": 1}}),
            "json: cannot unmarshal number into Go struct field ConfigMap.binaryData of type []uint8",
        ),
        (CONFIG_MAP, json!({"binaryData": {"a": "YQ="}}), "illegal base64 data at input byte 3"),
        (
            CONFIG_MAP,
            json!({"metadata": {"creationTimestamp": 1}}),
            "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.creationTimestamp of type string",
        ),
        (
            CONFIG_MAP,
            json!({"metadata": {"creationTimestamp": "x"}}),
            "parsing time \"x\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"x\" as \"2006\"",
        ),
        (
            POD,
            json!({"spec": {"containers": {}}}),
            "json: cannot unmarshal object into Go struct field PodSpec.spec.containers of type []v1.Container",
        ),
        (
            POD,
            container(json!({"ports": [{"containerPort": 99_999_999_999_u64}]})),
            "json: cannot unmarshal number 99999999999 into Go struct field ContainerPort.spec.containers.ports.containerPort of type int32",
        ),
        (
            POD,
            container(json!({"ports": [{"containerPort": 1.5}]})),
            "json: cannot unmarshal number 1.5 into Go struct field ContainerPort.spec.containers.ports.containerPort of type int32",
        ),
        (
            POD,
            container(json!({"imagePullPolicy": true})),
            "json: cannot unmarshal bool into Go struct field Container.spec.containers.imagePullPolicy of type v1.PullPolicy",
        ),
        (
            POD,
            container(json!({"resources": {"limits": "x"}})),
            "json: cannot unmarshal string into Go struct field ResourceRequirements.spec.containers.resources.limits of type v1.ResourceList",
        ),
        (
            POD,
            container(json!({"resources": {"limits": {"cpu": "x"}}})),
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
        (
            POD,
            container(json!({"livenessProbe": {"httpGet": {"port": true}}})),
            "json: cannot unmarshal bool into Go struct field HTTPGetAction.spec.containers.livenessProbe.ProbeHandler.httpGet.port of type int32",
        ),
    ];
    for (kind, input, expected) in cases {
        assert_eq!(run(kind, input).unwrap_err(), expected);
    }
}
