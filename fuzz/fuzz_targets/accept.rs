//! Any Accept header gets an answer or a refusal.
#![no_main]

use atoll_server::RequestInfo;
use atoll_server::fuzzing::{Output, Query, clauses, media_type};
use http::{HeaderMap, HeaderValue, header};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(text) = std::str::from_utf8(bytes) {
        for clause in clauses(text) {
            let _ = (clause.is_transformed(), clause.parameter("as"));
        }
    }
    let Ok(value) = HeaderValue::from_bytes(bytes) else { return };
    let mut headers = HeaderMap::new();
    headers.insert(header::ACCEPT, value.clone());
    headers.insert(header::CONTENT_TYPE, value);
    let _ = media_type(&headers);
    let _ = Output::of_error(&headers, &Query::default()).media.content_type();
    for verb in ["get", "list", "watch"] {
        let info = RequestInfo { verb, ..RequestInfo::default() };
        let _ = Output::negotiate(&headers, &info, &Query::default());
    }
});
