//! Headers of forwarded requests and responses.

// upstream: staging/src/k8s.io/apimachinery/pkg/util/proxy/upgradeaware.go

use std::net::IpAddr;

use atoll_streams::header_values;
use http::header::{
    AUTHORIZATION, CONNECTION, HeaderName, HeaderValue, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION,
    SEC_WEBSOCKET_PROTOCOL, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use http::{HeaderMap, header};

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
/// Prefix of a WebSocket subprotocol that carries a bearer token.
const TOKEN_PROTOCOL: &str = "base64url.bearer.authorization.k8s.io.";

/// Returns the headers of a forwarded request: without credentials and impersonation, and with the client's
/// address.
pub fn forwarded(original: &HeaderMap, address: Option<IpAddr>) -> HeaderMap {
    let mut headers = original.clone();
    headers.remove(AUTHORIZATION);
    let impersonating: Vec<HeaderName> =
        headers.keys().filter(|name| name.as_str().starts_with("impersonate-")).cloned().collect();
    for name in impersonating {
        headers.remove(name);
    }
    let offered = header_values(original, SEC_WEBSOCKET_PROTOCOL.as_str());
    if offered.iter().any(|protocol| protocol.starts_with(TOKEN_PROTOCOL)) {
        headers.remove(SEC_WEBSOCKET_PROTOCOL);
        let kept: Vec<&str> =
            offered.into_iter().filter(|protocol| !protocol.starts_with(TOKEN_PROTOCOL)).collect();
        if let Ok(kept) = HeaderValue::from_str(&kept.join(", ")) {
            headers.insert(SEC_WEBSOCKET_PROTOCOL, kept);
        }
    }
    if let Some(address) = address {
        let mut forwarded_for = header_values(original, FORWARDED_FOR.as_str()).join(", ");
        if !forwarded_for.is_empty() {
            forwarded_for.push_str(", ");
        }
        forwarded_for.push_str(&address.to_string());
        if let Ok(forwarded_for) = HeaderValue::from_str(&forwarded_for) {
            headers.insert(FORWARDED_FOR, forwarded_for);
        }
    }
    headers
}

/// Removes hop-by-hop headers.
pub fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = header_values(headers, CONNECTION.as_str())
        .into_iter()
        .filter_map(|name| HeaderName::from_bytes(name.as_bytes()).ok())
        .collect();
    let fixed =
        [CONNECTION, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE];
    let others = ["keep-alive", "proxy-connection"].map(HeaderName::from_static);
    for name in named.into_iter().chain(fixed).chain(others) {
        headers.remove(name);
    }
}

/// Removes CORS headers: a backend must not grant other origins access to the API server.
pub fn remove_cors(headers: &mut HeaderMap) {
    for name in [
        header::ACCESS_CONTROL_ALLOW_CREDENTIALS,
        header::ACCESS_CONTROL_ALLOW_HEADERS,
        header::ACCESS_CONTROL_ALLOW_METHODS,
        header::ACCESS_CONTROL_ALLOW_ORIGIN,
    ] {
        headers.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pairs = pairs
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
        pairs.collect()
    }

    #[test]
    fn credentials_are_not_forwarded() {
        let original = headers(&[
            ("authorization", "Bearer secret"),
            ("impersonate-user", "ann"),
            ("impersonate-extra-a", "b"),
            ("sec-websocket-protocol", "base64url.bearer.authorization.k8s.io.c2VjcmV0, v4.channel.k8s.io"),
            ("accept", "*/*"),
            ("x-forwarded-for", "10.0.0.1"),
        ]);
        let expected = headers(&[
            ("sec-websocket-protocol", "v4.channel.k8s.io"),
            ("accept", "*/*"),
            ("x-forwarded-for", "10.0.0.1, 10.0.0.2"),
        ]);
        assert_eq!(forwarded(&original, Some([10, 0, 0, 2].into())), expected);
    }

    #[test]
    fn hop_by_hop_headers_are_removed() {
        let mut all = headers(&[
            ("connection", "close, x-mine"),
            ("x-mine", "1"),
            ("keep-alive", "1"),
            ("te", "trailers"),
            ("upgrade", "h2c"),
            ("transfer-encoding", "chunked"),
            ("x-other", "2"),
        ]);
        remove_hop_by_hop(&mut all);
        assert_eq!(all, headers(&[("x-other", "2")]));
    }
}
