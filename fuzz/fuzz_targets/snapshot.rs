//! A snapshot is read or refused, and how it was cut into pieces on the way makes no difference.
#![no_main]

use atoll_server::fuzzing::snapshot;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let whole = snapshot(bytes, bytes.len());
    let pieces = snapshot(bytes, 7);
    assert_eq!(whole.map_err(|status| status.code()), pieces.map_err(|status| status.code()));
});
