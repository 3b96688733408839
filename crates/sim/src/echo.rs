//! The HTTP server in a simulated container: responds to every request with the pod's identity and a request
//! count.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::{AbortHandle, JoinSet};

use crate::cluster::Cluster;
use crate::kubelet::RunningPod;

/// Maximum number of connections to one port.
const CONNECTIONS: usize = 64;

/// Identity of a server.
pub struct ServerIdentity {
    pub cluster: String,
    pub running: Weak<RunningPod>,
    /// The index of the container in its pod.
    pub container: usize,
    pub cluster_clock: Arc<Cluster>,
}

/// Listens at `address`, or at another port if that one is not available, until the handle is aborted.
pub async fn serve(address: SocketAddr, identity: ServerIdentity) -> io::Result<(SocketAddr, AbortHandle)> {
    let listener = match TcpListener::bind(address).await {
        Err(error) if matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::AddrInUse) => {
            TcpListener::bind(SocketAddr::new(address.ip(), 0)).await?
        }
        other => other?,
    };
    let served = listener.local_addr()?;
    let task = tokio::spawn(accept(listener, Arc::new(identity), Arc::new(AtomicU64::new(0))));
    Ok((served, task.abort_handle()))
}

async fn accept(listener: TcpListener, identity: Arc<ServerIdentity>, count: Arc<AtomicU64>) {
    let permits = Arc::new(Semaphore::new(CONNECTIONS));
    // Dropping the set closes its connections.
    let mut connections = JoinSet::new();
    loop {
        let Ok(place) = permits.clone().acquire_owned().await else { return };
        while connections.try_join_next().is_some() {}
        let Ok((stream, _)) = listener.accept().await else { continue };
        let (identity, count) = (identity.clone(), count.clone());
        connections.spawn(async move {
            let service = service_fn(|request: Request<Incoming>| {
                let answer = answer(&identity, &count, &request);
                async move { Ok::<_, Infallible>(answer) }
            });
            // A client that disconnects early is not an error.
            let _ = http1::Builder::new()
                .timer(TokioTimer::new())
                .serve_connection(TokioIo::new(stream), service)
                .await;
            drop(place);
        });
    }
}

fn answer(
    identity: &ServerIdentity,
    count: &AtomicU64,
    request: &Request<Incoming>,
) -> Response<Full<Bytes>> {
    let count = count.fetch_add(1, Ordering::Relaxed) + 1;
    let Some(running) = identity.running.upgrade() else {
        return Response::new(Full::new(Bytes::new()));
    };
    let line = format!("{} {}", request.method(), request.uri());
    running.pod().log_line(identity.container, identity.cluster_clock.now(), line);
    let body = json!({
        "cluster": identity.cluster,
        "node": running.node,
        "namespace": *running.key.namespace,
        "pod": *running.key.name,
        "path": request.uri().path(),
        "count": count,
    });
    let mut response = Response::new(Full::new(Bytes::from(format!("{body}\n"))));
    let json = http::HeaderValue::from_static("application/json");
    response.headers_mut().insert(http::header::CONTENT_TYPE, json);
    response
}
