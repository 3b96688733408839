//! The handler chain: the steps of a request, in order.

// upstream: staging/src/k8s.io/apiserver/pkg/server/config.go
// upstream: staging/src/k8s.io/apiserver/pkg/endpoints/filters/request_deadline.go

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use atoll_authn::{ANONYMOUS, User};
use atoll_authz::is_master;
use atoll_meta::Status;
use http::header::{ACCEPT, AUTHORIZATION, CACHE_CONTROL};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::BodyExt;

use crate::body::Body;
use crate::connect::ForwardedRequest;
use crate::hidden_api::HiddenApi;
use crate::identity::{AuthenticatedUser, Certificate};
use crate::inflight::{ResponseLimits, Sender};
use crate::listen::connections::ConnectionState;
use crate::negotiate::{Output, wants_pretty};
use crate::panics::catch_panic;
use crate::query::Query;
use crate::request::RequestInfo;
use crate::respond;
use crate::workspace::{self, Workspace};
use crate::{Server, discovery, health, openapi, openid, snapshot, sync, verbs, version, what_if};

pub const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");

/// The connection of a request.
#[derive(Clone, Default)]
pub struct Peer {
    pub certificate: Certificate,
    /// The client's address. `None` for requests within the process.
    pub address: Option<IpAddr>,
    /// Parts of the API that the client does not see.
    pub hidden_api: Option<Arc<HiddenApi>>,
    /// `None` for requests within the process.
    pub connection: Option<Arc<ConnectionState>>,
}

/// A request that has been read, authenticated and authorized.
pub struct Call {
    pub info: Arc<RequestInfo>,
    pub query: Query,
    pub method: Method,
    pub headers: HeaderMap,
    pub user: User,
    pub workspace: Workspace,
    pub body: bytes::Bytes,
    pub output: Output,
    pub response_limits: ResponseLimits,
}

impl Call {
    fn new(
        info: Arc<RequestInfo>,
        query: Query,
        (method, headers): (Method, HeaderMap),
        (user, workspace): (User, Workspace),
        body: bytes::Bytes,
        (output, response_limits): (Output, ResponseLimits),
    ) -> Call {
        Call { info, query, method, headers, user, workspace, body, output, response_limits }
    }
}

/// Handles one request. Errors and panics become responses.
pub async fn handle<B>(server: &Arc<Server>, peer: &Peer, request: Request<B>) -> Response<Body>
where
    B: http_body::Body<Data = bytes::Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let started = Instant::now();
    let id = audit_id(request.headers());
    let query = Query::parse(request.uri().query().unwrap_or_default());
    let parsed = RequestInfo::parse(request.method(), request.uri().path(), &query);
    let Ok(mut info) = parsed else {
        return finish(respond::not_found_page(), id);
    };
    // The documents for verifiers of tokens are the same for all clients: caches may keep them.
    let depends_on_token = info.workspace.is_none() && !openid::is_document(&info.path);
    if depends_on_token && !peer.hidden_api.as_ref().is_some_and(|hidden| hidden.workspaces) {
        info.workspace = server.workspace_of_token(&peer.certificate, request.headers());
    }
    let info = Arc::new(info);
    let accept = request.headers().get(ACCEPT).cloned();
    let pretty = wants_pretty(request.headers(), &query);
    let failed = |status: &Status| respond::status(status, Output::of_refusal(accept.as_ref(), pretty));
    let traced = server.tracer.as_ref().map(|tracer| (tracer, request.headers().clone()));
    // Requests that are forwarded to a kubelet or Pod have no timeout.
    let timeout = match (info.is_connection(), info.verb) {
        (true, _) => Ok(Duration::MAX),
        (false, "watch") => Ok(server.limits.request_timeout),
        _ => deadline(query.get("timeout").unwrap_or_default(), server.limits.request_timeout),
    };
    let mut response_limits = None;
    let outcome = match timeout {
        Ok(timeout) => {
            let routed = route(server, peer, request, &info, query, &mut response_limits);
            tokio::time::timeout(timeout, catch_panic(routed)).await
        }
        Err(status) => Ok(Ok(Err(status))),
    };
    let response = match outcome {
        Ok(Ok(Ok(response))) => response,
        Ok(Ok(Err(status))) => failed(&status),
        Ok(Err(panic)) => {
            tracing::error!(
                request = id.to_str().unwrap_or_default(),
                path = info.path,
                panic,
                "panic while serving a request"
            );
            failed(&Status::internal_error("this request caused a panic in the server; see its log"))
        }
        Err(_elapsed) => {
            let message = "request did not complete within the allotted timeout";
            failed(&Status::timeout(message, 0))
        }
    };
    let response = match response_limits {
        Some(limits) => limits.reserve(response).unwrap_or_else(|status| failed(&status)),
        None => response,
    };
    server.metrics.request(&server.registry.catalog, &info, response.status(), started.elapsed());
    if let Some((tracer, headers)) = traced {
        let id = id.to_str().unwrap_or_default();
        tracer.record(&info, &headers, id, response.status(), started.elapsed());
    }
    tracing::debug!(
        request = id.to_str().unwrap_or_default(),
        verb = info.verb,
        path = info.path,
        code = response.status().as_u16(),
        micros = started.elapsed().as_micros() as u64,
        "request"
    );
    finish(response, id)
}

/// Returns the timeout of a request: the client's `timeout` parameter, but not more than the server's own
/// limit.
fn deadline(given: &str, most: Duration) -> Result<Duration, Status> {
    if given.is_empty() {
        return Ok(most);
    }
    let nanos = atoll_meta::time::explain_duration(given).map_err(|error| {
        Status::bad_request(format!("invalid timeout specified in the request URL - {error}"))
    })?;
    Ok(match u64::try_from(nanos) {
        Ok(nanos) if nanos > 0 => Duration::from_nanos(nanos).min(most),
        _ => most,
    })
}

/// Authenticates and authorizes the request and takes permits, then dispatches to health, discovery or a
/// verb. Sets the limits of the response once the request is counted for its sender.
async fn route<B>(
    server: &Arc<Server>,
    peer: &Peer,
    request: Request<B>,
    info: &Arc<RequestInfo>,
    query: Query,
    counted_response: &mut Option<ResponseLimits>,
) -> Result<Response<Body>, Status>
where
    B: http_body::Body<Data = bytes::Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let workspace = workspace::resolve(&server.registry, info.workspace.as_deref());
    let authorization = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let workspace_id = workspace.as_ref().ok().and_then(Workspace::scope);
    let authenticated = server.authenticate(&peer.certificate, authorization, workspace_id);
    let AuthenticatedUser { user, .. } = authenticated.map_err(|_| Status::unauthorized("Unauthorized"))?;
    if let Some(connection) = peer.connection.as_ref().filter(|_| user.name != ANONYMOUS) {
        connection.authenticated();
    }
    let target_workspace = workspace.as_ref().ok();
    // Requests of members of system:masters, including controllers, are not counted, because they may be
    // needed to relieve an overloaded server. The caller itself must be in the group: impersonating a member
    // does not suffice.
    let counted = |user: &User| (!is_master(user)).then(|| Sender::of(user, target_workspace));
    let caller = counted(&user);
    let user = match server.authorize(user, request.headers(), info, &workspace).await {
        Ok(user) => user,
        Err(status) if matches!(status.code(), 400 | 403) => {
            return Ok(respond::forbidden(&status, Output::of_error(request.headers(), &query)));
        }
        Err(status) => return Err(status),
    };
    let sender = caller.or_else(|| counted(&user));
    let workspace = workspace?;
    let hidden = peer.hidden_api.as_deref();
    if hidden.is_some_and(|hidden| hidden.workspaces) && info.workspace.is_some() {
        return Ok(respond::not_found_page());
    }
    if info.is_malformed {
        let known = info.is_resource
            && !info.path.starts_with("//")
            && (server.registry.catalog.has_group_version(&info.group, &info.version)
                || server.metrics_row(info).is_some());
        return if known { Err(Status::not_found_generic()) } else { Ok(respond::not_found_page()) };
    }
    // Controllers write what is stored, which may be larger than what clients may send: the server adds defaults and
    // managed fields.
    let is_controller = info.is_resource && peer.address.is_none() && sender.is_none();
    let mut in_flight = server.inflight.start(info, sender)?;
    *counted_response = Some(in_flight.response_limits());
    if is_controller {
        in_flight.allow_stored_objects();
    }
    let documents = server.discovery_cache.select(hidden, server.usage.is_some());
    if info.is_resource && hidden.is_some_and(|hidden| hidden.hides(&info.group, &info.version)) {
        return match documents.has_group(&info.group) {
            true => Err(Status::not_found_generic()),
            false => Ok(respond::not_found_page()),
        };
    }
    if info.is_connection() {
        let response_limits = in_flight.response_limits();
        let _permit = in_flight.acquire()?;
        let headers = request.headers().clone();
        let output = Output::of_error(&headers, &query);
        let (line, sender) = ((request.method().clone(), headers), (user, workspace));
        let limited = (output, response_limits);
        let call = Call::new(info.clone(), query, line, sender, bytes::Bytes::new(), limited);
        let request = request.map(|body| body.map_err(Into::into).boxed_unsync());
        let forwarded = ForwardedRequest { request, address: peer.address };
        return verbs::dispatch(server, call, Some(forwarded)).await;
    }
    let (parts, body) = request.into_parts();
    if info.is_resource {
        // A watch has no body, and its memory would not be counted.
        let body = match info.is_long_running() {
            true => bytes::Bytes::new(),
            false => in_flight.read(body).await?,
        };
        let response_limits = in_flight.response_limits();
        let _permit = in_flight.acquire()?;
        let mut output = Output::negotiate(&parts.headers, info, &query)?;
        output.skew = server.registry.clock.skew();
        let (line, sender) = ((parts.method, parts.headers), (user, workspace));
        let call = Call::new(info.clone(), query, line, sender, body, (output, response_limits));
        return verbs::dispatch(server, call, None).await;
    }
    let is_get = parts.method == Method::GET;
    let takes_body = sync::cluster(&info.path).is_some()
        || sync::certificate::cluster(&info.path).is_some()
        || sync::cluster_requests::is_request(&info.path)
        || info.path == what_if::PATH
        || server.endpoint(&info.path).is_some();
    let (received, unread) = match takes_body {
        true => (in_flight.read(body).await?, None),
        false => (bytes::Bytes::new(), Some(body)),
    };
    let response_limits = in_flight.response_limits();
    let _permit = in_flight.acquire()?;
    let lasting_access = |headers: &HeaderMap| sync::LastingAccess {
        server: server.clone(),
        certificate: peer.certificate.clone(),
        headers: headers.clone(),
        info: info.clone(),
    };
    match info.path.as_str() {
        "/version" | "/version/" if !is_get => Err(Status::method_not_supported_generic()),
        "/version" | "/version/" => version::handle(&parts.headers),
        path if openid::is_document(path) => {
            openid::handle(server, info, workspace.id()?, &parts.method, &parts.headers)
        }
        // Endpoints about the whole server are served in root only.
        "/metrics" | snapshot::PATH | snapshot::PREVIEW if !workspace.is_root() => {
            Ok(respond::not_found_page())
        }
        "/metrics" => {
            let available = server.advisor.as_ref().map_or(0, |advisor| advisor.available_clusters());
            Ok(server.metrics.render(&server.registry, server.connections.counts(), available))
        }
        path if health::is_check(path) => Ok(health::handle(server, path, &query).await),
        path if openapi::is_document(path) => {
            openapi::handle(server, documents, workspace, info, query, parts.headers).await
        }
        sync::clusters::PATH => {
            let listed = RequestInfo { verb: "list", is_resource: true, ..RequestInfo::clone(info) };
            let mut output = Output::of_untyped(&parts.headers, &listed, &query)?;
            output.skew = server.registry.clock.skew();
            let (line, sender) = ((parts.method, parts.headers), (user, workspace));
            let call = Call::new(info.clone(), query, line, sender, received, (output, response_limits));
            sync::clusters::handle(server, &call).await
        }
        what_if::PATH => what_if::handle(server, &workspace, &user, &parts.method, &received).await,
        path if sync::cluster_requests::is_request(path) => {
            sync::cluster_requests::handle(server, &workspace, &user, parts, received).await
        }
        path if let Some(cluster) = sync::certificate::cluster(path) => {
            sync::certificate::handle(server, &workspace, cluster, &user, &parts.method, received).await
        }
        path if let Some(cluster) = sync::tunnel::cluster(path) => {
            let access = lasting_access(&parts.headers);
            sync::tunnel::handle(server, &workspace, cluster, &user, access, parts)
        }
        path if let Some(cluster) = sync::placed::cluster(path) => {
            sync::placed::handle(server, &workspace, cluster, &parts.method).await
        }
        path if let Some(cluster) = sync::cluster(path) => {
            let access = lasting_access(&parts.headers);
            sync::handle(server, &workspace, cluster, &user, access, &parts.method, received).await
        }
        snapshot::PATH if let Some(body) = unread => snapshot::handle(server, &parts.method, body).await,
        snapshot::PREVIEW if let Some(body) = unread => snapshot::preview(server, &parts.method, body).await,
        path if let Some((endpoint, below)) = server.endpoint(path) => {
            let answer = endpoint.handle(&parts.method, below, &received)?;
            Ok(respond::json(&answer))
        }
        path => {
            let answer = discovery::handle(server, &documents, &workspace, path, &parts.headers).await?;
            let is_document = answer.status() == StatusCode::OK;
            if is_document && !is_get { Err(Status::method_not_supported_generic()) } else { Ok(answer) }
        }
    }
}

fn finish(mut response: Response<Body>, id: HeaderValue) -> Response<Body> {
    let headers = response.headers_mut();
    headers.insert(AUDIT_ID, id);
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-cache, private"));
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        response.headers_mut().remove(CACHE_CONTROL);
    }
    response
}

/// Returns the client's audit ID, or a new one. It is sent in the response and logged.
fn audit_id(headers: &HeaderMap) -> HeaderValue {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    static PROCESS: std::sync::LazyLock<[u8; 8]> = std::sync::LazyLock::new(|| {
        let mut bytes = [0; 8];
        // Without randomness, IDs may repeat after a restart.
        let _ = getrandom::fill(&mut bytes);
        bytes
    });
    if let Some(given) = headers.get(AUDIT_ID) {
        return given.clone();
    }
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&*PROCESS);
    bytes[8..].copy_from_slice(&COUNTER.fetch_add(1, Ordering::Relaxed).to_be_bytes());
    let id = atoll_meta::id::uuid_v4(bytes);
    HeaderValue::from_str(&id).unwrap_or_else(|_| HeaderValue::from_static("unknown"))
}
