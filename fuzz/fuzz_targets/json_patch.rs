//! No patch makes a document that cannot be written and read again. The input is a list of document and patch.
#![no_main]

use atoll_merge::{check_merge_patch, json_patch, merge_patch, unknown_fields};
use atoll_meta::json::{self, Value};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(parsed) = json::parse(bytes) else { return };
    let Value::Array(mut parts) = parsed.value else { return };
    let (Some(patch), Some(document)) = (parts.pop(), parts.pop()) else { return };
    unknown_fields(&patch);
    let mut patched = document.clone();
    if json_patch(&mut patched, &patch).is_ok() {
        json::parse(&json::to_vec(&patched)).expect("patched documents can be read");
    }
    let mut merged = document;
    merge_patch(&mut merged, &patch);
    json::parse(&json::to_vec(&merged)).expect("merged documents can be read");
    if check_merge_patch(&patch).is_ok() {
        assert!(merged.is_object());
    }
});
