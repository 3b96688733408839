//! Decoding of text: strict errors in the order of the text, notation of numbers, and Go's syntax errors.

use atoll_schema::{Document, Error, Types, decode};
use serde_json::json;

fn read(kind: &str, text: &str) -> Result<(serde_json::Value, Vec<String>), Error> {
    let types = Types::get();
    let id = types.by_kind("", "v1", kind).expect("a kind of the core group");
    let decoded = decode(types, id, text.as_bytes())?;
    Ok((decoded.value, decoded.strict_errors.iter().map(ToString::to_string).collect()))
}

#[test]
fn strict_errors_are_in_the_order_of_the_text() {
    let text = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"z","foo":1},"bar":1,"data":{"a":"1","a":"2"}}"#;
    let (value, strict_errors) = read("ConfigMap", text).unwrap();
    let (_, quoted) = read("ConfigMap", "{\"a\u{a0}\u{ad}\u{3000}é\":1}").unwrap();
    assert_eq!(quoted, [r#"unknown field "a\u00a0\u00ad\u3000é""#]);
    assert_eq!(
        strict_errors,
        ["unknown field \"metadata.foo\"", "unknown field \"bar\"", "duplicate field \"data.a\""]
    );
    assert_eq!(
        value,
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "z"}, "data": {"a": "2"}})
    );
}

#[test]
fn the_first_mistake_in_the_text_is_reported() {
    let cases = [
        (
            r#"{"metadata":{"name":1},"data":1}"#,
            "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.name of type string",
        ),
        (
            r#"{"data":1,"metadata":{"name":1}}"#,
            "json: cannot unmarshal number into Go struct field ConfigMap.data of type map[string]string",
        ),
        // A time has a custom unmarshaler: its error stops decoding and takes precedence.
        (
            r#"{"data":1,"metadata":{"creationTimestamp":"x"}}"#,
            "parsing time \"x\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"x\" as \"2006\"",
        ),
        (
            r#"{"metadata":{"generation":1e3}}"#,
            "json: cannot unmarshal number 1e3 into Go struct field ObjectMeta.metadata.generation of type int64",
        ),
        (
            r#"{"metadata":{"generation":1.50}}"#,
            "json: cannot unmarshal number 1.50 into Go struct field ObjectMeta.metadata.generation of type int64",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(read("ConfigMap", text).unwrap_err().to_string(), expected, "{text}");
    }
}

#[test]
fn unquoted_quantities_keep_their_notation() {
    let (value, _) = read("ResourceQuota", r#"{"spec":{"hard":{"a":1e3,"b":1.50,"c":2}}}"#).unwrap();
    assert_eq!(value["spec"]["hard"], json!({"a": "1e3", "b": "1500m", "c": "2"}));
}

#[test]
fn syntax_errors_are_those_of_go() {
    let cases = [
        ("", "unexpected end of JSON input"),
        ("{", "unexpected end of JSON input"),
        ("{\"a\":tru", "invalid character ' ' in literal true (expecting 'e')"),
        ("{\"a\":nul}", "invalid character '}' in literal null (expecting 'l')"),
        ("{a", "invalid character 'a' looking for beginning of object key string"),
        ("{\"a\" 1", "invalid character '1' after object key"),
        ("{\"a\":1 1", "invalid character '1' after object key:value pair"),
        ("{\"a\":[1 2]}", "invalid character '2' after array element"),
        ("{\"a\":1,}", "invalid character '}' looking for beginning of object key string"),
        ("{} x", "invalid character 'x' after top-level value"),
        ("'a'", "invalid character '\\'' looking for beginning of value"),
        ("{\"a\":-}", "invalid character '}' in numeric literal"),
        ("{\"a\":01}", "invalid character '1' after object key:value pair"),
        ("{\"a\":1.}", "invalid character '}' after decimal point in numeric literal"),
        ("{\"a\":1e}", "invalid character '}' in exponent of numeric literal"),
        ("{\"a\":\"\n\"}", "invalid character '\\n' in string literal"),
        ("{\"a\":\"\\x\"}", "invalid character 'x' in string escape code"),
        ("{\"a\":\"\\u00g0\"}", "invalid character 'g' in \\u hexadecimal character escape"),
        // The byte is a Latin-1 character, here a space without a break.
        ("\u{a0}", "invalid character 'Â' looking for beginning of value"),
        // Syntax errors take precedence over numbers that are out of range.
        ("{\"a\":1e400 x", "invalid character 'x' after object key:value pair"),
        ("{\"a\":1e400}", "json: cannot unmarshal number 1e400 into Go value of type float64"),
    ];
    for (text, expected) in cases {
        match Document::parse(text.as_bytes()) {
            Err(Error::Syntax(message)) => assert_eq!(message, expected, "{text}"),
            other => panic!("{text}: {other:?}"),
        }
    }
    let deep = "[".repeat(100_000);
    assert_eq!(
        Document::parse(deep.as_bytes()).unwrap_err().to_string(),
        "invalid character '[' exceeded max depth"
    );
}

#[test]
fn invalid_unicode_is_replaced() {
    let text = b"{\"data\":{\"a\":\"\\ud800\",\"b\":\"\\ud83d\\ude00\",\"c\":\"\xff\",\"d\":\"\xe2\x82\"}}";
    let document = Document::parse(text).unwrap();
    let expected = json!({"a": "\u{fffd}", "b": "😀", "c": "\u{fffd}", "d": "\u{fffd}\u{fffd}"});
    assert_eq!(document.value()["data"], expected);
}

#[test]
fn duplicate_keys_of_custom_resources_are_reported() {
    let text = r#"{"spec":{"b":[{"x":1,"x":2}],"a":1,"a":2,"a":3},"kind":"A"}"#;
    let document = Document::parse(text.as_bytes()).unwrap();
    assert_eq!(document.value()["kind"], "A");
    let decoded = document.untyped();
    let strict_errors: Vec<String> = decoded.strict_errors.iter().map(ToString::to_string).collect();
    assert_eq!(strict_errors, ["duplicate field \"spec.b[0].x\"", "duplicate field \"spec.a\""]);
    assert_eq!(decoded.value, json!({"spec": {"b": [{"x": 2}], "a": 3}, "kind": "A"}));
}

#[test]
fn at_most_a_hundred_strict_errors_are_listed() {
    let members: Vec<String> = (0..150).map(|index| format!("\"unknown{index}\":1")).collect();
    let (_, strict_errors) = read("Pod", &format!("{{{}}}", members.join(","))).unwrap();
    assert_eq!(strict_errors.len(), 100);
    assert_eq!(strict_errors[99], "unknown field \"unknown99\"");
}
