use std::cmp::Ordering;

use serde_json::{Value, json};

use super::{compare, field_order};

#[test]
fn values_have_an_order() {
    let ascending = [
        json!(-1),
        json!(1.5),
        json!(80),
        json!(443),
        json!(9_007_199_254_740_992.0),
        json!(9_007_199_254_740_993_i64),
        json!(u64::MAX),
        json!(1e300),
        json!(""),
        json!("a"),
        json!(false),
        json!(true),
        json!([1]),
        json!([1, 2]),
        json!([2]),
        json!({"a": 1}),
        json!({"a": 2}),
        json!({"b": 1}),
        Value::Null,
    ];
    for (index, left) in ascending.iter().enumerate() {
        for (other, right) in ascending.iter().enumerate() {
            assert_eq!(compare(left, right), index.cmp(&other), "{left} and {right}");
        }
    }
    for (integer, float) in [(1, 1.0), (0, -0.0), (9_007_199_254_740_992_i64, 9_007_199_254_740_992.0)] {
        assert_eq!(compare(&json!(integer), &json!(float)), Ordering::Equal, "{integer}");
    }
    assert_eq!(compare(&json!(-1), &json!(-1.5)), Ordering::Greater);
}

#[test]
fn items_are_ordered_by_value() {
    let names = |value: Value| {
        let fields = value.as_object().cloned().unwrap_or_default();
        field_order(&fields)
            .map(|members| members.iter().map(|(name, _)| name.to_string()).collect::<Vec<_>>())
    };
    let cases = [
        (json!({"f:b": {}, "f:a": {}, ".": {}}), None),
        (json!({"k:{\"port\":443}": {}}), None),
        (
            json!({"k:{\"port\":443}": {}, "k:{\"port\":80}": {}, ".": {}, "f:x": {}}),
            Some(vec![".", "f:x", "k:{\"port\":80}", "k:{\"port\":443}"]),
        ),
        (
            json!({"k:{\"a\":1,\"b\":\"z\"}": {}, "k:{\"a\":1}": {}, "v:10": {}, "v:9": {}}),
            Some(vec!["k:{\"a\":1}", "k:{\"a\":1,\"b\":\"z\"}", "v:9", "v:10"]),
        ),
        (json!({"i:10": {}, "i:9": {}, "v:\"a\"": {}}), Some(vec!["v:\"a\"", "i:9", "i:10"])),
    ];
    for (fields, expected) in cases {
        let expected =
            expected.map(|names: Vec<&str>| names.into_iter().map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(names(fields.clone()), expected, "{fields}");
    }
}
