//! The `log` subresource: relays the kubelet's response.

// upstream: pkg/registry/core/pod/rest/log.go

use atoll_meta::Status;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST};
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty, Limited};

use super::backend::{RelayedBody, exchange};
use super::{Connection, location};
use crate::body::Body;

/// Bytes of a kubelet's error message that are passed on, as upstream.
const MAX_ERROR_BYTES: usize = 50_000;

pub async fn handle(connection: &Connection<'_>) -> Result<Response<Body>, Status> {
    let (query, name) = (&connection.call.query, connection.object_ref.name);
    let wanted = location::log_query(query, name)?;
    let pod = connection.object("pods", name)?;
    let container = location::container(&pod, query.get("container").unwrap_or_default())?;
    let Some(node) = location::node_of(&pod) else {
        // A Pod without a node has no logs.
        let mut nothing = Response::new(Body::empty());
        *nothing.status_mut() = StatusCode::NO_CONTENT;
        return Ok(nothing);
    };
    let node = connection.node(node)?;
    let skip = query.is_true("insecureSkipTLSVerifyBackend");
    let kubelet = connection.kubelet(&node, skip).await?;
    let mut target = location::path(&["containerLogs", connection.object_ref.namespace, name, container]);
    if !wanted.is_empty() {
        target = format!("{target}?{wanted}");
    }
    let failed = |problem: String| {
        let url = format!("https://{}{target}", kubelet.authority());
        Status::plain_internal(format!("Get {url:?}: {problem}"))
    };
    let request = Request::get(&target).header(HOST, kubelet.authority());
    let request = request.body(Empty::<Bytes>::new().map_err(|never| match never {}).boxed_unsync());
    let request = request.map_err(|error| failed(error.to_string()))?;
    let stream = kubelet.connect(&*connection.server.kubelets.dialer).await;
    let stream = stream.map_err(|error| failed(error.to_string()))?;
    let (response, driving) = exchange(stream, request).await.map_err(|error| failed(error.to_string()))?;
    if response.status().is_redirection() && response.headers().contains_key(http::header::LOCATION) {
        return Err(failed("redirects forbidden".into()));
    }
    if !(200..=206).contains(&response.status().as_u16()) {
        let code = response.status().as_u16();
        let text = Limited::new(response.into_body(), MAX_ERROR_BYTES).collect().await;
        let text = text.map_err(|error| Status::internal_error(error.to_string()))?.to_bytes();
        return Err(refused(code, &String::from_utf8_lossy(&text), name));
    }
    let mut answer = Response::new(Body::Relayed(Box::new(RelayedBody::new(response.into_body(), driving))));
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    Ok(answer)
}

/// Converts a kubelet's error to a Status.
fn refused(code: u16, text: &str, name: &str) -> Status {
    match code {
        500 => Status::internal_error(text),
        400 => Status::bad_request(text),
        code => Status::from_response(code, "", "pods/log", name, text),
    }
}
