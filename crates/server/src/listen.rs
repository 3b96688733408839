//! Connections: TCP, TLS, HTTP/1.1 or HTTP/2, and a graceful end.

pub mod connections;
mod header_timeout;
mod response_timeout;
mod secure_stream;
mod tls;
mod tracked_body;
pub mod wrapper;

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use atoll_registry::{Clock, SystemClock};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use self::connections::OpenConnection;
use self::header_timeout::{HeaderTimeout, TimedStream};
use self::response_timeout::ResponseTimeout;
pub use self::tls::Tls;
use self::wrapper::{ClientStream, ConnectionWrapper, Listener};
use crate::Server;
use crate::chain::{Peer, handle};

/// Maximum number of concurrent HTTP/2 streams per connection, as upstream.
const MAX_STREAMS: u32 = 250;
/// Maximum size of a request's headers.
const MAX_HEADERS: u32 = 64 << 10;
/// Time after which connections without a request under way are closed, as upstream.
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);
/// Length of the HTTP/2 connection preface.
const HTTP2_PREFACE_LENGTH: usize = 24;
/// The response of Go's server.
const NOT_TLS: &[u8] = b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";

/// Settings of a listener.
#[derive(Clone)]
pub struct ListenerConfig {
    pub tls: Tls,
    /// Whether client certificates are checked by the server's clock instead of the machine's. An
    /// administrator needs access whatever the server's clock says.
    pub own_clock: bool,
}

/// Accepts connections until `server` stops, then lets requests in flight finish.
pub async fn serve(server: Arc<Server>, mut listener: Listener, config: ListenerConfig) {
    let mut stopped = std::pin::pin!(server.stopped());
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, address)) => {
                    let Some(open) = server.connections.admit(address.ip()) else {
                        tracing::debug!(%address, "connection refused: too many are in use");
                        continue;
                    };
                    let (server, config) = (server.clone(), config.clone());
                    let accepted = AcceptedConnection::new(&listener, stream);
                    connections.spawn(async move {
                        let state = open.state.clone();
                        let outcome = tokio::select! {
                            outcome = connection(server, config, accepted, open) => outcome,
                            () = state.replaced() => Err("closed to make room for another connection".into()),
                        };
                        if let Err(error) = outcome {
                            tracing::debug!(%address, %error, "connection ended");
                        }
                    });
                }
                Err(error) => wait_after_accept_error(&error).await,
            },
            // Reap tasks as they end to keep the set small.
            Some(_) = connections.join_next() => {}
            () = &mut stopped => break,
        }
    }
    drop(listener);
    let drained = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(server.limits.drain, drained).await.is_err() {
        tracing::warn!("shutdown timeout exceeded: open requests were aborted");
    }
}

/// Waits after a failed accept, for example without free file descriptors, until other connections end.
async fn wait_after_accept_error(error: &io::Error) {
    tracing::warn!(%error, "cannot accept a connection");
    tokio::time::sleep(Duration::from_millis(50)).await;
}

/// A connection before the TLS handshake.
struct AcceptedConnection {
    stream: ClientStream,
    wrapper: Option<Arc<dyn ConnectionWrapper>>,
    address: Option<IpAddr>,
}

impl AcceptedConnection {
    fn new(listener: &Listener, stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        let address = stream.peer_addr().ok().map(|address| address.ip());
        let (stream, wrapper) = listener.wrap(stream);
        Ok(AcceptedConnection { stream, wrapper, address })
    }
}

async fn connection(
    server: Arc<Server>,
    config: ListenerConfig,
    accepted: io::Result<AcceptedConnection>,
    open: Arc<OpenConnection>,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let AcceptedConnection { stream, wrapper, address } = accepted?;
    let tls = &config.tls;
    let limit = server.limits.header_timeout;
    let accepting = async {
        // A TLS record never starts with a letter, an HTTP request always does.
        let mut first = [0];
        stream.peek(&mut first).await?;
        if first[0].is_ascii_uppercase() {
            return refuse_plain(stream).await.map(|()| None);
        }
        tls.accept(stream).await.map(Some)
    };
    let Some(stream) = tokio::time::timeout(limit, accepting).await?? else { return Ok(()) };
    let session = stream.session();
    let is_http2 = session.alpn_protocol() == Some(b"h2");
    let now = if config.own_clock { server.registry.clock.seconds() } else { SystemClock.seconds() };
    let mut certificate = tls.certificate(session.peer_certificates(), now);
    if !config.own_clock {
        certificate = certificate.without_expiry();
    }
    let peer = Peer { certificate, address, hidden_api: None, connection: Some(open.state.clone()) };
    let header_timeout = HeaderTimeout::new(limit);
    let response_timeout = Arc::new(ResponseTimeout::default());
    let service = service_fn(|request: hyper::Request<Incoming>| {
        let (server, mut peer, request_guard) =
            (server.clone(), peer.clone(), header_timeout.headers_received());
        let (wrapper, response_timeout) = (wrapper.clone(), response_timeout.clone());
        let request_in_progress = open.state.start_request();
        async move {
            peer.hidden_api = wrapper.as_ref().and_then(|wrapper| wrapper.hidden_api());
            let mut response = handle(&server, &peer, request).await;
            drop(request_guard);
            response_timeout.start(&mut response);
            let response = match wrapper {
                None => response,
                Some(wrapper) => wrapper.wrap_response(response).await,
            };
            Ok::<_, Infallible>(tracked_body::track(response, request_in_progress))
        }
    });
    let ended = async {
        match &wrapper {
            None => std::future::pending().await,
            Some(wrapper) => wrapper.ended().await,
        }
    };
    let idle = async {
        match is_http2 {
            true => open.state.idle_for(IDLE_TIMEOUT).await,
            // HTTP/1.1 has a timeout for the headers of the next request.
            false => std::future::pending().await,
        }
    };
    // Drive the connection until it ends, the client is too slow, its wrapper ends it, it is idle, or the server
    // stops.
    macro_rules! drive {
        ($connection:expr) => {{
            let mut connection = std::pin::pin!($connection);
            tokio::select! {
                outcome = connection.as_mut() => return Ok(outcome?),
                () = header_timeout.expired() => return Err("timeout while reading request headers".into()),
                () = response_timeout.expired() => return Err("timeout while sending a response".into()),
                () = ended => return Err("the connection was ended by its wrapper".into()),
                () = idle => {}
                () = server.stopped() => {}
            }
            connection.as_mut().graceful_shutdown();
            tokio::select! {
                outcome = connection => Ok(outcome?),
                // The client does not close the connection.
                () = open.state.idle_for(IDLE_TIMEOUT + limit) => Ok(()),
                () = header_timeout.expired() => Err("timeout while reading request headers".into()),
                () = response_timeout.expired() => Err("timeout while sending a response".into()),
            }
        }};
    }
    if is_http2 {
        let stream = TokioIo::new(
            TimedStream::preface(stream, header_timeout.clone(), HTTP2_PREFACE_LENGTH).holding(open.clone()),
        );
        drive!(http2_builder().serve_connection(stream, service))
    } else {
        let stream =
            TokioIo::new(TimedStream::every_request(stream, header_timeout.clone()).holding(open.clone()));
        drive!(http1_builder().serve_connection(stream, service).with_upgrades())
    }
}

/// Sends a readable error to a client without TLS.
async fn refuse_plain(mut stream: ClientStream) -> io::Result<()> {
    stream.write_all(NOT_TLS).await?;
    stream.shutdown().await?;
    // Read the rest of the request, within bounds. Otherwise closing would reset the connection and discard
    // the response.
    let mut rest = stream.take(64 << 10);
    tokio::io::copy(&mut rest, &mut tokio::io::sink()).await.map(|_| ())
}

fn http1_builder() -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(IDLE_TIMEOUT).max_buf_size(256 << 10);
    builder
}

fn http2_builder() -> http2::Builder<TokioExecutor> {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .keep_alive_interval(Duration::from_secs(30))
        .keep_alive_timeout(Duration::from_secs(15))
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(MAX_HEADERS);
    builder
}

/// Binds a listener.
pub async fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    TcpListener::bind(address).await
}
