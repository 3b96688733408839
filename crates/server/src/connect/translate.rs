//! Exec and attach between a client with WebSocket and a kubelet with SPDY.

// upstream: staging/src/k8s.io/apiserver/pkg/util/proxy/streamtranslator.go
// upstream: staging/src/k8s.io/apiserver/pkg/util/proxy/websocket.go

use std::io;
use std::sync::Arc;
use std::time::Duration;

use atoll_meta::Status;
use atoll_streams::remote_command::{
    ExecStatus, PendingSession, SPDY_PROTOCOLS, Session, StatusFormat, StreamOptions, V4, V5,
    accept_websocket, stream,
};
use atoll_streams::spdy::{self, Connection, Headers, Role, Stream};
use atoll_streams::{Input, Output, STREAM_PROTOCOL};
use bytes::Bytes;
use http::header::{CONNECTION, HOST, UPGRADE};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty, Limited};
use hyper_util::rt::TokioIo;

use super::backend::{Destination, RequestBody, exchange};
use crate::Server;
use crate::body::Body;
use crate::respond;

/// Interval of SPDY pings to the kubelet, as upstream.
const PING_INTERVAL: Duration = Duration::from_secs(5);
/// Maximum size of the kubelet's status or error message.
const MAX_STATUS_BYTES: usize = 64 << 10;

/// Accepts the client's WebSocket before dialing the kubelet. Errors of the kubelet are reported in the
/// session.
pub fn handle(
    server: &Arc<Server>,
    mut request: Request<RequestBody>,
    options: StreamOptions,
    kubelet: Destination,
    target: String,
) -> Result<Response<Body>, Status> {
    let (response, pending) = match accept_websocket(&mut request, options, &[V5]) {
        Ok(agreed) => agreed,
        Err(refusal) => return Ok(refusal.map(Body::from)),
    };
    let (server, stopped) = (server.clone(), server.stopped());
    tokio::spawn(async move {
        tokio::select! {
            () = run(server, pending, options, kubelet, target) => {}
            () = stopped => {}
        }
    });
    Ok(respond::upgrade(response))
}

async fn run(
    server: Arc<Server>,
    pending: PendingSession,
    options: StreamOptions,
    kubelet: Destination,
    target: String,
) {
    let Ok(mut session) = pending.session().await else { return };
    let mut closed = session.closed();
    let outcome = tokio::select! {
        outcome = translate(&server, &mut session, options, &kubelet, &target) => outcome,
        // The client is gone, so no status is sent.
        () = &mut closed => return,
    };
    session.end(&outcome.unwrap_or_else(ExecStatus::Failure)).await;
}

async fn translate(
    server: &Server,
    session: &mut Session,
    options: StreamOptions,
    kubelet: &Destination,
    target: &str,
) -> Result<ExecStatus, String> {
    let (connection, protocol) = connect(server, kubelet, target).await?;
    connection.keep_alive(PING_INTERVAL);
    let open = async |kind: &str, is_wanted: bool| -> Result<Option<Stream>, String> {
        if !is_wanted {
            return Ok(None);
        }
        let stream = connection.open(Headers::new([(stream::TYPE, kind)])).await;
        stream.map(Some).map_err(|error| error.to_string())
    };
    // The error stream always exists and is opened first, as upstream.
    let Some(mut error) = open(stream::ERROR, true).await? else { return Ok(ExecStatus::Success) };
    let stdin = open(stream::STDIN, options.stdin).await?;
    let stdout = open(stream::STDOUT, options.stdout).await?;
    let stderr = open(stream::STDERR, options.stderr && !options.tty).await?;
    let is_new = protocol == V4 || protocol == V5;
    let resizes = is_new || protocol == SPDY_PROTOCOLS[1];
    let resize = open(stream::RESIZE, options.tty && resizes).await?;

    let (sizes, from_client) = (session.resize.take(), session.stdin.take());
    let (to_stdout, to_stderr) = (session.stdout.take(), session.stderr.take());
    let into_kubelet = async {
        tokio::join!(
            async {
                if let (Some(mut sizes), Some(mut resize)) = (sizes, resize) {
                    while let Some(size) = sizes.next().await {
                        if resize.output.write(size.encode()).await.is_err() {
                            break;
                        }
                    }
                }
            },
            async {
                if let (Some(input), Some(stdin)) = (from_client, stdin) {
                    send(input, stdin).await;
                }
            }
        );
        std::future::pending::<()>().await
    };
    let out_of_kubelet = async {
        tokio::join!(receive(stdout, to_stdout), receive(stderr, to_stderr));
        error.input.read_to_end(MAX_STATUS_BYTES).await
    };
    let status = tokio::select! {
        status = out_of_kubelet => status,
        () = into_kubelet => Vec::new(),
    };
    let format = if is_new { StatusFormat::Json } else { StatusFormat::Text };
    // Report the status to the client without waiting for the connection to close.
    tokio::spawn(connection.close());
    Ok(ExecStatus::decode(&status, format))
}

/// Copies standard input until it ends or the kubelet closes the stream.
async fn send(mut input: Input, stdin: Stream) {
    let Stream { input: mut back, mut output, .. } = stdin;
    let sending = async {
        while let Some(chunk) = input.next().await {
            if output.write(chunk).await.is_err() {
                break;
            }
        }
    };
    tokio::select! {
        () = sending => {}
        // The kubelet never sends data on this stream; this returns when it closes.
        _ = back.read_to_end(0) => {}
    }
}

/// Copies output of the command until it ends. It is read even if the client is gone, so that the command is
/// not blocked.
async fn receive(stream: Option<Stream>, output: Option<Output>) {
    let (Some(mut stream), Some(mut output)) = (stream, output) else { return };
    while let Some(chunk) = stream.input.next().await {
        // The session ends by itself when the client is gone.
        let _ = output.write(chunk).await;
    }
}

/// Opens a SPDY connection to a kubelet and returns it with the negotiated protocol version.
async fn connect(
    server: &Server,
    kubelet: &Destination,
    target: &str,
) -> Result<(Connection, String), String> {
    let url = format!("https://{}{target}", kubelet.authority());
    let failed = |error: &dyn std::fmt::Display| format!("error sending request: Post {url:?}: {error}");
    let dialed = kubelet.connect(&*server.kubelets.dialer).await;
    let stream = dialed.map_err(|error| failed(&error))?;
    let mut request = Request::builder()
        .method(Method::POST)
        .uri(target)
        .header(HOST, kubelet.authority())
        .header(CONNECTION, "Upgrade")
        .header(UPGRADE, spdy::PROTOCOL);
    for protocol in [V5].iter().chain(&SPDY_PROTOCOLS) {
        request = request.header(STREAM_PROTOCOL, *protocol);
    }
    let nothing = Empty::<Bytes>::new().map_err(|never| match never {}).boxed_unsync();
    let request = request.body(nothing).map_err(|error| format!("error creating request: {error}"))?;
    let (mut response, driving) = exchange(stream, request).await.map_err(|error| failed(&error))?;
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        let text = Limited::new(response.into_body(), MAX_STATUS_BYTES).collect().await;
        let text = text.map(|text| text.to_bytes()).unwrap_or_default();
        return Err(format!("unable to upgrade connection: {}", refusal(&text)));
    }
    driving.release();
    let protocol = response.headers().get(STREAM_PROTOCOL).and_then(|protocol| protocol.to_str().ok());
    let protocol = protocol.unwrap_or(SPDY_PROTOCOLS[3]).to_string();
    let upgraded =
        hyper::upgrade::on(&mut response).await.map_err(|error| failed(&io::Error::other(error)))?;
    Ok((Connection::new(TokioIo::new(upgraded), Role::Client), protocol))
}

/// Returns the message of a kubelet's error, which is a `Status` or plain text.
fn refusal(text: &[u8]) -> String {
    let status: serde_json::Value = serde_json::from_slice(text).unwrap_or_default();
    let message = ["message", "error"].iter().find_map(|name| {
        let message = status[*name].as_str()?.trim();
        (!message.is_empty()).then(|| message.to_string())
    });
    message.unwrap_or_else(|| match String::from_utf8_lossy(text).trim() {
        "" => "empty server response".into(),
        text => text.to_string(),
    })
}
