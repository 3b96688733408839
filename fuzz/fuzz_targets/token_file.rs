//! A file of tokens is read or refused, and a refusal shows no token.
#![no_main]

use atoll_authn::token_file::TokenFile;
use atoll_authn::{AUTHENTICATED, Authenticator};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    match text.parse::<TokenFile>() {
        Ok(tokens) => {
            let authenticator = Authenticator { tokens };
            for header in text.lines() {
                if let Ok(user) = authenticator.authenticate(None, Some(header)) {
                    assert!(user.name == atoll_authn::ANONYMOUS || user.is_in(AUTHENTICATED));
                }
            }
        }
        Err(error) => assert!(error.to_string().len() < 200),
    }
});
