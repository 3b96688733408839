//! A token that can be read says what one of ours says. The input is what a token holds: random text is seldom base64.
#![no_main]

use atoll_server::fuzzing::Token;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let _ = Token::decode(text);
    let Ok(token) = Token::decode(&URL_SAFE_NO_PAD.encode(text)) else { return };
    let again = Token::decode(&Token::encode(token.revision, &token.after)).expect("our own can be read");
    assert_eq!(again, token);
});
