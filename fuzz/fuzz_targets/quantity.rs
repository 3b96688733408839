//! An amount that can be read is written as the same amount.
#![no_main]

use atoll_meta::quantity::Quantity;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(quantity) = Quantity::parse(text) else { return };
    let again = Quantity::parse(&quantity.canonical()).expect("the canonical form can be read");
    assert_eq!(again, quantity);
    let mut sum = quantity.clone();
    sum.add(&again);
    sum.subtract(&quantity);
    let _ = (quantity.units(), quantity.millis(), quantity.is_negative(), sum.to_string());
});
