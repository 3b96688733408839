//! JSON patches.

use serde_json::{Value, json};

use super::*;

fn value(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn patches_as_upstream_does() {
    for (document, patch, expected) in CASES {
        let mut target = value(document);
        let patched = json_patch(&mut target, &value(patch)).map(|()| target);
        match (patched, expected) {
            (Ok(patched), Ok(expected)) => assert_eq!(patched, value(expected), "{patch}"),
            (Err(error), Err(expected)) => assert_eq!(error.to_string(), *expected, "{patch}"),
            (patched, expected) => panic!("{patch}: got {patched:?} instead of {expected:?}"),
        }
    }
}

#[test]
fn malformed_patches_are_rejected() {
    let cases = [
        (json!({}), "json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"),
        (json!("x"), "json: cannot unmarshal string into Go value of type []handlers.jsonPatchOp"),
        (json!([1]), "json: cannot unmarshal number into Go value of type handlers.jsonPatchOp"),
        (json!([[]]), "json: cannot unmarshal array into Go value of type handlers.jsonPatchOp"),
        (
            json!([{"op": "add", "path": 1}]),
            "json: cannot unmarshal number into Go struct field jsonPatchOp.path of type string",
        ),
        (
            json!([{"op": true}]),
            "json: cannot unmarshal bool into Go struct field jsonPatchOp.op of type string",
        ),
    ];
    for (patch, expected) in cases {
        let error = json_patch(&mut json!({}), &patch).unwrap_err();
        assert_eq!(error.to_string(), expected);
        assert_eq!(error.status().code(), 400);
        assert_eq!(error.status().message(), format!("error decoding patch: {expected}"));
    }
}

#[test]
fn failed_operations_get_upstreams_generic_error() {
    let error = json_patch(&mut json!({}), &json!([{"op": "remove", "path": "/data/zz"}])).unwrap_err();
    let body = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"the server rejected our request due to an error in our request","reason":"Invalid","details":{},"code":422}"#;
    assert_eq!(String::from_utf8(error.status().to_json()).unwrap(), body);
}

#[test]
fn moved_elements_are_limited() {
    let list: Vec<usize> = (0..100_000).collect();
    let insert = json!({"op": "add", "path": "/list/0", "value": 1});
    let shift = json!({"op": "move", "from": "/list/0", "path": "/list/-"});
    for (operation, count, is_allowed) in
        [(&insert, 400, true), (&insert, 1000, false), (&shift, 400, true), (&shift, 1000, false)]
    {
        let mut target = json!({ "list": list });
        let patched = json_patch(&mut target, &vec![operation.clone(); count].into());
        if is_allowed {
            assert_eq!(patched, Ok(()));
        } else {
            assert_eq!(patched, Err(PatchError::TooMuchMoved));
            assert_eq!(PatchError::TooMuchMoved.status().code(), 413);
        }
    }
    // At the end of a list nothing is moved.
    let append = json!({"op": "add", "path": "/list/-", "value": 1});
    let mut target = json!({ "list": list });
    assert_eq!(json_patch(&mut target, &vec![append; 5000].into()), Ok(()));
}

#[test]
fn root_can_only_be_replaced_by_a_container() {
    for patch in [json!([{"op": "replace", "path": "", "value": 1}]), json!([{"op": "replace", "path": ""}])]
    {
        assert_eq!(json_patch(&mut json!({}), &patch), Err(PatchError::InvalidRoot));
    }
}

#[test]
fn number_of_operations_is_limited() {
    let operation = json!({"op": "add", "path": "/a", "value": 1});
    let mut target = json!({});
    assert_eq!(json_patch(&mut target, &Value::Array(vec![operation.clone(); MAX_OPERATIONS])), Ok(()));
    let error = json_patch(&mut target, &Value::Array(vec![operation; MAX_OPERATIONS + 1])).unwrap_err();
    assert_eq!(error.status().code(), 413);
    assert_eq!(
        error.status().message(),
        "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001"
    );
}

#[test]
fn copied_bytes_are_limited() {
    let mut target = json!({"a": "x".repeat(1024 * 1024)});
    let copies = |count: usize| -> Value {
        (0..count).map(|index| json!({"op": "copy", "from": "/a", "path": format!("/b{index}")})).collect()
    };
    assert_eq!(json_patch(&mut target.clone(), &copies(2)), Ok(()));
    let error = json_patch(&mut target, &copies(3)).unwrap_err();
    assert_eq!(error, PatchError::TooMuchCopied { bytes: 3 * (1024 * 1024 + 2) });
}

#[test]
fn depth_is_limited() {
    // Each copy into itself doubles the depth.
    let mut path = "/a".to_owned();
    let mut patch = Vec::new();
    for doubling in 0..20 {
        patch.push(json!({"op": "copy", "from": "/a", "path": format!("{path}/a")}));
        path.push_str(&"/a".repeat(1 << doubling));
    }
    let mut target = json!({"a": {}});
    assert_eq!(json_patch(&mut target, &Value::Array(patch)), Err(PatchError::TooDeep));
}

#[test]
fn moves_within_the_limit_stay_allowed() {
    // Moves back and forth below another field: the upper bound grows with every move, the depth does not.
    let mut patch = Vec::new();
    for _ in 0..1000 {
        patch.push(json!({"op": "move", "from": "/a", "path": "/b/a"}));
        patch.push(json!({"op": "move", "from": "/b/a", "path": "/a"}));
    }
    let mut target = json!({"a": {"x": {"y": 1}}, "b": {}});
    let before = target.clone();
    assert_eq!(json_patch(&mut target, &Value::Array(patch)), Ok(()));
    assert_eq!(target, before);
}

#[test]
fn unknown_fields_are_reported() {
    let patch = json!([{"op": "add", "path": "/a", "value": 1}, {"op": "remove", "path": "/a", "why": 1}]);
    assert_eq!(unknown_fields(&patch), ["json patch unknown field \"[1].why\""]);
}

const DOCUMENT: &str =
    r#"{"a":{"b":1,"c":[1,2,3]},"d":"x","n":null,"l":[{"k":"v"},"s",null],"m/n":1,"o~p":2}"#;

/// Recorded from gopkg.in/evanphx/json-patch.v4: document, patch, and the result or the error.
#[rustfmt::skip]
const CASES: &[(&str, &str, Result<&str, &str>)] = &[
    (DOCUMENT, "[]", Ok(r#"{"a":{"b":1,"c":[1,2,3]},"d":"x","l":[{"k":"v"},"s",null],"m/n":1,"n":null,"o~p":2}"#)),
    (DOCUMENT, "null", Ok(r#"{"a":{"b":1,"c":[1,2,3]},"d":"x","l":[{"k":"v"},"s",null],"m/n":1,"n":null,"o~p":2}"#)),
    (DOCUMENT, r#"[{"op":"add","path":"/e","value":1}]"#, Ok(r#"{"a":{"b":1,"c":[1,2,3]},"d":"x","e":1,"l":[{"k":"v"},"s",null],"m/n":1,"n":null,"o~p":2}"#)),
    (DOCUMENT, r#"[{"op":"add","path":"/d","value":{"z":null}}]"#, Ok(r#"{"a":{"b":1,"c":[1,2,3]},"d":{"z":null},"l":[{"k":"v"},"s",null],"m/n":1,"n":null,"o~p":2}"#)),
    (DOCUMENT, r#"[{"op":"add","path":"/a/c/1","value":9}]"#, Ok(r#"{"a":{"b":1,"c":[1,9,2,3]},"d":"x","l":[{"k":"v"},"s",null],"m/n":1,"n":null,"o~p":2}"#)),
    (DOCUMENT, r#"[{"op":"add","path":"/a/c/-","value":9}]"#, Ok(r#"{"a":{"b":1,"c":[1,2,3,9]},"d":"x","l":[{"k":"v"},"s",null],"m/n":1,"n":null,"o~p":2}"#)),
    (DOCUMENT, r#"[{"op":"add","path":"/a/c/3","value":9}]"#, Ok(r#"{"a":{"b":1,"c":[1,2,3,9]},"d":"x","l":[{"k":"v"},"s",null],"m/n":1,"n":null,"o~p":2}"#)),
    (DOCUMENT, r#"[{"op":"add","path":"/a/c/4","value":9}]"#, Err("error in add for path: '/a/c/4': Unable to access invalid index: 4: invalid index referenced")),
    (DOCUMENT, r#"[{"op":"add","path":"/a/c/-1","value":9}]"#, Ok(r#"{"a":{"b":1,"c":[1,2,3,9]},"d":"x","l":[{"k":"v"},"s",null],"m/n":1,"n":null,"o~p":2}"#)),
    (DOCUMENT, r#"[{"op":"add","path":"/a/c/-4","value":9}]"#, Ok(r#"{"a":{"b":1,"c":[9,1,2,3]},"d":"x","l":[{"k":"v"},"s",null],"m/n":1,"n":null,"o~p":2}"#)),
    (DOCUMENT, r#"[{"op":"add","path":"/a/c/-5","value":9}]"#, Err("error in add for path: '/a/c/-5': Unable to access invalid index: -5: invalid index referenced")),
    (DOCUMENT, r#"[{"op":"add","path":"/a/c/x","value":9}]"#, Err(r#"error in add for path: '/a/c/x': value was not a proper array index: 'x': strconv.Atoi: parsing "x": invalid syntax"#)),
    (DOCUMENT, r#"[{"op":"add","path":"/a/c/01","value":9}]"#, Ok(r#"{"a":{"b":1,"c":[1,9,2,3]},"d":"x","l":[{"k":"v"},"s",null],"m/n":1,"n":null,"o~p":2}"#)),
    (DOCUMENT, r#"[{"op":"add","path":"/a/c/+1","value":9}]"#, Ok(r#"{"a":{"b":1,"c":[1,9,2,3]},"d":"x","l":[{"k":"v"},"s",null],"m/n":1,"n":null,"o~p":2}"#)),
    (DOCUMENT, r#"[{"op":"add","path":"/a/c/99999999999999999999","value":9}]"#, Err(r#"error in add for path: '/a/c/99999999999999999999': value was not a proper array index: '99999999999999999999': strconv.Atoi: parsing "99999999999999999999": value out of range"#)),
    (DOCUMENT, r#"[{"op":"add","path":"/x/y","value":1}]"#, Err(r#"add operation does not apply: doc is missing path: "/x/y": missing value"#)),
    (DOCUMENT, r#"[{"op":"add","path":"/d/y","value":1}]"#, Err(r#"add operation does not apply: doc is missing path: "/d/y": missing value"#)),
    (DOCUMENT, r#"[{"op":"add","path":"/n/y","value":1}]"#, Err(r#"add operation does not apply: doc is missing path: "/n/y": missing value"#)),
    (DOCUMENT, r#"[{"op":"add","path":"","value":{}}]"#, Err(r#"add operation does not apply: doc is missing path: "": missing value"#)),
    (DOCUMENT, r#"[{"op":"add","path":"/","value":1}]"#, Ok(r#"{"":1,"a":{"b":1,"c":[1,2,3]},"d":"x","l":[{"k":"v"},"s",null],"m/n":1,"n":null,"o~p":2}"#)),
    (DOCUMENT, r#"[{"op":"add","path":"e","value":1}]"#, Err(r#"add operation does not apply: doc is missing path: "e": missing value"#)),
    (DOCUMENT, r#"[{"op":"add","path":"x/e","value":1}]"#, Ok(r#"{"a":{"b":1,"c":[1,2,3]},"d":"x","e":1,"l":[{"k":"v"},"s",null],"m/n":1,"n":null,"o~p":2}"#)),
    (DOCUMENT, r#"[{"op":"add","path":"/e"}]"#, Ok(r#"{"a":{"b":1,"c":[1,2,3]},"d":"x","e":null,"l":[{"k":"v"},"s",null],"m/n":1,"n":null,"o~p":2}"#)),
    (DOCUMENT, r#"[{"op":"add","path":"/e","value":null}]"#, Ok(r#"{"a":{"b":1,"c":[1,2,3]},"d":"x","e":null,"l":[{"k":"v"},"s",null],"m/n":1,"n":null,"o~p":2}"#)),
    (DOCUMENT, r#"[{"op":"add","value":1}]"#, Err("add operation failed to decode path: missing value")),
    (DOCUMENT, r#"[{"op":"add","path":null,"value":1}]"#, Err("add operation failed to decode path: missing value")),
    (DOCUMENT, r#"[{"op":"add","path":"/l/0/q","value":1}]"#, Ok(r#"{"a":{"b":1,"c":[1,2,3]},"d":"x","l":[{"k":"v","q":1},"s",null],"m/n":1,"n":null,"o~p":2}"#)),
    (DOCUMENT, r#"[{"op":"add","path":"/l/-3/q","value":1}]"#, Ok(r#"{"a":{"b":1,"c":[1,2,3]},"d":"x","l":[{"k":"v","q":1},"s",null],"m/n":1,"n":null,"o~p":2}"#)),
    (DOCUMENT, r#"[{"op":"add","path":"/l/1/q","value":1}]"#, Err(r#"add operation does not apply: doc is missing path: "/l/1/q": missing value"#)),
    (DOCUMENT, r#"[{"op":"add","path":"/l/2/q","value":1}]"#, Err(r#"add operation does not apply: doc is missing path: "/l/2/q": missing value"#)),
    (DOCUMENT, r#"[{"op":"add","path":"/l/9/q","value":1}]"#, Err(r#"add operation does not apply: doc is missing path: "/l/9/q": missing value"#)),
    (DOCUMENT, r#"[{"op":"add","path":"/l/x/q","value":1}]"#, Err(r#"add operation does not apply: doc is missing path: "/l/x/q": missing value"#)),
    (DOCUMENT, r#"[{"op":"remove","path":"/d"}]"#, Ok(r#"{"a":{"b":1,"c":[1,2,3]},"l":[{"k":"v"},"s",null],"m/n":1,"n":null,"o~p":2}"#)),
    (DOCUMENT, r#"[{"op":"remove","path":"/zz"}]"#, Err("error in remove for path: '/zz': Unable to remove nonexistent key: zz: missing value")),
    (DOCUMENT, r#"[{"op":"remove","path":"/n"}]"#, Ok(r#"{"a":{"b":1,"c":[1,2,3]},"d":"x","l":[{"k":"v"},"s",null],"m/n":1,"o~p":2}"#)),
    (DOCUMENT, r#"[{"op":"remove","path":"/a/c/0"}]"#, Ok(r#"{"a":{"b":1,"c":[2,3]},"d":"x","l":[{"k":"v"},"s",null],"m/n":1,"n":null,"o~p":2}"#)),
    (DOCUMENT, r#"[{"op":"remove","path":"/a/c/-1"}]"#, Ok(r#"{"a":{"b":1,"c":[1,2]},"d":"x","l":[{"k":"v"},"s",null],"m/n":1,"n":null,"o~p":2}"#)),
    (DOCUMENT, r#"[{"op":"remove","path":"/a/c/3"}]"#, Err("error in remove for path: '/a/c/3': Unable to access invalid index: 3: invalid index referenced")),
    (DOCUMENT, r#"[{"op":"remove","path":"/a/c/-4"}]"#, Err("error in remove for path: '/a/c/-4': Unable to access invalid index: -4: invalid index referenced")),
    (DOCUMENT, r#"[{"op":"remove","path":"/a/c/-"}]"#, Err(r#"error in remove for path: '/a/c/-': strconv.Atoi: parsing "-": invalid syntax"#)),
    (DOCUMENT, r#"[{"op":"remove","path":"/x/y"}]"#, Err(r#"remove operation does not apply: doc is missing path: "/x/y": missing value"#)),
    (DOCUMENT, r#"[{"op":"remove","path":""}]"#, Err(r#"remove operation does not apply: doc is missing path: "": missing value"#)),
    (DOCUMENT, r#"[{"op":"remove"}]"#, Err("remove operation failed to decode path: missing value")),
    (DOCUMENT, r#"[{"op":"remove","path":"/m~1n"}]"#, Ok(r#"{"a":{"b":1,"c":[1,2,3]},"d":"x","l":[{"k":"v"},"s",null],"n":null,"o~p":2}"#)),
    (DOCUMENT, r#"[{"op":"remove","path":"/o~0p"}]"#, Ok(r#"{"a":{"b":1,"c":[1,2,3]},"d":"x","l":[{"k":"v"},"s",null],"m/n":1,"n":null}"#)),
    (DOCUMENT, r#"[{"op":"remove","path":"/o~p"}]"#, Ok(r#"{"a":{"b":1,"c":[1,2,3]},"d":"x","l":[{"k":"v"},"s",null],"m/n":1,"n":null}"#)),
    (DOCUMENT, r#"[{"op":"remove","path":"/o~01p"}]"#, Err("error in remove for path: '/o~01p': Unable to remove nonexistent key: o~1p: missing value")),
    (DOCUMENT, r#"[{"op":"replace","path":"/d","value":"y"}]"#, Ok(r#"{"a":{"b":1,"c":[1,2,3]},"d":"y","l":[{"k":"v"},"s",null],"m/n":1,"n":null,"o~p":2}"#)),
    (DOCUMENT, r#"[{"op":"replace","path":"/zz","value":"y"}]"#, Ok(r#"{"a":{"b":1,"c":[1,2,3]},"d":"x","l":[{"k":"v"},"s",null],"m/n":1,"n":null,"o~p":2,"zz":"y"}"#)),
    (DOCUMENT, r#"[{"op":"replace","path":"/a/c/0","value":"y"}]"#, Ok(r#"{"a":{"b":1,"c":["y",2,3]},"d":"x","l":[{"k":"v"},"s",null],"m/n":1,"n":null,"o~p":2}"#)),
    (DOCUMENT, r#"[{"op":"replace","path":"/a/c/-1","value":"y"}]"#, Ok(r#"{"a":{"b":1,"c":[1,2,"y"]},"d":"x","l":[{"k":"v"},"s",null],"m/n":1,"n":null,"o~p":2}"#)),
    (DOCUMENT, r#"[{"op":"replace","path":"/a/c/3","value":"y"}]"#, Err("replace operation does not apply: doc is missing key: /a/c/3: missing value")),
    (DOCUMENT, r#"[{"op":"replace","path":"/a/c/-4","value":"y"}]"#, Err("replace operation does not apply: doc is missing key: /a/c/-4: missing value")),
    (DOCUMENT, r#"[{"op":"replace","path":"/a/c/-","value":"y"}]"#, Err("replace operation does not apply: doc is missing key: /a/c/-: missing value")),
    (DOCUMENT, r#"[{"op":"replace","path":"/x/y","value":"y"}]"#, Err("replace operation does not apply: doc is missing path: /x/y: missing value")),
    (DOCUMENT, r#"[{"op":"replace","path":"","value":{"q":1}}]"#, Ok(r#"{"q":1}"#)),
    (DOCUMENT, r#"[{"op":"replace","path":"","value":[1]}]"#, Ok("[1]")),
    (DOCUMENT, r#"[{"op":"replace","path":"/d"}]"#, Ok(r#"{"a":{"b":1,"c":[1,2,3]},"d":null,"l":[{"k":"v"},"s",null],"m/n":1,"n":null,"o~p":2}"#)),
    (DOCUMENT, r#"[{"op":"replace","value":1}]"#, Err("replace operation failed to decode path: operation missing path field: missing value")),
    (DOCUMENT, r#"[{"op":"move","from":"/a/b","path":"/e"}]"#, Ok(r#"{"a":{"c":[1,2,3]},"d":"x","e":1,"l":[{"k":"v"},"s",null],"m/n":1,"n":null,"o~p":2}"#)),
    (DOCUMENT, r#"[{"op":"move","from":"/a/c/0","path":"/a/c/2"}]"#, Ok(r#"{"a":{"b":1,"c":[2,3,1]},"d":"x","l":[{"k":"v"},"s",null],"m/n":1,"n":null,"o~p":2}"#)),
    (DOCUMENT, r#"[{"op":"move","from":"/a/c/0","path":"/a/c/-"}]"#, Ok(r#"{"a":{"b":1,"c":[2,3,1]},"d":"x","l":[{"k":"v"},"s",null],"m/n":1,"n":null,"o~p":2}"#)),
    (DOCUMENT, r#"[{"op":"move","from":"/zz","path":"/e"}]"#, Err("error in move for path: 'zz': Unable to remove nonexistent key: zz: missing value")),
    (DOCUMENT, r#"[{"op":"move","from":"/x/y","path":"/e"}]"#, Err("move operation does not apply: doc is missing from path: /x/y: missing value")),
    (DOCUMENT, r#"[{"op":"move","from":"/a","path":"/a/b"}]"#, Err("move operation does not apply: doc is missing destination path: /a/b: missing value")),
    (DOCUMENT, r#"[{"op":"move","from":"/a","path":"/x/y"}]"#, Err("move operation does not apply: doc is missing destination path: /x/y: missing value")),
    (DOCUMENT, r#"[{"op":"move","from":"/d","path":"/d"}]"#, Ok(r#"{"a":{"b":1,"c":[1,2,3]},"d":"x","l":[{"k":"v"},"s",null],"m/n":1,"n":null,"o~p":2}"#)),
    (DOCUMENT, r#"[{"op":"move","path":"/d"}]"#, Err("move operation failed to decode from: operation, missing from field: missing value")),
    (DOCUMENT, r#"[{"op":"move","from":"/d"}]"#, Err("move operation failed to decode path: operation missing path field: missing value")),
    (DOCUMENT, r#"[{"op":"move","from":"/a/c/7","path":"/e"}]"#, Err("error in move for path: '7': Unable to access invalid index: 7: invalid index referenced")),
    (DOCUMENT, r#"[{"op":"move","from":"/n","path":"/e"}]"#, Ok(r#"{"a":{"b":1,"c":[1,2,3]},"d":"x","e":null,"l":[{"k":"v"},"s",null],"m/n":1,"o~p":2}"#)),
    (DOCUMENT, r#"[{"op":"move","from":"/d","path":"/a/c/7"}]"#, Err("error in move for path: '/a/c/7': Unable to access invalid index: 7: invalid index referenced")),
    (DOCUMENT, r#"[{"op":"copy","from":"/a","path":"/e"}]"#, Ok(r#"{"a":{"b":1,"c":[1,2,3]},"d":"x","e":{"b":1,"c":[1,2,3]},"l":[{"k":"v"},"s",null],"m/n":1,"n":null,"o~p":2}"#)),
    (DOCUMENT, r#"[{"op":"copy","from":"/a","path":"/a/z"}]"#, Ok(r#"{"a":{"b":1,"c":[1,2,3],"z":{"b":1,"c":[1,2,3]}},"d":"x","l":[{"k":"v"},"s",null],"m/n":1,"n":null,"o~p":2}"#)),
    (DOCUMENT, r#"[{"op":"copy","from":"/zz","path":"/e"}]"#, Ok(r#"{"a":{"b":1,"c":[1,2,3]},"d":"x","e":null,"l":[{"k":"v"},"s",null],"m/n":1,"n":null,"o~p":2}"#)),
    (DOCUMENT, r#"[{"op":"copy","from":"/x/y","path":"/e"}]"#, Err("copy operation does not apply: doc is missing from path: /x/y: missing value")),
    (DOCUMENT, r#"[{"op":"copy","from":"/a/c/9","path":"/e"}]"#, Err("error in copy for from: '/a/c/9': Unable to access invalid index: 9: invalid index referenced")),
    (DOCUMENT, r#"[{"op":"copy","from":"/d","path":"/x/y"}]"#, Err("copy operation does not apply: doc is missing destination path: /x/y: missing value")),
    (DOCUMENT, r#"[{"op":"copy","from":"/d","path":"/a/c/9"}]"#, Err("error while adding value during copy: Unable to access invalid index: 9: invalid index referenced")),
    (DOCUMENT, r#"[{"op":"copy","path":"/d"}]"#, Err("copy operation failed to decode from: operation, missing from field: missing value")),
    (DOCUMENT, r#"[{"op":"copy","from":"/d"}]"#, Err("copy operation failed to decode path: missing value")),
    (DOCUMENT, r#"[{"op":"copy","from":"/n","path":"/e"}]"#, Ok(r#"{"a":{"b":1,"c":[1,2,3]},"d":"x","e":null,"l":[{"k":"v"},"s",null],"m/n":1,"n":null,"o~p":2}"#)),
    (DOCUMENT, r#"[{"op":"test","path":"/d","value":"x"}]"#, Ok(r#"{"a":{"b":1,"c":[1,2,3]},"d":"x","l":[{"k":"v"},"s",null],"m/n":1,"n":null,"o~p":2}"#)),
    (DOCUMENT, r#"[{"op":"test","path":"/d","value":"y"}]"#, Err("testing value /d failed: test failed")),
    (DOCUMENT, r#"[{"op":"test","path":"/a","value":{"c":[1,2,3],"b":1}}]"#, Ok(r#"{"a":{"b":1,"c":[1,2,3]},"d":"x","l":[{"k":"v"},"s",null],"m/n":1,"n":null,"o~p":2}"#)),
    (DOCUMENT, r#"[{"op":"test","path":"/a","value":{"c":[1,2],"b":1}}]"#, Err("testing value /a failed: test failed")),
    (DOCUMENT, r#"[{"op":"test","path":"/a/c","value":[1,2,3]}]"#, Ok(r#"{"a":{"b":1,"c":[1,2,3]},"d":"x","l":[{"k":"v"},"s",null],"m/n":1,"n":null,"o~p":2}"#)),
    (DOCUMENT, r#"[{"op":"test","path":"/a/c","value":[3,2,1]}]"#, Err("testing value /a/c failed: test failed")),
    (DOCUMENT, r#"[{"op":"test","path":"/a/b","value":1.0}]"#, Err("testing value /a/b failed: test failed")),
    (DOCUMENT, r#"[{"op":"test","path":"/a/b","value":"1"}]"#, Err("testing value /a/b failed: test failed")),
    (DOCUMENT, r#"[{"op":"test","path":"/n","value":null}]"#, Ok(r#"{"a":{"b":1,"c":[1,2,3]},"d":"x","l":[{"k":"v"},"s",null],"m/n":1,"n":null,"o~p":2}"#)),
    (DOCUMENT, r#"[{"op":"test","path":"/n"}]"#, Ok(r#"{"a":{"b":1,"c":[1,2,3]},"d":"x","l":[{"k":"v"},"s",null],"m/n":1,"n":null,"o~p":2}"#)),
    (DOCUMENT, r#"[{"op":"test","path":"/n","value":1}]"#, Err("testing value /n failed: test failed")),
    (DOCUMENT, r#"[{"op":"test","path":"/zz","value":null}]"#, Ok(r#"{"a":{"b":1,"c":[1,2,3]},"d":"x","l":[{"k":"v"},"s",null],"m/n":1,"n":null,"o~p":2}"#)),
    (DOCUMENT, r#"[{"op":"test","path":"/zz"}]"#, Ok(r#"{"a":{"b":1,"c":[1,2,3]},"d":"x","l":[{"k":"v"},"s",null],"m/n":1,"n":null,"o~p":2}"#)),
    (DOCUMENT, r#"[{"op":"test","path":"/zz","value":1}]"#, Err("testing value /zz failed: test failed")),
    (DOCUMENT, r#"[{"op":"test","path":"/d","value":null}]"#, Err("testing value /d failed: test failed")),
    (DOCUMENT, r#"[{"op":"test","path":"/d"}]"#, Err("testing value /d failed: test failed")),
    (DOCUMENT, r#"[{"op":"test","path":"/a/c/9","value":1}]"#, Err("error in test for path: '/a/c/9': Unable to access invalid index: 9: invalid index referenced")),
    (DOCUMENT, r#"[{"op":"test","path":"/x/y","value":1}]"#, Err("test operation does not apply: is missing path: /x/y: missing value")),
    (r#"{"a":1}"#, r#"[{"op":"test","path":"","value":{"a":1}}]"#, Ok(r#"{"a":1}"#)),
    (r#"{"a":1}"#, r#"[{"op":"test","path":"","value":{"a":2}}]"#, Err("testing value  failed: test failed")),
    (DOCUMENT, r#"[{"op":"test"}]"#, Err("test operation failed to decode path: operation missing path field: missing value")),
    (DOCUMENT, r#"[{"op":"bogus","path":"/d"}]"#, Err("Unexpected kind: bogus")),
    (DOCUMENT, r#"[{"path":"/d"}]"#, Err("Unexpected kind: unknown")),
    (DOCUMENT, "[{}]", Err("Unexpected kind: unknown")),
    (DOCUMENT, "[null]", Err("Unexpected kind: unknown")),
    (DOCUMENT, r#"[{"op":null}]"#, Err("Unexpected kind: unknown")),
    (DOCUMENT, r#"[{"op":"remove","path":"/d"},{"op":"add","path":"/d","value":[]},{"op":"add","path":"/d/-","value":{}},{"op":"add","path":"/d/0/q","value":1}]"#, Ok(r#"{"a":{"b":1,"c":[1,2,3]},"d":[{"q":1}],"l":[{"k":"v"},"s",null],"m/n":1,"n":null,"o~p":2}"#)),
    ("[1,2]", r#"[{"op":"add","path":"/-","value":3}]"#, Ok("[1,2,3]")),
    ("[1,2]", r#"[{"op":"remove","path":"/0"}]"#, Ok("[2]")),
];
