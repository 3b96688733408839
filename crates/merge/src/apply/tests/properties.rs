use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::{author, created, kind, managers};
use crate::apply::element::Element;
use crate::apply::managed;
use crate::apply::object_fields;
use crate::apply::path_set::Set;
use crate::apply::shape::Shape;

/// Generates any value of a kind without types.
fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (0..3).prop_map(Value::from),
        "[ab]{0,1}".prop_map(Value::from)
    ];
    leaf.prop_recursive(3, 16, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map("[abc]", inner, 0..3)
                .prop_map(|map| Value::Object(map.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

fn workspace() -> impl Strategy<Value = Value> {
    value().prop_map(|spec| {
        json!({"kind": "Workspace", "apiVersion": "atoll.dev/v1alpha1", "metadata": {"name": "a"}, "spec": spec})
    })
}

/// Generates containers of a Pod with ports, environment and arguments.
fn pod() -> impl Strategy<Value = Value> {
    let port =
        (prop::sample::select(vec![80, 443]), prop::option::of(Just("UDP"))).prop_map(|(port, protocol)| {
            let mut value = json!({"containerPort": port});
            if let Some(protocol) = protocol {
                value["protocol"] = json!(protocol);
            }
            value
        });
    let env =
        ("[AB]", prop::option::of("[12]")).prop_map(|(name, value)| json!({"name": name, "value": value}));
    let container = (
        "[abc]",
        prop::option::of("[xy]"),
        prop::collection::vec(port, 0..3),
        prop::collection::vec(env, 0..3),
        prop::option::of(prop::collection::vec("[xy]", 0..2)),
    );
    let container = container.prop_map(|(name, image, ports, env, args)| {
        let mut container =
            json!({"name": name, "ports": without_duplicates(ports), "env": without_duplicates(env)});
        if let Some(image) = image {
            container["image"] = json!(image);
        }
        if let Some(args) = args {
            container["args"] = json!(args);
        }
        container
    });
    let labels = prop::collection::btree_map("[ab]", "[12]", 0..3);
    (prop::collection::vec(container, 0..4), labels).prop_map(|(containers, labels)| {
        let spec = json!({"containers": without_duplicates(containers)});
        json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "a", "labels": labels}, "spec": spec})
    })
}

/// Removes duplicates by name or port.
fn without_duplicates(items: Vec<Value>) -> Vec<Value> {
    let key = |item: &Value| {
        let protocol = item["protocol"].as_str().unwrap_or("TCP").to_owned();
        (item["name"].clone(), item["containerPort"].clone(), protocol)
    };
    let mut kept: Vec<Value> = Vec::new();
    for item in items {
        if kept.iter().all(|other| key(other) != key(&item)) {
            kept.push(item);
        }
    }
    kept
}

fn any_object() -> impl Strategy<Value = (Value, Value, Value)> {
    prop_oneof![(workspace(), workspace(), workspace()), (pod(), pod(), pod())]
}

fn kind_of(object: &Value) -> crate::apply::Kind {
    kind(object["apiVersion"].as_str().unwrap_or_default(), object["kind"].as_str().unwrap_or_default())
}

/// Asserts that every owned path exists.
fn assert_owned_exists(object: &Value) {
    let mut bare = object.clone();
    if let Some(fields) = bare["metadata"].as_object_mut() {
        fields.remove("managedFields");
    }
    let kind = kind_of(object);
    let shape = kind.shape();
    for entry in managed::decode(object["metadata"].get("managedFields")).unwrap() {
        entry.set.visit(&mut |path| {
            let mut at = (shape, Some(&bare));
            for step in path.0 {
                at = below(at.0, at.1, step);
            }
            assert!(at.1.is_some(), "{path} of {} is not in {bare}", entry.manager);
        });
    }
}

fn below<'s, 'v>(
    shape: Shape<'s>,
    value: Option<&'v Value>,
    step: &Element<'_>,
) -> (Shape<'s>, Option<&'v Value>) {
    match (shape, step) {
        (Shape::List { element, items }, step) => {
            let list = value.and_then(Value::as_array).into_iter().flatten();
            let found = list.into_iter().find(|item| items.step(element, item).as_ref() == Ok(step));
            (element.shape(), found)
        }
        (shape, Element::Field(name)) => {
            let inner = shape.member(name).map_or(Shape::Opaque, |(inner, _)| inner);
            (inner, value.and_then(|value| value.get(name)))
        }
        _ => (shape, None),
    }
}

fn with_uid(mut object: Value) -> Value {
    object["metadata"]["uid"] = json!("1");
    object
}

proptest! {
    #[test]
    fn apply_is_idempotent((live, config, _) in any_object()) {
        let kind = kind_of(&live);
        let live = created(&kind, live, "x");
        let once = kind.apply(&live, &config, &author("y"), true).unwrap();
        let twice = kind.apply(&once, &config, &super::Author { time: "2030-01-01T00:00:00Z", ..author("y") }, false).unwrap();
        prop_assert_eq!(twice, once);
    }

    #[test]
    fn disjoint_applies_never_conflict(
        left in prop::collection::btree_map("a[0-9]", "[12]", 0..4),
        right in prop::collection::btree_map("b[0-9]", "[12]", 0..4),
        other in prop::collection::btree_map("b[0-9]", "[12]", 0..4),
    ) {
        let kind = kind("v1", "ConfigMap");
        let object = |data| json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a"}, "data": data});
        let first = kind.apply(kind.empty(), &object(json!(left)), &author("x"), false).unwrap();
        let second = kind.apply(&with_uid(first), &object(json!(right)), &author("y"), false).unwrap();
        let third = kind.apply(&second, &object(json!(other)), &author("y"), false).unwrap();
        // All managers have what they applied, and nothing else.
        let mut expected = left.clone();
        expected.extend(other);
        prop_assert_eq!(third["data"].as_object().cloned().unwrap_or_default().len(), expected.len());
        for (name, value) in expected {
            prop_assert_eq!(&third["data"][name], &json!(value));
        }
    }

    #[test]
    fn owned_fields_exist((first, second, third) in any_object()) {
        let kind = kind_of(&first);
        let live = created(&kind, first, "x");
        assert_owned_exists(&live);
        let applied = with_uid(kind.apply(&live, &second, &author("y"), true).unwrap());
        assert_owned_exists(&applied);
        let mut updated = with_uid(third.clone());
        kind.record(&applied, &mut updated, &author("z"));
        assert_owned_exists(&updated);
        let again = with_uid(kind.apply(&updated, &second, &author("y"), true).unwrap());
        assert_owned_exists(&again);
        let removed = kind.apply(&again, &third, &author("y"), true).unwrap();
        assert_owned_exists(&removed);
    }

    #[test]
    fn every_value_has_an_owner((first, second, _) in any_object()) {
        let kind = kind_of(&first);
        let live = created(&kind, first, "x");
        let mut updated = with_uid(second);
        kind.record(&live, &mut updated, &author("y"));
        let mut bare = updated.clone();
        if let Some(fields) = bare["metadata"].as_object_mut() {
            fields.remove("managedFields");
        }
        let mut all = object_fields::of(kind.shape(), &bare).unwrap();
        crate::apply::strip_system_fields(&mut all);
        let managed = updated["metadata"].get("managedFields").cloned();
        let entries = managed::decode(managed.as_ref()).unwrap();
        let owners = entries.into_iter().fold(Set::default(), |all, entry| all.union(entry.set));
        prop_assert!(all.difference(&owners).is_empty(), "{} of {}", all.difference(&owners).to_fields(), managers(&updated));
        // Every field that was changed by updates has one owner.
        let entries = managed::decode(managed.as_ref()).unwrap();
        for (index, entry) in entries.iter().enumerate() {
            prop_assert!(entries[..index].iter().all(|other| other.set.is_disjoint(&entry.set)));
        }
    }

    #[test]
    fn fields_round_trip(object in any_object()) {
        let kind = kind_of(&object.0);
        let set = object_fields::of(kind.shape(), &object.0).unwrap();
        let written = set.to_fields();
        prop_assert_eq!(Set::from_fields(&written).unwrap(), set.clone());
    }
}
