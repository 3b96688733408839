//! The server of the kubelets of all simulated nodes: logs, exec, attach and port-forward for API servers.

pub(crate) mod exec;
pub(crate) mod logs;
pub(crate) mod request;
pub(crate) mod statistics;

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use atoll_streams::port_forward;
use atoll_streams::remote_command::{self, Session, StreamOptions};
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Request, Response, StatusCode};
use http_body::Frame;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use self::request::{KubeletPath, Query};
use self::statistics::{Statistics, requested_node};
use crate::Admits;
use crate::kubelet::{Kubelet, RunningPod};

/// Maximum number of connections.
const CONNECTIONS: usize = 512;
/// Time limit for opening a connection.
const OPENING: Duration = Duration::from_secs(10);
/// Maximum number of concurrently forwarded ports of one client.
const FORWARDS: usize = 64;

/// Body of a response: complete, or a stream.
pub enum Body {
    PodStatistics(Option<Bytes>),
    Stream(mpsc::Receiver<Bytes>),
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let next = match self.get_mut() {
            Body::PodStatistics(bytes) => bytes.take(),
            Body::Stream(receiver) => std::task::ready!(receiver.poll_recv(context)),
        };
        Poll::Ready(next.map(|bytes| Ok(Frame::data(bytes))))
    }
}

/// A request for a container of a pod.
pub(crate) struct ContainerRequest {
    running: Arc<RunningPod>,
    container: String,
    query: Query,
}

/// Serves at `listener` for as long as it is polled. `tls`, and `admits` if set, decide which clients may
/// connect.
pub async fn serve(kubelet: Arc<Kubelet>, listener: TcpListener, tls: TlsAcceptor, admits: Option<Admits>) {
    let permits = Arc::new(Semaphore::new(CONNECTIONS));
    // Dropping the set closes its connections.
    let mut connections = JoinSet::new();
    loop {
        let Ok(place) = permits.clone().acquire_owned().await else { return };
        while connections.try_join_next().is_some() {}
        let Ok((stream, _)) = listener.accept().await else { continue };
        let (kubelet, tls, admits) = (kubelet.clone(), tls.clone(), admits.clone());
        connections.spawn(async move {
            let opening = tokio::time::timeout(OPENING, opened(stream, &tls, admits.as_ref()));
            if let Ok(Some(stream)) = opening.await {
                let service = service_fn(|request| answer(kubelet.clone(), request));
                let serving = http1::Builder::new()
                    .timer(TokioTimer::new())
                    .serve_connection(TokioIo::new(stream), service)
                    .with_upgrades();
                // A client that disconnects early is not an error.
                let _ = serving.await;
            }
            drop(place);
        });
    }
}

/// Opens a connection of a client that is admitted.
async fn opened(
    stream: TcpStream,
    tls: &TlsAcceptor,
    admits: Option<&Admits>,
) -> Option<TlsStream<TcpStream>> {
    let stream = tls.accept(stream).await.ok()?;
    if let Some(admits) = admits {
        let shown = stream.get_ref().1.peer_certificates().unwrap_or_default();
        let shown: Vec<_> = shown.iter().map(|certificate| certificate.clone().into_owned()).collect();
        if !admits(shown).await {
            return None;
        }
    }
    Some(stream)
}

/// Error that closes the connection, because the pod's node is simulated as unreachable.
struct Unreachable;

impl std::fmt::Display for Unreachable {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("the node does not respond")
    }
}

impl std::fmt::Debug for Unreachable {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{self}")
    }
}

impl std::error::Error for Unreachable {}

async fn answer(
    kubelet: Arc<Kubelet>,
    mut request: Request<Incoming>,
) -> Result<Response<Body>, Unreachable> {
    let path = request.uri().path().to_string();
    let (action, namespace, name, container) = match KubeletPath::parse(&path) {
        Some(KubeletPath::Health) => return Ok(text(StatusCode::OK, "ok")),
        Some(wanted @ (KubeletPath::Summary | KubeletPath::Resources)) => {
            let uri = request.headers().get("x-forwarded-uri").and_then(|uri| uri.to_str().ok());
            let Some(node) = uri.and_then(requested_node) else {
                return Ok(text(StatusCode::NOT_FOUND, "use /api/v1/nodes/NAME/proxy of the API server\n"));
            };
            let statistics = Statistics::of(&kubelet, node).ok_or(Unreachable)?;
            return Ok(match wanted {
                KubeletPath::Summary => {
                    response_with_type(statistics.summary().to_string(), "application/json")
                }
                _ => response_with_type(statistics.resources(), "text/plain; version=0.0.4; charset=utf-8"),
            });
        }
        Some(KubeletPath::Pod { action, namespace, name, container }) => (action, namespace, name, container),
        None => return Ok(text(StatusCode::NOT_FOUND, "404 page not found\n")),
    };
    let Some(running) = kubelet.find(namespace, name) else {
        return Ok(text(StatusCode::NOT_FOUND, "pod does not exist"));
    };
    if kubelet.is_cut_off(&running.node) {
        return Err(Unreachable);
    }
    let query = Query::parse(request.uri().query().unwrap_or_default());
    let container_request = ContainerRequest { running, container: container.to_string(), query };
    if !container.is_empty() && container_request.running.pod().log(container).is_none() {
        let problem = format!("container not found (\"{container}\")");
        return Ok(text(StatusCode::NOT_FOUND, &problem));
    }
    Ok(match action {
        "containerLogs" => logs::answer(container_request, kubelet),
        "exec" | "attach" => {
            let query = request.uri().query().unwrap_or_default().to_string();
            let options = match StreamOptions::from_query(&query) {
                Ok(options) => options,
                Err(problem) => return Ok(text(StatusCode::BAD_REQUEST, problem)),
            };
            match remote_command::accept(&mut request, options) {
                Err(refusal) => complete_response(refusal),
                Ok((response, opening)) => {
                    let is_exec = action == "exec";
                    tokio::spawn(async move {
                        if let Ok(session) = opening.session().await {
                            run_session(session, container_request, is_exec).await;
                        }
                    });
                    complete_response(response)
                }
            }
        }
        "portForward" => match port_forward::accept(&mut request) {
            Err(refusal) => complete_response(refusal),
            Ok((response, opening)) => {
                tokio::spawn(forward(opening, container_request.running));
                complete_response(response)
            }
        },
        _ => text(StatusCode::NOT_FOUND, "404 page not found\n"),
    })
}

async fn run_session(session: Session, request: ContainerRequest, is_exec: bool) {
    match is_exec {
        true => exec::run(session, request).await,
        false => exec::attach(session, request).await,
    }
}

/// Connects forwarded ports with the servers of the pod.
async fn forward(opening: port_forward::PendingForwards, running: Arc<RunningPod>) {
    let Ok(mut forwards) = opening.forwards().await else { return };
    let mut relays = JoinSet::new();
    while let Some(forward) = forwards.next().await {
        while relays.len() >= FORWARDS {
            relays.join_next().await;
        }
        let (port, address) = (forward.port, running.port(forward.port));
        relays.spawn(async move {
            let connected = match address {
                Some(address) => TcpStream::connect(address).await.ok(),
                None => None,
            };
            match connected {
                Some(stream) => forward.relay(stream).await,
                None => {
                    let problem = format!("failed to connect to localhost:{port}: connection refused");
                    forward.fail(&problem).await;
                }
            }
        });
    }
}

fn text(status: StatusCode, text: &str) -> Response<Body> {
    let mut response = Response::new(Body::PodStatistics(Some(Bytes::copy_from_slice(text.as_bytes()))));
    *response.status_mut() = status;
    response
}

fn response_with_type(text: String, content_type: &'static str) -> Response<Body> {
    let mut response = Response::new(Body::PodStatistics(Some(Bytes::from(text))));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

fn complete_response(response: Response<String>) -> Response<Body> {
    response.map(|text| Body::PodStatistics(Some(Bytes::from(text)).filter(|text| !text.is_empty())))
}
