//! Whatever is read can be written, and is then the same for us and for serde_json.
#![no_main]

use atoll_meta::json;
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fuzz_target!(|bytes: &[u8]| {
    let Ok(parsed) = json::parse(bytes) else { return };
    let written = json::to_vec(&parsed.value);
    let again = json::parse(&written).expect("what was written can be read");
    assert!(again.duplicates.is_empty());
    // A float without a fraction is written as an integer, so the values may differ where the texts may not; and -0.0
    // is written as -0, which is the integer 0, as in Go.
    let rewritten = json::to_vec(&again.value);
    assert!(rewritten == written || written.windows(2).any(|pair| pair == b"-0"));
    assert_eq!(json::to_vec(&json::parse(&rewritten).expect("and again").value), rewritten);
    // The other library has a lower limit of nesting.
    if let Err(error) = serde_json::from_slice::<Value>(&written) {
        assert!(error.to_string().contains("recursion limit"), "{error}");
    }
    let stored = json::encode_object(&parsed.value);
    json::parse(&json::splice_resource_version(&stored, u64::MAX)).expect("stored objects can be read");
    json::parse(&[b"{", &stored[json::prefix_len(&stored)..]].concat()).expect("items of lists can be read");
    json::splice_resource_version(bytes, 0);
});
