//! The `exec`, `attach` and `portforward` subresources: an upgraded connection between a client and a
//! kubelet.

// upstream: pkg/registry/core/pod/rest/subresources.go
// upstream: staging/src/k8s.io/apimachinery/pkg/util/proxy/upgradeaware.go
// upstream: staging/src/k8s.io/apiserver/pkg/util/proxy/streamtunnel.go

use std::sync::Arc;

use atoll_meta::Status;
use atoll_streams::remote_command::{StreamOptions, V5};
use atoll_streams::websocket::{self, Handshake, is_websocket, tunnel};
use atoll_streams::{STREAM_PROTOCOL, is_upgrade, port_forward, spdy};
use http::header::{
    CONNECTION, HOST, HeaderValue, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::{Method, Request, Response, StatusCode};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};

use super::backend::{Destination, RequestBody, exchange};
use super::{Connection, ForwardedRequest, headers, location, translate};
use crate::Server;
use crate::body::Body;
use crate::query::Query;
use crate::respond;

/// The feature that a node declares whose kubelet supports WebSockets.
const WEBSOCKETS: &str = "ExtendWebSocketsToKubelet";

pub async fn handle(
    connection: &Connection<'_>,
    forwarded: ForwardedRequest,
) -> Result<Response<Body>, Status> {
    connection.check_create().await?;
    let (query, name) = (&connection.call.query, connection.object_ref.name);
    let subresource = connection.call.info.subresource.as_str();
    let is_forward = subresource == "portforward";
    let wanted = if is_forward { location::forward_query(query)? } else { command_query(query) };
    let pod = connection.object("pods", name)?;
    let namespace = connection.object_ref.namespace;
    let mut target = match is_forward {
        true => location::path(&["portForward", namespace, name]),
        false => {
            let container = location::container(&pod, query.get("container").unwrap_or_default())?;
            location::path(&[subresource, namespace, name, container])
        }
    };
    let Some(node) = location::node_of(&pod) else {
        return Err(Status::bad_request(format!("pod {name} does not have a host assigned")));
    };
    let node = connection.node(node)?;
    let kubelet = connection.kubelet(&node, false).await?;
    if !wanted.is_empty() {
        target = format!("{target}?{wanted}");
    }
    let has_websockets = node.features.iter().any(|feature| feature == WEBSOCKETS);
    let offered = websocket::offered(forwarded.request.headers());
    let is_v5 = is_websocket(forwarded.request.headers()) && offered.contains(&V5);
    if !is_forward && is_v5 && !has_websockets {
        return translate::handle(connection.server, forwarded.request, options(query), kubelet, target);
    }
    let tunneled = port_forward::tunneled(forwarded.request.headers());
    if is_forward && !tunneled.is_empty() && !has_websockets {
        return tunnel_port_forward(connection.server, forwarded, &kubelet, &target).await;
    }
    if !is_upgrade(forwarded.request.headers()) {
        return Err(Status::bad_request("Upgrade request required"));
    }
    relay(connection.server, forwarded, &kubelet, &target).await
}

fn options(query: &Query) -> StreamOptions {
    let [stdin, stdout, stderr, tty] = ["stdin", "stdout", "stderr", "tty"].map(|name| query.is_true(name));
    StreamOptions { stdin, stdout, stderr, tty }
}

/// Returns the query for the kubelet's exec and attach endpoints.
fn command_query(query: &Query) -> String {
    let command = query.all("command").map(|word| ("command", word));
    location::encode(command.chain(options(query).to_query()))
}

/// Forwards an upgrade request unchanged to `destination`, then copies bytes in both directions.
pub async fn relay(
    server: &Arc<Server>,
    forwarded: ForwardedRequest,
    destination: &Destination,
    target: &str,
) -> Result<Response<Body>, Status> {
    let ForwardedRequest { request, address } = forwarded;
    let (mut parts, body) = request.into_parts();
    let upgrade = parts.extensions.remove::<OnUpgrade>();
    parts.headers = headers::forwarded(&parts.headers, address);
    let request = Request::from_parts(parts, body);
    let backend = match request_upgrade(server, request, destination, target).await? {
        Upgrade::Refused(response) => return Ok(response),
        Upgrade::Accepted(backend) => backend,
    };
    let (response, backend) = backend.into_parts();
    let Some(upgrade) = upgrade else { return Err(not_upgradable()) };
    let stopped = server.stopped();
    tokio::spawn(async move {
        let (Ok(client), Ok(backend)) = (upgrade.await, backend.await) else { return };
        tokio::select! {
            () = join(TokioIo::new(client), TokioIo::new(backend)) => {}
            () = stopped => {}
        }
    });
    Ok(response)
}

/// The error for a connection that cannot be upgraded, such as HTTP/2.
fn not_upgradable() -> Status {
    Status::plain_internal("unable to upgrade: the connection of this request cannot change its protocol")
}

/// The backend's response to an upgrade request.
pub enum Upgrade {
    Accepted(Backend),
    /// The backend's error response, for the client.
    Refused(Response<Body>),
}

/// A 101 response with its upgraded connection.
pub struct Backend {
    pub response: Response<hyper::body::Incoming>,
}

impl Backend {
    fn into_parts(mut self) -> (Response<Body>, OnUpgrade) {
        let upgrade = hyper::upgrade::on(&mut self.response);
        (self.response.map(|_| Body::empty()), upgrade)
    }
}

/// Sends an upgrade request to a backend.
pub async fn request_upgrade(
    server: &Server,
    request: Request<RequestBody>,
    destination: &Destination,
    target: &str,
) -> Result<Upgrade, Status> {
    let failed = |error: &dyn std::fmt::Display| Status::plain_internal(error.to_string());
    let dialed = destination.connect(&*server.kubelets.dialer).await;
    let stream = dialed.map_err(|error| failed(&format!("error dialing backend: {error}")))?;
    let (parts, body) = request.into_parts();
    let mut outgoing = Request::new(body);
    *outgoing.method_mut() = parts.method;
    *outgoing.uri_mut() = target.parse().map_err(|error: http::uri::InvalidUri| failed(&error))?;
    *outgoing.headers_mut() = parts.headers;
    if !outgoing.headers().contains_key(HOST) {
        let host = HeaderValue::from_str(&destination.authority()).map_err(|error| failed(&error))?;
        outgoing.headers_mut().insert(HOST, host);
    }
    let (response, driving) = exchange(stream, outgoing).await.map_err(|error| failed(&error))?;
    match response.status() {
        StatusCode::SWITCHING_PROTOCOLS => {
            driving.release();
            Ok(Upgrade::Accepted(Backend { response }))
        }
        code if code.as_u16() < 400 => {
            Err(failed(&format!("invalid upgrade response: status code {}", code.as_u16())))
        }
        _ => {
            let (mut parts, body) = response.into_parts();
            headers::remove_hop_by_hop(&mut parts.headers);
            let body = Body::Relayed(Box::new(super::backend::RelayedBody::new(body, driving)));
            Ok(Upgrade::Refused(Response::from_parts(parts, body)))
        }
    }
}

/// Copies bytes in both directions until one side ends, then closes both.
async fn join<C, B>(client: C, backend: B)
where
    C: AsyncRead + AsyncWrite + Send,
    B: AsyncRead + AsyncWrite + Send,
{
    let (mut client_reader, mut client_writer) = tokio::io::split(client);
    let (mut backend_reader, mut backend_writer) = tokio::io::split(backend);
    // The other side does not learn which error ended the connection.
    tokio::select! {
        _ = tokio::io::copy(&mut client_reader, &mut backend_writer) => {}
        _ = tokio::io::copy(&mut backend_reader, &mut client_writer) => {}
    }
    let _ = tokio::join!(client_writer.shutdown(), backend_writer.shutdown());
}

/// Port-forward tunneled in a WebSocket: the content is forwarded as SPDY.
async fn tunnel_port_forward(
    server: &Arc<Server>,
    forwarded: ForwardedRequest,
    kubelet: &Destination,
    target: &str,
) -> Result<Response<Body>, Status> {
    let ForwardedRequest { request, address } = forwarded;
    let (mut parts, body) = request.into_parts();
    let mut outgoing = Request::new(body);
    *outgoing.method_mut() = Method::POST;
    let outgoing_headers = outgoing.headers_mut();
    *outgoing_headers = headers::forwarded(&parts.headers, address);
    for name in [SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION] {
        outgoing_headers.remove(name);
    }
    outgoing_headers.insert(UPGRADE, HeaderValue::from_static(spdy::PROTOCOL));
    outgoing_headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    outgoing_headers.remove(STREAM_PROTOCOL);
    for protocol in port_forward::tunneled(&parts.headers) {
        if let Ok(protocol) = HeaderValue::from_str(protocol) {
            outgoing_headers.append(STREAM_PROTOCOL, protocol);
        }
    }
    let backend = match request_upgrade(server, outgoing, kubelet, target).await? {
        Upgrade::Refused(response) => return Ok(response),
        Upgrade::Accepted(backend) => backend,
    };
    let (response, backend) = backend.into_parts();
    let chosen = response.headers().get(STREAM_PROTOCOL).and_then(|protocol| protocol.to_str().ok());
    let protocol = format!("{}{}", port_forward::TUNNELED, chosen.unwrap_or_default().trim());
    let handshake = match Handshake::new(&parts.method, &parts.headers, &[&protocol]) {
        Ok(handshake) => handshake,
        Err(refusal) => return Ok(refusal.map(Body::from)),
    };
    let Some(upgrade) = parts.extensions.remove::<OnUpgrade>() else { return Err(not_upgradable()) };
    let stopped = server.stopped();
    tokio::spawn(async move {
        let (Ok(client), Ok(backend)) = (upgrade.await, backend.await) else { return };
        tokio::select! {
            // Errors of either side just end the tunnel.
            _ = tunnel(TokioIo::new(client), TokioIo::new(backend)) => {}
            () = stopped => {}
        }
    });
    Ok(respond::upgrade(handshake.response))
}
