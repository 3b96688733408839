//! Connections to kubelets, Pods and other backends.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use atoll_client::dialing::TenantAddresses;
use atoll_client::https::{dial, http1};
use atoll_client::{BoxError, BoxFuture};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::Incoming;
use rustls::ClientConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinHandle;

use super::location::{authority, is_global_unicast};

/// Timeouts of upstream's clients.
const DIAL_TIMEOUT: Duration = Duration::from_secs(30);
const TLS_TIMEOUT: Duration = Duration::from_secs(10);

/// The body of a forwarded request.
pub type RequestBody = UnsyncBoxBody<Bytes, BoxError>;

/// A bidirectional byte stream.
pub trait Socket: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Socket for S {}

/// Opens connections. `Network` is the real one; a simulated cluster has its own.
pub trait Dialer: Send + Sync + 'static {
    fn dial<'a>(&'a self, host: &'a str, port: u16) -> BoxFuture<'a, Result<Box<dyn Socket>, DialError>>;

    /// Resolves a host named by a tenant, once, and returns the addresses that may be connected to. Empty if
    /// the dialer reaches only its own nodes and Pods.
    fn for_tenant<'a>(
        &'a self,
        host: &'a str,
        port: u16,
        rule: &'a TenantAddresses,
    ) -> BoxFuture<'a, Result<Vec<SocketAddr>, String>>;

    /// Checks that `host` is an address that Pods and nodes of workspaces below root may have.
    fn is_allowed<'a>(&'a self, host: &'a str) -> BoxFuture<'a, Result<(), String>>;
}

/// The reason why a connection failed, in the words of Go's net package.
#[derive(Debug)]
pub struct DialError(pub String);

impl fmt::Display for DialError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The network of this machine.
pub struct Network;

impl Dialer for Network {
    fn dial<'a>(&'a self, host: &'a str, port: u16) -> BoxFuture<'a, Result<Box<dyn Socket>, DialError>> {
        Box::pin(async move { open(&authority(host, port), resolve(host, port)).await })
    }

    fn for_tenant<'a>(
        &'a self,
        host: &'a str,
        port: u16,
        rule: &'a TenantAddresses,
    ) -> BoxFuture<'a, Result<Vec<SocketAddr>, String>> {
        Box::pin(async move {
            let resolved = tokio::time::timeout(DIAL_TIMEOUT, resolve(host, port)).await;
            let found = resolved.map_err(|_| format!("lookup {host}: i/o timeout"))?;
            rule.allowed(host, found.map_err(|error| error.0)?)
        })
    }

    fn is_allowed<'a>(&'a self, host: &'a str) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            let addresses = resolve(host, 0).await.map_err(|error| error.0.replacen("dial tcp: ", "", 1))?;
            match addresses.iter().all(|address| is_global_unicast(address.ip())) {
                true => Ok(()),
                false => Err("address not allowed".into()),
            }
        })
    }
}

/// Connects to the first address that accepts a connection.
async fn open(
    target: &str,
    addresses: impl Future<Output = Result<Vec<SocketAddr>, DialError>> + Send,
) -> Result<Box<dyn Socket>, DialError> {
    let dialing = async {
        let connected = dial::connect(&addresses.await?).await;
        connected.map_err(|error| DialError(format!("dial tcp {target}: {}", go_text(&error))))
    };
    match tokio::time::timeout(DIAL_TIMEOUT, dialing).await {
        Ok(connected) => Ok(Box::new(connected?)),
        Err(_) => Err(DialError(format!("dial tcp {target}: i/o timeout"))),
    }
}

async fn resolve(host: &str, port: u16) -> Result<Vec<SocketAddr>, DialError> {
    let found = dial::resolve(host, port).await;
    found.map_err(|_| DialError(format!("dial tcp: lookup {host}: no such host")))
}

/// Returns the text of Go for an error of the operating system.
fn go_text(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "connect: connection refused".into(),
        io::ErrorKind::HostUnreachable => "connect: no route to host".into(),
        io::ErrorKind::NetworkUnreachable => "connect: network is unreachable".into(),
        io::ErrorKind::TimedOut => "connect: connection timed out".into(),
        io::ErrorKind::ConnectionReset => "read: connection reset by peer".into(),
        _ => error.to_string(),
    }
}

/// Returns the text of Go for an untrusted certificate.
fn go_tls_text(error: &io::Error, host: &str) -> String {
    use rustls::CertificateError as Problem;
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let Some(rustls::Error::InvalidCertificate(wrong)) = inner else { return go_text(error) };
    let problem = match wrong {
        Problem::UnknownIssuer | Problem::BadSignature => {
            "certificate signed by unknown authority".to_string()
        }
        Problem::NotValidForName | Problem::NotValidForNameContext { .. } => {
            format!("certificate is not valid for {host}")
        }
        Problem::Expired | Problem::ExpiredContext { .. } => {
            "certificate has expired or is not yet valid".into()
        }
        other => other.to_string(),
    };
    format!("tls: failed to verify certificate: x509: {problem}")
}

/// Host, port and TLS configuration of a backend.
pub struct Destination {
    pub host: String,
    pub port: u16,
    pub tls: Option<Arc<ClientConfig>>,
    /// The resolved addresses of a host that a tenant has named. If not empty, only they are connected to.
    pub addresses: Vec<SocketAddr>,
}

impl Destination {
    pub fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }

    pub fn authority(&self) -> String {
        authority(&self.host, self.port)
    }

    pub async fn connect(&self, dialer: &dyn Dialer) -> Result<Box<dyn Socket>, DialError> {
        let stream = match self.addresses.is_empty() {
            true => dialer.dial(&self.host, self.port).await?,
            false => open(&self.authority(), std::future::ready(Ok(self.addresses.clone()))).await?,
        };
        let Some(config) = &self.tls else { return Ok(stream) };
        let handshake = dial::secure(stream, &self.host, config.clone());
        match tokio::time::timeout(TLS_TIMEOUT, handshake).await {
            Ok(Ok(stream)) => Ok(Box::new(stream)),
            Ok(Err(error)) => Err(DialError(go_tls_text(&error, &self.host))),
            Err(_) => Err(DialError("net/http: TLS handshake timeout".into())),
        }
    }
}

/// A task that is aborted when this is dropped.
pub struct AbortOnDrop(Option<JoinHandle<()>>);

impl AbortOnDrop {
    /// Lets the task run to its end.
    pub fn release(mut self) {
        self.0 = None;
    }
}

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        if let Some(task) = &self.0 {
            task.abort();
        }
    }
}

/// Sends one request on a connection of its own. The returned task drives the connection and must be kept
/// while the body is read.
pub async fn exchange(
    stream: Box<dyn Socket>,
    request: Request<RequestBody>,
) -> Result<(Response<Incoming>, AbortOnDrop), DialError> {
    let failed = |error: hyper::Error| {
        let cut = error.is_incomplete_message() || error.is_canceled() || error.is_closed();
        DialError(if cut { "EOF".into() } else { error.to_string() })
    };
    let (mut sender, driving) = http1::handshake(stream).await.map_err(failed)?;
    let driving = AbortOnDrop(Some(driving));
    let response = sender.send_request(request).await.map_err(failed)?;
    Ok((response, driving))
}

/// The body of a backend's response, with the task that drives the connection.
pub struct RelayedBody {
    body: Incoming,
    _driving: AbortOnDrop,
}

impl RelayedBody {
    pub fn new(body: Incoming, driving: AbortOnDrop) -> Self {
        RelayedBody { body, _driving: driving }
    }
}

impl http_body::Body for RelayedBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<http_body::Frame<Bytes>, hyper::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.body.size_hint()
    }
}
