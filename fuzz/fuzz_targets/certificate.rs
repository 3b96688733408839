//! No bytes in place of a certificate do harm, and a certificate without a name is nobody.
#![no_main]

use atoll_authn::certificate;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Some(user) = certificate::user(bytes) {
        assert!(!user.name.is_empty());
    }
});
