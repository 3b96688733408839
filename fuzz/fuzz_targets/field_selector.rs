//! A selector that can be read has a canonical form with the same comparisons.
#![no_main]

use std::collections::HashSet;

use atoll_meta::FieldSelector;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(selector) = FieldSelector::parse(text) else { return };
    let again = FieldSelector::parse(&selector.to_string()).expect("the canonical form can be read");
    // The order is that of the text, and `==` sorts differently from `=`.
    let terms: HashSet<_> = selector.terms().iter().collect();
    assert_eq!(again.terms().iter().collect::<HashSet<_>>(), terms);
    selector.matches(|_| Some("1"));
    selector.matches(|_| None::<&str>);
});
