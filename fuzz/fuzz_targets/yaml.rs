//! YAML becomes JSON that can be written and read.
#![no_main]

use atoll_meta::json;
use atoll_server::fuzzing::yaml;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(value) = yaml(bytes) else { return };
    json::parse(&json::to_vec(&value)).expect("what was written can be read");
});
