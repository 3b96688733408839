//! Properties of all documents and patches.

use atoll_merge::{json_patch, merge_patch};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

fn document() -> impl Strategy<Value = Value> {
    let leaf =
        prop_oneof![Just(Value::Null), any::<i8>().prop_map(Value::from), "[a-c]{0,2}".prop_map(Value::from)];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            prop::collection::vec(("[a-c]", inner), 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

fn object() -> impl Strategy<Value = Value> {
    prop::collection::vec(("[a-c]", document()), 0..4)
        .prop_map(|members| Value::Object(members.into_iter().collect::<Map<_, _>>()))
}

fn operation() -> impl Strategy<Value = Value> {
    let path = "(/([a-c]|-|-?[0-3]|~[0-2]))*";
    ("add|remove|replace|move|copy|test|other", path, path, document())
        .prop_map(|(op, path, from, value)| json!({"op": op, "path": path, "from": from, "value": value}))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_patch_is_handled(mut target in object(), operations in prop::collection::vec(operation(), 0..6)) {
        let _ = json_patch(&mut target, &Value::Array(operations));
    }

    #[test]
    fn added_values_exist(mut target in object(), key in "[a-z/~]{1,4}", value in document()) {
        let path = format!("/{}", key.replace('~', "~0").replace('/', "~1"));
        let patch = json!([{"op": "add", "path": path, "value": value}, {"op": "test", "path": path, "value": value}]);
        prop_assert_eq!(json_patch(&mut target, &patch), Ok(()));
        prop_assert_eq!(&target[&key], &value);
    }

    #[test]
    fn adding_and_removing_changes_nothing(target in object(), value in document()) {
        let patch = json!([{"op": "add", "path": "/new", "value": value}, {"op": "remove", "path": "/new"}]);
        let mut patched = target.clone();
        prop_assert_eq!(json_patch(&mut patched, &patch), Ok(()));
        prop_assert_eq!(patched, target);
    }

    // Once is not enough: a list that replaces an object keeps the nulls in its elements, one that replaces a
    // list does not.
    #[test]
    fn repeated_merge_converges(mut target in object(), patch in object()) {
        merge_patch(&mut target, &patch);
        merge_patch(&mut target, &patch);
        let twice = target.clone();
        merge_patch(&mut target, &patch);
        prop_assert_eq!(target, twice);
    }

    #[test]
    fn merged_fields_are_those_of_the_patch(mut target in object(), patch in object()) {
        merge_patch(&mut target, &patch);
        for (key, change) in patch.as_object().unwrap() {
            match change {
                Value::Null => prop_assert_eq!(target.get(key), None),
                Value::Object(_) => prop_assert!(target[key].is_object()),
                Value::Array(elements) => prop_assert_eq!(target[key].as_array().map(Vec::len), Some(elements.len())),
                other => prop_assert_eq!(&target[key], other),
            }
        }
    }
}
