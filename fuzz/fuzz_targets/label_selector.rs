//! A selector that can be read has a canonical form that means the same.
#![no_main]

use atoll_meta::LabelSelector;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(selector) = LabelSelector::parse(text) else { return };
    assert_eq!(LabelSelector::parse(&selector.to_string()).as_ref(), Ok(&selector));
    selector.matches(|_| Some("1"));
    selector.matches(|_| None);
});
