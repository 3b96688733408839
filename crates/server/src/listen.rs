//! Connections: TCP, TLS, HTTP/1.1 or HTTP/2, and a graceful end.

mod dawdling;
mod door;
mod line;
mod patience;
mod secure;
mod tls;

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
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

use self::dawdling::Dawdling;
use self::door::Door;
use self::line::Line;
use self::patience::{Heard, Patience};
pub use self::tls::Tls;
use crate::Server;
use crate::chain::{Peer, handle};
use crate::weather::{Exposure, Weather};

/// Streams at once on one HTTP/2 connection, as upstream.
const MAX_STREAMS: u32 = 250;
/// Size of a request's headers.
const MAX_HEADERS: u32 = 64 << 10;
/// How long a connection may rest between requests, as upstream.
const REST: Duration = Duration::from_secs(90);
/// Length of what every HTTP/2 connection begins with.
const HTTP2_OPENING: usize = 24;
/// As Go's server, which people search the web for.
const NOT_TLS: &[u8] = b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";

/// A way into a server.
#[derive(Clone)]
pub struct Entrance {
    pub tls: Tls,
    /// What it is exposed to.
    pub weather: Option<Weather>,
    /// By whose clock certificates are judged: the server's, or where an administrator must come in whatever that says,
    /// the machine's.
    pub own_clock: bool,
}

/// Serves until `server` is told to stop, then lets requests under way finish.
pub async fn serve(server: Arc<Server>, listener: TcpListener, entrance: Entrance) {
    let mut stopped = std::pin::pin!(server.stopped());
    let mut connections = JoinSet::new();
    let mut door = match Door::new(listener, entrance.weather.clone()) {
        Ok(door) => door,
        Err(error) => return tracing::error!(%error, "nothing can be served"),
    };
    loop {
        tokio::select! {
            accepted = door.accept() => match accepted {
                Ok((stream, address)) => {
                    let (server, entrance) = (server.clone(), entrance.clone());
                    connections.spawn(async move {
                        if let Err(error) = connection(server, entrance, stream).await {
                            tracing::debug!(%address, %error, "connection ended");
                        }
                    });
                }
                Err(error) => refused(&error).await,
            },
            // Reaping as they end keeps the set small.
            Some(_) = connections.join_next() => {}
            () = &mut stopped => break,
        }
    }
    drop(door);
    let drained = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(server.limits.drain, drained).await.is_err() {
        tracing::warn!("some requests were still under way and were cut off");
    }
}

/// Out of file descriptors, for instance: others will end and free some.
async fn refused(error: &io::Error) {
    tracing::warn!(%error, "a connection could not be accepted");
    tokio::time::sleep(Duration::from_millis(50)).await;
}

async fn connection(
    server: Arc<Server>,
    entrance: Entrance,
    stream: TcpStream,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    stream.set_nodelay(true)?;
    let address = stream.peer_addr().ok().map(|address| address.ip());
    let exposure = entrance.weather.clone().map(Exposure::new);
    let mut stream = Line::new(stream, exposure.clone());
    let tls = &entrance.tls;
    let limit = server.limits.header_timeout;
    let accepting = async {
        // No record of TLS begins with a letter, and every request does.
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
    let now = if entrance.own_clock { server.registry.clock.now() } else { SystemClock.now() };
    let mut certificate = tls.certificate(session.peer_certificates(), now);
    if !entrance.own_clock {
        certificate = certificate.enduring();
    }
    let peer = Peer { certificate, weather: entrance.weather, address };
    let patience = Patience::new(limit);
    let dawdling = Arc::new(Dawdling::default());
    let service = service_fn(|request: hyper::Request<Incoming>| {
        let (server, peer, answering) = (server.clone(), peer.clone(), patience.answering());
        let (exposure, dawdling) = (exposure.clone(), dawdling.clone());
        async move {
            let mut response = handle(&server, &peer, request).await;
            drop(answering);
            dawdling.begins(&mut response);
            Ok::<_, Infallible>(match exposure {
                None => response,
                Some(exposure) => exposure.carry(response).await,
            })
        }
    });
    let lost = async {
        match &exposure {
            None => std::future::pending().await,
            Some(exposure) => exposure.lost().await,
        }
    };
    // Driven until it ends, the client tries our patience, it gets lost, or the server stops.
    macro_rules! drive {
        ($connection:expr) => {{
            let mut connection = std::pin::pin!($connection);
            tokio::select! {
                outcome = connection.as_mut() => return Ok(outcome?),
                () = patience.ended() => return Err("its headers took too long".into()),
                () = dawdling.ended() => return Err("it did not read its answers".into()),
                () = lost => return Err("it got lost".into()),
                () = server.stopped() => {}
            }
            connection.as_mut().graceful_shutdown();
            tokio::select! {
                outcome = connection => Ok(outcome?),
                () = patience.ended() => Err("its headers took too long".into()),
                () = dawdling.ended() => Err("it did not read its answers".into()),
            }
        }};
    }
    if is_http2 {
        let stream = TokioIo::new(Heard::opening(stream, patience.clone(), HTTP2_OPENING));
        drive!(http2_builder().serve_connection(stream, service))
    } else {
        let stream = TokioIo::new(Heard::every_request(stream, patience.clone()));
        drive!(http1_builder().serve_connection(stream, service).with_upgrades())
    }
}

/// Tells someone who forgot TLS what is wrong.
async fn refuse_plain(mut stream: Line) -> io::Result<()> {
    stream.write_all(NOT_TLS).await?;
    stream.shutdown().await?;
    // What was sent is read, within bounds, or closing would take the answer with it.
    let mut rest = stream.take(64 << 10);
    tokio::io::copy(&mut rest, &mut tokio::io::sink()).await.map(|_| ())
}

fn http1_builder() -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(REST).max_buf_size(256 << 10);
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

/// Where a listener listens.
pub async fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    TcpListener::bind(address).await
}
