//! A token that can be read says what one of ours says, and never climbs out of its list.
#![no_main]

use atoll_server::fuzzing::Token;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(token) = Token::decode(text) {
        assert!(token.after.split('/').all(|part| part != "." && part != ".."));
        let again = Token::decode(&Token::encode(token.revision, &token.after)).expect("our own can be read");
        assert_eq!(again, token);
    }
    let _ = Token::decode(&Token::encode(Some(7), text));
});
