//! OpenID discovery documents, with which others can verify tokens of ServiceAccounts.

// upstream: pkg/routes/openidmetadata.go

use atoll_authn::service_account::{configuration, key_set};
use atoll_meta::Status;
use http::header::CACHE_CONTROL;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};

use crate::Server;
use crate::body::Body;
use crate::negotiate::Output;
use crate::request::RequestInfo;
use crate::respond;

pub const CONFIGURATION: &str = "/.well-known/openid-configuration";
pub const KEYS: &str = "/openid/v1/jwks";

pub fn is_document(path: &str) -> bool {
    matches!(path.strip_suffix('/').unwrap_or(path), CONFIGURATION | KEYS)
}

/// Cache lifetime of the documents, as upstream.
const CACHED: HeaderValue = HeaderValue::from_static("public, max-age=3600");

pub fn handle(
    server: &Server,
    info: &RequestInfo,
    workspace: &str,
    method: &Method,
    headers: &HeaderMap,
) -> Result<Response<Body>, Status> {
    if *method != Method::GET {
        return Err(Status::method_not_supported_generic());
    }
    let Some(tokens) = &server.tokens else { return Ok(respond::not_found_page()) };
    let (content_type, document) = match info.path.trim_end_matches('/') {
        CONFIGURATION => {
            let below = info.workspace.as_deref().map(|path| format!("/clusters/{path}")).unwrap_or_default();
            let keys = format!("https://{}{below}{KEYS}", server.advertised);
            ("application/json", configuration(&tokens.issuer(workspace), &keys))
        }
        _ => ("application/jwk-set+json", key_set(&tokens.keys.current())),
    };
    Output::check_only(headers, content_type)?;
    let mut response = respond::with_type(StatusCode::OK, content_type, Body::from(document));
    response.headers_mut().insert(CACHE_CONTROL, CACHED);
    Ok(response)
}
