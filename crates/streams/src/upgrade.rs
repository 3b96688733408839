//! Upgrade requests.

// upstream: staging/src/k8s.io/streaming/pkg/httpstream/httpstream.go
// upstream: staging/src/k8s.io/streaming/pkg/httpstream/spdy/upgrade.go

use http::header::{CONNECTION, CONTENT_TYPE, UPGRADE, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderMap, HeaderValue, Response, StatusCode};

use crate::spdy;

/// The header with the protocol on top of SPDY.
pub const STREAM_PROTOCOL: &str = "x-stream-protocol-version";
const ACCEPTED_PROTOCOLS: &str = "x-accepted-stream-protocol-versions";

/// The response to a refused upgrade.
pub type UpgradeRefusal = Response<String>;

/// Whether a request asks for an upgrade.
pub fn is_upgrade(headers: &HeaderMap) -> bool {
    let asks =
        |value: &HeaderValue| value.to_str().is_ok_and(|text| text.to_ascii_lowercase().contains("upgrade"));
    headers.get_all(CONNECTION).iter().any(asks)
}

/// Returns the values of a list header, which may occur several times.
pub fn header_values<'a>(headers: &'a HeaderMap, name: &str) -> Vec<&'a str> {
    let lists = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    lists.flat_map(|list| list.split(',')).map(str::trim).filter(|value| !value.is_empty()).collect()
}

/// Returns a plain text error, as upstream's servers do.
pub(crate) fn refusal(code: StatusCode, text: &str) -> UpgradeRefusal {
    let mut response = Response::new(if text.is_empty() { String::new() } else { format!("{text}\n") });
    *response.status_mut() = code;
    let headers = response.headers_mut();
    if !text.is_empty() {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    }
    response
}

/// Accepts SPDY with the first of the client's protocols that is in `known`.
pub(crate) fn spdy(
    headers: &HeaderMap,
    known: &[&str],
) -> Result<(String, Response<String>), UpgradeRefusal> {
    let bad = |text: String| Err(refusal(StatusCode::BAD_REQUEST, &format!("unable to upgrade: {text}")));
    if !headers.contains_key(STREAM_PROTOCOL) {
        let count = headers.keys_len();
        return bad(format!(
            "header X-Stream-Protocol-Version does not exist in request with {count} headers"
        ));
    }
    let offered = header_values(headers, STREAM_PROTOCOL);
    if offered.is_empty() {
        return bad("header X-Stream-Protocol-Version contains [], but no valid protocols".into());
    }
    let Some(protocol) = offered.iter().find(|offered| known.contains(offered)) else {
        let text = format!(
            "unable to upgrade: unable to negotiate protocol: client supports [{}], server accepts [{}]",
            offered.join(" "),
            known.join(" ")
        );
        let mut refused = refusal(StatusCode::FORBIDDEN, &text);
        for known in known {
            if let Ok(value) = HeaderValue::from_str(known) {
                refused.headers_mut().append(ACCEPTED_PROTOCOLS, value);
            }
        }
        return Err(refused);
    };
    let wanted = headers.get(UPGRADE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if !is_upgrade(headers) || !wanted.to_ascii_lowercase().contains(&spdy::PROTOCOL.to_ascii_lowercase()) {
        return bad("missing upgrade headers in request".into());
    }
    let mut response = Response::new(String::new());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let answer = response.headers_mut();
    answer.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    answer.insert(UPGRADE, HeaderValue::from_static(spdy::PROTOCOL));
    if let Ok(chosen) = HeaderValue::from_str(protocol) {
        answer.insert(STREAM_PROTOCOL, chosen);
    }
    Ok((protocol.to_string(), response))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spdy_is_accepted_with_a_common_protocol() {
        let request = |upgrade: &'static str, protocols: &[&'static str]| {
            let mut headers = HeaderMap::new();
            headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
            headers.insert(UPGRADE, HeaderValue::from_static(upgrade));
            for protocol in protocols {
                headers.append(STREAM_PROTOCOL, HeaderValue::from_static(protocol));
            }
            headers
        };
        let known = ["v4", "v3"];
        let agreed = spdy(&request("SPDY/3.1", &["v5", "v4", "v3"]), &known).unwrap();
        assert_eq!((agreed.0.as_str(), agreed.1.status().as_u16()), ("v4", 101));
        assert_eq!(agreed.1.headers()[STREAM_PROTOCOL], "v4");
        let cases: [(HeaderMap, u16, &str); 4] = [
            (
                request("SPDY/3.1", &[]),
                400,
                "unable to upgrade: header X-Stream-Protocol-Version does not exist in request with 2 headers\n",
            ),
            (
                request("SPDY/3.1", &["v5", "v6"]),
                403,
                "unable to upgrade: unable to negotiate protocol: client supports [v5 v6], server accepts [v4 v3]\n",
            ),
            (
                request("SPDY/3.1", &[" , "]),
                400,
                "unable to upgrade: header X-Stream-Protocol-Version contains [], but no valid protocols\n",
            ),
            (request("h2c", &["v4"]), 400, "unable to upgrade: missing upgrade headers in request\n"),
        ];
        for (headers, code, text) in cases {
            let refused = spdy(&headers, &known).unwrap_err();
            assert_eq!((refused.status().as_u16(), refused.body().as_str()), (code, text));
        }
    }
}
