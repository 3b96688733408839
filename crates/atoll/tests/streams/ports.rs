//! kubectl port-forward with HTTP on many connections at once.

use std::convert::Infallible;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::Stdio;

use atoll_client::https::http1;
use atoll_testkit::wait::within;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};

use crate::harness::{TestCluster, with_spdy};

/// Serves large responses that repeat the requested path.
async fn start_service() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let answer = service_fn(|request: Request<Incoming>| async move {
                    let text = format!("{}\n", request.uri().path()).repeat(10_000);
                    Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(text))))
                });
                let http = hyper::server::conn::http1::Builder::new();
                let _ = http.serve_connection(TokioIo::new(stream), answer).await;
            });
        }
    });
    address
}

async fn get(port: u16, path: &str) -> Bytes {
    let stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let (mut sender, _) = http1::handshake(stream).await.unwrap();
    let request = Request::get(path).header("host", "test").body(Full::<Bytes>::default()).unwrap();
    let response = sender.send_request(request).await.unwrap();
    response.into_body().collect().await.unwrap().to_bytes()
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_are_forwarded_in_parallel() {
    let cluster = TestCluster::new().await;
    let Some(kubectl) = cluster.kubectl() else { return };
    cluster.kubelet.forward_to(start_service().await);
    let mut running = cluster.kubelet.running();
    for kubectl in [kubectl.clone(), with_spdy(&kubectl)] {
        for pod in ["old", "new"] {
            let mut command = kubectl.command(&format!("port-forward {pod} :80"));
            let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
            let stdout = child.stdout.take().unwrap();
            let mut lines = BufReader::new(stdout).lines();
            let first = tokio::task::spawn_blocking(move || {
                let first = lines.next().unwrap().unwrap();
                // Keep reading, or kubectl would block on a full pipe.
                std::thread::spawn(move || lines.count());
                first
            });
            let first = within("kubectl forwards the port", first).await.unwrap();
            let port = first.strip_prefix("Forwarding from 127.0.0.1:").unwrap().split(' ').next().unwrap();
            let port: u16 = port.parse().unwrap();
            let asked = (0..20).map(|number| {
                tokio::spawn(async move {
                    let path = format!("/{pod}/{number}");
                    assert_eq!(get(port, &path).await, format!("{path}\n").repeat(10_000));
                })
            });
            for asked in asked.collect::<Vec<_>>() {
                within("the request is answered", asked).await.unwrap();
            }
            child.kill().unwrap();
            child.wait().unwrap();
            within("all forwards have ended", running.wait_for(|running| *running == 0)).await.unwrap();
        }
    }
}
