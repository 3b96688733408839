//! The API of a cluster, however it is reached: requests, and requests that change the protocol of their
//! connection.
//!
//! ```text
//!   ClusterApi ─┬─ Https: a connection to the cluster's API server, with a credential of the cluster
//!               └─ a tunnel: a connection that the cluster's agent has opened
//! ```

use bytes::Bytes;
use http::header::{CONNECTION, UPGRADE};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::{BoxError, BoxFuture, ResponseBody, Transport};

/// A stream of bytes in both directions.
pub trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for S {}

/// The response to a request that asks for another protocol.
pub enum Upgrade {
    /// The server has switched protocols: its response with status 101, and the stream.
    Switched(Response<()>, Box<dyn ByteStream>),
    /// The server's response in the old protocol.
    Refused(Response<ResponseBody>),
}

/// Sends requests to a cluster, including those for exec, attach and port-forward.
pub trait ClusterApi: Transport {
    /// Sends a request with the headers `Connection: Upgrade` and `Upgrade`.
    fn upgrade(&self, request: Request<()>) -> BoxFuture<'_, Result<Upgrade, BoxError>>;

    /// Sends a request whose response may be read slowly, or not at all.
    fn forward(&self, request: Request<Bytes>) -> BoxFuture<'_, Result<Response<ResponseBody>, BoxError>>;

    /// Returns the limit of memory that data of a forwarded response or of a stream takes while it is not read.
    fn unread_limit(&self) -> usize;
}

/// Asks for a protocol in the headers of a request, or confirms it in those of a response.
pub fn set_upgrade(headers: &mut HeaderMap, protocol: HeaderValue) {
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, protocol);
}

/// Returns the protocol that a request asks for, or that a response confirms.
pub fn upgrade_protocol(headers: &HeaderMap) -> Option<&str> {
    let lists = headers.get_all(CONNECTION).into_iter().filter_map(|value| value.to_str().ok());
    let mut options = lists.flat_map(|list| list.split(',')).map(str::trim);
    options.find(|option| option.eq_ignore_ascii_case("upgrade"))?;
    headers.get(UPGRADE)?.to_str().ok().filter(|protocol| !protocol.is_empty())
}

/// Headers of requests that reach the API server of a cluster. All others belong to the connection or to the
/// client: credentials, cookies, impersonation, addresses.
const REQUEST_HEADERS: [&str; 8] = [
    "accept",
    "content-type",
    "sec-websocket-extensions",
    "sec-websocket-key",
    "sec-websocket-protocol",
    "sec-websocket-version",
    "user-agent",
    "x-stream-protocol-version",
];
/// Headers of responses that come from the API server of a cluster.
const RESPONSE_HEADERS: [&str; 9] = [
    "content-encoding",
    "content-type",
    "retry-after",
    "sec-websocket-accept",
    "sec-websocket-extensions",
    "sec-websocket-protocol",
    "warning",
    "x-accepted-stream-protocol-versions",
    "x-stream-protocol-version",
];
/// Prefix of a WebSocket subprotocol that carries a bearer token.
const TOKEN_PROTOCOL: &str = "base64url.bearer.authorization.k8s.io.";

/// Returns the headers of a request that may reach a cluster, without credentials of the client.
pub fn request_headers(headers: &HeaderMap) -> HeaderMap {
    let mut kept = selected(headers, &REQUEST_HEADERS);
    let Some(offered) = kept.remove("sec-websocket-protocol") else { return kept };
    let mut all = vec![offered];
    all.extend(headers.get_all("sec-websocket-protocol").into_iter().skip(1).cloned());
    let names = all.iter().filter_map(|value| value.to_str().ok()).flat_map(|list| list.split(','));
    let names: Vec<&str> =
        names.map(str::trim).filter(|name| !name.is_empty() && !name.starts_with(TOKEN_PROTOCOL)).collect();
    if let Ok(value) = HeaderValue::from_str(&names.join(", "))
        && !value.is_empty()
    {
        kept.insert(HeaderName::from_static("sec-websocket-protocol"), value);
    }
    kept
}

/// Returns the headers of a response of a cluster that clients may see.
pub fn response_headers(headers: &HeaderMap) -> HeaderMap {
    selected(headers, &RESPONSE_HEADERS)
}

fn selected(headers: &HeaderMap, names: &[&str]) -> HeaderMap {
    let is_selected = |name: &HeaderName| names.contains(&name.as_str());
    let pairs = headers.iter().filter(|(name, _)| is_selected(name));
    let mut kept = HeaderMap::new();
    for (name, value) in pairs {
        kept.append(name.clone(), value.clone());
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn credentials_do_not_reach_clusters() {
        let original = headers(&[
            ("authorization", "Bearer secret"),
            ("cookie", "a=b"),
            ("impersonate-user", "ann"),
            ("x-remote-user", "ann"),
            ("connection", "Upgrade"),
            ("upgrade", "websocket"),
            ("accept", "application/json"),
            ("x-stream-protocol-version", "v4.channel.k8s.io"),
            ("x-stream-protocol-version", "v3.channel.k8s.io"),
            ("sec-websocket-protocol", "base64url.bearer.authorization.k8s.io.c2VjcmV0, v5.channel.k8s.io"),
            ("sec-websocket-protocol", "v4.channel.k8s.io"),
        ]);
        let expected = headers(&[
            ("accept", "application/json"),
            ("x-stream-protocol-version", "v4.channel.k8s.io"),
            ("x-stream-protocol-version", "v3.channel.k8s.io"),
            ("sec-websocket-protocol", "v5.channel.k8s.io, v4.channel.k8s.io"),
        ]);
        assert_eq!(request_headers(&original), expected);
        let only = headers(&[("sec-websocket-protocol", "base64url.bearer.authorization.k8s.io.c2VjcmV0")]);
        assert!(request_headers(&only).is_empty());
    }

    #[test]
    fn responses_set_no_cookies() {
        let original = headers(&[("set-cookie", "a=b"), ("location", "https://x"), ("retry-after", "3")]);
        assert_eq!(response_headers(&original), headers(&[("retry-after", "3")]));
    }

    #[test]
    fn upgrades_name_a_protocol() {
        for (pairs, expected) in [
            (&[("connection", "keep-alive, Upgrade"), ("upgrade", "SPDY/3.1")][..], Some("SPDY/3.1")),
            (&[("upgrade", "websocket")], None),
            (&[("connection", "upgrade")], None),
            (&[("connection", "upgrade"), ("upgrade", "")], None),
        ] {
            assert_eq!(upgrade_protocol(&headers(pairs)), expected, "{pairs:?}");
        }
        let mut set = HeaderMap::new();
        set_upgrade(&mut set, HeaderValue::from_static("websocket"));
        assert_eq!(upgrade_protocol(&set), Some("websocket"));
    }
}
