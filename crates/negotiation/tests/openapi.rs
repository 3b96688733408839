//! Definitions from discovery and OpenAPI v3 documents: small ones, and those of Kubernetes.

#![allow(clippy::unwrap_used)]

use std::path::PathBuf;
use std::process::Command;

use atoll_crd::{Definition, Schema};
use atoll_meta::Deadline;
use atoll_negotiation::{
    DiscoveredResource, ImportedDefinition, bounds, check_object, compare, lost_fields, openapi,
};
use serde_json::{Value, json};

fn resources() -> Vec<DiscoveredResource> {
    DiscoveredResource::of_list(&json!({ "groupVersion": "example.com/v1", "resources": [
        {
            "name": "widgets", "singularName": "widget", "namespaced": true, "kind": "Widget",
            "verbs": ["create", "delete", "get", "list", "watch"], "shortNames": ["wd"],
        },
        { "name": "widgets/status", "namespaced": true, "kind": "Widget", "verbs": ["get"] },
        { "name": "widgets/scale", "namespaced": true, "kind": "Scale", "verbs": ["get"] },
        { "name": "reviews", "singularName": "review", "namespaced": false, "kind": "Review", "verbs": ["create"] },
    ] }))
}

fn document(schemas: Value) -> Value {
    let mut document = json!({ "openapi": "3.0.0", "components": { "schemas": schemas } });
    document["components"]["schemas"]["a.Widget"]["x-kubernetes-group-version-kind"] =
        json!([{ "group": "example.com", "version": "v1", "kind": "Widget" }]);
    document
}

/// The definition of widgets with these schemas.
fn widgets(schemas: Value) -> ImportedDefinition {
    let mut found = openapi::definitions("example.com", "v1", &resources(), &document(schemas));
    assert_eq!(found.len(), 1, "reviews hold no objects");
    found.remove(0).1.unwrap()
}

#[test]
fn references_become_structural_schemas() {
    let definition = widgets(json!({
        "a.Widget": { "type": "object", "description": "d", "properties": {
            "apiVersion": { "type": "string" },
            "metadata": { "allOf": [{ "$ref": "#/components/schemas/a.Meta" }], "default": {} },
            "spec": { "allOf": [{ "$ref": "#/components/schemas/a.Spec" }], "default": {}, "description": "d" },
        } },
        "a.Meta": { "type": "object", "properties": { "name": { "type": "string" } } },
        "a.Spec": { "type": "object", "required": ["port"], "properties": {
            "port": { "$ref": "#/components/schemas/a.IntOrString" },
            "any": { "description": "anything" },
            "raw": { "type": "object" },
            "time": { "type": "string", "format": "date-time" },
            "policy": { "type": "string", "default": "Always" },
            "zero": { "type": "string", "default": "" },
            "labels": { "type": "object", "additionalProperties": { "type": "string", "default": "" } },
            "env": {
                "type": "array", "items": { "allOf": [{ "$ref": "#/components/schemas/a.Env" }] },
                "x-kubernetes-patch-merge-key": "name", "x-kubernetes-patch-strategy": "merge,retainKeys",
            },
            "names": { "type": "array", "items": { "type": "string" }, "x-kubernetes-patch-strategy": "merge" },
            "tree": { "$ref": "#/components/schemas/a.Tree" },
            "missing": { "$ref": "#/components/schemas/a.Missing" },
        } },
        "a.IntOrString": { "format": "int-or-string", "oneOf": [{ "type": "integer" }, { "type": "string" }] },
        "a.Env": { "type": "object", "properties": { "name": { "type": "string" } } },
        "a.Tree": { "type": "object", "properties": {
            "leaf": { "type": "string" }, "left": { "$ref": "#/components/schemas/a.Tree" },
        } },
    }));
    assert_eq!(definition.names.kind.as_ref(), "Widget");
    assert_eq!(definition.names.short_names.as_ref(), ["wd".into()]);
    assert!(definition.is_namespaced);
    let version = &definition.versions[0];
    assert!(version.has_status && version.scale.is_some());
    let preserved = json!({ "x-kubernetes-preserve-unknown-fields": true });
    let preserved_object = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let expected = json!({ "type": "object", "properties": {
        "apiVersion": { "type": "string" },
        "metadata": { "type": "object" },
        "spec": { "type": "object", "required": ["port"], "properties": {
            "port": { "x-kubernetes-int-or-string": true },
            "any": preserved,
            "raw": preserved_object,
            "time": { "type": "string", "format": "date-time" },
            "policy": { "type": "string", "default": "Always" },
            "zero": { "type": "string" },
            "labels": { "type": "object", "additionalProperties": { "type": "string" } },
            "env": {
                "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                "items": { "type": "object", "required": ["name"], "properties": { "name": { "type": "string" } } },
            },
            "names": { "type": "array", "items": { "type": "string" }, "x-kubernetes-list-type": "set" },
            "tree": { "type": "object", "properties": {
                "leaf": { "type": "string" }, "left": preserved_object,
            } },
            "missing": preserved,
        } },
    } });
    assert_eq!(version.schema, expected);
}

#[test]
fn hostile_documents_are_bounded() {
    // Each schema refers twice to the next one.
    let mut schemas = json!({ "a.Widget": { "type": "object", "properties": { "x": { "$ref": "#/components/schemas/s0" } } } });
    for index in 0..40 {
        let next = format!("#/components/schemas/s{}", index + 1);
        schemas[format!("s{index}")] =
            json!({ "type": "object", "properties": { "a": { "$ref": next }, "b": { "$ref": next } } });
    }
    let mut found = openapi::definitions("example.com", "v1", &resources(), &document(schemas));
    assert_eq!(found.remove(0).1.unwrap_err(), bounds::Excess::Size);
    let mut deep = json!({ "type": "string" });
    for _ in 0..100 {
        deep = json!({ "type": "array", "items": deep });
    }
    let definition = widgets(json!({ "a.Widget": { "type": "object", "properties": { "x": deep } } }));
    assert_eq!(bounds::check(&definition.versions[0].schema), Ok(()));
    let odd =
        json!({ "components": { "schemas": { "a": [], "b": { "x-kubernetes-group-version-kind": 7 } } } });
    let found = openapi::definitions("example.com", "v1", &resources(), &odd);
    assert!(found[0].1.is_ok(), "a type without a schema accepts any fields");
}

#[test]
fn versions_of_a_type_are_combined() {
    let one = widgets(json!({ "a.Widget": { "type": "object" } }));
    let mut other = one.clone();
    other.versions[0].name = "v1beta1".into();
    let combined = openapi::combine([one, other]);
    assert_eq!(combined.len(), 1);
    assert_eq!(combined[0].version_names(), ["v1", "v1beta1"]);
}

#[test]
fn aggregated_discovery_says_the_same() {
    let version = json!({ "version": "v1", "resources": [
        {
            "resource": "widgets", "singularResource": "widget", "scope": "Namespaced",
            "responseKind": { "group": "example.com", "version": "v1", "kind": "Widget" },
            "verbs": ["create", "delete", "get", "list", "watch"], "shortNames": ["wd"],
            "subresources": [{ "subresource": "status" }, { "subresource": "scale" }],
        },
        { "resource": "reviews", "singularResource": "review", "scope": "Cluster",
          "responseKind": { "kind": "Review" }, "verbs": ["create"] },
    ] });
    assert_eq!(DiscoveredResource::of_version(&version), resources());
}

/// The directory of Kubernetes' API documents. Prints a message and returns `None` without Go.
fn kubernetes() -> Option<PathBuf> {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../upstream/1.36");
    let mut command = Command::new("go");
    command.args(["mod", "download", "-json", "k8s.io/kubernetes"]).current_dir(directory);
    let Ok(output) = command.env("GOWORK", "off").output() else {
        assert!(std::env::var_os("ATOLL_REQUIRE_UPSTREAM").is_none(), "Go is required here");
        println!("skipped: Kubernetes' documents need Go, which is not installed");
        return None;
    };
    let module: Value = serde_json::from_slice(&output.stdout).unwrap();
    Some(PathBuf::from(module["Dir"].as_str().unwrap_or_else(|| panic!("{module}"))).join("api"))
}

fn read(path: PathBuf) -> Value {
    let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_slice(&bytes).unwrap()
}

/// All definitions of a group version of Kubernetes.
fn built_in(directory: &std::path::Path, group: &str, version: &str) -> Vec<ImportedDefinition> {
    let name = if group.is_empty() { format!("api__{version}") } else { format!("apis__{group}__{version}") };
    let document = read(directory.join(format!("openapi-spec/v3/{name}_openapi.json")));
    let resources = DiscoveredResource::of_list(&read(directory.join(format!("discovery/{name}.json"))));
    let definitions = openapi::definitions(group, version, &resources, &document);
    definitions
        .into_iter()
        .map(|(name, definition)| definition.unwrap_or_else(|excess| panic!("{name}: {excess:?}")))
        .collect()
}

fn find<'d>(definitions: &'d [ImportedDefinition], plural: &str) -> &'d ImportedDefinition {
    definitions.iter().find(|definition| definition.names.plural.as_ref() == plural).unwrap()
}

#[test]
fn documents_of_kubernetes_become_definitions() {
    let Some(directory) = kubernetes() else { return };
    let groups = [
        ("", "v1"),
        ("apps", "v1"),
        ("batch", "v1"),
        ("autoscaling", "v2"),
        ("apiextensions.k8s.io", "v1"),
        ("networking.k8s.io", "v1"),
        ("rbac.authorization.k8s.io", "v1"),
    ];
    let mut count = 0;
    for (group, version) in groups {
        for definition in built_in(&directory, group, version) {
            let schema = &definition.versions[0].schema;
            assert_eq!(bounds::check(schema), Ok(()), "{}", definition.names.kind);
            assert!(schema.pointer("/properties").is_some(), "{}", definition.names.kind);
            let own = compare(schema, schema, &Deadline::never());
            assert!(own.losses.is_empty() && own.contradictions.is_empty(), "{own:?}");
            count += 1;
        }
    }
    assert!(count > 30, "{count} definitions");
    let apps = built_in(&directory, "apps", "v1");
    let deployments = find(&apps, "deployments");
    assert!(deployments.versions[0].has_status && deployments.versions[0].scale.is_some());
    let definition = Definition::compile(&deployments.to_definition());
    let container = json!({ "name": "web", "image": "web:1", "ports": [{ "containerPort": 80 }],
        "resources": { "requests": { "cpu": "100m", "memory": 1024 } },
        "livenessProbe": { "httpGet": { "port": "http" } } });
    let mut deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web" },
        "spec": {
            "replicas": 2, "selector": { "matchLabels": { "app": "web" } },
            "template": { "metadata": { "labels": { "app": "web" } }, "spec": { "containers": [container] } },
        },
    });
    assert_eq!(check_object(&definition, &deployment, &Deadline::never()), []);
    deployment["spec"]["template"]["spec"]["containers"][0]["colour"] = "red".into();
    deployment["spec"]["replicas"] = "two".into();
    let problems = check_object(&definition, &deployment, &Deadline::never());
    let mut fields: Vec<&str> = problems.iter().map(|problem| problem.field.as_str()).collect();
    fields.dedup();
    assert_eq!(fields, [".spec.replicas", ".spec.template.spec.containers[0].colour"]);
    let recursive = built_in(&directory, "apiextensions.k8s.io", "v1");
    let schema = &find(&recursive, "customresourcedefinitions").versions[0].schema;
    let nested = schema.pointer("/properties/spec/properties/versions/items/properties/schema/properties/openAPIV3Schema/properties/not").unwrap();
    assert_eq!(*nested, json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true }));
}

#[test]
fn fields_that_another_version_lacks_are_lost() {
    let Some(directory) = kubernetes() else { return };
    let (one, two) = (built_in(&directory, "autoscaling", "v1"), built_in(&directory, "autoscaling", "v2"));
    let name = "horizontalpodautoscalers";
    let older = Schema::compile(Some(&find(&one, name).versions[0].schema), false);
    let object = json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": { "name": "web" },
        "spec": {
            "maxReplicas": 3, "minReplicas": 1, "scaleTargetRef": { "kind": "Deployment", "name": "web" },
            "behavior": { "scaleDown": { "stabilizationWindowSeconds": 5 } },
            "metrics": [{ "type": "Resource" }],
        },
    });
    assert_eq!(lost_fields(&older, &object), [".spec.behavior", ".spec.metrics"]);
    let newer = Schema::compile(Some(&find(&two, name).versions[0].schema), false);
    assert_eq!(lost_fields(&newer, &object), Vec::<String>::new());
    let comparison = compare(
        &find(&two, name).versions[0].schema,
        &find(&one, name).versions[0].schema,
        &Deadline::never(),
    );
    let lost: Vec<&str> = comparison.losses.listed().iter().map(|loss| loss.field.as_str()).collect();
    assert!(lost.starts_with(&[".spec.behavior", ".spec.metrics", ".status.conditions"]), "{lost:?}");
}
