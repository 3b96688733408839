//! Connections: TCP, TLS, HTTP/1.1 or HTTP/2, and a graceful end.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use atoll_authn::certificate;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::Server;
use crate::chain::{Peer, handle};

/// Streams at once on one HTTP/2 connection, as upstream.
const MAX_STREAMS: u32 = 250;
/// Size of a request's headers.
const MAX_HEADERS: u32 = 64 << 10;

/// TLS 1.2 and 1.3, HTTP/2 first, client certificates of `authority` welcome but not required.
pub fn tls(
    authority: CertificateDer<'static>,
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
) -> Result<ServerConfig, rustls::Error> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(authority)?;
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
        .allow_unauthenticated()
        .build()
        .map_err(|error| rustls::Error::General(error.to_string()))?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])?
        .with_client_cert_verifier(verifier)
        .with_single_cert(vec![certificate], key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

/// Serves until `server` is told to stop, then lets requests under way finish.
pub async fn serve(server: Arc<Server>, listener: TcpListener, config: ServerConfig) {
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let mut stopped = std::pin::pin!(server.stopped());
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, address)) => {
                    let (server, acceptor) = (server.clone(), acceptor.clone());
                    connections.spawn(async move {
                        if let Err(error) = connection(server, acceptor, stream).await {
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
    drop(listener);
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
    acceptor: TlsAcceptor,
    stream: TcpStream,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    stream.set_nodelay(true)?;
    let stream = tokio::time::timeout(server.limits.header_timeout, acceptor.accept(stream)).await??;
    let certificates = stream.get_ref().1.peer_certificates();
    let user = certificates.and_then(|chain| chain.first()).and_then(|leaf| certificate::user(leaf));
    let peer = Peer { certificate: user.map(Arc::new) };
    let service = service_fn(|request: hyper::Request<Incoming>| {
        let (server, peer) = (server.clone(), peer.clone());
        async move { Ok::<_, Infallible>(handle(&server, &peer, request).await) }
    });
    let builder = builder(server.limits.header_timeout);
    let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        outcome = connection.as_mut() => return outcome,
        () = server.stopped() => {}
    }
    connection.as_mut().graceful_shutdown();
    connection.await
}

fn builder(header_timeout: Duration) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(header_timeout).max_buf_size(256 << 10);
    builder
        .http2()
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
