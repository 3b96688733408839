//! Patches and managed fields.

use atoll_merge::apply::{Author, Kind, ResetFields, Set, is_reset, merge_managers};
use atoll_merge::{check_merge_patch, json_patch as patch_json, merge_patch, unknown_fields};
use atoll_meta::json::{self, Value};
use atoll_schema::{Types, normalise, resources, restore};

use crate::{Accepted, chosen};

/// Parses an input that is a list of a document and a patch.
fn pair(bytes: &[u8]) -> Option<(Value, Value)> {
    let Value::Array(parts) = json::parse(bytes).ok()?.value else { return None };
    let [document, patch] = parts.try_into().ok()?;
    Some((document, patch))
}

/// A patched document can be serialized and parsed.
pub fn json_patch(bytes: &[u8]) -> Accepted {
    let (document, patch) = pair(bytes)?;
    unknown_fields(&patch);
    let mut patched = document.clone();
    let outcome = patch_json(&mut patched, &patch);
    if outcome.is_ok() {
        json::parse(&json::to_vec(&patched)).expect("patched documents can be parsed");
    }
    let mut merged = document;
    merge_patch(&mut merged, &patch);
    json::parse(&json::to_vec(&merged)).expect("merged documents can be parsed");
    if check_merge_patch(&patch).is_ok() {
        assert!(merged.is_object());
    }
    outcome.ok()
}

/// A strategic merge gives a document that can be serialized and parsed, and an empty patch changes nothing.
/// The first line names the resource.
pub fn strategic_merge(bytes: &[u8]) -> Accepted {
    let (row, rest) = chosen(resources(), |row| row.resource, bytes)?;
    let (mut document, patch) = pair(rest)?;
    let id = row.type_id?;
    let types = Types::get();
    normalise(types, id, &mut document).ok()?;
    let (mut unchanged, mut merged) = (document.clone(), document.clone());
    atoll_merge::strategic_merge(types, id, &mut unchanged, &mut Value::Object(json::Map::new()))
        .expect("an empty patch can be merged");
    assert_eq!(unchanged, document);
    atoll_merge::strategic_merge(types, id, &mut merged, &mut patch.clone()).ok()?;
    json::parse(&json::to_vec(&merged)).expect("merged documents can be parsed");
    let mut read = merged.clone();
    let fits = normalise(types, id, &mut read).is_ok_and(|unknown| unknown.is_empty());
    // If normalizing finds no problems, restoring the merged document directly gives the same result.
    match restore(types, id, &mut merged) {
        Ok(unknown) if fits => {
            assert!(unknown.is_empty());
            assert_eq!(json::to_string(&read), json::to_string(&merged));
        }
        Ok(_) => {}
        Err(error) => assert!(!fits, "{error}"),
    }
    Some(())
}

/// Field sets that are written and parsed again are equal.
pub fn managed_fields(bytes: &[u8]) -> Accepted {
    let parsed = json::parse(bytes).ok()?;
    is_reset(Some(&parsed.value));
    if let Some(entries) = merge_managers(Some(&parsed.value), &Value::Null) {
        assert_eq!(merge_managers(Some(&entries), &Value::Null), Some(entries));
    }
    let set = Set::from_fields(&parsed.value).ok()?;
    let written = set.to_fields();
    let again = Set::from_fields(&written).expect("written field sets can be parsed");
    assert_eq!(again, set);
    assert_eq!(again.to_fields(), written);
    assert_eq!(set.intersection(&again), set);
    assert!(set.difference(&again).is_empty());
    assert_eq!(set.clone().union(again), set);
    Some(())
}

/// Applying the same configuration twice changes nothing the second time. The first line names the resource;
/// the rest is a list of the live object and the applied configuration.
pub fn apply(bytes: &[u8]) -> Accepted {
    let (row, rest) = chosen(resources(), |row| row.resource, bytes)?;
    let (mut live, mut configuration) = pair(rest)?;
    let (types, id) = (Types::get(), row.type_id?);
    let api_version =
        if row.group.is_empty() { row.version.to_owned() } else { format!("{}/{}", row.group, row.version) };
    for object in [&mut live, &mut configuration] {
        let fields = object.as_object_mut()?;
        fields.insert("apiVersion".into(), api_version.as_str().into());
        fields.insert("kind".into(), row.kind.into());
    }
    normalise(types, id, &mut live).ok()?;
    let kind = Kind::new(api_version, row.kind, Some(id));
    let author =
        Author { manager: "fuzz", time: "2026-11-15T08:00:00Z", subresource: "", resets: ResetFields::NONE };
    let mut applied = kind.apply(&live, &configuration, &author, true).ok()?;
    normalise(types, id, &mut applied).ok()?;
    let mut again =
        kind.apply(&applied, &configuration, &author, false).expect("there is no other field manager");
    normalise(types, id, &mut again).expect("the applied object is valid");
    assert_eq!(again, applied);
    Some(())
}
