use std::borrow::Cow;

use serde_json::{Value, json};

use crate::apply::element::{Element, ElementError};
use crate::apply::path_set::Set;

#[test]
fn path_elements_are_encoded_as_upstream() {
    let cases = [
        ("f:name", ".name"),
        ("f:", "."),
        ("f:app.kubernetes.io/name", ".app.kubernetes.io/name"),
        ("v:\"a\"", "[=\"a\"]"),
        ("v:1", "[=1]"),
        ("v:true", "[=true]"),
        ("i:3", "[3]"),
        ("k:{\"name\":\"a\"}", "[name=\"a\"]"),
        ("k:{\"containerPort\":80,\"protocol\":\"TCP\"}", "[containerPort=80,protocol=\"TCP\"]"),
    ];
    for (text, rendered) in cases {
        let element = Element::parse(text).unwrap();
        assert_eq!(element.to_string(), rendered);
        assert_eq!(element.encode(), text);
    }
}

#[test]
fn invalid_path_elements_are_rejected_or_skipped() {
    let cases = [
        ("", ElementError::Malformed),
        ("f", ElementError::Malformed),
        ("name", ElementError::Malformed),
        ("ö:", ElementError::Malformed),
        ("i:x", ElementError::Malformed),
        ("k:[]", ElementError::Malformed),
        ("k:{", ElementError::Malformed),
        ("v:", ElementError::Malformed),
        ("x:y", ElementError::Unknown),
    ];
    for (text, error) in cases {
        assert_eq!(Element::parse(text), Err(error), "{text}");
    }
}

#[test]
fn path_elements_are_ordered_by_kind_and_value() {
    let ascending = [
        "f:a",
        "f:b",
        "k:{\"a\":1}",
        "k:{\"a\":80}",
        "k:{\"a\":443}",
        "v:9",
        "v:10",
        "v:\"a\"",
        "i:2",
        "i:10",
    ];
    let elements: Vec<_> = ascending.iter().map(|text| Element::parse(text).unwrap()).collect();
    assert!(elements.is_sorted());
    let one = Element::Value(Cow::Owned(json!(1)));
    assert_eq!(one, Element::Value(Cow::Owned(json!(1.0))));
}

#[test]
fn fields_are_read_and_written() {
    let cases = [
        (json!({}), json!({}), 0),
        (Value::Null, json!({}), 0),
        (json!({"f:a": {}}), json!({"f:a": {}}), 1),
        (json!({"f:a": {".": {}}}), json!({"f:a": {}}), 1),
        (json!({"f:a": {".": {}, "f:b": {}}}), json!({"f:a": {".": {}, "f:b": {}}}), 2),
        (json!({"f:a": {"f:b": {}}}), json!({"f:a": {"f:b": {}}}), 1),
        // Unknown elements are skipped; the rest of the path ends here.
        (json!({"f:a": {"z:b": {}}}), json!({"f:a": {}}), 1),
        (json!({".": {}}), json!({}), 0),
        (json!({"f:a": null}), json!({"f:a": {}}), 1),
    ];
    for (text, written, count) in cases {
        let set = Set::from_fields(&text).unwrap();
        assert_eq!(set.to_fields(), written, "{text}");
        assert_eq!(set.len(), count, "{text}");
    }
    for text in [json!([]), json!("a"), json!({"a": {}}), json!({"f:a": 1}), json!({"f:a": {"b": {}}})] {
        assert!(Set::from_fields(&text).is_err(), "{text}");
    }
}

#[test]
fn set_operations() {
    let left = json!({"f:a": {}, "f:b": {".": {}, "f:x": {}, "f:y": {}}, "f:c": {"f:z": {}}});
    let right = json!({"f:b": {"f:x": {}}, "f:c": {}, "f:d": {}});
    let (left, right) = (Set::from_fields(&left).unwrap(), Set::from_fields(&right).unwrap());
    let union =
        json!({"f:a": {}, "f:b": {".": {}, "f:x": {}, "f:y": {}}, "f:c": {".": {}, "f:z": {}}, "f:d": {}});
    assert_eq!(left.clone().union(right.clone()).to_fields(), union);
    assert_eq!(left.intersection(&right).to_fields(), json!({"f:b": {"f:x": {}}}));
    let difference = json!({"f:a": {}, "f:b": {".": {}, "f:y": {}}, "f:c": {"f:z": {}}});
    assert_eq!(left.difference(&right).to_fields(), difference);
    assert!(left.intersection(&right).is_subset(&left) && !left.is_subset(&right));
    assert!(left.difference(&right).is_disjoint(&right) && !left.is_disjoint(&right));

    let mut set = left.clone();
    set.remove(&["b"], false);
    assert_eq!(set.to_fields(), json!({"f:a": {}, "f:b": {"f:x": {}, "f:y": {}}, "f:c": {"f:z": {}}}));
    set.remove(&["b"], true);
    set.remove(&["c", "z"], false);
    assert_eq!(set.to_fields(), json!({"f:a": {}}));
}

#[test]
fn retain_keeps_paths_below_patterns() {
    let fields = json!({"f:spec": {"f:containers": {"k:{\"name\":\"a\"}": {
        ".": {}, "f:image": {}, "f:resources": {".": {}, "f:limits": {}}}}, "f:x": {}}, "f:status": {}});
    let mut set = Set::from_fields(&fields).unwrap();
    set.retain(&[&["spec", "containers", "*", "resources"]]);
    let kept = json!({"f:spec": {"f:containers": {"k:{\"name\":\"a\"}": {
        ".": {}, "f:resources": {".": {}, "f:limits": {}}}}}});
    assert_eq!(set.to_fields(), kept);
}
