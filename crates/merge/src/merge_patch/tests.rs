//! Merge patches.

use serde_json::{Value, json};

use super::*;

#[test]
fn merges_as_upstream_does() {
    for (document, patch, expected) in CASES {
        let value = |text: &str| -> Value { serde_json::from_str(text).unwrap() };
        let mut target = value(document);
        merge_patch(&mut target, &value(patch));
        assert_eq!(target, value(expected.unwrap()), "{document} with {patch}");
    }
}

#[test]
fn only_objects_are_accepted() {
    assert_eq!(check_merge_patch(&json!({})), Ok(()));
    let cases = [
        (json!(null), "Invalid JSON Patch"),
        (
            json!([]),
            "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}",
        ),
        (
            json!(3),
            "error decoding patch: json: cannot unmarshal number into Go value of type map[string]interface {}",
        ),
    ];
    for (patch, expected) in cases {
        let status = check_merge_patch(&patch).unwrap_err().status();
        assert_eq!((status.code(), status.message()), (400, expected));
    }
}

/// Recorded from gopkg.in/evanphx/json-patch.v4.
#[rustfmt::skip]
const CASES: &[(&str, &str, Result<&str, &str>)] = &[
    (r#"{"a":"b"}"#, r#"{"a":"c"}"#, Ok(r#"{"a":"c"}"#)),
    (r#"{"a":"b"}"#, r#"{"b":"c"}"#, Ok(r#"{"a":"b","b":"c"}"#)),
    (r#"{"a":"b"}"#, r#"{"a":null}"#, Ok("{}")),
    (r#"{"a":"b","b":"c"}"#, r#"{"a":null}"#, Ok(r#"{"b":"c"}"#)),
    (r#"{"a":["b"]}"#, r#"{"a":"c"}"#, Ok(r#"{"a":"c"}"#)),
    (r#"{"a":"c"}"#, r#"{"a":["b"]}"#, Ok(r#"{"a":["b"]}"#)),
    (r#"{"a":{"b":"c"}}"#, r#"{"a":{"b":"d","c":null}}"#, Ok(r#"{"a":{"b":"d"}}"#)),
    (r#"{"a":[{"b":"c"}]}"#, r#"{"a":[1]}"#, Ok(r#"{"a":[1]}"#)),
    (r#"{"e":null}"#, r#"{"a":1}"#, Ok(r#"{"a":1,"e":null}"#)),
    ("{}", r#"{"a":{"bb":{"ccc":null}}}"#, Ok(r#"{"a":{"bb":{}}}"#)),
    (r#"{"a":1}"#, r#"{"a":{"b":null,"c":1}}"#, Ok(r#"{"a":{"c":1}}"#)),
    (r#"{"a":[1]}"#, r#"{"a":[{"b":null,"c":1},null]}"#, Ok(r#"{"a":[{"c":1},null]}"#)),
    (r#"{"a":{"x":1}}"#, r#"{"a":[{"b":null,"c":1},null]}"#, Ok(r#"{"a":[{"b":null,"c":1},null]}"#)),
    ("{}", r#"{"a":[{"b":null,"c":[{"d":null}]},null]}"#, Ok(r#"{"a":[{"c":[{}]},null]}"#)),
    (r#"{"a":null}"#, r#"{"a":{"b":null,"c":1}}"#, Ok(r#"{"a":{"c":1}}"#)),
    (r#"{"a":{"x":1}}"#, r#"{"a":null}"#, Ok("{}")),
    (r#"{"a":{"x":1}}"#, r#"{"a":{}}"#, Ok(r#"{"a":{"x":1}}"#)),
    (r#"{"a":{"x":1}}"#, r#"{"a":3}"#, Ok(r#"{"a":3}"#)),
    ("{}", "{}", Ok("{}")),
    ("{}", "[]", Ok("[]")),
    (r#"{"a":{"b":{"c":{"d":1,"e":2}}}}"#, r#"{"a":{"b":{"c":{"d":null,"f":[null]}}}}"#, Ok(r#"{"a":{"b":{"c":{"e":2,"f":[null]}}}}"#)),
];
