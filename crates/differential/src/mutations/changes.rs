//! Every way to change one thing of an object, and a draw from them.

use atoll_schema::{TypeId, TypeRef, Types};
use serde_json::{Map, Value, json};

use super::pointer::{Change, Pointer};
use super::values;

/// What the server writes there; a change of it says nothing about a kind.
const NOT_IN_METADATA: [&str; 6] =
    ["managedFields", "creationTimestamp", "uid", "resourceVersion", "generation", "deletionTimestamp"];

/// All changes of `object`, in an order that depends on nothing else.
pub fn all(types: &Types, id: TypeId, object: &Value) -> Vec<Change> {
    let mut changes = vec![Change::Nothing];
    if let Value::Object(fields) = object {
        of_struct(types, id, fields, &Pointer::default(), &mut changes);
    }
    changes
}

/// At most `count` of them, the same for the same seed. The first, which changes nothing, is always among them.
pub fn draw(mut changes: Vec<Change>, count: usize, seed: u64) -> Vec<Change> {
    let mut state = seed;
    for place in 1..changes.len().min(count) {
        let choice = place + (next(&mut state) % (changes.len() - place) as u64) as usize;
        changes.swap(place, choice);
    }
    changes.truncate(count);
    changes
}

/// SplitMix64.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

fn of_struct(types: &Types, id: TypeId, fields: &Map<String, Value>, at: &Pointer, out: &mut Vec<Change>) {
    let owner = &types[id];
    out.push(Change::Set(at.child("unknownField"), json!(1)));
    for slot in &owner.slots {
        if owner.name == "ObjectMeta" && NOT_IN_METADATA.contains(&slot.name) {
            continue;
        }
        let place = at.child(slot.name);
        match fields.get(slot.name) {
            Some(value) => {
                out.push(Change::Remove(place.clone()));
                of_value(types, slot.kind, value, &place, out);
            }
            None => out.extend(
                values::where_nothing_was(slot.kind)
                    .into_iter()
                    .map(|value| Change::Set(place.clone(), value)),
            ),
        }
    }
}

fn of_value(types: &Types, kind: TypeRef, value: &Value, at: &Pointer, out: &mut Vec<Change>) {
    let others = values::instead(kind, value);
    out.extend(others.into_iter().filter(|other| other != value).map(|other| Change::Set(at.clone(), other)));
    match (kind, value) {
        (TypeRef::Struct(id), Value::Object(fields)) => of_struct(types, id, fields, at, out),
        (TypeRef::List(list), Value::Array(elements)) => {
            for (index, element) in elements.iter().enumerate() {
                let place = at.index(index);
                out.push(Change::Remove(place.clone()));
                out.push(Change::Repeat(place.clone()));
                if index + 1 < elements.len() {
                    out.push(Change::Swap(at.clone(), index));
                }
                of_value(types, list.element, element, &place, out);
            }
        }
        (TypeRef::Map(map), Value::Object(entries)) => {
            let some = entries.values().next().cloned().unwrap_or_else(|| types.zero(map.value));
            for key in ["", "bad key!", "-a", "a/b/c", "UPPER", "example.com/a", "added"] {
                out.push(Change::Set(at.child(key), some.clone()));
            }
            out.push(Change::Set(at.child(&"k".repeat(300)), some));
            for (key, entry) in entries {
                let place = at.child(key);
                out.push(Change::Remove(place.clone()));
                of_value(types, map.value, entry, &place, out);
            }
        }
        (
            TypeRef::JsonSchemaOrArray | TypeRef::JsonSchemaOrBool | TypeRef::JsonSchemaOrStringArray,
            Value::Object(fields),
        ) => of_struct(types, types.json_schema(), fields, at, out),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn of_a_service() -> Vec<Change> {
        let types = Types::get();
        let id = types.by_kind("", "v1", "Service").expect("services are built in");
        all(types, id, &json!({"metadata": {"name": "a"}, "spec": {"ports": [{"port": 80}, {"port": 81}]}}))
    }

    #[test]
    fn every_sort_of_change_is_there() {
        let shown: BTreeSet<String> = of_a_service().iter().map(Change::to_string).collect();
        for expected in [
            "nothing changed",
            "remove /spec",
            "remove /spec/ports/1",
            "repeat /spec/ports/0",
            "swap /spec/ports/0 and 1",
            "set /spec/ports/0/port -1",
            r#"set /spec/ports/0/port "1""#,
            "set /spec/ports/1/unknownField 1",
            r#"set /metadata/name """#,
            r#"set /spec/type "NodePort""#,
            r#"set /spec/selector {"bad key!":"a"}"#,
        ] {
            assert!(shown.contains(expected), "{expected} is not among {shown:#?}");
        }
        assert!(!shown.iter().any(|change| change.contains("/metadata/uid")));
    }

    #[test]
    fn a_draw_depends_on_the_seed_alone() {
        let draws = [1, 1, 2].map(|seed| draw(of_a_service(), 30, seed));
        assert_eq!(draws[0], draws[1]);
        assert_ne!(draws[0], draws[2]);
        assert_eq!(draws[2][0], Change::Nothing);
        let distinct: BTreeSet<String> = draws[0].iter().map(Change::to_string).collect();
        assert_eq!(distinct.len(), 30);
        assert_eq!(draw(of_a_service(), usize::MAX, 1).len(), of_a_service().len());
    }
}
