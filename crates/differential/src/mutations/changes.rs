//! Generates all changes of one thing in an object, and selects some of them.

use atoll_schema::{TypeId, TypeRef, Types};
use serde_json::{Map, Value, json};

use super::pointer::{Mutation, Pointer};
use super::values;

/// Metadata fields that the server sets; changing them tests nothing about a kind.
const NOT_IN_METADATA: [&str; 6] =
    ["managedFields", "creationTimestamp", "uid", "resourceVersion", "generation", "deletionTimestamp"];

/// Returns all changes of `object` in a deterministic order.
pub fn all(types: &Types, id: TypeId, object: &Value) -> Vec<Mutation> {
    let mut changes = vec![Mutation::Nothing];
    if let Value::Object(fields) = object {
        add_struct(types, id, fields, &Pointer::default(), &mut changes);
    }
    changes
}

/// Selects at most `count` changes. The selection depends on the seed only. The first change, which changes
/// nothing, is always included.
pub fn select(mut changes: Vec<Mutation>, count: usize, seed: u64) -> Vec<Mutation> {
    let mut state = seed;
    for place in 1..changes.len().min(count) {
        let choice = place + (next(&mut state) % (changes.len() - place) as u64) as usize;
        changes.swap(place, choice);
    }
    changes.truncate(count);
    changes
}

/// The SplitMix64 generator.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

fn add_struct(types: &Types, id: TypeId, fields: &Map<String, Value>, at: &Pointer, out: &mut Vec<Mutation>) {
    let owner = &types[id];
    out.push(Mutation::Set(at.child("unknownField"), json!(1)));
    for slot in &owner.slots {
        if owner.name == "ObjectMeta" && NOT_IN_METADATA.contains(&slot.name) {
            continue;
        }
        let place = at.child(slot.name);
        match fields.get(slot.name) {
            Some(value) => {
                out.push(Mutation::Remove(place.clone()));
                add_value(types, slot.kind, value, &place, out);
            }
            None => out.extend(
                values::for_missing_field(slot.kind)
                    .into_iter()
                    .map(|value| Mutation::Set(place.clone(), value)),
            ),
        }
    }
}

fn add_value(types: &Types, kind: TypeRef, value: &Value, at: &Pointer, out: &mut Vec<Mutation>) {
    let others = values::replacements(kind, value);
    out.extend(
        others.into_iter().filter(|other| other != value).map(|other| Mutation::Set(at.clone(), other)),
    );
    match (kind, value) {
        (TypeRef::Struct(id), Value::Object(fields)) => add_struct(types, id, fields, at, out),
        (TypeRef::List(list), Value::Array(elements)) => {
            for (index, element) in elements.iter().enumerate() {
                let place = at.index(index);
                out.push(Mutation::Remove(place.clone()));
                out.push(Mutation::Repeat(place.clone()));
                if index + 1 < elements.len() {
                    out.push(Mutation::Swap(at.clone(), index));
                }
                add_value(types, list.element, element, &place, out);
            }
        }
        (TypeRef::Map(map), Value::Object(entries)) => {
            let some = entries.values().next().cloned().unwrap_or_else(|| types.zero(map.value));
            for key in ["", "bad key!", "-a", "a/b/c", "UPPER", "example.com/a", "added"] {
                out.push(Mutation::Set(at.child(key), some.clone()));
            }
            out.push(Mutation::Set(at.child(&"k".repeat(300)), some));
            for (key, entry) in entries {
                let place = at.child(key);
                out.push(Mutation::Remove(place.clone()));
                add_value(types, map.value, entry, &place, out);
            }
        }
        (
            TypeRef::JsonSchemaOrArray | TypeRef::JsonSchemaOrBool | TypeRef::JsonSchemaOrStringArray,
            Value::Object(fields),
        ) => add_struct(types, types.json_schema(), fields, at, out),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn service_mutations() -> Vec<Mutation> {
        let types = Types::get();
        let id = types.by_kind("", "v1", "Service").expect("services are built in");
        all(types, id, &json!({"metadata": {"name": "a"}, "spec": {"ports": [{"port": 80}, {"port": 81}]}}))
    }

    #[test]
    fn every_type_of_change_is_generated() {
        let shown: BTreeSet<String> = service_mutations().iter().map(Mutation::to_string).collect();
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
    fn selection_depends_on_the_seed_only() {
        let draws = [1, 1, 2].map(|seed| select(service_mutations(), 30, seed));
        assert_eq!(draws[0], draws[1]);
        assert_ne!(draws[0], draws[2]);
        assert_eq!(draws[2][0], Mutation::Nothing);
        let distinct: BTreeSet<String> = draws[0].iter().map(Mutation::to_string).collect();
        assert_eq!(distinct.len(), 30);
        assert_eq!(select(service_mutations(), usize::MAX, 1).len(), service_mutations().len());
    }
}
