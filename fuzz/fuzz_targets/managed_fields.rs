//! Sets of fields that are read can be written, and say the same when they are read again.

#![no_main]

use atoll_merge::apply::Set;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(parsed) = atoll_meta::json::parse(data) else { return };
    let Ok(set) = Set::from_fields(&parsed.value) else { return };
    let written = set.to_fields();
    let again = Set::from_fields(&written).expect("what was written can be read");
    assert_eq!(again, set);
    assert_eq!(again.to_fields(), written);
    assert_eq!(set.intersection(&again), set);
    assert!(set.difference(&again).is_empty());
    assert_eq!(set.clone().union(again), set);
});
