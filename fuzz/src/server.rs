//! Requests: paths, queries, headers and bodies.

use std::future::Future;
use std::task::{Context, Poll, Waker};

use atoll_meta::json;
use atoll_schema::{Types, decode};
use atoll_server::RequestInfo;
use atoll_server::fuzzing::{
    self, FieldValidation, ListOptions, Output, Patch, PatchKind, Query, Token, WriteOptions, clauses,
    delete, media_type,
};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};

use crate::objects::CATALOG;
use crate::{Accepted, chosen, lines, text};

/// Polls a future that never waits to completion.
pub fn poll_ready<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    loop {
        if let Poll::Ready(outcome) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return outcome;
        }
    }
}

/// Any Accept header is negotiated or rejected.
pub fn accept(bytes: &[u8]) -> Accepted {
    if let Some(text) = text(bytes) {
        for clause in clauses(text) {
            let _ = (clause.is_transformed(), clause.parameter("as"));
        }
    }
    let value = HeaderValue::from_bytes(bytes).ok()?;
    let mut headers = HeaderMap::new();
    headers.insert(header::ACCEPT, value.clone());
    headers.insert(header::CONTENT_TYPE, value);
    let _ = media_type(&headers);
    let _ = Output::of_error(&headers, &Query::default()).media.content_type();
    let mut accepted = None;
    for verb in ["get", "list", "watch"] {
        let info = RequestInfo { verb, ..RequestInfo::default() };
        if Output::negotiate(&headers, &info, &Query::default()).is_ok() {
            accepted = Some(());
        }
    }
    accepted
}

/// Any request body is decoded or rejected, and a decoded object that is written is accepted again. The first
/// line names the resource.
pub fn body(bytes: &[u8]) -> Accepted {
    let (row, body) = chosen(CATALOG.rows(), |row| &row.resource, bytes)?;
    if let Some(id) = row.type_id {
        let _ = decode(Types::get(), id, body);
    }
    let headers = HeaderMap::new();
    let _ = fuzzing::object(row, &headers, body, FieldValidation::Strict);
    let decoded = fuzzing::object(row, &headers, body, FieldValidation::Ignore).ok()?;
    let again = |written: &[u8]| match fuzzing::object(row, &headers, written, FieldValidation::Ignore) {
        Ok(decoded) => json::to_vec(&decoded.object),
        Err(status) => panic!("a written object is rejected: {}", status.message()),
    };
    // In untyped fields, -0.0 is written as -0, which is parsed as the integer 0, as in Go.
    let written = again(&json::to_vec(&decoded.object));
    assert_eq!(again(&written), written);
    Some(())
}

/// A continue token that is written and parsed again is equal. The input is the content of a token, because
/// random text is rarely base64.
pub fn continue_token(bytes: &[u8]) -> Accepted {
    let text = text(bytes)?;
    let _ = Token::decode(text);
    let token = Token::decode(&URL_SAFE_NO_PAD.encode(text)).ok()?;
    let again = Token::decode(&Token::encode(token.revision, &token.after, token.rest))
        .expect("written tokens can be parsed");
    assert_eq!(again, token);
    Some(())
}

/// Path components contain neither slashes nor dot segments, or the path is rejected.
pub fn path(bytes: &[u8]) -> Accepted {
    let text = text(bytes)?;
    let (path, query) = text.split_once('?').unwrap_or((text, ""));
    let query = Query::parse(query);
    let mut accepted = None;
    for method in [Method::GET, Method::POST, Method::DELETE, Method::OPTIONS] {
        let Ok(info) = RequestInfo::parse(&method, path, &query) else { continue };
        let parts =
            [&info.group, &info.version, &info.resource, &info.namespace, &info.name, &info.subresource];
        for part in parts {
            let climbs = part.contains('/') || part == "." || part == "..";
            assert!(!climbs || info.is_malformed, "{part:?}");
        }
        assert!(info.path.starts_with('/'));
        assert!(info.is_resource || info.resource.is_empty());
        let _ = (info.target(), info.api_version(), info.is_long_running());
        accepted = Some(());
    }
    accepted
}

/// Options of any query are parsed or rejected.
pub fn query(bytes: &[u8]) -> Accepted {
    let query = Query::parse(text(bytes)?);
    let mut accepted = None;
    for (group, version, resource) in [("", "v1", "pods"), ("apps", "v1", "deployments")] {
        let row = CATALOG.find(group, version, resource).expect("a built-in resource");
        let _ = ListOptions::parse(row, &query, false);
        if ListOptions::parse(row, &query, true).is_ok() {
            accepted = Some(());
        }
    }
    let _ = WriteOptions::parse("CreateOptions", &query, Vec::new());
    let _ = delete(&query, None);
    accepted
}

/// A snapshot is read or rejected, independent of how it is split into pieces.
pub fn snapshot(bytes: &[u8]) -> Accepted {
    let whole = fuzzing::snapshot(bytes, bytes.len());
    let accepted = whole.is_ok();
    let pieces = fuzzing::snapshot(bytes, 7);
    assert_eq!(whole.map_err(|status| status.code()), pieces.map_err(|status| status.code()));
    accepted.then_some(())
}

/// YAML is converted to JSON that can be serialized and parsed.
pub fn yaml(bytes: &[u8]) -> Accepted {
    let value = fuzzing::yaml(bytes).ok()?;
    json::parse(&json::to_vec(&value)).expect("serialized JSON can be parsed");
    Some(())
}

/// A patch of any type is parsed or rejected. The first byte selects the type.
pub fn patch(bytes: &[u8]) -> Accepted {
    let (choice, body) = bytes.split_first()?;
    let kinds = [PatchKind::Json, PatchKind::Merge, PatchKind::Strategic, PatchKind::Apply];
    let patch = Patch::parse(kinds[usize::from(*choice) % kinds.len()], body).ok()?;
    json::parse(&json::to_vec(&patch.value)).expect("parsed patches can be serialized");
    Some(())
}

/// An impersonated user has a name, and trace ids are well-formed. The input is one header per line.
pub fn identity_headers(bytes: &[u8]) -> Accepted {
    let mut headers = HeaderMap::new();
    for (name, value) in text(bytes)?.lines().filter_map(|line| line.split_once(": ")) {
        let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
        headers.append(name, HeaderValue::from_bytes(value.as_bytes()).ok()?);
    }
    if let Some(trace) = fuzzing::trace(&headers) {
        assert!(trace.len() == 32 && trace.bytes().all(|byte| byte.is_ascii_hexdigit()), "{trace}");
    }
    let user = fuzzing::impersonated(&headers).ok()??;
    assert!(!user.name.is_empty());
    Some(())
}

/// Proxy targets have a name, and queries for kubelets are escaped. The input is a target and a query, one
/// per line.
pub fn proxy(bytes: &[u8]) -> Accepted {
    let [target, query] = lines(bytes)?;
    let query = Query::parse(query);
    for text in [fuzzing::log_query(&query, "a"), fuzzing::forward_query(&query)].into_iter().flatten() {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~%+=&".contains(&byte);
        assert!(text.bytes().all(is_plain), "{text}");
    }
    let (scheme, name, port) = fuzzing::proxied(target).ok()?;
    assert!(!name.is_empty() && !name.contains(':') && !port.contains(':'));
    assert!(matches!(scheme, "" | "http" | "https"));
    Some(())
}

/// Rewriting the links of a page twice gives the same result as once.
pub fn page(bytes: &[u8]) -> Accepted {
    let once = fuzzing::page(bytes);
    assert_eq!(fuzzing::page(&once), once);
    (once != bytes).then_some(())
}
