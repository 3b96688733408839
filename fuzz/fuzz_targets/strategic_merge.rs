//! Strategic merges make documents that can be written and read again, and nothing changes when the patch is empty. The
//! input is a list of document and patch, after a byte that chooses the type.
#![no_main]

use atoll_merge::strategic_merge;
use atoll_meta::json::{self, Value};
use atoll_schema::{Types, normalise, resources, restore};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((choice, text)) = bytes.split_first() else { return };
    let Ok(parsed) = json::parse(text) else { return };
    let Value::Array(mut parts) = parsed.value else { return };
    let (Some(patch), Some(mut document)) = (parts.pop(), parts.pop()) else { return };
    let rows = resources();
    let Some(id) = rows[usize::from(*choice) % rows.len()].type_id else { return };
    let types = Types::get();
    if normalise(types, id, &mut document).is_err() {
        return;
    }
    let (mut unchanged, mut merged) = (document.clone(), document.clone());
    strategic_merge(types, id, &mut unchanged, &mut Value::Object(json::Map::new()))
        .expect("nothing can be merged");
    assert_eq!(unchanged, document);
    if strategic_merge(types, id, &mut merged, &mut patch.clone()).is_err() {
        return;
    }
    json::parse(&json::to_vec(&merged)).expect("merged documents can be read");
    let mut read = merged.clone();
    let fits = normalise(types, id, &mut read).is_ok_and(|unknown| unknown.is_empty());
    // What is read from JSON without remarks can be put into the struct without passing by it, and is the same.
    match restore(types, id, &mut merged) {
        Ok(unknown) if fits => {
            assert!(unknown.is_empty());
            assert_eq!(json::to_string(&read), json::to_string(&merged));
        }
        Ok(_) => {}
        Err(error) => assert!(!fits, "{error}"),
    }
});
