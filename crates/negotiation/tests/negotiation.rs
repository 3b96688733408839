//! Negotiation of one type among several clusters.

#![allow(clippy::unwrap_used)]

use atoll_crd::Definition;
use atoll_meta::Deadline;
use atoll_negotiation::{
    ClusterDefinition, ImportedDefinition, Negotiated, Objects, TimeLimit, Unused, Usage, Verdict,
    check_object, negotiate, negotiate_own,
};
use serde_json::{Value, json};

/// A definition with one version and these properties of `.spec`.
fn widgets(properties: Value) -> Value {
    json!({ "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": { "plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList" },
        "versions": [{
            "name": "v1", "served": true, "storage": true,
            "schema": { "openAPIV3Schema": { "type": "object", "properties": {
                "spec": { "type": "object", "properties": properties },
                "status": { "type": "object", "properties": { "phase": { "type": "string" } } },
            } } },
            "subresources": { "status": {} },
        }],
    } })
}

fn imported(definition: &Value) -> ImportedDefinition {
    ImportedDefinition::from_definition(definition).unwrap()
}

fn judge(definitions: &[Option<&ImportedDefinition>], usage: &dyn Usage) -> Negotiated {
    negotiate(None, &clusters(definitions), usage, &TimeLimit::none())
}

fn clusters<'d>(definitions: &[Option<&'d ImportedDefinition>]) -> Vec<ClusterDefinition<'d>> {
    let names = ["east", "west", "north", "south"];
    definitions
        .iter()
        .zip(names)
        .map(|(definition, cluster)| ClusterDefinition { cluster, definition: *definition })
        .collect()
}

/// The results in words.
fn words(negotiated: &Negotiated) -> Vec<String> {
    let names = ["east", "west", "north", "south"];
    let verdicts = negotiated.verdicts.iter().zip(names);
    verdicts
        .map(|(verdict, cluster)| match verdict {
            Verdict::Compatible { versions, remarks } => {
                [vec![versions.join(",")], remarks.describe(cluster)].concat().join("; ")
            }
            Verdict::Incompatible(fields) => fields.describe(cluster).join("; "),
            Verdict::OtherVersion { versions } => format!("other: {}", versions.join(",")),
            Verdict::NotServed => "-".to_owned(),
        })
        .collect()
}

fn properties(negotiated: &Negotiated) -> Vec<String> {
    let offered = negotiated.offered.as_ref().unwrap();
    let spec = offered.versions[0].schema.pointer("/properties/spec/properties").unwrap();
    spec.as_object().unwrap().keys().cloned().collect()
}

#[test]
fn clusters_that_serve_the_type_share_a_schema() {
    let ab = imported(&widgets(json!({ "a": { "type": "string" }, "b": { "type": "string" } })));
    let a = imported(&widgets(json!({ "a": { "type": "string" } })));
    let negotiated = judge(&[None, Some(&ab), Some(&a), Some(&ab)], &Unused);
    assert_eq!(words(&negotiated), ["-", "v1", "v1", "v1"]);
    assert_eq!(properties(&negotiated), ["a"]);
    assert_eq!(judge(&[None, None], &Unused).offered, None);
}

#[test]
fn a_schema_in_use_stays() {
    let ab = imported(&widgets(json!({ "a": { "type": "string" }, "b": { "type": "string" } })));
    let a = imported(&widgets(json!({ "a": { "type": "string" } })));
    let object = |spec: Value| json!({ "apiVersion": "example.com/v1", "kind": "Widget", "metadata": { "name": "x" }, "spec": spec });
    let unrelated = [object(json!({ "a": "1" }))];
    let negotiated = judge(&[Some(&ab), Some(&a)], &Objects(&unrelated));
    assert_eq!(words(&negotiated), ["v1", "v1"]);
    let used = [object(json!({ "a": "1" })), object(json!({ "b": "1" }))];
    let negotiated = judge(&[Some(&ab), Some(&a)], &Objects(&used));
    let sentence = ".spec.b: present in the offered schema, absent in cluster west";
    assert_eq!(words(&negotiated), ["v1", sentence]);
    assert_eq!(properties(&negotiated), ["a", "b"]);
}

#[test]
fn the_former_offer_stays_while_its_objects_need_it() {
    let text = imported(&widgets(json!({ "a": { "type": "string" }, "b": { "type": "string" } })));
    let number = imported(&widgets(json!({ "a": { "type": "integer" } })));
    let object = json!({ "apiVersion": "example.com/v1", "kind": "Widget", "metadata": { "name": "x" }, "spec": { "a": "1" } });
    let all = clusters(&[Some(&number), Some(&text)]);
    // The cluster that comes first has changed the type of a field.
    let negotiated =
        negotiate(Some(&text), &all, &Objects(std::slice::from_ref(&object)), &TimeLimit::none());
    let sentence = ".spec.a: string in the offered schema, integer in cluster east";
    assert_eq!(words(&negotiated), [sentence, "v1"]);
    assert_eq!(properties(&negotiated), ["a", "b"]);
    // Without objects the clusters define the type anew.
    let negotiated = negotiate(Some(&text), &all, &Unused, &TimeLimit::none());
    assert_eq!(words(&negotiated), ["v1", ".spec.a: integer in the offered schema, string in cluster west"]);
    // A field that no object uses may go, and new ones may come.
    let other = imported(&widgets(json!({ "a": { "type": "string" }, "c": { "type": "string" } })));
    let negotiated =
        negotiate(Some(&text), &clusters(&[Some(&other)]), &Objects(&[object]), &TimeLimit::none());
    assert_eq!(properties(&negotiated), ["a", "c"]);
}

/// Only the cluster whose schema takes too long loses, and it is not asked twice.
#[test]
fn a_comparison_has_a_time_limit() {
    let list = |items: Value| imported(&widgets(json!({ "t": { "type": "array", "items": items } })));
    let text = list(json!({ "type": "string" }));
    let slow = list(json!({ "type": "string", "pattern": "^[ab]*$" }));
    let other = imported(&widgets(json!({ "t": { "type": "integer" } })));
    let object = json!({
        "apiVersion": "example.com/v1", "kind": "Widget", "metadata": { "name": "x" },
        "spec": { "t": vec!["ab"; 20_000] },
    });
    let objects = Objects(std::slice::from_ref(&object));
    let all = clusters(&[Some(&text), Some(&slow), Some(&other), Some(&text)]);
    let unlimited = negotiate(None, &all, &objects, &TimeLimit::none());
    assert_eq!(words(&unlimited)[1], "v1");
    let (clock, reads) = (std::cell::Cell::new(0), std::cell::Cell::new(0));
    // Each look at the clock takes a second.
    let now = || {
        reads.set(reads.get() + 1);
        clock.set(clock.get() + 1);
        std::time::Duration::from_secs(clock.get())
    };
    let time = TimeLimit { now: &now, limit: std::time::Duration::from_secs(5) };
    let integer = ".spec.t: array in the offered schema, integer in cluster north";
    let sentence = ".: a schema that can be compared in the offered schema, a schema that takes too long to compare in cluster west";
    for former in [None, Some(&text)] {
        reads.set(0);
        let negotiated = negotiate(former, &all, &objects, &time);
        assert_eq!(words(&negotiated), ["v1", sentence, integer, "v1"]);
        assert_eq!(negotiated.offered.as_ref(), Some(&text));
        assert!(reads.get() < 20, "{}", reads.get());
    }
}

#[test]
fn a_definition_of_the_workspace_is_never_changed() {
    let own = imported(&widgets(json!({ "a": { "type": "string" }, "b": { "type": "string" } })));
    let a = imported(&widgets(json!({ "a": { "type": "string" } })));
    let abc = imported(&widgets(json!({
        "a": { "type": "string" }, "b": { "type": "string" }, "c": { "type": "string" },
    })));
    let negotiated = negotiate_own(&own, &clusters(&[Some(&a), Some(&abc), None]));
    let sentence = ".spec.b: present in the offered schema, absent in cluster east";
    assert_eq!(words(&negotiated), [sentence, "v1", "-"]);
    assert_eq!(negotiated.offered, Some(own));
}

#[test]
fn names_scope_and_versions_must_agree() {
    let schema = json!({ "a": { "type": "string" } });
    let one = widgets(schema);
    let mut kind = one.clone();
    kind["spec"]["names"]["kind"] = "Gadget".into();
    let mut scope = one.clone();
    scope["spec"]["scope"] = "Cluster".into();
    let mut version = one.clone();
    version["spec"]["versions"][0]["name"] = "v2".into();
    let [one, kind, scope, version] = [one, kind, scope, version].map(|definition| imported(&definition));
    let negotiated = judge(&[Some(&one), Some(&kind), Some(&scope), Some(&version)], &Unused);
    assert_eq!(
        words(&negotiated),
        [
            "v1",
            "kind: Widget in the offered schema, Gadget in cluster west",
            "scope: namespaced in the offered schema, cluster-scoped in cluster north",
            "other: v2",
        ]
    );
}

#[test]
fn a_cluster_may_serve_some_of_the_versions() {
    let mut both = widgets(json!({ "a": { "type": "string" } }));
    let mut old = both["spec"]["versions"][0].clone();
    old["name"] = "v1beta1".into();
    old["storage"] = false.into();
    both["spec"]["versions"] = json!([old, both["spec"]["versions"][0]]);
    let (both, one) = (imported(&both), imported(&widgets(json!({ "a": { "type": "string" } }))));
    assert_eq!(both.version_names(), ["v1", "v1beta1"], "the storage version is preferred");
    let negotiated = judge(&[Some(&both), Some(&one)], &Unused);
    assert_eq!(
        words(&negotiated),
        ["v1,v1beta1", "v1; version v1beta1: served in the offered schema, not served in cluster west"]
    );
    let unserved = json!({ "spec": { "versions": [{ "name": "v1", "served": false, "storage": true }] } });
    assert_eq!(words(&judge(&[Some(&imported(&unserved)), Some(&one)], &Unused)), ["-", "v1"]);
}

#[test]
fn subresources_must_not_lose_fields() {
    let with = widgets(json!({ "replicas": { "type": "integer" } }));
    let mut without = with.clone();
    without["spec"]["versions"][0]["subresources"] = json!({});
    let scaled = |path: &str| {
        let mut definition = with.clone();
        definition["spec"]["versions"][0]["subresources"]["scale"] =
            json!({ "specReplicasPath": path, "statusReplicasPath": ".status.replicas" });
        imported(&definition)
    };
    let (with, without) = (imported(&with), imported(&without));
    assert_eq!(
        words(&judge(&[Some(&with), Some(&without)], &Unused)),
        ["v1", "v1; .status: a subresource in the offered schema, an ordinary field in cluster west"]
    );
    assert_eq!(
        words(&judge(&[Some(&without), Some(&with)], &Unused)),
        ["v1", ".status: an ordinary field in the offered schema, a subresource in cluster west"]
    );
    let (one, other) = (scaled(".spec.replicas"), scaled(".spec.size"));
    assert_eq!(
        words(&judge(&[Some(&one), Some(&other), Some(&with)], &Unused)),
        [
            "v1",
            "scale specReplicasPath: .spec.replicas in the offered schema, .spec.size in cluster west",
            "v1; scale: a subresource in the offered schema, no subresource in cluster north",
        ]
    );
}

#[test]
fn a_contradiction_ends_with_the_field() {
    let text = imported(&widgets(json!({ "a": { "type": "string" }, "b": { "type": "string" } })));
    let number = imported(&widgets(json!({ "a": { "type": "string" }, "b": { "type": "integer" } })));
    let without = imported(&widgets(json!({ "a": { "type": "string" } })));
    // The third cluster lacks the field, which then no longer concerns the second one.
    let negotiated = judge(&[Some(&text), Some(&number), Some(&without)], &Unused);
    assert_eq!(words(&negotiated), ["v1", "v1", "v1"]);
    assert_eq!(properties(&negotiated), ["a"]);
}

#[test]
fn merged_definitions_are_definitions() {
    let source = widgets(json!({ "a": { "type": "string" } }));
    let definition = imported(&source).to_definition();
    assert_eq!(definition["metadata"]["name"], "widgets.example.com");
    for field in ["group", "names", "scope", "versions"] {
        assert_eq!(definition["spec"][field], source["spec"][field], "{field}");
    }
    assert_eq!(imported(&definition), imported(&source));
}

#[test]
fn problems_of_objects_name_the_field() {
    let mut source = widgets(json!({
        "size": { "type": "integer", "maximum": 3, "default": 2 },
        "ports": { "type": "array", "items": { "type": "object", "properties": { "name": { "type": "string" } } } },
    }));
    let rules = json!([{ "rule": "self.size != 1", "message": "one is odd" }]);
    source["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["x-kubernetes-validations"] =
        rules;
    let definition = Definition::compile(&source);
    let problems = |api_version: &str, kind: &str, spec: Value| {
        let object =
            json!({ "apiVersion": api_version, "kind": kind, "metadata": { "name": "x" }, "spec": spec });
        let problems = check_object(&definition, &object, &Deadline::never());
        problems.iter().map(|problem| problem.describe("east")).collect::<Vec<_>>()
    };
    let table: [(&str, &str, Value, &[&str]); 7] = [
        ("example.com/v1", "Widget", json!({ "size": 2, "ports": [{ "name": "web" }] }), &[]),
        ("example.com/v1", "Widget", json!({}), &[]),
        (
            "example.com/v1",
            "Widget",
            json!({ "color": "red", "ports": [{ "name": "web", "port": 1 }] }),
            &[
                "cluster east does not accept .spec.color: unknown field",
                "cluster east does not accept .spec.ports[0].port: unknown field",
            ],
        ),
        (
            "example.com/v1",
            "Widget",
            json!({ "size": 7 }),
            &[
                "cluster east does not accept .spec.size: Invalid value: 7: spec.size in body should be less than or equal to 3",
            ],
        ),
        (
            "example.com/v1",
            "Widget",
            json!({ "size": 1 }),
            &["cluster east does not accept .spec: Invalid value: one is odd"],
        ),
        (
            "example.com/v2",
            "Widget",
            json!({}),
            &["cluster east does not accept .apiVersion: example.com/v2 is not served"],
        ),
        (
            "example.com/v1",
            "Gadget",
            json!({}),
            &["cluster east does not accept .kind: Invalid value: \"Gadget\": must be Widget"],
        ),
    ];
    for (api_version, kind, spec, expected) in table {
        assert_eq!(problems(api_version, kind, spec.clone()), expected, "{api_version} {kind} {spec}");
    }
}
