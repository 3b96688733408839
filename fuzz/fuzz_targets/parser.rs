//! Fuzzes the parser that `ATOLL_FUZZ_TARGET` names.
#![no_main]

use std::sync::LazyLock;

use atoll_fuzz::Target;
use libfuzzer_sys::fuzz_target;

static TARGET: LazyLock<&'static Target> = LazyLock::new(|| {
    let name = std::env::var("ATOLL_FUZZ_TARGET").unwrap_or_default();
    Target::named(&name).expect("ATOLL_FUZZ_TARGET must name a target; cargo xtask fuzz sets it")
});

fuzz_target!(|bytes: &[u8]| {
    (TARGET.run)(bytes);
});
