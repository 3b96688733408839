//! Messages of field errors.

use serde_json::json;

use super::*;

#[test]
fn paths_print_as_upstream_prints_them() {
    let spec = FieldPath::new("spec");
    assert_eq!(spec.to_string(), "spec");
    assert_eq!(spec.child("containers").index(0).child("image").to_string(), "spec.containers[0].image");
    assert_eq!(FieldPath::new("data").key("k k").to_string(), "data[k k]");
    assert_eq!(FieldPath::nil().to_string(), "<nil>");
    assert_eq!(FieldPath::nil().child("key").to_string(), "key");
    assert_eq!(FieldPath::nil().child("values").index(1).key("a").to_string(), "values[1][a]");
    assert_eq!(FieldPath::from("metadata").to_string(), "metadata");
}

#[test]
fn paths_below_one_path_are_independent() {
    let ports = FieldPath::new("spec").child("containers").index(1).child("ports");
    let copy = ports.clone();
    assert_eq!(ports.index(0).child("name".to_owned()).to_string(), "spec.containers[1].ports[0].name");
    assert_eq!(ports.index(1).child("name").key("a").to_string(), "spec.containers[1].ports[1].name[a]");
    assert_eq!(copy.key("b").to_string(), "spec.containers[1].ports[b]");
    assert_eq!(ports.to_string(), "spec.containers[1].ports");
}

#[test]
fn messages_have_upstreams_form() {
    let path = FieldPath::new("f");
    let cases = [
        (FieldError::required(&path, ""), "f: Required value"),
        (FieldError::required(&path, "because"), "f: Required value: because"),
        (FieldError::invalid(&path, "a\"b", "no"), "f: Invalid value: \"a\\\"b\": no"),
        (FieldError::invalid(&path, "", ""), "f: Invalid value: \"\""),
        (FieldError::type_invalid(&path, 1, "must be text"), "f: Invalid value: 1: must be text"),
        (FieldError::duplicate(&path, "x"), "f: Duplicate value: \"x\""),
        (
            FieldError::duplicate(&path, json!({"b": 1, "a": "<"})),
            r#"f: Duplicate value: {"a":"\u003c","b":1}"#,
        ),
        (FieldError::not_found(&path, "x"), "f: Not found: \"x\""),
        (
            FieldError::not_supported(&path, "x", &["b", "a"]),
            "f: Unsupported value: \"x\": supported values: \"b\", \"a\"",
        ),
        (FieldError::not_supported::<&str>(&path, "x", &[]), "f: Unsupported value: \"x\""),
        (FieldError::forbidden(&path, "no"), "f: Forbidden: no"),
        (FieldError::too_long(&path, 10), "f: Too long: may not be more than 10 bytes"),
        (FieldError::too_long(&path, 1), "f: Too long: may not be more than 1 byte"),
        (FieldError::too_long_characters(&path, 1), "f: Too long: may not be more than 1 character"),
        (FieldError::too_short(&path, 2), "f: Too short: must be at least 2 characters"),
        (FieldError::too_many(&path, 5, 3), "f: Too many: 5: must have at most 3 items"),
        (FieldError::too_many(&path, 5, 1), "f: Too many: 5: must have at most 1 item"),
        (FieldError::too_few(&path, 0, 1), "f: Too few: 0: must have at least 1 item"),
        (FieldError::internal(&path, "oops"), "f: Internal error: oops"),
        (FieldError::invalid(&path, BadValue::Omitted, "no"), "f: Invalid value: no"),
    ];
    for (error, expected) in cases {
        assert_eq!(error.to_string(), expected);
        assert_eq!(format!("f: {}", error.body()), expected);
    }
}

#[test]
fn values_print_by_their_type() {
    let cases = [
        (BadValue::from(true), "true"),
        (BadValue::from(-7), "-7"),
        (BadValue::from(1.5), "1.5"),
        (BadValue::from(1e9), "1e+09"),
        (BadValue::from("é\n"), "\"é\\n\""),
        (BadValue::from(vec!["a"]), "[\"a\"]"),
        (BadValue::from(Value::Null), "null"),
        (BadValue::named_text("a<\n"), "\"a\\u003c\\n\""),
        (BadValue::Rendered("as it is".to_owned()), "as it is"),
    ];
    for (value, expected) in cases {
        assert_eq!(value.to_string(), expected);
    }
}

#[test]
fn kinds_have_reasons() {
    let path = FieldPath::new("f");
    let reasons = [
        (FieldError::required(&path, ""), "FieldValueRequired"),
        (FieldError::invalid(&path, "", ""), "FieldValueInvalid"),
        (FieldError::type_invalid(&path, "", ""), "FieldValueTypeInvalid"),
        (FieldError::duplicate(&path, ""), "FieldValueDuplicate"),
        (FieldError::not_found(&path, ""), "FieldValueNotFound"),
        (FieldError::not_supported::<&str>(&path, "", &[]), "FieldValueNotSupported"),
        (FieldError::forbidden(&path, ""), "FieldValueForbidden"),
        (FieldError::too_long(&path, 1), "FieldValueTooLong"),
        (FieldError::too_short(&path, 1), "FieldValueTooShort"),
        (FieldError::too_many(&path, 2, 1), "FieldValueTooMany"),
        (FieldError::too_few(&path, 0, 1), "FieldValueTooFew"),
        (FieldError::internal(&path, ""), "InternalError"),
    ];
    for (error, reason) in reasons {
        assert_eq!(error.kind().reason(), reason);
    }
}

#[test]
fn several_errors_are_one_message() {
    let one = FieldError::required(&FieldPath::new("a"), "");
    let two = FieldError::required(&FieldPath::new("b"), "");
    assert_eq!(aggregate(std::slice::from_ref(&one)), "a: Required value");
    assert_eq!(aggregate(&[one.clone(), one.clone()]), "a: Required value");
    assert_eq!(aggregate(&[one.clone(), two, one]), "[a: Required value, b: Required value]");
}
