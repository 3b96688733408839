//! No request body does harm, and what is accepted is accepted again. The first byte chooses the kind.
#![no_main]

use std::sync::LazyLock;

use atoll_meta::json;
use atoll_registry::{Catalog, Profile};
use atoll_schema::{Types, decode};
use atoll_server::fuzzing::{FieldValidation, object};
use http::HeaderMap;
use libfuzzer_sys::fuzz_target;

static CATALOG: LazyLock<Catalog> = LazyLock::new(|| Catalog::new(Profile::Full));

fuzz_target!(|bytes: &[u8]| {
    let Some((choice, body)) = bytes.split_first() else { return };
    let rows = CATALOG.rows();
    let row = &rows[usize::from(*choice) % rows.len()];
    if let Some(id) = row.type_id {
        let _ = decode(Types::get(), id, body);
    }
    let headers = HeaderMap::new();
    let _ = object(row, &headers, body, FieldValidation::Strict);
    let Ok(decoded) = object(row, &headers, body, FieldValidation::Ignore) else { return };
    let again = |written: &[u8]| match object(row, &headers, written, FieldValidation::Ignore) {
        Ok(decoded) => json::to_vec(&decoded.object),
        Err(status) => panic!("what was written is refused: {}", status.message()),
    };
    // Where anything goes, -0.0 is written as -0, which is the integer 0 the next time, as in Go.
    let written = again(&json::to_vec(&decoded.object));
    assert_eq!(again(&written), written);
});
