//! The server side of sessions, in a kubelet or in an API server that translates for one.

// upstream: staging/src/k8s.io/cri-streaming/pkg/streaming/remotecommand/httpstream.go
// upstream: staging/src/k8s.io/cri-streaming/pkg/streaming/remotecommand/websocket.go

use std::io;
use std::time::Duration;

use http::{Request, Response};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

use super::exec_status::{ExecStatus, StatusFormat};
use super::resize::Resizes;
use super::{SPDY_PROTOCOLS, StreamOptions, V5, WEBSOCKET_PROTOCOLS, stream};
use crate::pipe::{Input, Output};
use crate::spdy::{Connection, Role};
use crate::upgrade::{self, UpgradeRefusal};
use crate::websocket::channels::{Channels, Encoding};
use crate::websocket::{Handshake, is_websocket};

/// Time that a client may take to open its streams, as upstream.
const OPEN_TIMEOUT: Duration = Duration::from_secs(30);

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const ERROR: u8 = 3;
const RESIZE: u8 = 4;

/// An accepted session request.
pub struct PendingSession {
    upgrade: OnUpgrade,
    negotiated: Negotiated,
    options: StreamOptions,
}

#[derive(Debug)]
enum Negotiated {
    Spdy(String),
    WebSocket(String),
}

/// Accepts a session request over SPDY or WebSocket, with the client's preferred version.
pub fn accept<B>(
    request: &mut Request<B>,
    options: StreamOptions,
) -> Result<(Response<String>, PendingSession), UpgradeRefusal> {
    if is_websocket(request.headers()) {
        return accept_websocket(request, options, &WEBSOCKET_PROTOCOLS);
    }
    let (protocol, response) = upgrade::spdy(request.headers(), &SPDY_PROTOCOLS)?;
    let upgrade = hyper::upgrade::on(request);
    Ok((response, PendingSession { upgrade, negotiated: Negotiated::Spdy(protocol), options }))
}

/// Accepts a session request over WebSocket only, with one of these versions.
pub fn accept_websocket<B>(
    request: &mut Request<B>,
    options: StreamOptions,
    protocols: &[&str],
) -> Result<(Response<String>, PendingSession), UpgradeRefusal> {
    let Handshake { protocol, response } = Handshake::new(request.method(), request.headers(), protocols)?;
    let upgrade = hyper::upgrade::on(request);
    Ok((response, PendingSession { upgrade, negotiated: Negotiated::WebSocket(protocol), options }))
}

impl PendingSession {
    /// Returns the session, once the client has switched protocols and opened its streams.
    pub async fn session(self) -> io::Result<Session> {
        let upgraded = self.upgrade.await.map_err(io::Error::other)?;
        Session::open(TokioIo::new(upgraded), self.negotiated, self.options).await
    }
}

/// The streams that the client asked for. Dropping it closes the connection.
pub struct Session {
    pub stdin: Option<Input>,
    pub stdout: Option<Output>,
    pub stderr: Option<Output>,
    pub resize: Option<Resizes>,
    error: Output,
    format: StatusFormat,
    carrier: SessionCarrier,
}

enum SessionCarrier {
    Spdy(Connection),
    WebSocket(Channels),
}

impl Session {
    async fn open<S>(stream: S, negotiated: Negotiated, options: StreamOptions) -> io::Result<Session>
    where
        S: AsyncRead + AsyncWrite + Send + 'static,
    {
        match negotiated {
            Negotiated::WebSocket(protocol) => Ok(Session::of_channels(stream, &protocol, options)),
            Negotiated::Spdy(protocol) => {
                let opening = Session::of_streams(stream, &protocol, options);
                let timed_out = || {
                    io::Error::new(io::ErrorKind::TimedOut, "timed out waiting for client to create streams")
                };
                tokio::time::timeout(OPEN_TIMEOUT, opening).await.map_err(|_| timed_out())?
            }
        }
    }

    fn of_channels<S>(stream: S, protocol: &str, options: StreamOptions) -> Session
    where
        S: AsyncRead + AsyncWrite + Send + 'static,
    {
        let encoding = if protocol.contains("base64") { Encoding::Base64 } else { Encoding::Binary };
        let is_new = protocol.starts_with("v4") || protocol == V5;
        let reads = [options.stdin, false, false, false, options.tty];
        let mut channels = Channels::new(stream, encoding, protocol == V5, &reads);
        channels.greet(match options {
            StreamOptions { stdout: true, .. } => STDOUT,
            StreamOptions { stderr: true, .. } => STDERR,
            _ => ERROR,
        });
        Session {
            stdin: channels.input(STDIN),
            stdout: options.stdout.then(|| channels.output(STDOUT)),
            stderr: options.stderr.then(|| channels.output(STDERR)),
            resize: channels.input(RESIZE).map(Resizes::new),
            error: channels.output(ERROR),
            format: if is_new { StatusFormat::Json } else { StatusFormat::Text },
            carrier: SessionCarrier::WebSocket(channels),
        }
    }

    async fn of_streams<S>(io: S, protocol: &str, options: StreamOptions) -> io::Result<Session>
    where
        S: AsyncRead + AsyncWrite + Send + 'static,
    {
        let mut connection = Connection::new(io, Role::Server);
        let (is_v4, is_v3) = (protocol == SPDY_PROTOCOLS[0], protocol == SPDY_PROTOCOLS[1]);
        let resizes = options.tty && (is_v4 || is_v3);
        let (mut stdin, mut stdout, mut stderr, mut error, mut resize) = (None, None, None, None, None);
        loop {
            let opened_kinds = [stdin.is_some(), stdout.is_some(), stderr.is_some(), resize.is_some()];
            let wanted = [options.stdin, options.stdout, options.stderr, resizes];
            // The error stream always exists.
            if opened_kinds == wanted
                && let Some(error) = error.take()
            {
                let format = if is_v4 { StatusFormat::Json } else { StatusFormat::Text };
                let resize = resize.map(Resizes::new);
                let carrier = SessionCarrier::Spdy(connection);
                return Ok(Session { stdin, stdout, stderr, resize, error, format, carrier });
            }
            let gone = || io::Error::from(io::ErrorKind::UnexpectedEof);
            let opened = connection.next().await.ok_or_else(gone)?;
            // Clients stop sending when the server closes its side, so both sides are kept.
            match (opened.headers.get(stream::TYPE), options) {
                (Some(stream::STDIN), StreamOptions { stdin: true, .. }) => {
                    stdin = Some(opened.input.with_back(opened.output));
                }
                (Some(stream::STDOUT), StreamOptions { stdout: true, .. }) => stdout = Some(opened.output),
                (Some(stream::STDERR), StreamOptions { stderr: true, .. }) => stderr = Some(opened.output),
                (Some(stream::RESIZE), _) if resizes => {
                    resize = Some(opened.input.with_back(opened.output));
                }
                (Some(stream::ERROR), _) => error = Some(opened.output),
                _ => opened.output.reset(),
            }
        }
    }

    /// Resolves when the client is gone.
    pub fn closed(&self) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>> {
        match &self.carrier {
            SessionCarrier::Spdy(connection) => Box::pin(connection.closed()),
            SessionCarrier::WebSocket(channels) => Box::pin(channels.closed()),
        }
    }

    /// Sends the exit status and closes the connection.
    pub async fn end(mut self, outcome: &ExecStatus) {
        // Data that was written before is already queued.
        (self.stdout, self.stderr, self.stdin, self.resize) = (None, None, None, None);
        let status = outcome.encode(self.format);
        // The client may be gone.
        let _ = self.error.write(status).await;
        self.error.close();
        match self.carrier {
            SessionCarrier::Spdy(connection) => connection.close().await,
            SessionCarrier::WebSocket(channels) => channels.close().await,
        }
    }
}
