//! Functions of lists and maps: membership, size and indexing.

// upstream: github.com/google/cel-go/common/types/list.go
// upstream: github.com/google/cel-go/common/types/map.go

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use super::special;
use crate::error::Error;
use crate::library::Overload;
use crate::value::{Key, List, Map, Value};

pub static INDEX: &[Overload] = &[
    Overload::new("index_list", "(list(A), int) -> A", special),
    Overload::new("index_map", "(map(A, B), A) -> B", special),
    Overload::new("optional_list_index_int", "(optional(list(V)), int) -> optional(V)", special),
    Overload::new("optional_map_index_value", "(optional(map(K, V)), K) -> optional(V)", special),
];

pub static OPTIONAL_INDEX: &[Overload] = &[
    Overload::new("list_optindex_optional_int", "(list(V), int) -> optional(V)", special),
    Overload::new("optional_list_optindex_optional_int", "(optional(list(V)), int) -> optional(V)", special),
    Overload::new("map_optindex_optional_value", "(map(K, V), K) -> optional(V)", special),
    Overload::new("optional_map_optindex_optional_value", "(optional(map(K, V)), K) -> optional(V)", special),
];

pub static OPTIONAL_SELECT: &[Overload] =
    &[Overload::new("select_optional_field", "(dyn, string) -> optional(V)", special)];

pub static IN: &[Overload] = &[
    Overload::new("in_list", "(A, list(A)) -> bool", contains).unguarded(),
    Overload::new("in_map", "(A, map(A, B)) -> bool", contains).unguarded(),
];

pub static SIZE: &[Overload] = &[
    Overload::new("size_bytes", "(bytes) -> int", size).unguarded(),
    Overload::new("bytes_size", "bytes.() -> int", size).unguarded(),
    Overload::new("size_list", "(list(A)) -> int", size).unguarded(),
    Overload::new("list_size", "list(A).() -> int", size).unguarded(),
    Overload::new("size_map", "(map(A, B)) -> int", size).unguarded(),
    Overload::new("map_size", "map(A, B).() -> int", size).unguarded(),
    Overload::new("size_string", "(string) -> int", size).unguarded(),
    Overload::new("string_size", "string.() -> int", size).unguarded(),
];

pub static INSERT: &[Overload] = &[
    Overload::new("@mapInsert_map_key_value", "(map(K, V), K, V) -> map(K, V)", insert),
    Overload::new("@mapInsert_map_map", "(map(K, V), map(K, V)) -> map(K, V)", insert),
];

fn contains<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let [value, within] = arguments else { return Err(Error::NoSuchOverload) };
    match within {
        Value::List(list) => {
            let mut failed = None;
            for item in list.iter() {
                // A list with a schema compares its items, which may fail.
                let equal = match list {
                    List::Json(..) => item.and_then(|item| item.equals(value)),
                    _ => item.and_then(|item| value.equals(&item)).or(Ok(false)),
                };
                match equal {
                    Ok(true) => return Ok(Value::Bool(true)),
                    Ok(false) => {}
                    Err(error) => failed = failed.or(Some(error)),
                }
            }
            match failed {
                Some(error) => Err(error),
                None => Ok(Value::Bool(false)),
            }
        }
        Value::Map(map) => map.find(value).map(|found| Value::Bool(found.is_some())),
        _ => Err(Error::NoSuchOverload),
    }
}

fn size<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    match arguments {
        [value @ (Value::String(_) | Value::Bytes(_) | Value::List(_) | Value::Map(_))] => {
            Ok(Value::Int(value.size().unwrap_or(0).cast_signed()))
        }
        _ => Err(Error::new("no such overload: size")),
    }
}

fn entries<'a>(map: &Map<'a>) -> Result<BTreeMap<Key<'a>, Value<'a>>, Error> {
    if let Map::Owned(entries) = map {
        return Ok((**entries).clone());
    }
    let mut entries = BTreeMap::new();
    for key in map.keys() {
        if let (Some(own), Some(value)) = (Key::of(&key), map.find(&key)?) {
            entries.insert(own, value);
        }
    }
    Ok(entries)
}

/// Inserts an entry, whose key must be new.
fn put<'a>(
    entries: &mut BTreeMap<Key<'a>, Value<'a>>,
    key: &Value<'a>,
    value: Value<'a>,
) -> Result<(), Error> {
    let Some(own) = Key::of(key) else {
        return Err(Error::new(format!("unsupported key type: {}", key.type_name())));
    };
    match entries.entry(own) {
        Entry::Occupied(_) => Err(Error::new(format!("insert failed: key {} already exists", key.display()))),
        Entry::Vacant(free) => {
            free.insert(value);
            Ok(())
        }
    }
}

/// Inserts the remaining arguments into a map.
pub fn put_all<'a>(entries: &mut BTreeMap<Key<'a>, Value<'a>>, rest: &[Value<'a>]) -> Result<(), Error> {
    match rest {
        [key, value] => put(entries, key, value.clone()),
        [Value::Map(more)] => {
            for key in more.keys() {
                if let Some(value) = more.find(&key)? {
                    put(entries, &key, value)?;
                }
            }
            Ok(())
        }
        _ => Err(Error::NoSuchOverload),
    }
}

fn insert<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let [Value::Map(map), rest @ ..] = arguments else { return Err(Error::NoSuchOverload) };
    let mut all = entries(map)?;
    put_all(&mut all, rest)?;
    Ok(Value::Map(Map::Owned(Arc::new(all))))
}
