//! The WebSocket handshake and protocol negotiation.

// upstream: staging/src/k8s.io/streaming/pkg/httpstream/wsstream/conn.go

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::{
    CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION,
    UPGRADE,
};
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};

use crate::upgrade::{UpgradeRefusal, header_values, is_upgrade, refusal};

/// Whether a request asks for a WebSocket.
pub fn is_websocket(headers: &HeaderMap) -> bool {
    let wanted = headers.get(UPGRADE).and_then(|value| value.to_str().ok());
    is_upgrade(headers) && wanted.is_some_and(|wanted| wanted.eq_ignore_ascii_case("websocket"))
}

/// Returns the protocols that a client offers, in order of preference.
pub fn offered(headers: &HeaderMap) -> Vec<&str> {
    header_values(headers, SEC_WEBSOCKET_PROTOCOL.as_str())
}

/// An accepted handshake.
#[derive(Debug)]
pub struct Handshake {
    pub protocol: String,
    pub response: Response<String>,
}

impl Handshake {
    /// Accepts the client's first protocol that is in `known`. An empty string in `known` stands for no
    /// protocol.
    pub fn new(method: &Method, headers: &HeaderMap, known: &[&str]) -> Result<Handshake, UpgradeRefusal> {
        if method != Method::GET {
            return Err(refusal(StatusCode::METHOD_NOT_ALLOWED, ""));
        }
        let key = headers.get(SEC_WEBSOCKET_KEY).filter(|key| is_websocket(headers) && !key.is_empty());
        let Some(key) = key else { return Err(refusal(StatusCode::BAD_REQUEST, "")) };
        if headers.get(SEC_WEBSOCKET_VERSION).is_none_or(|version| version != "13") {
            let mut refused = refusal(StatusCode::BAD_REQUEST, "");
            refused.headers_mut().insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
            return Err(refused);
        }
        let mut offered = offered(headers);
        if offered.is_empty() {
            offered.push("");
        }
        let Some(protocol) = offered.into_iter().find(|offered| known.contains(offered)) else {
            return Err(refusal(StatusCode::FORBIDDEN, ""));
        };
        let mut response = Response::new(String::new());
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let answer = response.headers_mut();
        answer.insert(UPGRADE, HeaderValue::from_static("websocket"));
        answer.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        if let Ok(accept) = HeaderValue::from_str(&accept_key(key.as_bytes())) {
            answer.insert(SEC_WEBSOCKET_ACCEPT, accept);
        }
        if let Ok(chosen) = HeaderValue::from_str(protocol)
            && !protocol.is_empty()
        {
            answer.insert(SEC_WEBSOCKET_PROTOCOL, chosen);
        }
        Ok(Handshake { protocol: protocol.to_string(), response })
    }
}

/// Returns the value of `Sec-WebSocket-Accept` for a key.
pub fn accept_key(key: &[u8]) -> String {
    let text = [key, b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"].concat();
    STANDARD.encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, &text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(protocols: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(CONNECTION, HeaderValue::from_static("keep-alive, Upgrade"));
        headers.insert(UPGRADE, HeaderValue::from_static("WebSocket"));
        headers.insert(SEC_WEBSOCKET_KEY, HeaderValue::from_static("dGhlIHNhbXBsZSBub25jZQ=="));
        headers.insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
        for protocol in protocols {
            headers.append(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_str(protocol).unwrap());
        }
        headers
    }

    #[test]
    fn the_first_common_protocol_is_accepted() {
        type Case<'a> = (&'a [&'a str], &'a [&'a str], Result<&'a str, u16>);
        let cases: [Case<'_>; 6] = [
            (&["v5", "v4"], &["v4", "v5"], Ok("v5")),
            (&["v6, v4"], &["v4", "v5"], Ok("v4")),
            (&[], &["", "v4"], Ok("")),
            (&[], &["v4"], Err(403)),
            (&["v6"], &["", "v4"], Err(403)),
            (&["v4"], &["v4"], Ok("v4")),
        ];
        for (offered, known, expected) in cases {
            let seen = Handshake::new(&Method::GET, &headers(offered), known);
            let seen = seen.map(|handshake| handshake.protocol).map_err(|refused| refused.status().as_u16());
            assert_eq!(seen, expected.map(String::from), "{offered:?} of {known:?}");
        }
        let agreed = Handshake::new(&Method::GET, &headers(&["a"]), &["a"]).unwrap().response;
        assert_eq!(agreed.status(), 101);
        assert_eq!(agreed.headers()[SEC_WEBSOCKET_ACCEPT], "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        assert_eq!(agreed.headers()[SEC_WEBSOCKET_PROTOCOL], "a");
    }

    #[test]
    fn invalid_handshakes_are_rejected() {
        let without = |name: http::HeaderName| {
            let mut headers = headers(&["a"]);
            headers.remove(name);
            headers
        };
        let refused = |method: Method, headers: &HeaderMap| {
            Handshake::new(&method, headers, &["a"]).unwrap_err().status().as_u16()
        };
        assert_eq!(refused(Method::POST, &headers(&["a"])), 405);
        for name in [CONNECTION, UPGRADE, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION] {
            assert_eq!(refused(Method::GET, &without(name)), 400);
        }
    }
}
