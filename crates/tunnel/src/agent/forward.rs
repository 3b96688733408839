//! Forwards one request of the control plane to the cluster.

use std::sync::Arc;
use std::time::Duration;

use atoll_client::cluster_api::{ClusterApi, Upgrade, request_headers, response_headers, set_upgrade};
use atoll_client::connect_error::{self, Cause};
use atoll_client::memory_limits::{self, Budget, Charge, ReadError};
use atoll_client::{BoxError, ResponseBody};
use atoll_meta::Status;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::ext::Protocol;
use hyper_util::rt::TokioIo;

use super::rules;
use super::timed_body::TimedBody;
use crate::protocol::METHOD;
use crate::relay::relay;

/// Largest body of a request.
const MAX_REQUEST: usize = 4 << 20;
/// Memory of all bodies of requests.
const MAX_REQUESTS: usize = 64 << 20;
/// Time until the body of a request has arrived.
const BODY_TIMEOUT: Duration = Duration::from_secs(60);
/// Time until the headers of the cluster's response.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(65);

pub struct Forwarding {
    cluster: Arc<dyn ClusterApi>,
    requests: Arc<Budget>,
}

impl Forwarding {
    pub fn new(cluster: Arc<dyn ClusterApi>) -> Forwarding {
        Forwarding { cluster, requests: Budget::new(MAX_REQUESTS) }
    }

    /// Forwards a request. Errors of the agent are a Status, as those of an API server.
    pub async fn handle(&self, request: Request<Incoming>) -> Response<ResponseBody> {
        let answer = match request.method() == Method::CONNECT {
            true => self.connect(request).await,
            false => self.send(request).await,
        };
        answer.unwrap_or_else(|status| error(&status))
    }

    async fn send(&self, request: Request<Incoming>) -> Result<Response<ResponseBody>, Status> {
        let (parts, body) = request.into_parts();
        let uri = allowed(&parts.method, &parts.uri)?;
        let mut charge = Charge::new(Some(self.requests.clone()));
        let reading = memory_limits::read(body, MAX_REQUEST, &mut charge);
        let body = match tokio::time::timeout(BODY_TIMEOUT, reading).await {
            Ok(Ok(body)) => body,
            Ok(Err(ReadError::TooLong(_))) => {
                let message = format!("the limit is {MAX_REQUEST} bytes");
                return Err(Status::request_entity_too_large(&message));
            }
            Ok(Err(ReadError::Refused(_))) => {
                return Err(Status::too_many_requests("the agent has too many requests", 1));
            }
            Ok(Err(ReadError::Broken(error))) => return Err(Status::bad_request(error.to_string())),
            Err(_) => return Err(Status::timeout("the body of the request did not arrive in time", 0)),
        };
        let mut outgoing = Request::new(body);
        *outgoing.method_mut() = parts.method;
        *outgoing.uri_mut() = uri;
        *outgoing.headers_mut() = request_headers(&parts.headers);
        let answer = tokio::time::timeout(RESPONSE_TIMEOUT, self.cluster.send(outgoing)).await;
        let answer = answer.map_err(|_| silent())?;
        Ok(received(answer.map_err(|error| connect_error::to_status(&error))?))
    }

    async fn connect(&self, mut request: Request<Incoming>) -> Result<Response<ResponseBody>, Status> {
        let bad = |what: &str| Status::bad_request(what);
        let protocol = request.extensions().get::<Protocol>().map(|protocol| protocol.as_str().to_string());
        let protocol = protocol.ok_or_else(|| bad("CONNECT without a protocol"))?;
        let protocol = HeaderValue::from_str(&protocol).map_err(|_| bad("the protocol is not a name"))?;
        let method =
            request.headers().get(METHOD).and_then(|method| Method::from_bytes(method.as_bytes()).ok());
        let method = method.ok_or_else(|| bad("CONNECT without a method"))?;
        let uri = allowed(&method, request.uri())?;
        let mut outgoing = Request::new(());
        *outgoing.method_mut() = method;
        *outgoing.uri_mut() = uri;
        *outgoing.headers_mut() = request_headers(request.headers());
        set_upgrade(outgoing.headers_mut(), protocol);
        let answer = tokio::time::timeout(RESPONSE_TIMEOUT, self.cluster.upgrade(outgoing)).await;
        let answer = answer.map_err(|_| silent())?;
        match answer.map_err(|error| connect_error::to_status(&error))? {
            // 200 would tell the control plane that the protocol was switched.
            Upgrade::Refused(response) if response.status().is_success() => {
                Err(Status::internal_error("the cluster did not switch protocols"))
            }
            Upgrade::Refused(response) => Ok(received(response)),
            Upgrade::Switched(switched, stream) => {
                let upgrade = hyper::upgrade::on(&mut request);
                tokio::spawn(async move {
                    // The control plane may be gone by now.
                    if let Ok(upgraded) = upgrade.await {
                        relay(TokioIo::new(upgraded), stream).await;
                    }
                });
                let mut response = Response::new(empty());
                *response.headers_mut() = response_headers(switched.headers());
                Ok(response)
            }
        }
    }
}

/// Returns the path and query of a request that the rules allow.
fn allowed(method: &Method, uri: &Uri) -> Result<Uri, Status> {
    let target = rules::target(method, uri).map_err(|why| Status::forbidden("", "", "", &why))?;
    target.parse().map_err(|_| Status::bad_request("the path is invalid"))
}

fn silent() -> Status {
    connect_error::unavailable(Cause::TimedOut, "the cluster does not respond to its agent")
}

/// Returns a response of the cluster without the headers of its connection.
fn received(response: Response<ResponseBody>) -> Response<ResponseBody> {
    let (parts, body) = response.into_parts();
    let mut response = Response::new(TimedBody::new(body).boxed_unsync());
    *response.status_mut() = match parts.status.is_informational() {
        // No such response ends a request.
        true => StatusCode::BAD_GATEWAY,
        false => parts.status,
    };
    *response.headers_mut() = response_headers(&parts.headers);
    response
}

fn empty() -> ResponseBody {
    full(Bytes::new())
}

fn full(bytes: Bytes) -> ResponseBody {
    Full::new(bytes).map_err(|never| BoxError::from(never.to_string())).boxed_unsync()
}

fn error(status: &Status) -> Response<ResponseBody> {
    let mut response = Response::new(full(status.to_json().into()));
    *response.status_mut() = StatusCode::from_u16(status.code()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
