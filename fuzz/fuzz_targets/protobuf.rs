//! A message that can be read is written as a message that means the same. The first byte chooses the type.
#![no_main]

use atoll_schema::{Types, resources};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = atoll_wire::open(bytes).map(|envelope| envelope.raw.len());
    let Some((choice, message)) = bytes.split_first() else { return };
    let rows = resources();
    let Some(id) = rows[usize::from(*choice) % rows.len()].type_id else { return };
    let types = Types::get();
    let Ok(value) = atoll_wire::decode(types, id, message) else { return };
    let written = atoll_wire::encode(types, id, &value);
    let again = atoll_wire::decode(types, id, &written).expect("what was written can be read");
    assert_eq!(atoll_wire::encode(types, id, &again), written);
});
