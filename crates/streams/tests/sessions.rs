//! Sessions of a kubelet with clients over SPDY and WebSocket.

// Clippy recognizes only functions marked as tests as test code.
#![allow(clippy::unwrap_used)]

use std::convert::Infallible;

use atoll_streams::remote_command::{self, ExecStatus, StreamOptions, TerminalSize};
use atoll_streams::spdy::{Connection, Headers, Role, Stream};
use atoll_streams::websocket::{self, Event, Message, Opcode};
use atoll_streams::{STREAM_PROTOCOL, port_forward};
use bytes::Bytes;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

type Client = TokioIo<Upgraded>;

/// Echoes standard input in upper case, writes to standard error, and exits with the number of lines.
async fn exec(pending: remote_command::PendingSession) {
    let mut session = pending.session().await.unwrap();
    let mut stdin = session.stdin.take().unwrap();
    let (mut stdout, mut stderr) = (session.stdout.take().unwrap(), session.stderr.take());
    if let Some(resize) = &mut session.resize {
        let TerminalSize { width, height } = resize.next().await.unwrap();
        stdout.write(format!("{width}x{height} ")).await.unwrap();
    }
    let text = stdin.read_to_end(1 << 20).await;
    stdout.write(text.to_ascii_uppercase()).await.unwrap();
    if let Some(stderr) = &mut stderr {
        stderr.write("heard").await.unwrap();
    }
    let lines = text.iter().filter(|byte| **byte == b'\n').count();
    drop((stdout, stderr));
    session.end(&ExecStatus::exit(lines as i32)).await;
}

async fn forward(pending: port_forward::PendingForwards) {
    let mut forwards = pending.forwards().await.unwrap();
    while let Some(forward) = forwards.next().await {
        tokio::spawn(async move {
            if forward.port == 1 {
                return forward.fail("connection refused").await;
            }
            let (mut service, stream) = tokio::io::duplex(1000);
            let port = forward.port;
            let relaying = tokio::spawn(forward.relay(stream));
            let mut word = [0; 4];
            service.read_exact(&mut word).await.unwrap();
            service.write_all(format!("{port}: ").as_bytes()).await.unwrap();
            service.write_all(&word).await.unwrap();
            drop(service);
            relaying.await.unwrap();
        });
    }
}

async fn kubelet(mut request: Request<Incoming>) -> Result<Response<String>, Infallible> {
    let options = StreamOptions::from_query(request.uri().query().unwrap_or_default());
    let answer = match request.uri().path() {
        "/portForward" => port_forward::accept(&mut request).map(|(response, pending)| {
            tokio::spawn(forward(pending));
            response
        }),
        _ => remote_command::accept(&mut request, options.unwrap()).map(|(response, pending)| {
            tokio::spawn(exec(pending));
            response
        }),
    };
    Ok(answer.unwrap_or_else(|refused| refused))
}

fn connect() -> DuplexStream {
    let (client, server) = tokio::io::duplex(64 << 10);
    tokio::spawn(async move {
        let http = hyper::server::conn::http1::Builder::new();
        http.serve_connection(TokioIo::new(server), service_fn(kubelet)).with_upgrades().await
    });
    client
}

/// Returns the connection after an upgrade, and the accepted protocol.
async fn upgrade(uri: &str, headers: &[(&str, &str)]) -> (Client, String) {
    let connection = hyper::client::conn::http1::handshake(TokioIo::new(connect())).await.unwrap();
    let (mut sender, connection) = connection;
    tokio::spawn(connection.with_upgrades());
    let mut request = Request::get(uri).header("connection", "Upgrade");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = sender.send_request(request.body(String::new()).unwrap()).await.unwrap();
    assert_eq!(response.status(), 101);
    let agreed =
        [STREAM_PROTOCOL, "sec-websocket-protocol"].map(|name| response.headers().get(name).cloned());
    let agreed = agreed.into_iter().flatten().next().map(|value| value.to_str().unwrap().to_string());
    (TokioIo::new(hyper::upgrade::on(response).await.unwrap()), agreed.unwrap_or_default())
}

async fn spdy(uri: &str, protocol: &str) -> Connection {
    let (stream, agreed) = upgrade(uri, &[("upgrade", "SPDY/3.1"), (STREAM_PROTOCOL, protocol)]).await;
    assert_eq!(agreed, protocol);
    Connection::new(stream, Role::Client)
}

async fn open(connection: &Connection, kind: &str) -> Stream {
    connection.open(Headers::new([("streamType", kind)])).await.unwrap()
}

#[tokio::test]
async fn commands_run_over_spdy() {
    let connection = spdy("/exec?input=1&output=1&error=1", "v4.channel.k8s.io").await;
    let (mut error, mut stdin) = (open(&connection, "error").await, open(&connection, "stdin").await);
    let (mut stdout, mut stderr) = (open(&connection, "stdout").await, open(&connection, "stderr").await);
    stdin.output.write("one\ntwo\n").await.unwrap();
    stdin.output.close();
    assert_eq!(stdout.input.read_to_end(100).await, b"ONE\nTWO\n");
    assert_eq!(stderr.input.read_to_end(100).await, b"heard");
    let status: Value = serde_json::from_slice(&error.input.read_to_end(1000).await).unwrap();
    assert_eq!(status["details"]["causes"][0]["message"], "2");
    connection.closed().await;
}

#[tokio::test]
async fn terminals_have_a_size_and_no_standard_error() {
    let connection = spdy("/exec?input=1&output=1&error=1&tty=1", "v3.channel.k8s.io").await;
    let (mut error, stdin) = (open(&connection, "error").await, open(&connection, "stdin").await);
    let (mut stdout, mut resize) = (open(&connection, "stdout").await, open(&connection, "resize").await);
    resize.output.write(TerminalSize { width: 80, height: 24 }.encode()).await.unwrap();
    stdin.output.close();
    assert_eq!(stdout.input.read_to_end(100).await, b"80x24 ");
    // Before version 4, success is an empty error stream.
    assert_eq!(error.input.read_to_end(1000).await, b"");
}

/// The client side of a WebSocket.
struct Socket {
    reader: websocket::Reader<tokio::io::ReadHalf<Client>>,
    writer: tokio::io::WriteHalf<Client>,
}

impl Socket {
    async fn open(uri: &str, protocol: &str) -> Socket {
        let key = ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==");
        let mut headers = vec![("upgrade", "websocket"), ("sec-websocket-version", "13"), key];
        if !protocol.is_empty() {
            headers.push(("sec-websocket-protocol", protocol));
        }
        let (stream, agreed) = upgrade(uri, &headers).await;
        assert_eq!(agreed, protocol);
        let (reader, writer) = tokio::io::split(stream);
        Socket { reader: websocket::Reader::new(reader, websocket::Role::Client), writer }
    }

    async fn send(&mut self, opcode: Opcode, payload: &'static [u8]) {
        let mut bytes = Vec::new();
        Message { opcode, payload: Bytes::from_static(payload) }
            .encode_masked(Some([1, 2, 3, 4]), &mut bytes);
        self.writer.write_all(&bytes).await.unwrap();
    }

    /// Returns all messages up to the close frame.
    async fn messages(mut self) -> Vec<Vec<u8>> {
        let mut messages = Vec::new();
        loop {
            match self.reader.next().await.unwrap() {
                Event::Data { bytes, is_first, .. } => {
                    if is_first {
                        messages.push(Vec::new());
                    }
                    messages.last_mut().unwrap().extend_from_slice(&bytes);
                }
                Event::Close(code) => {
                    assert_eq!(code, Some(1000));
                    self.send(Opcode::Close, b"\x03\xe8").await;
                    return messages;
                }
                _ => {}
            }
        }
    }
}

#[tokio::test]
async fn commands_run_over_websocket() {
    let mut socket = Socket::open("/exec?input=1&output=1&error=1", "v5.channel.k8s.io").await;
    socket.send(Opcode::Binary, b"\0hello\n").await;
    socket.send(Opcode::Binary, b"\xff\0").await;
    let messages = socket.messages().await;
    assert_eq!(messages[..3], [&b"\x01"[..], b"\x01HELLO\n", b"\x02heard"]);
    let status: Value = serde_json::from_slice(&messages[3][1..]).unwrap();
    assert_eq!((messages[3][0], &status["reason"]), (3, &Value::from("NonZeroExitCode")));
}

#[tokio::test]
async fn ports_are_forwarded_in_parallel() {
    let connection = spdy("/portForward", port_forward::PROTOCOL).await;
    let mut forwards = Vec::new();
    for (port, request) in [("80", "0"), ("443", "1"), ("1", "2")] {
        let headers = |kind| Headers::new([("streamType", kind), ("port", port), ("requestID", request)]);
        let error = connection.open(headers("error")).await.unwrap();
        let data = connection.open(headers("data")).await.unwrap();
        forwards.push((error, data));
    }
    for (_, data) in &mut forwards[..2] {
        data.output.write("ping").await.unwrap();
    }
    let mut answers = Vec::new();
    for (error, data) in &mut forwards {
        let answer = data.input.read_to_end(100).await;
        answers.push((answer, error.input.read_to_end(100).await));
    }
    let expected: [(&[u8], &[u8]); 3] =
        [(b"80: ping", b""), (b"443: ping", b""), (b"", b"connection refused")];
    assert_eq!(answers, expected.map(|(data, error)| (data.to_vec(), error.to_vec())));
}

#[tokio::test]
async fn ports_are_forwarded_through_a_tunnel() {
    let protocol = "SPDY/3.1+portforward.k8s.io";
    let Socket { mut reader, mut writer } = Socket::open("/portForward", protocol).await;
    let (inner, outer) = tokio::io::duplex(64 << 10);
    let (mut from_client, mut to_client) = tokio::io::split(outer);
    tokio::spawn(async move {
        while let Ok(event) = reader.next().await {
            if let Event::Data { bytes, .. } = event {
                to_client.write_all(&bytes).await.unwrap();
            }
        }
    });
    tokio::spawn(async move {
        let mut buffer = [0; 1000];
        while let Ok(read @ 1..) = from_client.read(&mut buffer).await {
            let mut bytes = Vec::new();
            Message::binary(buffer[..read].to_vec()).encode_masked(Some([9; 4]), &mut bytes);
            writer.write_all(&bytes).await.unwrap();
        }
    });
    let connection = Connection::new(inner, Role::Client);
    let headers = |kind| Headers::new([("streamType", kind), ("port", "80"), ("requestID", "0")]);
    let _error = connection.open(headers("error")).await.unwrap();
    let mut data = connection.open(headers("data")).await.unwrap();
    data.output.write("ping").await.unwrap();
    assert_eq!(data.input.read_to_end(100).await, b"80: ping");
}

#[tokio::test]
async fn ports_are_forwarded_on_legacy_channels() {
    let mut socket = Socket::open("/portForward?port=80", "v4.channel.k8s.io").await;
    socket.send(Opcode::Binary, b"\0ping").await;
    let mut channels = [Vec::new(), Vec::new()];
    while channels[0].len() + channels[1].len() < 12 {
        if let Event::Data { bytes, .. } = socket.reader.next().await.unwrap() {
            channels[usize::from(bytes[0])].extend_from_slice(&bytes[1..]);
        }
    }
    // Each channel starts with its port.
    assert_eq!(channels, [&b"\x50\080: ping"[..], b"\x50\0"]);
}
