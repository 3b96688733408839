//! Both ends of a tunnel, over a stream in memory, with a cluster that the tests play.

// Clippy treats only functions marked as tests as test code.
#![allow(clippy::unwrap_used)]

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use atoll_client::cluster_api::{ClusterApi, Upgrade, set_upgrade, upgrade_protocol};
use atoll_client::connect_error::Cause;
use atoll_client::{BoxError, BoxFuture, Client, ResponseBody, Transport};
use atoll_tunnel::{KeepAlive, Tunnel, serve};
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, COOKIE};
use http::{HeaderValue, Method, Request, Response};
use http_body::{Body, Frame};
use http_body_util::{BodyExt, Full};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// Bytes in each direction of a stream that are not read yet.
const BUFFER: usize = 64 << 10;

/// A cluster that records its requests and answers by path.
#[derive(Default)]
struct FakeCluster {
    requests: Mutex<Vec<Request<Bytes>>>,
    /// The bodies of watches that are to be opened.
    watches: Mutex<VecDeque<mpsc::Receiver<Bytes>>>,
    /// Receives the cluster's end of each upgraded stream.
    streams: Mutex<Option<mpsc::UnboundedSender<DuplexStream>>>,
}

impl FakeCluster {
    fn watch(&self) -> mpsc::Sender<Bytes> {
        let (sender, receiver) = mpsc::channel(1);
        self.watches.lock().unwrap().push_back(receiver);
        sender
    }

    fn streams(&self) -> mpsc::UnboundedReceiver<DuplexStream> {
        let (sender, receiver) = mpsc::unbounded_channel();
        *self.streams.lock().unwrap() = Some(sender);
        receiver
    }

    fn requests(&self) -> usize {
        self.requests.lock().unwrap().len()
    }
}

/// The body of a watch.
struct Events(mpsc::Receiver<Bytes>);

impl Body for Events {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        self.0.poll_recv(context).map(|event| event.map(|event| Ok(Frame::data(event))))
    }
}

fn full(text: impl Into<Bytes>) -> ResponseBody {
    Full::new(text.into()).map_err(|never| match never {}).boxed_unsync()
}

impl Transport for FakeCluster {
    fn send(&self, request: Request<Bytes>) -> BoxFuture<'_, Result<Response<ResponseBody>, BoxError>> {
        Box::pin(async move {
            let path = request.uri().path().to_string();
            self.requests.lock().unwrap().push(request);
            match path.as_str() {
                "/api/v1/broken" => Err("the cluster is gone".into()),
                "/api/v1/silent" => std::future::pending().await,
                "/api/v1/missing" => {
                    let status = json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404, "reason": "NotFound", "message": "no such thing" });
                    Ok(Response::builder().status(404).body(full(status.to_string()))?)
                }
                "/api/v1/watched" => {
                    let events = self.watches.lock().unwrap().pop_front().unwrap();
                    Ok(Response::new(Events(events).boxed_unsync()))
                }
                _ => Ok(Response::builder()
                    .header("set-cookie", "a=b")
                    .header("content-type", "application/json")
                    .body(full(r#"{"kind":"Pod"}"#))?),
            }
        })
    }
}

impl ClusterApi for FakeCluster {
    fn upgrade(&self, request: Request<()>) -> BoxFuture<'_, Result<Upgrade, BoxError>> {
        Box::pin(async move {
            let path = request.uri().path().to_string();
            let protocol = upgrade_protocol(request.headers()).unwrap_or_default().to_string();
            self.requests.lock().unwrap().push(request.map(|()| Bytes::new()));
            if path != "/api/v1/namespaces/n/pods/p/exec" {
                return Ok(Upgrade::Refused(Response::builder().status(403).body(full("refused"))?));
            }
            let (theirs, ours) = tokio::io::duplex(BUFFER);
            self.streams.lock().unwrap().as_ref().unwrap().send(theirs)?;
            let mut response = Response::builder().status(101).body(())?;
            set_upgrade(response.headers_mut(), HeaderValue::from_str(&protocol)?);
            response.headers_mut().insert("x-stream-protocol-version", HeaderValue::from_static("v4"));
            Ok(Upgrade::Switched(response, Box::new(ours)))
        })
    }

    fn forward(&self, request: Request<Bytes>) -> BoxFuture<'_, Result<Response<ResponseBody>, BoxError>> {
        self.send(request)
    }

    fn unread_limit(&self) -> usize {
        0
    }
}

/// A tunnel whose ends run in tasks.
struct Ends {
    cluster: Arc<FakeCluster>,
    tunnel: Arc<Tunnel>,
    control_plane: JoinHandle<Result<(), BoxError>>,
    agent: JoinHandle<Result<(), BoxError>>,
}

async fn open() -> Ends {
    let (above, below) = tokio::io::duplex(BUFFER);
    open_over(above, below).await
}

async fn open_over(above: DuplexStream, below: DuplexStream) -> Ends {
    let cluster = Arc::new(FakeCluster::default());
    let agent = tokio::spawn(serve(below, cluster.clone(), KeepAlive::default()));
    let (tunnel, driving) = Tunnel::start(above, "east", KeepAlive::default()).await.unwrap();
    Ends { cluster, tunnel: Arc::new(tunnel), control_plane: tokio::spawn(driving), agent }
}

impl Ends {
    fn client(&self) -> Client {
        Client::new(self.tunnel.clone())
    }

    async fn exec(&self) -> Result<Upgrade, BoxError> {
        let mut request = Request::new(());
        *request.method_mut() = Method::POST;
        *request.uri_mut() = "/api/v1/namespaces/n/pods/p/exec?command=a%20b".parse().unwrap();
        set_upgrade(request.headers_mut(), HeaderValue::from_static("SPDY/3.1"));
        request.headers_mut().insert("x-stream-protocol-version", HeaderValue::from_static("v4"));
        self.tunnel.upgrade(request).await
    }
}

#[tokio::test]
async fn requests_reach_the_cluster_without_credentials() {
    let ends = open().await;
    let mut request = Request::new(Bytes::from_static(b"{}"));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = "/api/v1/namespaces/shop/pods?dryRun=All".parse().unwrap();
    for (name, value) in [(ACCEPT, "application/json"), (AUTHORIZATION, "Bearer secret"), (COOKIE, "a=b")] {
        request.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    request.headers_mut().insert("impersonate-user", HeaderValue::from_static("ann"));
    let response = ends.tunnel.send(request).await.unwrap();
    assert_eq!(response.status(), 200);
    assert!(!response.headers().contains_key("set-cookie"));
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), r#"{"kind":"Pod"}"#);
    let received = ends.cluster.requests.lock().unwrap().pop().unwrap();
    assert_eq!(received.method(), Method::POST);
    assert_eq!(received.uri(), "/api/v1/namespaces/shop/pods?dryRun=All");
    let names: Vec<&str> = received.headers().keys().map(http::HeaderName::as_str).collect();
    assert_eq!(names, ["accept"]);
    assert_eq!(received.body(), "{}");
}

#[tokio::test]
async fn failures_have_their_cause() {
    let ends = open().await;
    let client = ends.client();
    let missing = client.get("/api/v1/missing").await.unwrap_err();
    assert_eq!((missing.code(), missing.message()), (404, "no such thing"));
    let broken = client.get("/api/v1/broken").await.unwrap_err();
    assert_eq!((broken.code(), Cause::of(&broken)), (503, Some(Cause::Unreachable)));
    assert!(broken.message().contains("the cluster is gone"), "{broken:?}");
    let before = ends.cluster.requests();
    for path in ["/metrics", "/api/v1/namespaces/atoll-system/secrets/agent"] {
        let refused = client.get(path).await.unwrap_err();
        assert_eq!(refused.code(), 403, "{refused:?}");
    }
    let token = client.create("/api/v1/namespaces/a/serviceaccounts/b/token", &json!({})).await;
    assert_eq!(token.unwrap_err().code(), 403);
    let large = json!({ "data": "x".repeat(5 << 20) });
    assert_eq!(client.create("/api/v1/namespaces/a/configmaps", &large).await.unwrap_err().code(), 413);
    assert_eq!(ends.cluster.requests(), before, "nothing of this has reached the cluster");
}

#[tokio::test(start_paused = true)]
async fn silent_clusters_are_reported() {
    let ends = open().await;
    let silent = ends.client().get("/api/v1/silent").await.unwrap_err();
    assert_eq!(Cause::of(&silent), Some(Cause::TimedOut));
    assert!(silent.message().contains("does not respond to its agent"), "{silent:?}");
}

#[tokio::test]
async fn watches_stream_until_either_side_ends_them() {
    let ends = open().await;
    let events = ends.cluster.watch();
    let mut lines = ends.client().lines("/api/v1/watched?watch=true").await.unwrap();
    for event in ["one", "two"] {
        events.send(format!("{event}\n").into()).await.unwrap();
        assert_eq!(lines.next().await.unwrap(), event);
    }
    drop(events);
    assert_eq!(lines.next().await, None);
    // A client that leaves ends the watch in the cluster.
    let events = ends.cluster.watch();
    let lines = ends.client().lines("/api/v1/watched?watch=true").await.unwrap();
    drop(lines);
    events.closed().await;
}

#[tokio::test]
async fn slow_readers_hold_up_the_cluster() {
    let ends = open().await;
    let events = ends.cluster.watch();
    let mut lines = ends.client().lines("/api/v1/watched?watch=true").await.unwrap();
    let line = Bytes::from(format!("{}\n", "x".repeat((16 << 10) - 1)));
    let total = 64 << 20;
    let mut accepted = 0;
    // Nothing is read above, so that the windows fill up.
    while let Ok(sent) = tokio::time::timeout(Duration::from_millis(500), events.send(line.clone())).await {
        sent.unwrap();
        accepted += line.len();
        assert!(accepted < total, "everything was accepted");
    }
    // Another request is not held up.
    assert!(ends.client().get("/api/v1/namespaces/n/pods/p").await.is_ok());
    let rest = 2 * accepted / line.len();
    let reading = tokio::spawn(async move {
        let mut count = 0;
        while lines.next().await.is_some() {
            count += 1;
        }
        count
    });
    for _ in 0..rest {
        events.send(line.clone()).await.unwrap();
    }
    drop(events);
    // The event whose sending timed out was not accepted.
    assert_eq!(reading.await.unwrap(), accepted / line.len() + rest);
}

#[tokio::test]
async fn protocols_are_switched_in_the_cluster() {
    let ends = open().await;
    let mut streams = ends.cluster.streams();
    let Ok(Upgrade::Switched(response, mut client)) = ends.exec().await else {
        panic!("the protocol was not switched")
    };
    assert_eq!(response.status(), 101);
    assert_eq!(upgrade_protocol(response.headers()), Some("SPDY/3.1"));
    assert_eq!(response.headers()["x-stream-protocol-version"], "v4");
    let received = ends.cluster.requests.lock().unwrap().pop().unwrap();
    assert_eq!(received.method(), Method::POST);
    assert_eq!(received.uri(), "/api/v1/namespaces/n/pods/p/exec?command=a%20b");
    assert_eq!(upgrade_protocol(received.headers()), Some("SPDY/3.1"));
    assert_eq!(received.headers()["x-stream-protocol-version"], "v4");
    assert!(!received.headers().contains_key("atoll-method"));
    let mut server = streams.recv().await.unwrap();
    // The client's end is passed on, and the other direction stays open.
    client.write_all(b"question").await.unwrap();
    client.shutdown().await.unwrap();
    let mut question = String::new();
    server.read_to_string(&mut question).await.unwrap();
    assert_eq!(question, "question");
    let answer = "answer".repeat(100_000);
    let sent = answer.clone();
    let answering = tokio::spawn(async move {
        server.write_all(sent.as_bytes()).await.unwrap();
        server.shutdown().await.unwrap();
    });
    let mut read = String::new();
    client.read_to_string(&mut read).await.unwrap();
    assert!(read == answer, "{} bytes of {}", read.len(), answer.len());
    answering.await.unwrap();
}

#[tokio::test]
async fn refused_upgrades_are_responses() {
    let ends = open().await;
    for (path, expected) in
        [("/api/v1/namespaces/n/pods/other/exec", "refused"), ("/debug/exec", "does not belong")]
    {
        let mut request = Request::new(());
        *request.uri_mut() = path.parse().unwrap();
        set_upgrade(request.headers_mut(), HeaderValue::from_static("websocket"));
        let Ok(Upgrade::Refused(response)) = ends.tunnel.upgrade(request).await else {
            panic!("{path} was not refused")
        };
        assert_eq!(response.status(), 403);
        let text = response.into_body().collect().await.unwrap().to_bytes();
        assert!(String::from_utf8_lossy(&text).contains(expected), "{text:?}");
    }
}

#[tokio::test]
async fn upgraded_streams_are_held_up_by_slow_readers() {
    let ends = open().await;
    let mut streams = ends.cluster.streams();
    let Ok(Upgrade::Switched(_, mut client)) = ends.exec().await else { panic!("no stream") };
    let mut server = streams.recv().await.unwrap();
    let chunk = [7; 16 << 10];
    let mut accepted = 0;
    while let Ok(written) = tokio::time::timeout(Duration::from_millis(500), client.write(&chunk)).await {
        accepted += written.unwrap();
        assert!(accepted < 64 << 20, "everything was accepted");
    }
    let mut read = 0;
    let mut buffer = vec![0; 64 << 10];
    while read < accepted {
        read += server.read(&mut buffer).await.unwrap();
    }
    assert_eq!(read, accepted);
}

#[tokio::test]
async fn cut_tunnels_end_cleanly_on_both_sides() {
    for agent_dies in [true, false] {
        let ends = open().await;
        let mut streams = ends.cluster.streams();
        let events = ends.cluster.watch();
        let mut lines = ends.client().lines("/api/v1/watched?watch=true").await.unwrap();
        let Ok(Upgrade::Switched(_, mut client)) = ends.exec().await else { panic!("no stream") };
        let mut server = streams.recv().await.unwrap();
        let waiting = tokio::spawn({
            let client = ends.client();
            async move { client.get("/api/v1/silent").await }
        });
        while ends.cluster.requests() < 3 {
            tokio::task::yield_now().await;
        }
        match agent_dies {
            true => ends.agent.abort(),
            false => ends.control_plane.abort(),
        }
        assert_eq!(Cause::of(&waiting.await.unwrap().unwrap_err()), Some(Cause::Unreachable));
        assert_eq!(lines.next().await, None);
        events.closed().await;
        let mut rest = Vec::new();
        // Either is the end of a stream that was cut.
        let _ = client.read_to_end(&mut rest).await;
        let _ = server.read_to_end(&mut rest).await;
        assert!(rest.is_empty());
        match agent_dies {
            true => drop(ends.control_plane.await.unwrap()),
            false => drop(ends.agent.await.unwrap()),
        }
        let late = ends.tunnel.send(Request::builder().uri("/version").body(Bytes::new()).unwrap()).await;
        assert!(late.is_err());
    }
}

#[tokio::test(start_paused = true)]
async fn black_holes_are_detected() {
    // Bytes go through a relay that stops, without closing anything.
    let (above, mut inner_above) = tokio::io::duplex(BUFFER);
    let (mut inner_below, below) = tokio::io::duplex(BUFFER);
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    tokio::spawn(async move {
        tokio::select! {
            _ = tokio::io::copy_bidirectional(&mut inner_above, &mut inner_below) => {}
            _ = stopped => {}
        }
        std::future::pending::<()>().await;
        drop((inner_above, inner_below));
    });
    let mut ends = open_over(above, below).await;
    assert!(ends.client().get("/api/v1/namespaces/n/pods/p").await.is_ok());
    // Pings keep an idle tunnel open.
    let ended = tokio::time::timeout(Duration::from_secs(600), &mut ends.control_plane).await;
    assert!(ended.is_err(), "{ended:?}");
    assert!(ends.client().get("/api/v1/namespaces/n/pods/p").await.is_ok());
    let began = tokio::time::Instant::now();
    stop.send(()).unwrap();
    assert!(ends.control_plane.await.unwrap().is_err());
    assert!(ends.agent.await.unwrap().is_err());
    assert!(began.elapsed() <= Duration::from_secs(60), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn requests_under_way_are_limited() {
    let ends = open().await;
    let mut watches = Vec::new();
    for _ in 0..512 {
        let events = ends.cluster.watch();
        watches.push((events, ends.client().lines("/api/v1/watched?watch=true").await.unwrap()));
    }
    let refused = ends.client().get("/api/v1/namespaces/n/pods/p").await.unwrap_err();
    assert_eq!(Cause::of(&refused), Some(Cause::TimedOut), "{refused:?}");
    assert_eq!(ends.cluster.requests(), 512);
    watches.pop();
    assert!(ends.client().get("/api/v1/namespaces/n/pods/p").await.is_ok());
}
