use atoll_schema::Types;
use serde_json::{Value, json};

use super::*;

type Kind = (&'static str, &'static str, &'static str);

const CONFIG_MAP: Kind = ("", "v1", "ConfigMap");
const POD: Kind = ("", "v1", "Pod");
const SERVICE: Kind = ("", "v1", "Service");
const BUDGET: Kind = ("policy", "v1", "PodDisruptionBudget");
const CRD: Kind = ("apiextensions.k8s.io", "v1", "CustomResourceDefinition");

fn merged((group, version, kind): Kind, mut target: Value, mut patch: Value) -> Result<Value, PatchError> {
    let types = Types::get();
    let id = types.by_kind(group, version, kind).unwrap();
    strategic_merge(types, id, &mut target, &mut patch)?;
    Ok(target)
}

fn finalizers(list: Value) -> Value {
    json!({"metadata": {"finalizers": list}})
}

fn owners(list: Value) -> Value {
    json!({"metadata": {"ownerReferences": list}})
}

#[test]
fn maps() {
    let cases = [
        (
            "fields are merged",
            json!({"data": {"a": "1"}}),
            json!({"data": {"b": "2"}}),
            json!({"data": {"a": "1", "b": "2"}}),
        ),
        (
            "null removes",
            json!({"data": {"a": "1", "b": "2"}}),
            json!({"data": {"a": null, "c": null}}),
            json!({"data": {"b": "2"}}),
        ),
        (
            "nulls in what is new are dropped",
            json!({}),
            json!({"data": {"a": null, "b": "2"}}),
            json!({"data": {"b": "2"}}),
        ),
        ("null patch", json!({"data": {"a": "1"}}), json!(null), json!({"data": {"a": "1"}})),
        (
            "replaced",
            json!({"data": {"a": "1"}}),
            json!({"data": {"$patch": "replace", "b": "2"}}),
            json!({"data": {"b": "2"}}),
        ),
        (
            "emptied",
            json!({"data": {"a": "1"}}),
            json!({"data": {"$patch": "delete", "b": "2"}}),
            json!({"data": {}}),
        ),
        ("deleted where there is nothing", json!({}), json!({"data": {"$patch": "delete"}}), json!({})),
        (
            "another type replaces",
            json!({"data": {"a": "1"}}),
            json!({"data": ["x"]}),
            json!({"data": ["x"]}),
        ),
        (
            "keys are retained",
            json!({"data": {"a": "1", "b": "2", "c": "3"}}),
            json!({"data": {"$retainKeys": ["a", "b", 5], "b": "4", "c": null}}),
            json!({"data": {"a": "1", "b": "4"}}),
        ),
        (
            "the whole object",
            json!({"data": {"a": "1"}}),
            json!({"$patch": "replace", "kind": "x"}),
            json!({"kind": "x"}),
        ),
    ];
    for (name, target, patch, expected) in cases {
        assert_eq!(merged(CONFIG_MAP, target, patch).unwrap(), expected, "{name}");
    }
    let (target, patch) = (json!({"spec": {"selector": {"a": 1}}}), json!({"spec": {"selector": {"b": 2}}}));
    assert_eq!(merged(BUDGET, target, patch.clone()).unwrap(), patch, "the type says that it is replaced");
}

#[test]
fn lists_of_scalars() {
    let cases = [
        (
            "merged, in the patch's order",
            json!(["a", "b", "c"]),
            json!(["c", "d", "a"]),
            json!(["b", "c", "d", "a"]),
        ),
        ("each once", json!(["a"]), json!(["b", "a", "b"]), json!(["b", "a"])),
    ];
    for (name, old, new, expected) in cases {
        assert_eq!(
            merged(CONFIG_MAP, finalizers(old), finalizers(new)).unwrap(),
            finalizers(expected),
            "{name}"
        );
    }
    let cases = [
        ("some go", json!({"$deleteFromPrimitiveList/finalizers": ["b", "x"]}), json!(["a", "c"])),
        (
            "and others come",
            json!({"$deleteFromPrimitiveList/finalizers": ["b"], "finalizers": ["d"]}),
            json!(["d", "a", "c"]),
        ),
        ("in order", json!({"$setElementOrder/finalizers": ["c", "a"]}), json!(["b", "c", "a"])),
        (
            "in order, with what is new",
            json!({"$setElementOrder/finalizers": ["d", "a"], "finalizers": ["d"]}),
            json!(["d", "a", "b", "c"]),
        ),
        ("all of them, in no order", json!({"$setElementOrder/finalizers": []}), json!(["a", "b", "c"])),
        ("null takes the list away", json!({"$deleteFromPrimitiveList/finalizers": null}), json!(null)),
    ];
    for (name, patch, expected) in cases {
        let expected = if expected.is_null() { json!({"metadata": {}}) } else { finalizers(expected) };
        let patched = merged(CONFIG_MAP, finalizers(json!(["a", "b", "c"])), json!({"metadata": patch}));
        assert_eq!(patched.unwrap(), expected, "{name}");
    }
    let spec = |list: Value| json!({"spec": {"clusterIPs": list}});
    let replaced = merged(SERVICE, spec(json!(["a", "b"])), spec(json!(["c"]))).unwrap();
    assert_eq!(replaced, spec(json!(["c"])), "without a strategy they are replaced");
}

#[test]
fn lists_of_maps() {
    let old = json!([{"uid": "1", "name": "a"}, {"uid": "2", "name": "b"}, {"uid": "3", "name": "c"}]);
    let cases = [
        (
            "merged by key",
            json!([{"uid": "2", "kind": "K"}]),
            json!([{"uid": "1", "name": "a"}, {"uid": "2", "name": "b", "kind": "K"}, {"uid": "3", "name": "c"}]),
        ),
        (
            "what is new comes where the patch has it",
            json!([{"uid": "0"}, {"uid": "3"}]),
            json!([{"uid": "0"}, {"uid": "1", "name": "a"}, {"uid": "2", "name": "b"}, {"uid": "3", "name": "c"}]),
        ),
        (
            "some go",
            json!([{"uid": "1", "$patch": "delete"}, {"uid": "3", "$patch": "delete"}]),
            json!([{"uid": "2", "name": "b"}]),
        ),
        ("replaced", json!([{"$patch": "replace"}, {"uid": "9"}]), json!([{"uid": "9"}])),
        (
            "what goes may come again",
            json!([{"uid": "1", "$patch": "delete"}, {"uid": "1", "kind": "K"}]),
            json!([{"uid": "1", "kind": "K"}, {"uid": "2", "name": "b"}, {"uid": "3", "name": "c"}]),
        ),
        (
            "what is new keeps its nulls and directives",
            json!([{"uid": "4", "name": null, "x": {"$patch": "delete"}}]),
            json!([{"uid": "4", "name": null, "x": {"$patch": "delete"}}, {"uid": "1", "name": "a"}, {"uid": "2", "name": "b"}, {"uid": "3", "name": "c"}]),
        ),
    ];
    for (name, patch, expected) in cases {
        assert_eq!(
            merged(CONFIG_MAP, owners(old.clone()), owners(patch)).unwrap(),
            owners(expected),
            "{name}"
        );
    }
    let patch = json!({"metadata": {
        "$setElementOrder/ownerReferences": [{"uid": "3"}, {"uid": "4"}, {"uid": "1"}],
        "ownerReferences": [{"uid": "4"}, {"uid": "2", "$patch": "delete"}],
    }});
    let expected = json!([{"uid": "3", "name": "c"}, {"uid": "4"}, {"uid": "1", "name": "a"}]);
    assert_eq!(merged(CONFIG_MAP, owners(old), patch).unwrap(), owners(expected));

    let pod = |containers: Value| json!({"spec": {"containers": containers}});
    let old = json!([{"name": "a", "image": "x:1", "env": [{"name": "E", "value": "1"}], "args": ["1"]}]);
    let patch = json!([{"name": "a", "image": "x:2", "env": [{"name": "F", "value": "2"}], "args": ["2"]}]);
    let expected = json!([{"name": "a", "image": "x:2", "env": [{"name": "F", "value": "2"}, {"name": "E", "value": "1"}], "args": ["2"]}]);
    assert_eq!(merged(POD, pod(old), pod(patch)).unwrap(), pod(expected), "lists in lists");
}

#[test]
fn errors() {
    let target = json!({"data": {"a": "1"}, "metadata": {"finalizers": ["f"], "ownerReferences": [{"uid": "1", "name": "a"}]}});
    let order = |order: Value, list: Value| json!({"metadata": {"$setElementOrder/ownerReferences": order, "ownerReferences": list}});
    let cases = [
        (json!([]), 400, "json: cannot unmarshal array into Go value of type map[string]interface {}"),
        (
            json!({"data": {"$patch": "merge", "b": [1, 2.5, true, null]}}),
            500,
            "unknown patch type: merge in map: map[$patch:merge b:[1 2.5 true <nil>]]",
        ),
        (
            json!({"data": {"$patch": {"a": 1}}}),
            500,
            "unknown patch type: map[a:%!s(int64=1)] in map: map[$patch:map[a:1]]",
        ),
        (json!({"data": {"$patch": null}}), 500, "unknown patch type: %!s(<nil>) in map: map[$patch:<nil>]"),
        (json!({"data": {"$retainKeys": {}}}), 400, "invalid patch format of retainKeys"),
        (json!({"data": {"$retainKeys": [], "a": "1"}}), 400, "invalid patch format of retainKeys"),
        (
            json!({"metadata": {"$deleteFromPrimitiveListX/a": []}}),
            400,
            "invalid patch format of primitive list",
        ),
        (json!({"metadata": {"$setElementOrder": []}}), 400, "invalid patch format of setElementOrder list"),
        (
            json!({"metadata": {"$setElementOrder/finalizers": {}}}),
            500,
            "expected a []interface {}, but received a map[string]interface {}",
        ),
        (
            json!({"metadata": {"$setElementOrder/odd": []}}),
            500,
            "unable to find api field in struct ObjectMeta for the json field \"odd\"",
        ),
        (
            json!({"metadata": {"$setElementOrder/labels": []}}),
            500,
            "expected slice or array type, but got: struct",
        ),
        (finalizers(json!([1])), 500, "list element types are not identical: [[f] [1]]"),
        (owners(json!([{"name": "x"}])), 500, "map: map[name:x] does not contain declared merge key: uid"),
        (
            owners(json!([{"$patch": "delete"}])),
            500,
            "map: map[$patch:delete] does not contain declared merge key: uid",
        ),
        (owners(json!([{"$patch": "merge"}])), 500, "merging lists cannot yet be specified in the patch"),
        (owners(json!([{"$patch": "odd"}])), 500, "unknown patch type: odd in map: map[$patch:odd]"),
        (
            order(json!([{"uid": "2"}]), json!([{"uid": "3"}])),
            500,
            "The order in patch list:\n[map[uid:3]]\n doesn't match $setElementOrder list:\n[map[uid:2]]\n",
        ),
        (order(json!(["x"]), json!([])), 500, "value for key 0 is not a map"),
        (
            order(json!([{"uid": "1"}, {}]), json!([])),
            500,
            "map: map[] does not contain declared merge key: uid",
        ),
    ];
    for (patch, code, message) in cases {
        let error = merged(CONFIG_MAP, target.clone(), patch.clone()).unwrap_err();
        assert_eq!(error.to_string(), message, "{patch}");
        assert_eq!(error.status().code(), code, "{patch}");
    }
    let lists = merged(CONFIG_MAP, finalizers(json!([])), finalizers(json!([["a"]])));
    assert_eq!(lists, Err(PatchError::ListOfLists));
    for patch in
        [finalizers(json!([null])), owners(json!([{"uid": {}}])), json!({"metadata": {"$retainKeys": [[]]}})]
    {
        let target = json!({"metadata": {"finalizers": [], "ownerReferences": []}});
        assert_eq!(merged(CONFIG_MAP, target, patch.clone()), Err(PatchError::Incomparable), "{patch}");
    }
}

#[test]
fn custom_resource_schemas_are_untyped() {
    let schema = |schema: Value| json!({"spec": {"validation": {"openAPIV3Schema": schema}}});
    let crd = |schema: Value| json!({"spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": schema}}], "conversion": {"webhook": schema}}});
    let replaced = merged(CRD, crd(json!({"a": {"b": 1}})), json!({"spec": {"versions": []}})).unwrap();
    assert_eq!(replaced["spec"]["versions"], json!([]), "versions are a list that is replaced");
    let error = merged(CRD, schema(json!({})), schema(json!({}))).unwrap_err();
    assert_eq!(
        error.to_string(),
        "unable to find api field in struct CustomResourceDefinitionSpec for the json field \"validation\""
    );
    let extra = |extra: Value| json!({"spec": {"extra": extra}});
    let error = merged(
        ("certificates.k8s.io", "v1", "CertificateSigningRequest"),
        extra(json!({"a": ["b"]})),
        extra(json!({"a": ["c"]})),
    );
    assert_eq!(
        error.unwrap_err().to_string(),
        "merging an object in json but data type is not struct, instead is: map"
    );
}

#[test]
fn rest_of_the_patch() {
    let mut target = json!({"data": {"a": "1"}, "metadata": {"finalizers": ["f"]}});
    let mut patch = json!({
        "data": {"$retainKeys": ["a"], "a": null}, "binaryData": {"x": null, "y": {"$patch": "delete"}},
        "metadata": {"$setElementOrder/finalizers": ["f"], "finalizers": ["f"], "name": "n"},
    });
    let types = Types::get();
    strategic_merge(types, types.by_kind("", "v1", "ConfigMap").unwrap(), &mut target, &mut patch).unwrap();
    assert_eq!(
        map_text(patch.as_object().unwrap()),
        "map[binaryData:map[] data:map[a:<nil>] metadata:map[name:n]]"
    );
}
